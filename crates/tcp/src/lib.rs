//! A sans-IO TCP: bytes and time in, bytes and events out
#![forbid(unsafe_code)]
