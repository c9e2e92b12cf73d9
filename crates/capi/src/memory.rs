//! Registered memory.

use std::ptr;
use std::sync::{RwLock, RwLockReadGuard};

use libc::{c_int, c_void, size_t};
use native::{Errno, Memory};

use crate::context::ObContext;
use crate::queue::{ObQueue, within};
use crate::{code, descriptor, number};

/// `ob_memory`. Empty only while it is being given back.
pub struct ObMemory {
    memory: RwLock<Option<Memory>>,
    data: *mut c_void,
    len: usize,
}

/// Registered memory while a call uses it: it is not given back meanwhile.
pub(crate) struct Held<'a>(RwLockReadGuard<'a, Option<Memory>>);

impl ObMemory {
    fn new(memory: Memory) -> Result<Box<Self>, Errno> {
        let bytes = memory.bytes()?;
        let (data, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len());
        Ok(Box::new(Self {
            memory: RwLock::new(Some(memory)),
            data,
            len,
        }))
    }

    /// It, for a call that uses it.
    ///
    /// # Errors
    /// `EINVAL`: it is being given back. Nobody waits for that, so that nobody looks at it afterwards.
    pub(crate) fn hold(&self) -> Result<Held<'_>, Errno> {
        self.memory.try_read().map(Held).map_err(|_| Errno::INVAL)
    }
}

impl Held<'_> {
    pub(crate) fn get(&self) -> Result<&Memory, Errno> {
        self.0.as_ref().ok_or(Errno::INVAL)
    }
}

/// See outboard.h.
///
/// # Safety
/// `context` is NULL or a context, `out` NULL or room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_register(
    context: *const ObContext,
    len: size_t,
    out: *mut *mut ObMemory,
) -> c_int {
    // SAFETY: as the caller promises.
    let Some(context) = (unsafe { context.as_ref() }).filter(|_| !out.is_null()) else {
        return number(Errno::INVAL);
    };
    let registered = context.0.register(len).and_then(ObMemory::new);
    // SAFETY: `out` is room for a pointer.
    code(registered.map(|memory| unsafe { out.write(Box::into_raw(memory)) }))
}

/// See outboard.h.
///
/// # Safety
/// As for [`ob_register`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_register_memfd(
    context: *const ObContext,
    fd: c_int,
    offset: u64,
    len: size_t,
    out: *mut *mut ObMemory,
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
    let registered = context.0.register_memfd(fd, offset, len);
    let registered = registered.and_then(ObMemory::new);
    // SAFETY: `out` is room for a pointer.
    code(registered.map(|memory| unsafe { out.write(Box::into_raw(memory)) }))
}

/// See outboard.h.
///
/// # Safety
/// `memory` is NULL or was registered and not given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_memory_data(memory: *const ObMemory) -> *mut c_void {
    // SAFETY: as the caller promises.
    unsafe { memory.as_ref() }.map_or(ptr::null_mut(), |memory| memory.data)
}

/// See outboard.h.
///
/// # Safety
/// As for [`ob_memory_data`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_memory_len(memory: *const ObMemory) -> size_t {
    // SAFETY: as the caller promises.
    unsafe { memory.as_ref() }.map_or(0, |memory| memory.len)
}

/// See outboard.h.
///
/// # Safety
/// As for [`ob_memory_data`]; it is not used again unless the result is `-EBUSY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_unregister(memory: *mut ObMemory) -> c_int {
    // SAFETY: as the caller promises.
    let Some(held) = (unsafe { memory.as_ref() }) else {
        return number(Errno::INVAL);
    };
    {
        // Calls that are under way with it end first.
        let Ok(mut place) = held.memory.try_write() else {
            return number(Errno::BUSY);
        };
        if let Some(given) = place.take()
            && let Err((back, errno)) = given.unregister()
        {
            *place = Some(back);
            return number(errno);
        }
    }
    // SAFETY: it was made by `ob_register`, and is not used again.
    drop(unsafe { Box::from_raw(memory) });
    0
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `memory` NULL or registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_tell_when_free(
    queue: *mut ObQueue,
    memory: *const ObMemory,
    cookie: u64,
) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe {
        let memory = memory.as_ref().ok_or(Errno::INVAL);
        within(queue, |inside| {
            let memory = memory?.hold()?;
            inside.queue.tell_when_free(memory.get()?, cookie);
            Ok(())
        })
    })
}
