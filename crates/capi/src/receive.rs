//! Receiving.

use std::sync::atomic::AtomicU8;

use libc::{c_int, c_uint, c_void, size_t, ssize_t};
use native::Errno;

use crate::memory::ObMemory;
use crate::queue::{ObQueue, within};
use crate::spans::Span;
use crate::{code, count, number};

const PEEK: c_uint = 2;

/// `ob_span`.
#[repr(C)]
pub struct ObSpan {
    data: *mut c_void,
    len: size_t,
    id: u64,
}

impl ObSpan {
    pub(crate) fn new(data: *const AtomicU8, len: usize, id: u64) -> Self {
        Self {
            data: data.cast_mut().cast(),
            len,
            id,
        }
    }
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `data` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_recv(
    queue: *mut ObQueue,
    number: u64,
    data: *mut c_void,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: as the caller promises. They may be those of registered memory, which the engine can write at any
    // time, or never have been written: so they are never taken for bytes of ours, and are only written.
    count(unsafe {
        within(queue, |inside| {
            if flags & !PEEK != 0 || (data.is_null() && len > 0) || isize::try_from(len).is_err() {
                return Err(Errno::INVAL);
            }
            let out = match len {
                0 => &[],
                _ => std::slice::from_raw_parts(data.cast::<AtomicU8>(), len),
            };
            match flags & PEEK {
                0 => inside.queue.recv_into(inside.handle(number), out),
                _ => inside.queue.peek_into(inside.handle(number), out),
            }
        })
    })
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `out` NULL or room for a span.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_view(
    queue: *mut ObQueue,
    connection: u64,
    limit: size_t,
    out: *mut ObSpan,
) -> c_int {
    if out.is_null() {
        return number(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    let shown = unsafe {
        within(queue, |inside| {
            let owner = inside.handle(connection);
            let Some(view) = inside.queue.view(owner, limit)? else {
                return Ok(None);
            };
            let place = view.bytes()?;
            let (data, len) = (place.as_ptr(), place.len());
            let id = inside.spans.insert(owner, Span::View(view));
            Ok(Some(ObSpan::new(data, len, id)))
        })
    };
    match shown {
        Ok(None) => 0,
        Ok(Some(shown)) => {
            // SAFETY: `out` is room for a span.
            unsafe { out.write(shown) };
            1
        }
        Err(errno) => number(errno),
    }
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `memory` NULL or registered memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_post(
    queue: *mut ObQueue,
    number: u64,
    memory: *const ObMemory,
    offset: size_t,
    len: size_t,
    cookie: u64,
) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe {
        let memory = memory.as_ref().ok_or(Errno::INVAL);
        within(queue, |inside| {
            let memory = memory?.hold()?;
            let memory = memory.get()?;
            inside
                .queue
                .post(inside.handle(number), memory, offset, len, cookie)
        })
    })
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_release(queue: *mut ObQueue, view: u64) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe {
        within(queue, |inside| {
            if !matches!(inside.spans.get_mut(view), Some(Span::View(_))) {
                return Err(Errno::INVAL);
            }
            match inside.spans.remove(view) {
                Some(Span::View(view)) => inside.queue.release(view),
                _ => Err(Errno::INVAL),
            }
        })
    })
}
