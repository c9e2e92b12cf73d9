//! Registered files.

use libc::{c_int, c_uint, size_t, ssize_t};
use native::{Errno, File};

use crate::context::ObContext;
use crate::queue::{ObQueue, within};
use crate::send::How;
use crate::{code, count, descriptor, number};

/// `ob_file`.
pub struct ObFile(File);

/// See outboard.h.
///
/// # Safety
/// `context` is NULL or a context, `out` NULL or room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_register_file(
    context: *const ObContext,
    fd: c_int,
    out: *mut *mut ObFile,
) -> c_int {
    // SAFETY: as the caller promises.
    let Some(context) = (unsafe { context.as_ref() }).filter(|_| !out.is_null()) else {
        return number(Errno::INVAL);
    };
    // SAFETY: the borrow ends in the call.
    let fd = match unsafe { descriptor(fd) } {
        Ok(fd) => fd,
        Err(errno) => return number(errno),
    };
    let registered = context.0.register_file(fd).map(|file| {
        // SAFETY: `out` is room for a pointer.
        unsafe { out.write(Box::into_raw(Box::new(ObFile(file)))) };
    });
    code(registered)
}

/// See outboard.h.
///
/// # Safety
/// `file` is NULL or was registered and not given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_file_is_offloaded(file: *const ObFile) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { file.as_ref() }.map_or(0, |file| c_int::from(file.0.is_offloaded()))
}

/// See outboard.h.
///
/// # Safety
/// As for [`ob_file_is_offloaded`]; it is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_unregister_file(file: *mut ObFile) {
    if !file.is_null() {
        // SAFETY: it was made by `ob_register_file`, and is not used again.
        drop(unsafe { Box::from_raw(file) });
    }
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `file` NULL or registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_send_registered_file(
    queue: *mut ObQueue,
    number: u64,
    file: *const ObFile,
    offset: u64,
    len: size_t,
    flags: c_uint,
    cookie: u64,
) -> ssize_t {
    // SAFETY: as the caller promises.
    count(unsafe {
        within(queue, |inside| {
            let how = How::new(flags, cookie)?;
            let file = &file.as_ref().ok_or(Errno::INVAL)?.0;
            let handle = inside.handle(number);
            inside
                .queue
                .send_registered_file(handle, file, offset, len, how.more, how.back)
        })
    })
}
