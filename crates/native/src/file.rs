//! Registered files.

use std::sync::{Mutex, PoisonError};

use host::{Errno, RegisteredFile, Session};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, fstat};

use crate::context::Context;
use crate::stream::Stream;

/// A file to send from. On the engine its bytes do not pass through this process: the engine reads them when
/// they leave. Where it does not take a file they are read here, and the kernel's connections send it by
/// sendfile(2).
pub struct File {
    file: OwnedFd,
    session: Session,
    /// What the engine has, if it takes the file. Another engine is shown it anew.
    shown: Mutex<Option<RegisteredFile>>,
}

impl Context {
    /// Registers a regular file, open for reading. It is duplicated, so the program may close its own.
    ///
    /// # Errors
    /// `EINVAL`: it is no regular file. `EMFILE`: there are no more descriptors.
    pub fn register_file(&self, file: BorrowedFd<'_>) -> Result<File, Errno> {
        if FileType::from_raw_mode(fstat(file)?.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        let file = rustix::io::fcntl_dupfd_cloexec(file, 0)?;
        let shown = self.session.register_file(file.as_fd()).ok();
        Ok(File {
            file,
            session: self.session.clone(),
            shown: Mutex::new(shown),
        })
    }
}

impl File {
    /// Whether the engine reads it.
    pub fn is_offloaded(&self) -> bool {
        self.shown
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// How many bytes it has now.
    ///
    /// # Errors
    /// The kernel's.
    pub fn size(&self) -> Result<u64, Errno> {
        let size = fstat(&self.file)?.st_size;
        u64::try_from(size).map_err(|_| Errno::OVERFLOW)
    }

    pub(crate) fn send(
        &self,
        stream: &mut Stream,
        offset: u64,
        len: usize,
        more: bool,
    ) -> Result<usize, Errno> {
        let left = self.size()?.saturating_sub(offset);
        let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
        if len == 0 {
            return Ok(0);
        }
        if let Stream::Engine(socket) = &*stream {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(file) = &*shown {
                match socket.send_registered_file(file, offset, len, more) {
                    // The engine that had it is gone. The next send finds out whether this one takes it.
                    Err(Errno::STALE) => {
                        *shown = self.session.register_file(self.file.as_fd()).ok();
                    }
                    Err(Errno::OPNOTSUPP) => {}
                    sent => return sent,
                }
            }
        }
        stream.send_file(self.file.as_fd(), offset, len, more)
    }
}
