//! The interface of every device.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU8;

use rustix::event::PollFd;

use crate::Counters;

/// A request that the device complete a checksum.
///
/// The sixteen-bit field at `start + offset` already holds the sum of the pseudo-header
/// (uncomplemented, as in the kernel's `CHECKSUM_PARTIAL`); the device adds everything from
/// `start` to the end of the frame and writes the complement there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Bytes from the beginning of the frame to the first byte summed: the transport header.
    pub start: u16,
    /// Bytes from `start` to the checksum field: 16 for TCP.
    pub offset: u16,
}

impl PartialChecksum {
    /// For a TCP header that begins `start` bytes into the frame.
    pub const fn tcp(start: u16) -> Self {
        Self { start, offset: 16 }
    }
}

/// How a large send is to be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeSend {
    /// Payload bytes of every segment but the last. 0: the send is one segment already, and only
    /// its checksum is left to the device.
    pub segment_size: u16,
    /// The IP version, which decides the kind of segmentation.
    pub ipv6: bool,
    /// Where the TCP header begins. Its checksum field holds the pseudo-header sum, with the
    /// length of the whole uncut segment in it.
    pub checksum: PartialChecksum,
}

/// Why a frame was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No room just now: poll the device's descriptors, or try after the next batch. Nothing of
    /// it was sent.
    #[error("the device has no room just now")]
    Busy,
    /// The device cannot cut segments, or the feature is switched off ([`Offloads`]).
    #[error("large sends are not available on this device")]
    Unsupported,
    /// Longer than [`Limits::large`], or in more pieces than [`Limits::pieces`].
    #[error("the frame is larger than the device can take")]
    TooLarge,
    /// The kernel refused it for good; the value is an errno.
    #[error("the kernel refused the frame: {}", std::io::Error::from_raw_os_error(*.0))]
    Refused(i32),
}

/// Work that the device, or the kernel behind it, takes over.
///
/// Each is there to be switched off, so that what it is worth can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offloads {
    /// [`Device::submit`] honours a [`PartialChecksum`]. Without it, frames must carry their
    /// finished checksum.
    pub transmit_checksum: bool,
    /// Frames may arrive whose TCP checksum is only the pseudo-header sum (from a peer on this
    /// machine, which never computed it): accept that value.
    pub receive_partial_checksum: bool,
    /// [`Device::send_large`] works.
    pub segmentation: bool,
    /// Frames that arrive in several buffers are put together. Without it they are dropped and
    /// counted.
    pub scatter_gather: bool,
}

impl Offloads {
    /// Everything on.
    pub const ALL: Self = Self {
        transmit_checksum: true,
        receive_partial_checksum: true,
        segmentation: true,
        scatter_gather: true,
    };

    /// Everything off.
    pub const NONE: Self = Self {
        transmit_checksum: false,
        receive_partial_checksum: false,
        segmentation: false,
        scatter_gather: false,
    };

    /// What is on in both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self {
            transmit_checksum: self.transmit_checksum && other.transmit_checksum,
            receive_partial_checksum: self.receive_partial_checksum
                && other.receive_partial_checksum,
            segmentation: self.segmentation && other.segmentation,
            scatter_gather: self.scatter_gather && other.scatter_gather,
        }
    }
}

/// What a device can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one IP packet: the interface's MTU, or less where frames must not arrive in several buffers.
    pub mtu: usize,
    /// Largest frame for [`Device::submit`], in bytes, Ethernet header included.
    pub frame: usize,
    /// Largest IP packet for [`Device::send_large`], in bytes, before it is cut.
    pub large: usize,
    /// Most pieces of payload in one [`Device::send_large`].
    pub pieces: usize,
}

