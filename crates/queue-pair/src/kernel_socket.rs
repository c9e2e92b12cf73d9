//! What sockets of the kernel's are asked that has no safe call elsewhere.

use core::ffi::c_int;
use core::sync::atomic::AtomicU8;

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::ioctl::{Getter, ioctl};
use rustix::net::SendFlags;

/// SIOCOUTQ.
const OUTQ: rustix::ioctl::Opcode = 0x5411;

/// Sends what `from` holds on a socket of the kernel's; without a signal if the other end is gone.
/// Returns how many bytes it took.
///
/// # Errors
/// The kernel's.
pub fn send_out(from: &[AtomicU8], fd: impl AsFd, more: bool) -> Result<usize, Errno> {
    let mut flags = SendFlags::NOSIGNAL;
    flags.set(SendFlags::MORE, more);
    // SAFETY: the range is that of `from`. The reference ends in the call, which only takes it apart
    // into the pointer and length for the kernel: no Rust code reads through it. For what may write
    // the bytes at the same time, see `copy`.
    let bytes = unsafe { core::slice::from_raw_parts(from.as_ptr().cast::<u8>(), from.len()) };
    rustix::net::send(fd, bytes, flags)
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
