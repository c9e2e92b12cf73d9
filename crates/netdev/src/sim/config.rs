//! What a simulated link is like.

use std::sync::atomic::AtomicU64;

use crate::faults::Faults;

/// What it takes to make frames leave.
#[derive(Debug, Clone, Copy)]
pub struct Toll {
    /// The clock that goes on meanwhile, in nanoseconds.
    pub clock: &'static AtomicU64,
    /// By so many a call.
    pub call: u64,
    /// And by so many a frame.
    pub frame: u64,
}

/// What a link is like, in both directions.
#[derive(Debug, Clone, Copy)]
pub struct LinkConfig {
    /// Bytes of the largest IP packet, 68 to 65535.
    pub mtu: usize,
    /// Frames that a direction holds before it loses what comes.
    pub capacity: usize,
    /// Frames of a device's own, which are its again when the other end has received them.
    pub frames: usize,
    /// Frames on their way with which there is no room for a large send.
    pub large_room: usize,
    /// What goes wrong on the way.
    pub faults: Faults,
    /// What decides when it goes wrong; each direction draws its own sequence from it.
    pub seed: u64,
    /// What a [flush](crate::Device::flush) takes, if anything.
    pub toll: Option<Toll>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            capacity: 1024,
            frames: usize::MAX,
            large_room: usize::MAX,
            faults: Faults::NONE,
            seed: 0,
            toll: None,
        }
    }
}
