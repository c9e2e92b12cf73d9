//! Doorbells: how a side that is awake ends the other's sleep.
//!
//! A doorbell is a pair of UNIX stream sockets: one side [rings](Ringer::ring), the other sleeps in
//! a poll on its [`Bell`] and [drains](Bell::drain) it when it wakes. It is not an eventfd, since
//! `O_NONBLOCK` belongs to the open file: whoever shares an eventfd can clear it, fill the counter
//! and so block the writer for good. On a socket each call says for itself that it must not wait.
//!
//! There is one for the engine in each session, and one for each waker of the host. Whether to ring
//! is decided by the [armed word](crate::armed).

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;

/// The end of a doorbell that is rung.
#[derive(Debug)]
pub struct Ringer(OwnedFd);

/// The end of a doorbell that is heard: readable when it has been rung.
#[derive(Debug)]
pub struct Bell(OwnedFd);

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
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    Ok((Ringer(a), Bell(b)))
}

impl Ringer {
    /// Rings. Never waits: a doorbell too full to take another ring is one that has been rung. A
    /// bell that is gone is nobody to wake, which the session notices elsewhere.
    pub fn ring(&self) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while let Err(Errno::INTR) = rustix::net::send(&self.0, &[1], flags) {}
    }
}

impl Bell {
    /// Takes back all rings so far, or so many that one more drain is due; never waits.
    pub fn drain(&self) -> Rung {
        // One honest side rings once a sleep. A hostile one that floods leaves the bell readable,
        // and costs one call a turn.
        let mut rings = [0u8; 256];
        loop {
            return match rustix::net::recv(&self.0, &mut rings, RecvFlags::DONTWAIT) {
                Ok((0, _)) => Rung::Closed,
                Ok(_) => Rung::Yes,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Rung::No,
                Err(_) => Rung::Closed,
            };
        }
    }
}

impl From<OwnedFd> for Ringer {
    /// The ringing end, received from the other side.
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl From<OwnedFd> for Bell {
    /// The hearing end, received from the other side.
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl From<Ringer> for OwnedFd {
    fn from(ringer: Ringer) -> Self {
        ringer.0
    }
}

impl From<Bell> for OwnedFd {
    fn from(bell: Bell) -> Self {
        bell.0
    }
}

impl AsFd for Ringer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
