//! Files that connections send from.

use std::sync::{Mutex, PoisonError};

use host::{Errno, RegisteredFile, Session, Socket};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Stat, fstat};

use crate::context::Context;
use crate::stream::Stream;

/// A file to send from. On the engine its bytes do not pass through this process: the engine reads them when
/// they leave. Where it does not take a file they are read here, and the kernel's connections send it by
/// sendfile(2).
pub struct File {
    file: OwnedFd,
    session: Session,
    shown: Mutex<Shown>,
}

/// What the engine knows of a file.
enum Shown {
    /// Nothing yet.
    No,
    /// It reads it. Another engine is shown it anew.
    Yes(RegisteredFile),
    /// It does not take it.
    Refused,
}

impl Context {
    /// Registers a regular file, open for reading: the engine is shown it at once. It is duplicated, so the
    /// program may close its own.
    ///
    /// # Errors
    /// `EINVAL`: it is no regular file. `EMFILE`: there are no more descriptors.
    pub fn register_file(&self, file: BorrowedFd<'_>) -> Result<File, Errno> {
        let facts = fstat(file)?;
        if !is_regular(&facts) {
            return Err(Errno::INVAL);
        }
        let file = self.file(rustix::io::fcntl_dupfd_cloexec(file, 0)?);
        file.shown().show(&file.session, file.file.as_fd(), &facts);
        Ok(file)
    }

    /// A regular file, open for reading, that the engine is shown when it is first sent from. So it costs
    /// nothing to have one of which nothing may be sent, as a server has that is asked about files.
    pub fn file(&self, file: OwnedFd) -> File {
        File {
            file,
            session: self.session.clone(),
            shown: Mutex::new(Shown::No),
        }
    }
}

impl Shown {
    fn show(&mut self, session: &Session, file: BorrowedFd<'_>, facts: &Stat) {
        *self = match session.register_file(file, facts) {
            Ok(registered) => Self::Yes(registered),
            // There may be an engine later, or another load for which its policy has it read the file.
            // Or room, once others are not sent from any more.
            Err(Errno::NOTCONN | Errno::AGAIN | Errno::MFILE) => Self::No,
            Err(_) => Self::Refused,
        };
    }
}

impl File {
    /// Whether the engine reads it; not before it was shown it.
    pub fn is_offloaded(&self) -> bool {
        matches!(*self.shown(), Shown::Yes(_))
    }

    /// How many bytes it has now.
    ///
    /// # Errors
    /// The kernel's.
    pub fn size(&self) -> Result<u64, Errno> {
        size(&fstat(&self.file)?)
    }

    pub(crate) fn send(
        &self,
        stream: &mut Stream,
        offset: u64,
        len: usize,
        more: bool,
    ) -> Result<usize, Errno> {
        let facts = fstat(&self.file)?;
        if !is_regular(&facts) {
            return Err(Errno::INVAL);
        }
        let left = size(&facts)?.saturating_sub(offset);
        let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
        self.send_known(stream, offset, len, more, Some(&facts))
    }

    /// As [`send`](Self::send), of a regular file that has all of these bytes, and these facts, as far as that is known.
    pub(crate) fn send_known(
        &self,
        stream: &mut Stream,
        offset: u64,
        len: usize,
        more: bool,
        facts: Option<&Stat>,
    ) -> Result<usize, Errno> {
        if len == 0 {
            return Ok(0);
        }
        if let Stream::Engine(socket) = &*stream
            && let Some(sent) = self.send_by_engine(socket, facts, offset, len, more)
        {
            return sent;
        }
        stream.send_file(self.file.as_fd(), offset, len, more)
    }

    /// `None`: the engine does not read it now, and what is sent is to be read here.
    fn send_by_engine(
        &self,
        socket: &Socket,
        facts: Option<&Stat>,
        offset: u64,
        len: usize,
        more: bool,
    ) -> Option<Result<usize, Errno>> {
        let mut shown = self.shown();
        let is_due = match &*shown {
            Shown::No => true,
            Shown::Yes(file) => file.is_due(),
            Shown::Refused => false,
        };
        if is_due {
            let asked = match facts {
                Some(_) => None,
                None => fstat(&self.file).ok(),
            };
            let facts = facts.or(asked.as_ref())?;
            shown.show(&self.session, self.file.as_fd(), facts);
        }
        let Shown::Yes(file) = &*shown else {
            return None;
        };
        match socket.send_registered_file(file, offset, len, more) {
            // The engine that had it is gone. The next send finds out whether this one takes it.
            Err(Errno::STALE) => {
                *shown = Shown::No;
                None
            }
            Err(Errno::OPNOTSUPP) => None,
            sent => Some(sent),
        }
    }

    fn shown(&self) -> std::sync::MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn is_regular(facts: &Stat) -> bool {
    FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile
}

fn size(facts: &Stat) -> Result<u64, Errno> {
    u64::try_from(facts.st_size).map_err(|_| Errno::OVERFLOW)
}
