//! Registered memory.

use std::sync::atomic::{AtomicU8, Ordering, fence};
use std::sync::{Arc, Weak};

use host::{Errno, Registered, RegisteredWatch};
use queue_pair::Area;
use queue_pair::memfd::least_size;
use rustix::fd::BorrowedFd;
use rustix::fs::fstat;

use crate::context::Context;

/// Memory that a program fills and sends from. On the engine nothing of it is copied at the host; on
/// the kernel it is as good as any. What a send names must not change until the peer has acknowledged it.
pub struct Memory {
    pub(crate) place: Place,
}

pub(crate) enum Place {
    Engine(Registered),
    /// Clones are held by sends that are under way.
    Own(Arc<Area>),
}

/// Registered memory, looked at by somebody who does not hold it.
pub(crate) enum Watch {
    Engine(RegisteredWatch),
    Own(Weak<Area>),
}

impl Watch {
    /// Whether nothing names it any more, or it was given back.
    pub(crate) fn is_free(&self) -> bool {
        let is_free = match self {
            Watch::Engine(watch) => watch.is_free(),
            Watch::Own(area) => area.strong_count() <= 1,
        };
        // A count alone orders nothing: who gave it up in another thread may have written there before.
        fence(Ordering::Acquire);
        is_free
    }
}

/// Memory that is not free yet, and the cookie that is told then.
pub(crate) struct Wanted {
    pub(crate) watch: Watch,
    pub(crate) cookie: u64,
}

impl Context {
    /// Registers `len` bytes of new memory, from which connections send without a copy: the engine's
    /// if there is one, otherwise the program's own.
    ///
    /// # Errors
    /// `EINVAL`: `len` is 0. `ENOBUFS`: the engine has no free piece of that length, or this process has not so
    /// much memory.
    pub fn register(&self, len: usize) -> Result<Memory, Errno> {
        Memory::new(self, len)
    }

    /// Registers `len` bytes of a memory file of the program's own, from `offset` on, on the terms of
    /// [`register`](Self::register): the engine reads them as they leave, as it reads
    /// [files](Self::register_file). What is received into them the library copies there. The file is to be
    /// sealed against shrinking (F_SEAL_SHRINK); it is mapped here, and may be closed.
    ///
    /// # Errors
    /// `EINVAL`: it is no memory file or one of huge pages, or `len` is 0 or the part not all inside. `EPERM`: it
    /// is not sealed against shrinking, or is against writing. `EACCES`: it is not open for reading and
    /// writing. Otherwise as mmap(2).
    pub fn register_memfd(
        &self,
        memfd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Result<Memory, Errno> {
        Memory::of_memfd(self, memfd, offset, len)
    }
}

impl Memory {
    pub(crate) fn new(context: &Context, len: usize) -> Result<Self, Errno> {
        let place = match context.session.register(len) {
            Ok(registered) => Place::Engine(registered),
            Err(Errno::NOTCONN) => {
                let area = Area::try_private("registered", len).ok_or(Errno::NOBUFS)?;
                Place::Own(Arc::new(area))
            }
            Err(errno) => return Err(errno),
        };
        Ok(Self { place })
    }

    pub(crate) fn of_memfd(
        context: &Context,
        memfd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Result<Self, Errno> {
        let size = least_size(memfd)?;
        let end = offset.checked_add(len as u64);
        if len == 0 || end.is_none_or(|end| end > size) {
            return Err(Errno::INVAL);
        }
        let facts = fstat(memfd)?;
        let area = Area::of_file("registered", memfd, offset, len)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOMEM))?;
        let session = &context.session;
        let place = match session.register_part(memfd, &facts, area.clone(), offset) {
            Ok(registered) => Place::Engine(registered),
            // What the engine does not read is copied here.
            Err(_) => Place::Own(Arc::new(area)),
        };
        Ok(Self { place })
    }

    /// Its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        match &self.place {
            Place::Engine(registered) => registered.len(),
            Place::Own(area) => area.len() as usize,
        }
    }

    /// Its bytes, at the same place for as long as it lives.
    ///
    /// # Errors
    /// `ESTALE`: this process is the child of a fork.
    pub fn bytes(&self) -> Result<&[AtomicU8], Errno> {
        match &self.place {
            Place::Engine(registered) => registered.bytes(),
            Place::Own(area) => area.slice(0, self.len()).map_err(|_| Errno::FAULT),
        }
    }

    /// Whether a send that names it has not come back, or a buffer of it is posted. What the engine reads there
    /// counts until the peer has acknowledged it, also if the send comes back before or not at all. Elsewhere it
    /// was copied, so that sends that do not come back do not count.
    /// [`Queue::tell_when_free`](crate::Queue::tell_when_free) tells when that is over.
    pub fn is_under_way(&self) -> bool {
        !self.watch().is_free()
    }

    /// The same memory once more, for whoever uses it: until that is dropped it is not given back.
    pub(crate) fn share(&self) -> Self {
        Self::at(match &self.place {
            Place::Engine(registered) => Place::Engine(registered.share()),
            Place::Own(area) => Place::Own(Arc::clone(area)),
        })
    }

    pub(crate) fn watch(&self) -> Watch {
        match &self.place {
            Place::Engine(registered) => Watch::Engine(registered.watch()),
            Place::Own(area) => Watch::Own(Arc::downgrade(area)),
        }
    }

    /// Gives it back.
    ///
    /// # Errors
    /// It comes back with `EBUSY`: a send that names it has not come back yet, or a buffer of it is posted.
    pub fn unregister(self) -> Result<(), (Self, Errno)> {
        match self.place {
            Place::Engine(registered) => registered
                .unregister()
                .map_err(|(registered, errno)| (Self::at(Place::Engine(registered)), errno)),
            Place::Own(area) if Arc::strong_count(&area) > 1 => {
                Err((Self::at(Place::Own(area)), Errno::BUSY))
            }
            Place::Own(_) => Ok(()),
        }
    }

    fn at(place: Place) -> Self {
        Self { place }
    }
}
