//! HTTP without sessions: both ends keep what they must know of an exchange in the packets
//! themselves.
//!
//! * [`responder`]: the server. Frame in, frames out.
//! * [`client`]: the load client. Connections are walked as a permutation over addresses and
//!   ports, and whatever it must know when a segment arrives is computed from that segment.
#![forbid(unsafe_code)]

pub mod client;
pub mod responder;
