//! The way between the engine and its opener: messages, each with a descriptor or without.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use netdev::syscalls::{Received, receive_with_sender};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, Result};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use rustix::time::Timespec;

/// Bytes of an answer, at most.
pub(super) const ANSWER: usize = 4096;

/// One that has been started.
#[derive(Debug)]
pub struct Begun {
    /// By which it is asked.
    pub socket: OwnedFd,
    /// Its process, if it is one.
    pub process: Option<OwnedFd>,
}

/// The two ends of a way.
///
/// # Errors
/// There are no more descriptors.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    socketpair(family, kind, SocketFlags::CLOEXEC, None)
}

/// Sends a message.
pub(super) fn send(
    socket: &OwnedFd,
    parts: &[IoSlice<'_>],
    fd: Option<BorrowedFd<'_>>,
) -> Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    sendmsg(socket, parts, &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// The next message, for which it waits until then; for ever if that is none.
///
/// # Errors
/// `TIMEDOUT`; `PIPE`: nobody is at the other end.
pub(super) fn receive(
    socket: &OwnedFd,
    bytes: &mut [u8],
    until: Option<Instant>,
) -> Result<Received> {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut set = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
        match poll(&mut set, left.as_ref()) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        }
        let errno = match receive_with_sender(socket, bytes) {
            Ok(came) if came.bytes == 0 => return Err(Errno::PIPE),
            Ok(came) => return Ok(came),
            Err(error) => Errno::from_io_error(&error).unwrap_or(Errno::IO),
        };
        match errno {
            Errno::AGAIN | Errno::INTR => {}
            Errno::CONNRESET => return Err(Errno::PIPE),
            errno => return Err(errno),
        }
    }
}
