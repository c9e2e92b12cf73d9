//! Values of options between the program's memory, the kernel and us.

use core::ffi::{c_int, c_void};
use core::mem::size_of;

use libc::{linger, socklen_t, timeval};
use rustix::io::Errno;

use crate::kernel::raw::{result, sys};

/// What options hold: integers and structures of integers.
///
/// # Safety
/// Any bytes are a value.
pub unsafe trait Plain: Copy {}

// SAFETY: made of integers.
unsafe impl Plain for c_int {}
// SAFETY: an integer.
unsafe impl Plain for u8 {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}
// SAFETY: made of integers.
unsafe impl Plain for linger {}
// SAFETY: made of integers.
unsafe impl Plain for timeval {}
// SAFETY: made of integers.
unsafe impl Plain for libc::tcp_info {}
// SAFETY: made of integers.
unsafe impl Plain for [u8; 16] {}

// SAFETY: made of integers.
unsafe impl<const N: usize> Plain for [u32; N] {}

/// The value of an option that the program sets.
///
/// # Safety
/// `length` bytes at `value` are readable.
pub unsafe fn read<T: Plain>(value: *const c_void, length: socklen_t) -> Result<T, Errno> {
    if (length as usize) < size_of::<T>() {
        return Err(Errno::INVAL);
    }
    if value.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

/// The value of an option of IP's, which may be a byte, or nothing for 0.
///
/// # Safety
/// `length` bytes at `value` are readable.
pub unsafe fn read_byte_or_integer(
    value: *const c_void,
    length: socklen_t,
) -> Result<c_int, Errno> {
    match length {
        0 => Ok(0),
        _ if value.is_null() => Err(Errno::FAULT),
        // SAFETY: as the caller promises.
        1..4 => Ok(unsafe { value.cast::<u8>().read() }.into()),
        // SAFETY: as the caller promises.
        _ => unsafe { read(value, length) },
    }
}

/// Writes an integer that is an option of `level`, each of which has its own way with too little room.
///
/// # Safety
/// `value` and `length` are the program's buffer and its length.
pub unsafe fn write_integer(
    level: c_int,
    answer: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> Result<(), Errno> {
    // SAFETY: as the caller promises.
    let Some(room) = (unsafe { length.as_mut() }) else {
        return Err(Errno::FAULT);
    };
    match (level, u8::try_from(answer)) {
        (libc::IPPROTO_IP, Ok(byte)) if (1..4).contains(room) => {
            *room = 1;
            // SAFETY: as the caller promises.
            unsafe { write(&byte, value, length) }
        }
        (libc::IPPROTO_IPV6, _) => {
            *room = (*room).min(size_of::<c_int>() as socklen_t);
            // SAFETY: as the caller promises.
            unsafe { write(&answer, value, length) }
        }
        // SAFETY: as the caller promises.
        _ => unsafe { write(&answer, value, length) },
    }
}

/// Writes as much of `answer` as there is room for, and how much that is.
///
/// # Safety
/// `value` and `length` are the program's buffer and its length.
pub unsafe fn write<T: Plain>(
    answer: &T,
    value: *mut c_void,
    length: *mut socklen_t,
) -> Result<(), Errno> {
    // SAFETY: as the caller promises.
    let Some(length) = (unsafe { length.as_mut() }) else {
        return Err(Errno::FAULT);
    };
    let room = usize::try_from(*length as c_int).map_err(|_| Errno::INVAL)?;
    let size = room.min(size_of::<T>());
    if size > 0 && value.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: within the answer and the program's room.
    unsafe {
        core::ptr::copy_nonoverlapping(core::ptr::from_ref(answer).cast::<u8>(), value.cast(), size)
    };
    *length = size as socklen_t;
    Ok(())
}

/// An option of the kernel's socket.
pub fn kernel_value<T: Plain>(fd: c_int, level: c_int, name: c_int) -> Result<T, Errno> {
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes; any bytes are a `T`, zeros too.
    unsafe {
        result(sys!(
            libc::SYS_getsockopt,
            fd,
            level,
            name,
            value.as_mut_ptr(),
            &raw mut length
        ))?;
        Ok(value.assume_init())
    }
}
