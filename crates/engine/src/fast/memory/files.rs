//! Files that sessions send from: the engine's own openings of them, which the slow half makes and closes.
//!
//! They are read only by calls that do not wait (`RWF_NOWAIT`), and never mapped by whoever has packets
//! to see to: a page that is not in memory, or that was cut off, is then an answer and not a fault. Memory
//! files have no such calls: they are read by the ordinary ones, as regions are, which are memory files too.

use core::sync::atomic::AtomicU8;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use queue_pair::{read_in, read_in_now};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

use super::ahead::Readers;

/// A file that is open for the engine alone. The last reference goes in the slow half, and there it is not closed but
/// handed to who has time for that: closing the last opening of a file that was removed gives its blocks back, and a
/// file system in user space answers when it likes.
#[derive(Debug)]
pub struct OpenFile {
    opened: Arc<Opened>,
    /// A memory file.
    is_memory: bool,
    closes: Option<Sender<Arc<Opened>>>,
}

/// What is to be closed of a file.
#[derive(Debug)]
pub struct Opened {
    file: OwnedFd,
    /// Whose it is. It counts among his for as long as it is open.
    place: Arc<u32>,
}

impl Opened {
    /// Whose it is.
    pub fn uid(&self) -> u32 {
        *self.place
    }
}

/// Why not all that was wanted of a file was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// So many bytes behind the first, it is not in memory.
    Away(usize),
    /// The file is shorter by now, or cannot be read.
    Gone,
}

impl OpenFile {
    /// One that counts at `place`, which says whose it is.
    pub fn new(file: OwnedFd, is_memory: bool, place: Arc<u32>) -> Self {
        Self {
            opened: Arc::new(Opened { file, place }),
            is_memory,
            closes: None,
        }
    }

    /// The same, to be closed by who gets it there.
    #[must_use]
    pub fn closed_by(mut self, closes: Sender<Arc<Opened>>) -> Self {
        self.closes = Some(closes);
        self
    }

    /// Fills `to` from `offset` on, without waiting for a disk.
    pub fn read(&self, to: &mut [u8], offset: u64) -> Result<(), Lack> {
        if self.is_memory {
            return read_all(to.len(), |at| {
                pread(self, &mut to[at..], offset + at as u64)
            });
        }
        read_all(to.len(), |at| {
            let mut rest = [IoSliceMut::new(&mut to[at..])];
            preadv2(self, &mut rest, offset + at as u64, ReadWriteFlags::NOWAIT)
        })
    }

    /// The same into memory that is seen as an area.
    pub fn read_in(&self, to: &[AtomicU8], offset: u64) -> Result<(), Lack> {
        read_all(to.len(), |at| {
            let (rest, from) = (&to[at..], offset + at as u64);
            match self.is_memory {
                true => read_in(rest, self, Some(from)),
                false => read_in_now(rest, self, from),
            }
        })
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.opened.file.as_fd()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let Some(closes) = &self.closes {
            // Where nobody gets it any more, the engine ends.
            let _ = closes.send(Arc::clone(&self.opened));
        }
    }
}

/// Reads by `read`, which is told how much has been read.
fn read_all(len: usize, mut read: impl FnMut(usize) -> Result<usize, Errno>) -> Result<(), Lack> {
    let mut at = 0;
    while at < len {
        match read(at) {
            Ok(0) => return Err(Lack::Gone),
            Ok(more) => at += more,
            Err(Errno::AGAIN) => return Err(Lack::Away(at)),
            Err(Errno::INTR) => {}
            Err(_) => return Err(Lack::Gone),
        }
    }
    Ok(())
}

/// A file that a session sends from.
#[derive(Debug)]
pub struct Held {
    /// The file.
    pub file: Arc<OpenFile>,
    /// For whom it is read ahead.
    pub readers: Readers,
}

/// The files of a session, by the names that it knows.
#[derive(Debug, Default)]
pub struct Files(Vec<Option<Held>>);

impl Files {
    /// The most files of one session: what an [extent](super::Memory::extent_of_file) can name.
    pub const MOST: usize = 1 << 11;

    /// One more; its name.
    ///
    /// # Errors
    /// There are as many as can be named, and this one comes back.
    pub fn add(&mut self, file: Arc<OpenFile>) -> Result<u16, Arc<OpenFile>> {
        let free = self.0.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.0.len());
        if slot >= Self::MOST {
            return Err(file);
        }
        if slot == self.0.len() {
            self.0.push(None);
        }
        let readers = Readers::default();
        self.0[slot] = Some(Held { file, readers });
        Ok(slot as u16)
    }

    /// The file with a name.
    #[inline]
    pub fn get(&self, name: u16) -> Option<&Held> {
        self.0.get(usize::from(name))?.as_ref()
    }

    /// The same, to note who reads it.
    pub fn get_mut(&mut self, name: u16) -> Option<&mut Held> {
        self.0.get_mut(usize::from(name))?.as_mut()
    }

    /// Takes one out.
    pub fn take(&mut self, name: u16) -> Option<Arc<OpenFile>> {
        Some(self.0.get_mut(usize::from(name))?.take()?.file)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn open(name: &str, bytes: &[u8]) -> (std::path::PathBuf, OpenFile) {
        let path = std::env::temp_dir().join(format!("outboard-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).expect("written");
        let file = std::fs::File::open(&path).expect("readable");
        (path, OpenFile::new(file.into(), false, Arc::default()))
    }

    #[test]
    fn a_file_is_read_as_far_as_it_goes() {
        let (path, file) = open("read", b"0123456789");
        let mut bytes = [0; 4];
        let read = file.read(&mut bytes, 3);
        if preadv2(&file, &mut [], 0, ReadWriteFlags::NOWAIT) == Err(Errno::OPNOTSUPP) {
            let place = path.display();
            let said = format!("SKIPPED: nothing in {place} is read without waiting\n");
            let _ = std::io::stderr().write_all(said.as_bytes());
            return;
        }
        assert_eq!(read, Ok(()));
        assert_eq!(&bytes, b"3456");
        assert_eq!(file.read(&mut bytes, 7), Err(Lack::Gone));
        assert_eq!(file.read(&mut bytes, u64::MAX - 8), Err(Lack::Gone));
        std::fs::write(&path, b"01").expect("shorter");
        assert_eq!(file.read(&mut bytes, 0), Err(Lack::Gone));
        std::fs::remove_file(path).expect("there");
        assert_eq!(file.read(&mut bytes[..2], 0), Ok(()), "it is still open");
    }

    #[test]
    fn names_are_used_again_and_run_out() {
        let (path, file) = open("names", b"");
        let file = Arc::new(file);
        std::fs::remove_file(path).expect("there");
        let mut files = Files::default();
        for name in 0..Files::MOST {
            assert_eq!(files.add(Arc::clone(&file)).ok(), Some(name as u16));
        }
        let refused = files.add(Arc::clone(&file));
        assert!(refused.is_err_and(|it| Arc::ptr_eq(&it, &file)));
        assert!(files.take(7).is_some() && files.get(7).is_none());
        assert!(files.take(7).is_none());
        assert_eq!(files.add(file).ok(), Some(7));
        assert!(files.get(u16::MAX).is_none());
    }
}
