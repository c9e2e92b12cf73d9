//! Sending.

use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU8;

use libc::{c_int, c_uint, c_void, iovec, size_t, ssize_t};
use native::Errno;

use crate::memory::ObMemory;
use crate::queue::{ObQueue, Span, handle, of_span, span, within};
use crate::receive::ObSpan;
use crate::{code, count, number};

const MORE: c_uint = 1;
const ASYNC: c_uint = 4;

/// What the flags of a send say.
pub(crate) struct How {
    pub(crate) more: bool,
    pub(crate) cookie: Option<u64>,
}

impl How {
    pub(crate) fn new(flags: c_uint, cookie: u64) -> Result<Self, Errno> {
        if flags & !(MORE | ASYNC) != 0 {
            return Err(Errno::INVAL);
        }
        Ok(Self {
            more: flags & MORE != 0,
            cookie: (flags & ASYNC != 0).then_some(cookie),
        })
    }
}

/// The bytes of a program. They may be those of a view or of registered memory, which the engine can
/// write at any time: so they are never taken for bytes that stay as they are.
///
/// # Safety
/// `data` is NULL or points to `len` bytes.
unsafe fn bytes<'a>(data: *const c_void, len: size_t) -> Result<&'a [AtomicU8], Errno> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno::INVAL),
        (false, _) if isize::try_from(len).is_ok() => {
            // SAFETY: as the caller promises. No object is larger than isize::MAX. They are only read.
            Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
        }
        _ => Err(Errno::INVAL),
    }
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `data` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_send(
    queue: *mut ObQueue,
    number: u64,
    data: *const c_void,
    len: size_t,
    flags: c_uint,
    cookie: u64,
) -> ssize_t {
    // SAFETY: as the caller promises.
    count(unsafe {
        within(queue, |inside| {
            let how = How::new(flags, cookie)?;
            inside
                .queue
                .send_from(handle(number), bytes(data, len)?, how.more, how.cookie)
        })
    })
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `parts` points to `count` parts, and each to its bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_sendv(
    queue: *mut ObQueue,
    number: u64,
    parts: *const iovec,
    part_count: c_int,
    flags: c_uint,
    cookie: u64,
) -> ssize_t {
    // SAFETY: as the caller promises.
    count(unsafe {
        within(queue, |inside| {
            let how = How::new(flags, cookie)?;
            let part_count = usize::try_from(part_count).map_err(|_| Errno::INVAL)?;
            if part_count > 0 && parts.is_null() {
                return Err(Errno::INVAL);
            }
            // One cookie for all of them, with the last that is taken.
            let mut sent = 0;
            for at in 0..part_count {
                let part = parts.add(at).read();
                let piece = bytes(part.iov_base, part.iov_len)?;
                let last = at + 1 == part_count;
                let more = how.more || !last;
                let cookie = how.cookie.filter(|_| last);
                match inside.queue.send_from(handle(number), piece, more, cookie) {
                    Ok(taken) => {
                        sent += taken;
                        if taken < piece.len() {
                            break;
                        }
                    }
                    Err(errno) if sent == 0 => return Err(errno),
                    Err(_) => break,
                }
            }
            Ok(sent)
        })
    })
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `memory` NULL or registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_send_registered(
    queue: *mut ObQueue,
    number: u64,
    memory: *const ObMemory,
    offset: size_t,
    len: size_t,
    flags: c_uint,
    cookie: u64,
) -> ssize_t {
    // SAFETY: as the caller promises.
    count(unsafe {
        within(queue, |inside| {
            let how = How::new(flags, cookie)?;
            memory.as_ref().ok_or(Errno::INVAL)?.with(|memory| {
                let handle = handle(number);
                inside
                    .queue
                    .send_registered(handle, memory, offset, len, how.more, how.cookie)
            })
        })
    })
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_send_file(
    queue: *mut ObQueue,
    number: u64,
    fd: c_int,
    offset: u64,
    len: size_t,
    flags: c_uint,
    cookie: u64,
) -> ssize_t {
    if fd < 0 {
        return crate::number(Errno::BADF) as ssize_t;
    }
    // SAFETY: as the caller promises. A number that is no descriptor is refused by the kernel; the
    // borrow ends in the call.
    count(unsafe {
        within(queue, |inside| {
            let how = How::new(flags, cookie)?;
            let file = BorrowedFd::borrow_raw(fd);
            inside
                .queue
                .send_file(handle(number), file, offset, len, how.more, how.cookie)
        })
    })
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `out` NULL or room for a span.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_room(
    queue: *mut ObQueue,
    connection: u64,
    want: size_t,
    out: *mut ObSpan,
) -> c_int {
    if out.is_null() {
        return number(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    let lent = unsafe {
        within(queue, |inside| {
            let owner = handle(connection);
            let room = inside.queue.room(owner, want)?;
            let place = room.bytes()?;
            let (data, len) = (place.as_ptr(), place.len());
            let id = inside.spans.insert((owner, Span::Room(room)));
            Ok(ObSpan::new(data, len, of_span(id)))
        })
    };
    // SAFETY: `out` is room for a span.
    code(lent.map(|lent| unsafe { out.write(lent) }))
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_commit(
    queue: *mut ObQueue,
    room: u64,
    len: size_t,
    flags: c_uint,
    cookie: u64,
) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe {
        within(queue, |inside| {
            let how = How::new(flags, cookie)?;
            let id = span(room);
            let Some((_, place @ Span::Room(_))) = inside.spans.get_mut(id) else {
                return Err(Errno::INVAL);
            };
            let Span::Room(given) = std::mem::replace(place, Span::Void) else {
                return Err(Errno::INVAL);
            };
            match inside.queue.commit(given, len, how.more, how.cookie) {
                Err((Some(back), errno)) => {
                    // It stays lent under its number.
                    *place = Span::Room(back);
                    Err(errno)
                }
                Err((None, errno)) => {
                    inside.spans.remove(id);
                    Err(errno)
                }
                Ok(()) => {
                    inside.spans.remove(id);
                    Ok(())
                }
            }
        })
    })
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_abandon(queue: *mut ObQueue, room: u64) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe {
        within(queue, |inside| {
            let id = span(room);
            match inside.spans.get(id) {
                Some((_, Span::Room(_))) => {
                    inside.spans.remove(id);
                    Ok(())
                }
                _ => Err(Errno::INVAL),
            }
        })
    })
}
