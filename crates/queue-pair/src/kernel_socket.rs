//! What sockets of the kernel's are asked that has no safe call elsewhere.

use core::ffi::c_int;
use core::sync::atomic::AtomicU8;
use std::io::IoSlice;

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::ioctl::{Getter, ioctl};
use rustix::net::{SendAncillaryBuffer, SendFlags};

/// SIOCOUTQ.
const OUTQ: rustix::ioctl::Opcode = 0x5411;

/// SIOCOUTQNSD.
const OUTQNSD: rustix::ioctl::Opcode = 0x894b;

/// Sends what `parts` hold, one after the other, on a socket of the kernel's; without a signal if the
/// other end is gone. Returns how many bytes it took.
///
/// # Errors
/// The kernel's: it takes 1024 parts at a time.
pub fn send_out(parts: &[&[AtomicU8]], fd: impl AsFd, more: bool) -> Result<usize, Errno> {
    let mut flags = SendFlags::NOSIGNAL;
    flags.set(SendFlags::MORE, more);
    let bytes = |part: &&[AtomicU8]| {
        // SAFETY: the range is that of `part`. The reference ends with this call, in which it is only
        // taken apart into the pointer and length for the kernel: no Rust code reads through it. For
        // what may write the bytes at the same time, see `copy`.
        IoSlice::new(unsafe { core::slice::from_raw_parts(part.as_ptr().cast::<u8>(), part.len()) })
    };
    if let [part] = parts {
        return rustix::net::send(fd, &bytes(part), flags);
    }
    let parts: Vec<_> = parts.iter().map(bytes).collect();
    rustix::net::sendmsg(fd, &parts, &mut SendAncillaryBuffer::default(), flags)
}

/// Bytes that a TCP socket has taken and that have not left once; a FIN counts as one.
///
/// # Errors
/// The kernel's, as for a socket that listens.
pub fn unsent(fd: impl AsFd) -> Result<u64, Errno> {
    // SAFETY: the kernel writes one `c_int` for this request, and reads nothing.
    let bytes = unsafe { ioctl(fd, Getter::<OUTQNSD, c_int>::new()) }?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Bytes that a TCP socket has taken and its peer has not acknowledged; a FIN counts as one.
///
/// # Errors
/// The kernel's, as for a socket that listens.
pub fn unacknowledged(fd: impl AsFd) -> Result<u64, Errno> {
    // SAFETY: the kernel writes one `c_int` for this request, and reads nothing.
    let bytes = unsafe { ioctl(fd, Getter::<OUTQ, c_int>::new()) }?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}
