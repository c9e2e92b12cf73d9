//! What descriptors of ours stand for. Nothing here knows of numbers.

pub mod congestion;
pub mod inherited;
pub mod known;
pub mod listening;
pub mod set;
pub mod stream;
pub mod tcp;
pub mod times;
