//! Whole frames in and out of an interface, in batches.
//!
//! This is for what stands beside the engine: test forwarders and captures. Frames come as the
//! kernel has them, so an interface on which segmentation or checksum offloads are on shows frames
//! longer than its MTU, and checksums that are not finished.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::options::{bind, new_socket, set_option};
use crate::interface::Interface;

/// Most frames in one batch.
pub const BATCH: usize = 64;

/// Bytes of socket buffer, each way: what comes in a burst while nobody looks.
const SOCKET_BUFFER: i32 = 32 << 20;

/// An AF_PACKET socket that receives everything that arrives at an interface.
#[derive(Debug)]
pub struct RawSocket {
    fd: OwnedFd,
}

/// Buffers for a batch of frames.
#[derive(Debug)]
pub struct FrameBatch {
    memory: Vec<u8>,
    frame_size: usize,
    lengths: [usize; BATCH],
    /// How long before the end of the receive each came.
    ages: [Duration; BATCH],
    /// Of these, how many the last receive filled.
    count: usize,
    /// Frames that did not fit their buffer; they were lost.
    truncated: u64,
}

impl FrameBatch {
    /// For frames of up to `frame_size` bytes.
    pub fn new(frame_size: usize) -> Self {
        Self {
            memory: vec![0; frame_size * BATCH],
            frame_size,
            lengths: [0; BATCH],
            ages: [Duration::ZERO; BATCH],
            count: 0,
            truncated: 0,
        }
    }

    /// The frames of the last receive, without those that did not fit.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.aged_frames().map(|(frame, _)| frame)
    }

    /// The same, each with how long it had been there when the receive was over; zero of a socket whose
    /// frames are not [stamped](RawSocket::stamp).
    pub fn aged_frames(&self) -> impl Iterator<Item = (&[u8], Duration)> {
        self.memory
            .chunks_exact(self.frame_size.max(1))
            .zip(self.lengths)
            .zip(self.ages)
            .take(self.count)
            .filter_map(|((buffer, length), age)| Some((buffer.get(..length)?, age)))
    }

    /// How many frames did not fit their buffer since this was made.
    pub const fn truncated(&self) -> u64 {
        self.truncated
    }
}

impl RawSocket {
    /// Opens one on an interface. Frames that leave the interface are not received.
    ///
    /// # Errors
    /// What the system call said; needs CAP_NET_RAW.
    pub fn open(interface: &Interface) -> io::Result<Self> {
        let fd = new_socket()?;
        set_option(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            // Not worth failing for.
            let _ = set_option(&fd, libc::SOL_SOCKET, option, SOCKET_BUFFER);
        }
        bind(&fd, interface, libc::ETH_P_ALL as u16)?;
        Ok(Self { fd })
    }

