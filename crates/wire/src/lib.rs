//! Packet formats: Ethernet, IPv4, IPv6, TCP and its options; sequence arithmetic, checksums, flows.
//!
//! Every format comes twice. A *view* (`ipv4::Packet`, `tcp::Header`, …) borrows bytes that it has
//! checked once, and reads fields from them. A *representation* (`Repr`) is a plain value, and
//! emits itself into bytes. [`segment::parse`] goes the whole way from a frame to what a TCP wants
//! to know of it, and says of every frame that it refuses why ([`segment::Malformed`]).
//!
//! Whatever the bytes say, parsing neither panics nor allocates nor takes time that grows faster
//! than the frame.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

mod bytes;
pub mod checksum;
pub mod ethernet;
pub mod flow;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod segment;
pub mod seq;
pub mod tcp;
