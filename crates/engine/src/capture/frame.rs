//! What is captured.

use core::sync::atomic::AtomicU8;

use crate::network::NicId;

/// Which way a frame went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To this machine.
    In,
    /// From this machine.
    Out,
}

/// A frame that the engine handles.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Which way it went.
    pub direction: Direction,
    /// By which interface; the first for what stays on this machine.
    pub nic: NicId,
    /// The frame from its Ethernet header on, all of it or at least all headers.
    pub head: &'a [u8],
    /// What follows the head, in memory that a host can write.
    pub payload: &'a [&'a [AtomicU8]],
    /// The name of the reason why it was dropped, if it was.
    pub dropped: Option<&'a str>,
}
