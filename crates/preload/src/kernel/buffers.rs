//! The program's buffers, as the slices that `host` copies from and to.
//!
//! A wrong address is a segmentation fault here where the kernel would say EFAULT: the copy
//! happens in the program, so the fault does too.

use core::ffi::{c_int, c_void};
use libc::iovec;
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};

/// The kernel's UIO_MAXIOV.
const MOST_PARTS: usize = 1024;

/// The kernel moves at most this many bytes a call (MAX_RW_COUNT).
pub const MOST: usize = 0x7fff_f000;

/// What to send from.
pub enum Parts<'a> {
    One([IoSlice<'a>; 1]),
    Many(Vec<IoSlice<'a>>),
}

impl<'a> Parts<'a> {
    /// # Safety
    /// `length` bytes at `buffer` are readable as long as the value lives.
    #[inline(always)]
    pub unsafe fn one(buffer: *const c_void, length: usize) -> Self {
        // SAFETY: as the caller promises.
        Self::One([IoSlice::new(unsafe { bytes(buffer, length) })])
    }

    /// # Safety
    /// `parts` points to `count` parts of readable bytes, as long as the value lives.
    pub unsafe fn list(parts: *const iovec, count: c_int) -> Result<Self, Errno> {
        // SAFETY: as the caller promises.
        let parts = unsafe { vectors(parts, count)? };
        if let [only] = parts {
            // SAFETY: as the caller promises.
            return Ok(unsafe { Self::one(only.iov_base, only.iov_len) });
        }
        // SAFETY: as the caller promises.
        let slices = parts
            .iter()
            .map(|part| IoSlice::new(unsafe { bytes(part.iov_base, part.iov_len) }));
        Ok(Self::Many(slices.collect()))
    }

    pub fn slices(&self) -> &[IoSlice<'a>] {
        match self {
            Self::One(part) => part,
            Self::Many(parts) => parts,
        }
    }

    pub fn total(&self) -> usize {
        self.slices().iter().map(|part| part.len()).sum()
    }
}

/// What to receive into.
pub enum PartsMut<'a> {
    One([IoSliceMut<'a>; 1]),
    Many(Vec<IoSliceMut<'a>>),
}

impl<'a> PartsMut<'a> {
    /// # Safety
    /// `length` bytes at `buffer` are writable as long as the value lives, and nobody else uses
    /// them meanwhile.
    #[inline(always)]
    pub unsafe fn one(buffer: *mut c_void, length: usize) -> Self {
        // SAFETY: as the caller promises.
        Self::One([IoSliceMut::new(unsafe { bytes_mut(buffer, length) })])
    }

    /// # Safety
    /// `parts` points to `count` parts of writable bytes, as long as the value lives, and nobody
    /// else uses them meanwhile.
    pub unsafe fn list(parts: *const iovec, count: c_int) -> Result<Self, Errno> {
        // SAFETY: as the caller promises.
        let parts = unsafe { vectors(parts, count)? };
        // SAFETY: as the caller promises.
        let slices = parts
            .iter()
            .map(|part| IoSliceMut::new(unsafe { bytes_mut(part.iov_base, part.iov_len) }));
        Ok(Self::Many(slices.collect()))
    }

    pub fn slices(&mut self) -> &mut [IoSliceMut<'a>] {
        match self {
            Self::One(part) => part,
            Self::Many(parts) => parts,
        }
    }

    pub fn total(&self) -> usize {
        match self {
            Self::One([part]) => part.len(),
            Self::Many(parts) => parts.iter().map(|part| part.len()).sum(),
        }
    }
}

/// The program's list of parts, checked as the kernel does.
///
/// # Safety
/// `parts` points to `count` parts for `'a`.
unsafe fn vectors<'a>(parts: *const iovec, count: c_int) -> Result<&'a [iovec], Errno> {
    let count = usize::try_from(count)
        .ok()
        .filter(|&count| count <= MOST_PARTS)
        .ok_or(Errno::INVAL)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: as the caller promises.
    let parts = unsafe { core::slice::from_raw_parts(parts, count) };
    let total = parts
        .iter()
        .try_fold(0usize, |total, part| total.checked_add(part.iov_len));
    match total {
        Some(total) if isize::try_from(total).is_ok() => Ok(parts),
        _ => Err(Errno::INVAL),
    }
}

/// # Safety
/// `length` bytes at `buffer` are readable for `'a`; of a length of 0 the address may be anything.
unsafe fn bytes<'a>(buffer: *const c_void, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { core::slice::from_raw_parts(buffer.cast(), length.min(MOST)) }
}

/// # Safety
/// `length` bytes at `buffer` are writable for `'a`, and nobody else uses them meanwhile; of a
/// length of 0 the address may be anything.
unsafe fn bytes_mut<'a>(buffer: *mut c_void, length: usize) -> &'a mut [u8] {
    if length == 0 {
        return &mut [];
    }
    // SAFETY: as the caller promises. What the bytes were before is never read.
    unsafe { core::slice::from_raw_parts_mut(buffer.cast(), length.min(MOST)) }
}
