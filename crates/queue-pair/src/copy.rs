//! Bulk copies between private memory and memory that the other side can write.
//!
//! These are raw copies, not a loop over atomics: that would cost several times as much, since no
//! compiler widens atomic accesses. The bytes of a shared area are never behind a `&[u8]`; they are
//! copied once, and whatever was copied is what counts from then on. If the other process writes
//! them meanwhile, the copy holds a mixture of old and new bytes, every one of which is a valid
//! `u8`; that write is not made by a thread of this program, so it is no data race in it. Within
//! one process the owner of an area keeps its own writers and readers of the same bytes apart, as
//! the rings do: a range is read only after the descriptor that names it was taken.

use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU8;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::RecvFlags;

/// Copies `bytes` to the beginning of `to`.
///
/// # Panics
/// `to` is shorter than `bytes`.
pub fn copy_in(to: &[AtomicU8], bytes: &[u8]) {
    let to = &to[..bytes.len()];
    // SAFETY: both ranges have `bytes.len()` bytes; atomics may be written through a shared
    // reference; `bytes` is private memory, so they do not overlap. For what may write at the same
    // time, see the module's documentation.
    unsafe {
        core::ptr::copy_nonoverlapping(
            bytes.as_ptr(),
            to.as_ptr().cast::<u8>().cast_mut(),
            bytes.len(),
        );
    }
}

/// Fills `out` from the beginning of `from`.
///
/// # Panics
/// `from` is shorter than `out`.
pub fn copy_out(from: &[AtomicU8], out: &mut [u8]) {
    let from = &from[..out.len()];
    // SAFETY: both ranges have `out.len()` bytes, and `out` is exclusively ours, so they do not
    // overlap. For what may write `from` at the same time, see the module's documentation.
    unsafe {
        core::ptr::copy_nonoverlapping(from.as_ptr().cast::<u8>(), out.as_mut_ptr(), out.len());
    }
}

/// Copies all of `from` to the beginning of `to`; both may be memory that others write.
///
/// # Panics
/// `to` is shorter than `from`.
pub fn copy_across(to: &[AtomicU8], from: &[AtomicU8]) {
    let to = &to[..from.len()];
    // SAFETY: both ranges have `from.len()` bytes; atomics may be written through a shared reference;
    // they may overlap. For what may access them at the same time, see the module's documentation.
    unsafe {
        core::ptr::copy(
            from.as_ptr().cast::<u8>(),
            to.as_ptr().cast::<u8>().cast_mut(),
            from.len(),
        );
    }
}

/// Reads from a file straight into `to`: from `offset`, or from where the file stands. Returns how
/// many bytes were read; 0 is the end of the file, unless `to` is empty.
///
/// # Errors
/// The kernel's.
pub fn read_in(to: &[AtomicU8], fd: impl AsFd, offset: Option<u64>) -> Result<usize, Errno> {
    let at = to.as_ptr().cast::<MaybeUninit<u8>>().cast_mut();
    // SAFETY: the range is that of `to`. The reference ends in the call, which only takes it apart
    // into the pointer and length for the kernel: no Rust code reads or writes through it. For what
    // may access the bytes at the same time, see the module's documentation.
    let to = unsafe { core::slice::from_raw_parts_mut(at, to.len()) };
    let (read, _) = match offset {
        Some(offset) => rustix::io::pread(fd, to, offset)?,
        None => rustix::io::read(fd, to)?,
    };
    Ok(read.len())
}

/// Private memory as memory that others may write.
pub fn as_shared(bytes: &mut [u8]) -> &[AtomicU8] {
    let at = core::ptr::from_mut(bytes) as *const [AtomicU8];
    // SAFETY: an `AtomicU8` has the size, alignment and values of a `u8`. Nobody else has the bytes while they are
    // borrowed, so none of them is accessed in another way meanwhile.
    unsafe { &*at }
}

/// Receives from a socket straight into `to`. Returns how many bytes were received; 0 is the end of the stream,
/// unless `to` is empty.
///
/// # Errors
/// The kernel's.
pub fn receive_in(to: &[AtomicU8], fd: impl AsFd, flags: RecvFlags) -> Result<usize, Errno> {
    let at = to.as_ptr().cast::<MaybeUninit<u8>>().cast_mut();
    // SAFETY: the range is that of `to`. The reference ends in the call, which only takes it apart
    // into the pointer and length for the kernel: no Rust code reads or writes through it. For what
    // may access the bytes at the same time, see the module's documentation.
    let to = unsafe { core::slice::from_raw_parts_mut(at, to.len()) };
    let ((received, _), _) = rustix::net::recv(fd, to, flags)?;
    Ok(received.len())
}

/// Reads from `offset` of a file straight into `to` what is in memory: nothing is waited for, though the
/// kernel may begin to fetch what is not. Returns how many bytes were read; 0 is the end of the file, unless
/// `to` is empty.
///
/// # Errors
/// `EAGAIN`: the first byte is not in memory. `EOPNOTSUPP`: the file system cannot do that. Others: the
/// kernel's.
pub fn read_in_now(to: &[AtomicU8], fd: impl AsFd, offset: u64) -> Result<usize, Errno> {
    let at = to.as_ptr().cast::<u8>().cast_mut();
    // SAFETY: the range is that of `to`, and its bytes are always initialised. The reference ends in the
    // call, which only takes it apart into the pointer and length for the kernel: no Rust code reads or
    // writes through it. For what may access the bytes at the same time, see the module's documentation.
    let to = unsafe { core::slice::from_raw_parts_mut(at, to.len()) };
    let mut one = [std::io::IoSliceMut::new(to)];
    rustix::io::preadv2(fd, &mut one, offset, rustix::io::ReadWriteFlags::NOWAIT)
}

/// So many stretches are written at once, at most: 64 KB, where each is of a page.
pub const GATHERED: usize = 16;

/// Writes what the first [`GATHERED`] of these stretches hold to a file, one after another, from where that stands.
/// Returns how many bytes it took.
///
/// # Errors
/// The kernel's.
pub fn write_out(from: &[&[AtomicU8]], fd: impl AsFd) -> Result<usize, Errno> {
    let mut gathered = [std::io::IoSlice::new(&[]); GATHERED];
    let count = from.len().min(GATHERED);
    for (place, from) in gathered.iter_mut().zip(from) {
        // SAFETY: the range is that of `from`. The reference ends in the call below, which only takes it apart
        // into the pointer and length for the kernel: no Rust code reads through it. For what may write
        // the bytes at the same time, see the module's documentation.
        let bytes = unsafe { core::slice::from_raw_parts(from.as_ptr().cast::<u8>(), from.len()) };
        *place = std::io::IoSlice::new(bytes);
    }
    rustix::io::writev(fd, &gathered[..count])
}
