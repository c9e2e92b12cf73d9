//! AF_PACKET: large sends beside AF_XDP, and raw frames for what stands beside the engine.
//!
//! An AF_PACKET socket takes a `virtio_net_hdr` in front of each frame (`PACKET_VNET_HDR`), and
//! with it a TCP segment of up to 64 KB that the kernel cuts as late as it can: on a veth never, on
//! a NIC in hardware.

mod large;
mod options;
mod raw;

pub use large::{LARGE_MAX, LargeSender, PIECES_MAX};
pub use raw::{BATCH, FrameBatch, RawSocket};
