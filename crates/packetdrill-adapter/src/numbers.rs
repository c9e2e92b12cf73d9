//! Descriptors. The runner closes what it was given with the real `close` at the end, so each must
//! be a real one: an eventfd that nobody uses.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};
use sim::sockets::Fd;

/// The real descriptors by the sockets that they stand for, and back.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    sockets: HashMap<RawFd, Fd>,
}

impl Numbers {
    /// A descriptor for a socket. From now on it is the runner's to close.
    pub(crate) fn add(&mut self, socket: Fd) -> rustix::io::Result<RawFd> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC)?;
        let number = fd.as_raw_fd();
        self.sockets.insert(number, socket);
        Ok(fd.into_raw_fd())
    }

    /// The socket of a descriptor.
    pub(crate) fn find(&self, number: RawFd) -> Option<Fd> {
        self.sockets.get(&number).copied()
    }

    /// Forgets a descriptor; it stays open, until the runner closes it.
    pub(crate) fn remove(&mut self, number: RawFd) -> Option<Fd> {
        self.sockets.remove(&number)
    }
}
