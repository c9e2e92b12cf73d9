//! A file that is read here and there.

use std::io;
use std::path::Path;

use object::read::ReadCacheOps;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// A file, and where it is read next.
pub struct File {
    fd: OwnedFd,
    at: u64,
}

impl File {
    pub fn open(path: &Path) -> io::Result<Self> {
        // A FIFO would wait for who writes into it.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { fd, at: 0 })
    }

    /// Its first `N` bytes, or all of them if there are fewer.
    pub fn begin<const N: usize>(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; N];
        let count = pread(&self.fd, &mut bytes, 0)?;
        bytes.truncate(count);
        Ok(bytes)
    }
}

/// Reads as many bytes as there are, up to as many as there is room for.
fn pread(fd: &OwnedFd, bytes: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pread(fd, &mut bytes[done..], at + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

impl ReadCacheOps for File {
    fn len(&mut self) -> Result<u64, ()> {
        let about = rustix::fs::fstat(&self.fd).map_err(|_| ())?;
        u64::try_from(about.st_size).map_err(|_| ())
    }

    fn seek(&mut self, position: u64) -> Result<u64, ()> {
        self.at = position;
        Ok(position)
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ()> {
        let count = pread(&self.fd, bytes, self.at).map_err(|_| ())?;
        self.at += count as u64;
        Ok(count)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), ()> {
        match self.read(bytes) {
            Ok(count) if count == bytes.len() => Ok(()),
            _ => Err(()),
        }
    }
}
