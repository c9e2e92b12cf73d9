//! Reading and writing, in every way that there is.

use super::made::named;
use crate::errors::{last, value};
use differ::outcome::{Outcome, step_tag, text};
use differ::program::{Flag, ReceiveBy, SendBy, Slot};
use differ::setting::MOST;
use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::null_mut;

fn bits(flags: &[Flag]) -> c_int {
    flags.iter().fold(0, |bits, flag| {
        bits | match flag {
            Flag::DontWait => libc::MSG_DONTWAIT,
            Flag::Peek => libc::MSG_PEEK,
            Flag::WaitAll => libc::MSG_WAITALL,
            Flag::Truncate => libc::MSG_TRUNC,
            Flag::More => libc::MSG_MORE,
        }
    })
}

/// Those of preadv2 and pwritev2.
fn as_write_flags(flags: c_int) -> c_int {
    if flags & libc::MSG_DONTWAIT != 0 {
        libc::RWF_NOWAIT
    } else {
        0
    }
}

/// Two pieces of memory, of which the first is the smaller.
fn two(base: *mut u8, length: usize) -> [libc::iovec; 2] {
    let first = length / 3;
    [
        libc::iovec {
            iov_base: base.cast(),
            iov_len: first,
        },
        libc::iovec {
            iov_base: base.wrapping_add(first).cast(),
            iov_len: length - first,
        },
    ]
}

fn message(pieces: &mut [libc::iovec; 2]) -> libc::msghdr {
    // SAFETY: integers and pointers, for which null is good.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = pieces.as_mut_ptr();
    header.msg_iovlen = pieces.len();
    header
}

pub fn receive(fd: c_int, most: u32, by: ReceiveBy, flags: &[Flag]) -> Outcome {
    let most = most.min(MOST) as usize;
    let mut room = vec![0u8; most];
    let base: *mut c_void = room.as_mut_ptr().cast();
    let mut pieces = two(room.as_mut_ptr(), most);
    let flags = bits(flags);
    let mut said = 0;
    // SAFETY: in each case the room, or its two pieces, with their lengths; the messages outlive
    // the calls.
    let read = unsafe {
        match by {
            ReceiveBy::Read => libc::read(fd, base, most),
            ReceiveBy::Readv => libc::readv(fd, pieces.as_ptr(), 2),
            ReceiveBy::Preadv2 => libc::preadv2(fd, pieces.as_ptr(), 2, -1, as_write_flags(flags)),
            ReceiveBy::Recv => libc::recv(fd, base, most, flags),
            ReceiveBy::Recvfrom => libc::recvfrom(fd, base, most, flags, null_mut(), null_mut()),
            ReceiveBy::Recvmsg => {
                let mut header = message(&mut pieces);
                let read = libc::recvmsg(fd, &raw mut header, flags);
                said = header.msg_flags;
                read
            }
            ReceiveBy::Recvmmsg => {
                let mut batch: libc::mmsghdr = zeroed();
                batch.msg_hdr = message(&mut pieces);
                let count = libc::recvmmsg(fd, &raw mut batch, 1, flags, null_mut());
                said = batch.msg_hdr.msg_flags;
                match count {
                    1 => batch.msg_len as isize,
                    other => other as isize,
                }
            }
        }
    };
    if read < 0 {
        return last();
    }
    // More than there is room for: MSG_TRUNC counts what it drops.
    let bytes = &room[..(read as usize).min(most)];
    if flags & libc::MSG_TRUNC != 0 {
        return Outcome::Value(read as i64);
    }
    // The close-on-exec flag is an echo of what was asked for.
    let said = said & (libc::MSG_TRUNC | libc::MSG_CTRUNC | libc::MSG_OOB);
    Outcome::Data(bytes.iter().map(|&byte| char::from(byte)).collect(), said)
}

pub fn send(step: usize, fd: c_int, length: u32, by: SendBy, flags: &[Flag]) -> Outcome {
    let mut bytes = text(step_tag(step), 0, length as usize).into_bytes();
    let base: *const c_void = bytes.as_ptr().cast();
    let mut pieces = two(bytes.as_mut_ptr(), bytes.len());
    let flags = bits(flags) | libc::MSG_NOSIGNAL;
    // SAFETY: in each case the bytes, or their two pieces, with their lengths; the messages
    // outlive the calls.
    value(unsafe {
        match by {
            SendBy::Write => libc::write(fd, base, bytes.len()),
            SendBy::Writev => libc::writev(fd, pieces.as_ptr(), 2),
            SendBy::Pwritev2 => libc::pwritev2(fd, pieces.as_ptr(), 2, -1, as_write_flags(flags)),
            SendBy::Send => libc::send(fd, base, bytes.len(), flags),
            SendBy::Sendto => libc::sendto(fd, base, bytes.len(), flags, std::ptr::null(), 0),
            SendBy::Sendmsg => libc::sendmsg(fd, &message(&mut pieces), flags),
            SendBy::Sendmmsg => {
                let mut batch: libc::mmsghdr = zeroed();
                batch.msg_hdr = message(&mut pieces);
                match libc::sendmmsg(fd, &raw mut batch, 1, flags) {
                    1 => batch.msg_len as isize,
                    other => other as isize,
                }
            }
        }
    } as i64)
}

pub fn file(new: Slot, length: u32) -> Outcome {
    // SAFETY: a name that ends in zero.
    let number = unsafe { libc::memfd_create(c"text".as_ptr(), libc::MFD_CLOEXEC) };
    if number < 0 {
        return last();
    }
    let bytes = text('#', 0, length as usize);
    // SAFETY: the bytes and their length.
    let written = unsafe { libc::pwrite(number, bytes.as_ptr().cast(), bytes.len(), 0) };
    assert_eq!(written, bytes.len() as isize, "memory takes all");
    named(new, number)
}

pub fn send_file(fd: c_int, from: c_int, offset: Option<u32>, length: u32) -> Outcome {
    let mut offset = offset.map(i64::from);
    let pointer = offset
        .as_mut()
        .map_or(null_mut(), |offset| &raw mut *offset);
    // SAFETY: the offset, if there is one.
    let sent = unsafe { libc::sendfile(fd, from, pointer, length as usize) };
    match (sent, offset) {
        (..0, _) => last(),
        (sent, Some(offset)) => Outcome::Text(format!("{sent}, offset now {offset}")),
        (sent, None) => Outcome::Value(sent as i64),
    }
}

pub fn tee(from: c_int, to: c_int, length: u32) -> Outcome {
    // SAFETY: takes no pointer.
    value(unsafe { libc::tee(from, to, length as usize, libc::SPLICE_F_NONBLOCK) } as i64)
}

pub fn splice(from: c_int, to: c_int, length: u32, nonblocking: bool) -> Outcome {
    let flags = if nonblocking {
        libc::SPLICE_F_NONBLOCK
    } else {
        0
    };
    // SAFETY: no offsets.
    value(unsafe { libc::splice(from, null_mut(), to, null_mut(), length as usize, flags) } as i64)
}
