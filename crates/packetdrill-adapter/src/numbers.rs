//! Descriptors. The runner closes what it was given with the real `close` at the end, so each must
//! be a real one: an eventfd that nobody uses.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};
use sim::script::Errno;
use sim::sockets::{Fd, Refusal};

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    /// A socket.
    Socket(Fd),
    /// An epoll instance; it is kept by its number.
    Epoll,
    /// The end of a pipe to read from, by the place of the pipe.
    ReadEnd(usize),
    /// The end of a pipe to write to.
    WriteEnd(usize),
}

impl Object {
    /// The socket that it is.
    pub(crate) fn socket(self) -> Result<Fd, Refusal> {
        match self {
            Object::Socket(fd) => Ok(fd),
            _ => Err(Errno::ENOTSOCK.into()),
        }
    }
}

/// What the real descriptors stand for.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    objects: HashMap<RawFd, Object>,
}

impl Numbers {
    /// A descriptor for something. From now on it is the runner's to close.
    pub(crate) fn add(&mut self, object: Object) -> Result<RawFd, Errno> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| Errno(error.raw_os_error()))?;
        let number = fd.as_raw_fd();
        self.objects.insert(number, object);
        Ok(fd.into_raw_fd())
    }

    /// What a descriptor stands for.
    pub(crate) fn find(&self, number: RawFd) -> Result<Object, Refusal> {
        let object = self.objects.get(&number).copied();
        object.ok_or(Errno::EBADF.into())
    }

    /// Forgets a descriptor; it stays open, until the runner closes it.
    pub(crate) fn remove(&mut self, number: RawFd) -> Option<Object> {
        self.objects.remove(&number)
    }
}
