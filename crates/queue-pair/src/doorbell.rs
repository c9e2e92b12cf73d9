//! Doorbells: how a side that is awake ends the other's sleep.
//!
//! A doorbell is a pair of UNIX sockets: one side [rings](Ringer::ring), the other sleeps in a poll on
//! its [`Bell`] and [drains](Bell::drain) it when it wakes. It is not an eventfd, since `O_NONBLOCK`
//! belongs to the open file: whoever shares an eventfd can clear it, fill the counter and so block the
//! writer for good. On a socket each call says for itself that it must not wait.
//!
//! A host does both by write and read. The program may have put itself under a filter of system calls
//! (seccomp) that kills it for any that it does not make itself, and send and recv are often among those; it
//! can block nobody but itself. Rings are messages (SEQPACKET): to write to a socket of a stream whose other
//! end is gone would raise SIGPIPE.
//!
//! There is one for the engine in each session, and one for each waker of the host. Whether to ring
//! is decided by the [armed word](crate::armed).
//!
//! With a ring a process can send descriptors. What is received without room for them is closed by the kernel
//! before the call returns, however long that takes: a socket lingers (SO_LINGER). So the engine receives with
//! room for as many as there can be, and leaves them to who has time to close them.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags,
    SocketType,
};
use std::io;
use std::mem::MaybeUninit;

/// The most descriptors that the kernel lets come with one message (SCM_MAX_FD).
const MOST_RIGHTS: usize = 253;

/// The end of a doorbell that is rung.
#[derive(Debug)]
pub struct Ringer {
    fd: OwnedFd,
    /// It is of an engine that made streams.
    is_stream: bool,
}

/// The end of a doorbell that is heard: readable when it has been rung.
#[derive(Debug)]
pub struct Bell {
    fd: OwnedFd,
    /// The kernel lets nobody send descriptors to it.
    refuses_rights: bool,
}

/// What [`Bell::drain`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    /// It had been rung since it was last drained.
    Yes,
    /// It had not.
    No,
    /// The other end is closed: nobody will ring any more.
    Closed,
}

/// A new doorbell.
///
/// # Errors
/// The kernel's, when it has no descriptors to give.
pub fn pair() -> io::Result<(Ringer, Bell)> {
    let (a, b) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    Ok((a.into(), b.into()))
}

impl Ringer {
    /// Rings. Never waits: a doorbell too full to take another ring is one that has been rung. A
    /// bell that is gone is nobody to wake, which the session notices elsewhere.
    pub fn ring(&self) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while let Err(Errno::INTR) = rustix::net::send(&self.fd, &[1], flags) {}
    }

    /// As [`ring`](Self::ring), by a system call that every filter lets pass. Waits only if this side has
    /// cleared the descriptor's `O_NONBLOCK`. A doorbell of an earlier engine is a stream, and is rung as ever.
    pub fn ring_by_write(&self) {
        if self.is_stream {
            return self.ring();
        }
        while let Err(Errno::INTR) = rustix::io::write(&self.fd, &[1]) {}
    }
}

impl Bell {
    /// The kernel refuses descriptors to whoever rings (SO_PASSRIGHTS), and has since nobody else had the other end.
    /// To receive without room for them costs a fifth less.
    pub fn expect_no_rights(&mut self) {
        self.refuses_rights = true;
    }

    /// Whether it does, as far as is known: then nothing but rings can have been sent to this end.
    pub fn refuses_rights(&self) -> bool {
        self.refuses_rights
    }

    /// Takes one ring back: the bell stays readable if there are more, which costs a turn. Never waits. The
    /// descriptors that came with it are in `rights`: nobody who plays by the rules sends any.
    pub fn drain(&self, rights: &mut Vec<OwnedFd>) -> Rung {
        if self.refuses_rights {
            let take = |ring: &mut [u8]| rustix::net::recv(&self.fd, ring, RecvFlags::DONTWAIT);
            return drain(|ring| take(ring).map(|(length, _)| length));
        }
        drain(|ring| {
            // Nobody writes to it but the kernel, and no more than there is.
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_RIGHTS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let mut part = [IoSliceMut::new(ring)];
            let received = rustix::net::recvmsg(&self.fd, &mut part, &mut control, flags)?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = message {
                    rights.extend(fds);
                }
            }
            Ok(received.bytes)
        })
    }

    /// As [`drain`](Self::drain), by a system call that every filter lets pass. Waits only if this side has
    /// cleared the descriptor's `O_NONBLOCK`.
    pub fn drain_by_read(&self) -> Rung {
        drain(|ring| rustix::io::read(&self.fd, ring))
    }
}

fn drain(mut take: impl FnMut(&mut [u8]) -> Result<usize, Errno>) -> Rung {
    loop {
        return match take(&mut [0]) {
            Ok(0) => Rung::Closed,
            Ok(_) => Rung::Yes,
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Rung::No,
            Err(_) => Rung::Closed,
        };
    }
}

impl From<OwnedFd> for Ringer {
    /// The ringing end, received from the other side.
    fn from(fd: OwnedFd) -> Self {
        let kind = rustix::net::sockopt::socket_type(&fd);
        let is_stream = kind == Ok(SocketType::STREAM);
        Self { fd, is_stream }
    }
}

impl From<OwnedFd> for Bell {
    /// The hearing end, received from the other side.
    fn from(fd: OwnedFd) -> Self {
        let refuses_rights = false;
        Self { fd, refuses_rights }
    }
}

impl From<Ringer> for OwnedFd {
    fn from(ringer: Ringer) -> Self {
        ringer.fd
    }
}

impl From<Bell> for OwnedFd {
    fn from(bell: Bell) -> Self {
        bell.fd
    }
}

impl AsFd for Ringer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
