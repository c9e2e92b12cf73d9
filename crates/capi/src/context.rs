//! Attaching.

use std::ffi::{CStr, c_char};

use libc::{c_int, size_t, sockaddr, socklen_t};
use native::{Context, Errno, KernelSockets, Mode};

use crate::{address, code, number};

/// `OB_BY_EPOLL` and `OB_BY_IO_URING`, which are added to a mode.
const BY_EPOLL: c_int = 0x10;
const BY_IO_URING: c_int = 0x20;

/// `ob_context`.
pub struct ObContext(pub(crate) Context);

/// See outboard.h.
///
/// # Safety
/// `out` points to room for a pointer; the strings are NULL or end with a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_attach(
    out: *mut *mut ObContext,
    engine: *const c_char,
    program: *const c_char,
    mode: c_int,
) -> c_int {
    if out.is_null() {
        return number(Errno::INVAL);
    }
    let by = match mode & (BY_EPOLL | BY_IO_URING) {
        0 => None,
        BY_EPOLL => Some(KernelSockets::Epoll),
        BY_IO_URING => Some(KernelSockets::IoUring),
        _ => return number(Errno::INVAL),
    };
    let mode = match mode & !(BY_EPOLL | BY_IO_URING) {
        0 => Mode::Any,
        1 => Mode::Engine,
        2 => Mode::Kernel,
        _ => return number(Errno::INVAL),
    };
    // SAFETY: as the caller promises.
    let (engine, program) = unsafe { (text(engine, "default"), text(program, "")) };
    let attached = Context::attach(&engine, &program, mode);
    let attached = attached.and_then(|context| match by {
        Some(by) => context.with_kernel_sockets(by),
        None => Ok(context),
    });
    code(attached.map(|context| {
        // SAFETY: `out` is room for a pointer.
        unsafe { out.write(Box::into_raw(Box::new(ObContext(context)))) };
    }))
}

/// A string, or `otherwise` for NULL.
///
/// # Safety
/// It is NULL or ends with a 0.
unsafe fn text(from: *const c_char, otherwise: &str) -> String {
    if from.is_null() {
        return otherwise.to_owned();
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_string_lossy().into_owned()
}

/// See outboard.h.
///
/// # Safety
/// `context` is NULL or one that was attached and not detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_detach(context: *mut ObContext) {
    if !context.is_null() {
        // SAFETY: it was made by `ob_attach`, and is not used again.
        drop(unsafe { Box::from_raw(context) });
    }
}

/// See outboard.h.
///
/// # Safety
/// As for [`ob_detach`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_is_attached(context: *const ObContext) -> c_int {
    // SAFETY: as the caller promises.
    let context = unsafe { context.as_ref() };
    context
        .is_some_and(|context| context.0.is_attached())
        .into()
}

/// See outboard.h.
///
/// # Safety
/// As for [`ob_detach`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_why_detached(context: *const ObContext) -> c_int {
    // SAFETY: as the caller promises.
    let Some(context) = (unsafe { context.as_ref() }) else {
        return number(Errno::INVAL);
    };
    context.0.why_not_attached().map_or(0, number)
}

/// See outboard.h.
///
/// # Safety
/// As for [`ob_detach`]; `address` points to `len` bytes, `why` is NULL or points to `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_can_offload(
    context: *const ObContext,
    address: *const sockaddr,
    len: socklen_t,
    why: *mut c_char,
    size: size_t,
) -> c_int {
    // SAFETY: as the caller promises.
    let (context, remote) = unsafe { (context.as_ref(), address::read(address, len)) };
    let (Some(context), remote) = (context, remote) else {
        return number(Errno::INVAL);
    };
    match remote.and_then(|remote| context.0.can_offload(remote)) {
        Ok(Ok(())) => 1,
        Ok(Err(reason)) => {
            if !why.is_null() && size > 0 {
                let len = reason.len().min(size - 1);
                // SAFETY: `why` has room for `size` bytes.
                unsafe {
                    std::ptr::copy_nonoverlapping(reason.as_ptr(), why.cast(), len);
                    why.add(len).write(0);
                }
            }
            0
        }
        Err(errno) => number(errno),
    }
}