    /// Opens one that only sends.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_sender(interface: &Interface) -> io::Result<Self> {
        let fd = new_socket()?;
        bind(&fd, interface, 0)?;
        Ok(Self { fd })
    }

    /// Has the kernel note when each frame comes, so that who receives late knows by how much
    /// ([`FrameBatch::aged_frames`]). The kernel begins with it a moment after this has returned; frames that
    /// come before that seem to come as they are received.
    ///
    /// # Errors
    /// What the system call said.
    pub fn stamp(&self) -> io::Result<()> {
        set_option(&self.fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
    }

    /// Receives up to [`BATCH`] frames without waiting, and returns how many; 0 if there is none.
    ///
    /// # Errors
    /// What the system call said.
    pub fn receive(&self, batch: &mut FrameBatch) -> io::Result<usize> {
        batch.count = 0;
        let mut pieces = [EMPTY_PIECE; BATCH];
        let buffers = batch.memory.chunks_exact_mut(batch.frame_size.max(1));
        for (piece, buffer) in pieces.iter_mut().zip(buffers) {
            piece.iov_base = buffer.as_mut_ptr().cast();
            piece.iov_len = buffer.len();
        }
        let mut messages = messages(&mut pieces);
        let mut stamps = [NO_STAMP; BATCH];
        for (message, stamp) in messages.iter_mut().zip(&mut stamps) {
            message.msg_hdr.msg_control = (&raw mut *stamp).cast();
            message.msg_hdr.msg_controllen = size_of::<Stamp>() as _;
        }
        // SAFETY: each message describes one buffer of the batch and one stamp, which are ours alone
        // during the call; the kernel writes within the lengths given.
        let received = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                std::ptr::null_mut(),
            )
        };
        if received < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        }
        let received = received as usize;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        for (age, stamp) in batch.ages.iter_mut().zip(&stamps).take(received) {
            *age = stamp.age(now);
        }
        for (length, message) in batch.lengths.iter_mut().zip(&messages).take(received) {
            // With MSG_TRUNC it is the frame's real length: `frames` leaves out what is longer
            // than its buffer.
            *length = message.msg_len as usize;
            batch.truncated += u64::from(*length > batch.frame_size);
        }
        batch.count = received;
        Ok(received)
    }

    /// Sends up to [`BATCH`] frames without waiting, and returns how many were taken; fewer than
    /// given if the socket is full.
    ///
    /// # Errors
    /// What the system call said about the first frame.
    pub fn send_batch(&self, frames: &[&[u8]]) -> io::Result<usize> {
        let count = frames.len().min(BATCH);
        let mut pieces = [EMPTY_PIECE; BATCH];
        for (piece, frame) in pieces.iter_mut().zip(frames) {
            piece.iov_base = frame.as_ptr().cast_mut().cast();
            piece.iov_len = frame.len();
        }
        let mut messages = messages(&mut pieces);
        // SAFETY: each message describes one frame that is borrowed during the call; the kernel
        // only reads it. `count` is within both arrays.
        let sent = unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        if sent < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => Ok(0),
                _ => Err(error),
            };
        }
        Ok(sent as usize)
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// What the system call said; `WouldBlock` if the socket is full.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        match self.send_batch(&[frame])? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }

    /// How many frames the kernel dropped since the last call because this socket was full.
    ///
    /// # Errors
    /// What the system call said.
    pub fn dropped(&self) -> io::Result<u64> {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut length = size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to a value that is ours alone.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(u64::from(statistics.tp_drops))
    }
}

impl AsFd for RawSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const EMPTY_PIECE: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// Room for the one control message that a stamped frame has: `CMSG_SPACE` of a timespec.
#[repr(C)]
#[derive(Clone, Copy)]
struct Stamp {
    header: libc::cmsghdr,
    came: libc::timespec,
}

const NO_STAMP: Stamp = Stamp {
    header: libc::cmsghdr {
        cmsg_len: 0,
        cmsg_level: 0,
        cmsg_type: 0,
    },
    came: libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    },
};

impl Stamp {
    /// How long before `now` that was; zero if nothing was written, or the clock was set back.
    fn age(&self, now: rustix::time::Timespec) -> Duration {
        let is_time = (self.header.cmsg_level, self.header.cmsg_type)
            == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        if !is_time {
            return Duration::ZERO;
        }
        let since_1970 = |seconds: i64, nanoseconds: i64| {
            let whole = u64::try_from(seconds).unwrap_or_default();
            Duration::from_secs(whole)
                + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default())
        };
        since_1970(now.tv_sec, now.tv_nsec)
            .saturating_sub(since_1970(self.came.tv_sec, self.came.tv_nsec))
    }
}

/// One message a piece.
fn messages(pieces: &mut [libc::iovec; BATCH]) -> [libc::mmsghdr; BATCH] {
    std::array::from_fn(|index| {
        // SAFETY: mmsghdr is plain data for which all zeros is a valid value.
        let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        message.msg_hdr.msg_iov = &raw mut pieces[index];
        message.msg_hdr.msg_iovlen = 1;
        message
    })
}
