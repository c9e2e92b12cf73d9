//! Queues: their making, and the one call at a time in each.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::c_int;
use native::{Errno, Handle, Queue, Waker};
use rustix::fd::AsRawFd;
use slotmap::{Key, KeyData};

use crate::context::ObContext;
use crate::spans::Spans;
use crate::{code, number};

/// What a queue has for C.
pub(crate) struct Inside {
    pub(crate) queue: Queue,
    pub(crate) spans: Spans,
    pub(crate) events: Vec<native::Event>,
    /// What tells its handles from other queues'.
    mark: u64,
}

/// How many queues were made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A mark in the highest bits of a handle, which count how often one place was used, and are 0 until that was half a
/// million times. They tell 4,096 queues in turn apart.
fn next_mark() -> u64 {
    MADE.fetch_add(1, Ordering::Relaxed) << 52
}

/// `ob_queue`.
pub struct ObQueue {
    /// A call is under way.
    busy: AtomicBool,
    inside: UnsafeCell<Inside>,
    waker: Waker,
    fd: c_int,
}

/// Says that no call is under way any more.
struct Leave<'a>(&'a AtomicBool);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Does something in a queue.
///
/// # Errors
/// `EINVAL`: it is NULL. `EBUSY`: another call is under way in it.
///
/// # Safety
/// `queue` is NULL or a queue that was made and not freed.
pub(crate) unsafe fn within<R>(
    queue: *const ObQueue,
    act: impl FnOnce(&mut Inside) -> Result<R, Errno>,
) -> Result<R, Errno> {
    // SAFETY: as the caller promises.
    let queue = unsafe { queue.as_ref() }.ok_or(Errno::INVAL)?;
    if queue.busy.swap(true, Ordering::Acquire) {
        return Err(Errno::BUSY);
    }
    let _leave = Leave(&queue.busy);
    // SAFETY: the flag lets one call in, and `act` cannot come here again with the same queue.
    act(unsafe { &mut *queue.inside.get() })
}

impl Inside {
    /// The handle behind C's number. Of another queue's number it is one that this queue does not have.
    pub(crate) fn handle(&self, number: u64) -> Handle {
        KeyData::from_ffi(number ^ self.mark).into()
    }

    /// C's number for a handle.
    pub(crate) fn number(&self, handle: Handle) -> u64 {
        match handle.is_null() {
            true => 0,
            false => handle.data().as_ffi() ^ self.mark,
        }
    }
}

/// See outboard.h.
///
/// # Safety
/// `context` is NULL or a context, `out` NULL or room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_queue_new(context: *const ObContext, out: *mut *mut ObQueue) -> c_int {
    // SAFETY: as the caller promises.
    let Some(context) = (unsafe { context.as_ref() }).filter(|_| !out.is_null()) else {
        return number(Errno::INVAL);
    };
    code(context.0.queue().map(|queue| {
        let made = ObQueue {
            busy: AtomicBool::new(false),
            waker: queue.waker(),
            fd: queue.fd().as_raw_fd(),
            inside: UnsafeCell::new(Inside {
                queue,
                spans: Spans::default(),
                events: Vec::new(),
                mark: next_mark(),
            }),
        };
        // SAFETY: `out` is room for a pointer.
        unsafe { out.write(Box::into_raw(Box::new(made))) };
    }))
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, in which no call is under way and which is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_queue_free(queue: *mut ObQueue) {
    if !queue.is_null() {
        // SAFETY: it was made by `ob_queue_new`, and is not used again.
        drop(unsafe { Box::from_raw(queue) });
    }
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_wake(queue: *const ObQueue) -> c_int {
    // SAFETY: as the caller promises; the waker may be used at any time.
    let Some(queue) = (unsafe { queue.as_ref() }) else {
        return number(Errno::INVAL);
    };
    queue.waker.wake();
    0
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_queue_fd(queue: *const ObQueue) -> c_int {
    // SAFETY: as the caller promises; the number never changes.
    unsafe { queue.as_ref() }.map_or(number(Errno::INVAL), |queue| queue.fd)
}
