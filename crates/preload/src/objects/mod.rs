//! What descriptors of ours stand for. Nothing here knows of numbers.
//!
//! - [`tcp`][]: a TCP socket, which becomes a [`stream`] or is [`listening`]
//! - [`set`][]: an epoll set
//! - [`inherited`], [`known`], [`special`], [`times`], [`congestion`]: their options

pub mod congestion;
pub mod inherited;
pub mod known;
pub mod listening;
pub mod set;
pub mod special;
pub mod stream;
pub mod tcp;
pub mod times;