/// Receive queues of an interface, and the way out beside them.
///
/// The order of a turn is: [`receive`](Self::receive), then any number of
/// [`frame`](Self::frame)/[`submit`](Self::submit) pairs and large sends, then
/// [`flush`](Self::flush). Nothing here blocks. Frames leave in the order of `submit` and
/// `send_large`, which therefore flushes what was submitted before it: to save system calls, send
/// what is large first where the order does not matter.
pub trait Device {
    /// Hands received frames to `each`, at most `budget` of them, and returns how many.
    ///
    /// A frame that arrived in several buffers is presented whole. The slice is valid during the
    /// call only; the buffer goes back to the device after it.
    fn receive<F: FnMut(&[u8])>(&mut self, budget: usize, each: F) -> usize;

    /// Frames, or buffers of them, that have arrived and wait to be received; 0 of a device that
    /// cannot tell.
    fn waiting(&mut self) -> usize {
        0
    }

    /// The buffer for the next frame: at least [`Limits::frame`] bytes with unspecified contents.
    ///
    /// It stays the same until [`submit`](Self::submit), so a frame that was begun and then
    /// thought better of costs nothing. `None`: every frame is in flight; try again after a poll.
    fn frame(&mut self) -> Option<&mut [u8]>;

    /// Queues the first `len` bytes of what [`frame`](Self::frame) last returned.
    ///
    /// `checksum` asks the device to complete a checksum and needs
    /// [`Offloads::transmit_checksum`].
    ///
    /// # Panics
    /// If there is no frame, if `len` is longer than it, or if a checksum is asked for that is
    /// switched off or outside the frame: these are the caller's mistakes, not the wire's.
    fn submit(&mut self, len: usize, checksum: Option<PartialChecksum>);

    /// Sends one TCP segment that may be larger than the MTU, to be cut by the kernel or the NIC.
    ///
    /// `header` is everything in front of the payload: Ethernet, IP (with the length of the whole)
    /// and TCP. The payload is gathered from memory that others may be writing to.
    ///
    /// # Errors
    /// [`SendError`]; after every one of them nothing was sent.
    fn send_large(
        &mut self,
        header: &[u8],
        payload: &[&[AtomicU8]],
        how: LargeSend,
    ) -> Result<(), SendError>;

    /// Makes everything submitted leave. Returns how many frames the kernel has not yet taken: if
    /// not 0, flush again on the next turn, or when [`poll_fds`](Self::poll_fds) reports.
    fn flush(&mut self) -> usize;

    /// Adds what must be polled before sleeping: readable means frames to receive, writable that
    /// the device has room again (asked for only while something waits for it).
    fn poll_fds<'a>(&'a self, set: &mut Vec<PollFd<'a>>);

    /// What is switched on.
    fn offloads(&self) -> Offloads;

    /// Switches offloads on or off; what the device cannot do stays off. Returns what is on.
    fn set_offloads(&mut self, wanted: Offloads) -> Offloads;

    /// What the device can carry.
    fn limits(&self) -> Limits;

    /// Everything counted since the device was opened. May ask the kernel: not for every packet.
    fn counters(&mut self) -> Counters;

    /// What was counted of each receive queue, by its number; nothing of a device that has none.
    fn queues(&mut self) -> Vec<(u32, Counters)> {
        Vec::new()
    }

    /// Receives from one more queue of the interface, and returns the socket to be connected to the
    /// steering; `None` if that queue is received from already.
    ///
    /// # Errors
    /// In words, what to do.
    fn grow(&mut self, queue: u32) -> io::Result<Option<BorrowedFd<'_>>> {
        let _ = queue;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The socket of a queue that is received from, to be connected to the steering.
    fn socket_of(&self, queue: u32) -> Option<BorrowedFd<'_>> {
        let _ = queue;
        None
    }

    /// Receives no longer from a queue, so that the interface can do without it. What has come and was
    /// not received is lost, as on the wire. False if it was not received from.
    ///
    /// # Errors
    /// In words: the device cannot do without this one.
    fn shrink(&mut self, queue: u32) -> io::Result<bool> {
        let _ = queue;
        Err(io::ErrorKind::Unsupported.into())
    }
}
