//! Sending.

use std::sync::atomic::AtomicU8;

use libc::{c_int, c_uint, c_void, iovec, size_t, ssize_t};
use native::{Back, Errno, Handle, Piece};

use crate::memory::ObMemory;
use crate::queue::{Inside, ObQueue, within};
use crate::receive::ObSpan;
use crate::spans::Span;
use crate::{code, count, descriptor, number};

const MORE: c_uint = 1;
const ASYNC: c_uint = 4;
const LEFT: c_uint = 8;

/// What the flags of a send say.
pub(crate) struct How {
    pub(crate) more: bool,
    pub(crate) back: Back,
}

impl How {
    pub(crate) fn new(flags: c_uint, cookie: u64) -> Result<Self, Errno> {
        let back = match flags & !MORE {
            0 => Back::Never,
            ASYNC => Back::Acknowledged(cookie),
            flags if flags == ASYNC | LEFT => Back::Left(cookie),
            _ => return Err(Errno::INVAL),
        };
        let more = flags & MORE != 0;
        Ok(Self { more, back })
    }
}

/// `ob_piece`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ObPiece {
    memory: *const ObMemory,
    offset: size_t,
    len: size_t,
}

/// The parts that C gives, which are no more bytes than one object can have.
///
/// # Safety
/// `parts` is NULL or points to `count` parts.
unsafe fn read_parts<'a, T>(parts: *const T, count: c_int) -> Result<&'a [T], Errno> {
    let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
    match (parts.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno::INVAL),
        // SAFETY: as the caller promises.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(parts, count) }),
    }
}

/// Whether so many bytes can be asked for in one call.
fn check(lens: impl Iterator<Item = usize>) -> Result<(), Errno> {
    let total = lens.fold(0, usize::saturating_add);
    isize::try_from(total).map(drop).map_err(|_| Errno::INVAL)
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
                .send_from(inside.handle(number), bytes(data, len)?, how.more, how.back)
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
            let parts = read_parts(parts, part_count)?;
            check(parts.iter().map(|part| part.iov_len))?;
            let pieces = parts.iter().map(|part| bytes(part.iov_base, part.iov_len));
            let pieces: Vec<_> = pieces.collect::<Result<_, _>>()?;
            inside
                .queue
                .sendv_from(inside.handle(number), &pieces, how.more, how.back)
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
            let memory = memory.as_ref().ok_or(Errno::INVAL)?.hold()?;
            let piece = Piece {
                memory: memory.get()?,
                offset,
                len,
            };
            let handle = inside.handle(number);
            send_pieces(inside, handle, &[piece], &how)
        })
    })
}

/// Sends from registered memory: without a copy if it comes back, and otherwise by copying, since the
/// program would not be told when it may change.
fn send_pieces(
    inside: &mut Inside,
    handle: Handle,
    pieces: &[Piece<'_>],
    how: &How,
) -> Result<usize, Errno> {
    if how.back != Back::Never {
        return inside
            .queue
            .sendv_registered(handle, pieces, how.more, how.back);
    }
    let parts: Vec<_> = pieces.iter().map(Piece::bytes).collect::<Result<_, _>>()?;
    inside.queue.sendv_from(handle, &parts, how.more, how.back)
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `pieces` points to `piece_count` pieces, whose memory is NULL or registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_sendv_registered(
    queue: *mut ObQueue,
    number: u64,
    pieces: *const ObPiece,
    piece_count: c_int,
    flags: c_uint,
    cookie: u64,
) -> ssize_t {
    // SAFETY: as the caller promises.
    count(unsafe {
        within(queue, |inside| {
            let how = How::new(flags, cookie)?;
            let given = read_parts(pieces, piece_count)?;
            check(given.iter().map(|piece| piece.len))?;
            let held = given.iter().map(|piece| {
                let memory = piece.memory.as_ref().ok_or(Errno::INVAL)?;
                memory.hold()
            });
            let held: Vec<_> = held.collect::<Result<_, _>>()?;
            let pieces = given.iter().zip(&held).map(|(piece, memory)| {
                Ok(Piece {
                    memory: memory.get()?,
                    offset: piece.offset,
                    len: piece.len,
                })
            });
            let pieces: Vec<_> = pieces.collect::<Result<_, Errno>>()?;
            let handle = inside.handle(number);
            send_pieces(inside, handle, &pieces, &how)
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
    // SAFETY: the borrow ends in the call.
    let file = match unsafe { descriptor(fd) } {
        Ok(file) => file,
        Err(errno) => return crate::number(errno) as ssize_t,
    };
    // SAFETY: as the caller promises.
    count(unsafe {
        within(queue, |inside| {
            let how = How::new(flags, cookie)?;
            inside
                .queue
                .send_file(inside.handle(number), file, offset, len, how.more, how.back)
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
            let owner = inside.handle(connection);
            let room = inside.queue.room(owner, want)?;
            let place = room.bytes()?;
            let (data, len) = (place.as_ptr(), place.len());
            let id = inside.spans.insert(owner, Span::Room(room));
            Ok(ObSpan::new(data, len, id))
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
            let Some(place @ Span::Room(_)) = inside.spans.get_mut(room) else {
                return Err(Errno::INVAL);
            };
            let Span::Room(given) = std::mem::replace(place, Span::Void) else {
                return Err(Errno::INVAL);
            };
            match inside.queue.commit(given, len, how.more, how.back) {
                Err((Some(back), errno)) => {
                    // It stays lent under its number.
                    *place = Span::Room(back);
                    Err(errno)
                }
                Err((None, errno)) => {
                    inside.spans.remove(room);
                    Err(errno)
                }
                Ok(()) => {
                    inside.spans.remove(room);
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
        within(queue, |inside| match inside.spans.get_mut(room) {
            Some(Span::Room(_)) => {
                inside.spans.remove(room);
                Ok(())
            }
            _ => Err(Errno::INVAL),
        })
    })
}
