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
//! With a ring a process can send descriptors. Whoever receives them closes those for which there is no room, in
//! the call or after it, and that can take as long as their program likes: a socket lingers (SO_LINGER). So before it
//! takes a ring whose bell takes descriptors, the engine looks at it (MSG_PEEK) without room for any. The kernel says
//! then that there are some (MSG_CTRUNC), and those that come with the ring stay where they are, for who has time to
//! close the bell.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendFlags, SocketFlags, SocketType,
};
use std::io;

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
    /// Descriptors came with a ring, which was not taken: the bell stays readable. Nobody who plays by the rules sends
    /// any.
    Rights,
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
    /// Rings are taken without a look at them first.
    pub fn expect_no_rights(&mut self) {
        self.refuses_rights = true;
    }

    /// Whether it does, as far as is known: then nothing but rings can have been sent to this end.
    pub fn refuses_rights(&self) -> bool {
        self.refuses_rights
    }

    /// Takes one ring back: the bell stays readable if there are more, which costs a turn. Never waits, and closes
    /// nothing that came with it.
    pub fn drain(&self) -> Rung {
        let take = |ring: &mut [u8], flags| {
            let taken = rustix::net::recv(&self.fd, ring, RecvFlags::DONTWAIT | flags);
            taken.map(|(length, _)| length)
        };
        if self.refuses_rights {
            return drain(|ring| take(ring, RecvFlags::empty()));
        }
        let mut has_rights = false;
        let seen = drain(|ring| {
            let mut part = [IoSliceMut::new(ring)];
            let no_room = &mut RecvAncillaryBuffer::default();
            let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
            let seen = rustix::net::recvmsg(&self.fd, &mut part, no_room, flags)?;
            has_rights = seen.flags.contains(ReturnFlags::CTRUNC);
            Ok(seen.bytes)
        });
        match seen {
            _ if has_rights => Rung::Rights,
            // Nobody else hears this bell: it is the one that was seen.
            Rung::Yes => drain(|ring| take(ring, RecvFlags::empty())),
            other => other,
        }
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
