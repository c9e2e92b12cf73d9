//! A sans-IO TCP: bytes and time in, bytes and events out
#![forbid(unsafe_code)]

pub mod congestion;
pub mod flow_table;
pub mod isn;
pub mod recovery;
pub mod time;
pub mod timer_wheel;
