//! Taking what has happened.

use std::time::Duration;

use libc::c_int;
use native::Errno;

use crate::queue::{Inside, ObQueue, within};
use crate::{code, number};

/// `ob_event`.
#[repr(C)]
pub struct ObEvent {
    kind: u32,
    error: i32,
    handle: u64,
    cookie: u64,
    bytes: u64,
}

const _: () = assert!(size_of::<ObEvent>() == 32);

/// Takes events into `out`.
///
/// # Safety
/// `out` points to room for `most` events.
unsafe fn take(
    inside: &mut Inside,
    out: *mut ObEvent,
    most: c_int,
    limit: Option<Duration>,
) -> Result<c_int, Errno> {
    let room = usize::try_from(most).map_err(|_| Errno::INVAL)?;
    if room == 0 || out.is_null() {
        return Err(Errno::INVAL);
    }
    let Inside { queue, events, .. } = &mut *inside;
    queue.wait(events, room, limit)?;
    for (at, event) in inside.events.iter().enumerate() {
        let event = ObEvent {
            kind: event.kind as u32,
            error: event.error,
            handle: inside.number(event.handle),
            cookie: event.cookie,
            bytes: event.bytes,
        };
        // SAFETY: there are at most `room` of them.
        unsafe { out.add(at).write(event) };
    }
    Ok(inside.events.len() as c_int)
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `events` NULL or room for `most` events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_poll(queue: *mut ObQueue, events: *mut ObEvent, most: c_int) -> c_int {
    // SAFETY: as the caller promises.
    let taken = unsafe {
        within(queue, |inside| {
            take(inside, events, most, Some(Duration::ZERO))
        })
    };
    taken.unwrap_or_else(number)
}

/// See outboard.h.
///
/// # Safety
/// As for [`ob_poll`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_wait(
    queue: *mut ObQueue,
    events: *mut ObEvent,
    most: c_int,
    milliseconds: c_int,
) -> c_int {
    let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    // SAFETY: as the caller promises.
    let taken = unsafe { within(queue, |inside| take(inside, events, most, limit)) };
    taken.unwrap_or_else(number)
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_arm(queue: *mut ObQueue) -> c_int {
    // SAFETY: as the caller promises.
    match unsafe { within(queue, |inside| inside.queue.arm()) } {
        Ok(None) => -1,
        // Rounded up: a limit below a millisecond is not "not at all".
        Ok(Some(limit)) => c_int::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX),
        // -1 is EPERM, which arming does not meet.
        Err(errno) => number(errno),
    }
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_disarm(queue: *mut ObQueue) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe {
        within(queue, |inside| {
            inside.queue.disarm();
            Ok(())
        })
    })
}
