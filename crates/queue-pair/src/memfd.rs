//! Memory files whose size is sealed: no part of a mapping of them is ever behind their end. Their pages
//! are another matter: see [`lost`](crate::lost).

use crate::Violation;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use std::io;

/// What a memory must have: nobody can change its size, nor lift that.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// `statfs(2)` says this of memory files of ordinary pages (linux/magic.h).
const TMPFS: i64 = 0x0102_1994;

/// Why a memory that was received is not usable.
#[derive(Debug, thiserror::Error)]
pub enum MemfdError {
    /// The other side sent something that cannot be trusted.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The kernel refused.
    #[error("the memory cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// Creates a memory file of `len` zero bytes, sealed. `name` shows in `/proc/PID/maps`.
///
/// # Errors
/// The kernel's, when it has no memory or no descriptor to give.
pub fn create(name: &str, len: u64) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3 there is no such flag, and no setting of the machine that asks for it.
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
        other => other?,
    };
    rustix::fs::ftruncate(&fd, len)?;
    rustix::fs::fcntl_add_seals(&fd, SEALS)?;
    Ok(fd)
}

/// How long a memory file of a program's own is at least, whatever becomes of it: nobody can make it shorter.
///
/// # Errors
/// `EINVAL`: it is no memory file, or one of huge pages. `EPERM`: it is not sealed against shrinking.
pub fn least_size(fd: impl AsFd) -> Result<u64, Errno> {
    // Of what is no memory file nothing more is asked: it may be a program that answers.
    let seals = rustix::fs::fcntl_get_seals(&fd)?;
    if rustix::fs::fstatfs(&fd)?.f_type != TMPFS {
        return Err(Errno::INVAL);
    }
    if !seals.contains(SealFlags::SHRINK) {
        return Err(Errno::PERM);
    }
    // The seal came first, so this is the least.
    let stat = rustix::fs::fstat(&fd)?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

/// Checks that nobody can change the size of a received memory any more, and returns that size.
/// Whoever receives a memory does this first: one that can shrink turns every access into a fault.
///
/// # Errors
/// It is not sealed, or not a memory file at all.
pub fn verify(fd: impl AsFd) -> Result<u64, MemfdError> {
    let seals = rustix::fs::fcntl_get_seals(&fd).map_err(io::Error::from)?;
    if !seals.contains(SEALS) {
        return Err(Violation::Unsealed {
            found: seals.bits(),
            wanted: SEALS.bits(),
        }
        .into());
    }
    // The seals came first, so this size is final.
    let stat = rustix::fs::fstat(&fd).map_err(io::Error::from)?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}
