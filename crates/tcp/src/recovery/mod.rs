//! Loss recovery: when something is taken for lost, and what is then sent again.

pub mod rtt;
