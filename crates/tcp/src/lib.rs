//! A sans-IO TCP: bytes and time in, bytes and events out
#![forbid(unsafe_code)]

pub mod congestion;
pub mod recovery;
pub mod time;
