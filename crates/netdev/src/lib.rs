//! Packet I/O: everything between the wire and the stack.
//!
//! A [`Device`] moves Ethernet frames in and out of one receive queue of an interface. There is
//! one interface for all of them, dispatched statically, so that the engine's worker is compiled
//! against the device it runs on:
//!
//! * [`xdp::XdpDevice`]: AF_XDP for receive and small sends, with an AF_PACKET socket beside it
//!   for segments so large that the kernel has to cut them ([`Device::send_large`]);
//! * [`sim::SimDevice`]: one end of a bounded in-memory link, with faults on request. No
//!   privileges, no clock, the same interface.
//!
//! AF_PACKET receive and TAP, for interfaces without XDP, are further implementations of the same
//! trait; they are not built yet.
//!
//! What goes from one program on this machine to another needs no device at all: [`Loopback`] is a
//! queue in memory.
//!
//! What arrives at an AF_XDP device is what [`steering`] sends there: a BPF program at the
//! driver's edge that looks at (protocol, local address, local port) and leaves everything else
//! to the kernel. For a load client it is what a [`claim`] covers: the answers of one server to ranges
//! of addresses and ports.
//!
//! This crate is one of the few that hold `unsafe`: memory shared with the kernel, and system
//! calls that no safe wrapper covers. Each block says why it is sound.

pub mod cgroup;
pub mod claim;
pub mod counters;
pub mod device;
pub mod diverter;
pub mod faults;
pub mod interface;
pub mod loopback;
pub mod packet;
pub mod programs;
pub mod reflect;
pub mod sim;
mod software;
pub mod steering;
pub mod syscalls;
pub mod tun;
pub mod xdp;

pub use claim::{Claim, Claimed};
pub use counters::Counters;
pub use device::{Device, LargeSend, Limits, Offloads, PartialChecksum, SendError};
pub use interface::Interface;
pub use loopback::Loopback;
pub use steering::{Endpoint, Placement, Share, Steering};
pub use xdp::XdpDevice;
