//! read and write in all their forms, sendfile and splice.

use core::ffi::{c_int, c_uint, c_void};
use libc::{iovec, off_t, size_t, ssize_t};
use rustix::io::Errno;

use super::{blocking, kernel, points};
use crate::calls::stream;
use crate::kernel::buffers::{Parts, PartsMut};
use crate::kernel::raw::libc_return;

points! {
    fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
        match stream::of(fd) {
            None => blocking!(
                read(fd => c_int, buffer => *mut c_void, length => size_t) -> ssize_t,
                kernel!(SYS_read, fd, buffer, length)
            ),
            // As in System V, reading nothing does nothing.
            Some(_) if length == 0 => 0,
            // SAFETY: the program gives `length` writable bytes at `buffer`.
            Some(stream) => libc_return(unsafe { stream.receive_into(buffer, length, 0) }),
        }
    }

    fn __read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
        // SAFETY: as `read`.
        unsafe { read(fd, buffer, length) }
    }

    fn __read_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t {
        refuse_overflow(length, room);
        // SAFETY: as `read`.
        unsafe { read(fd, buffer, length) }
    }

    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        let Some(stream) = stream::of(fd) else {
            return blocking!(
                readv(fd => c_int, parts => *const iovec, count => c_int) -> ssize_t,
                kernel!(SYS_readv, fd, parts, count)
            );
        };
        // SAFETY: the program gives `count` parts, each of writable bytes.
        match unsafe { PartsMut::list(parts, count) } {
            Err(error) => libc_return(Err(error)),
            Ok(parts) if parts.total() == 0 => 0,
            Ok(mut parts) => libc_return(stream.receive(&mut parts, 0)),
        }
    }

    fn recv(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t {
        match stream::of(fd) {
            None => blocking!(
                recv(fd => c_int, buffer => *mut c_void, length => size_t, flags => c_int) -> ssize_t,
                kernel!(SYS_recvfrom, fd, buffer, length, flags, 0usize, 0usize)
            ),
            // SAFETY: the program gives `length` writable bytes at `buffer`.
            Some(stream) => libc_return(unsafe { stream.receive_into(buffer, length, flags) }),
        }
    }

    fn __recv(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t {
        // SAFETY: as `recv`.
        unsafe { recv(fd, buffer, length, flags) }
    }

    fn __recv_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t, flags: c_int) -> ssize_t {
        refuse_overflow(length, room);
        // SAFETY: as `recv`.
        unsafe { recv(fd, buffer, length, flags) }
    }

    fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
        match stream::of(fd) {
            None => blocking!(
                write(fd => c_int, buffer => *const c_void, length => size_t) -> ssize_t,
                kernel!(SYS_write, fd, buffer, length)
            ),
            // SAFETY: the program gives `length` readable bytes at `buffer`.
            Some(stream) => libc_return(unsafe { stream.send_from(buffer, length, 0) }),
        }
    }

    fn __write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
        // SAFETY: as `write`.
        unsafe { write(fd, buffer, length) }
    }

    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        let Some(stream) = stream::of(fd) else {
            return blocking!(
                writev(fd => c_int, parts => *const iovec, count => c_int) -> ssize_t,
                kernel!(SYS_writev, fd, parts, count)
            );
        };
        // SAFETY: the program gives `count` parts, each of readable bytes.
        match unsafe { Parts::list(parts, count) } {
            Err(error) => libc_return(Err(error)),
            // A vector of nothing does not come to the socket.
            Ok(parts) if parts.total() == 0 => 0,
            Ok(parts) => libc_return(stream.send(&parts, 0)),
        }
    }

    fn send(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t {
        match stream::of(fd) {
            None => blocking!(
                send(fd => c_int, buffer => *const c_void, length => size_t, flags => c_int) -> ssize_t,
                kernel!(SYS_sendto, fd, buffer, length, flags, 0usize, 0usize)
            ),
            // SAFETY: the program gives `length` readable bytes at `buffer`.
            Some(stream) => libc_return(unsafe { stream.send_from(buffer, length, flags) }),
        }
    }

    fn __send(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t {
        // SAFETY: as `send`.
        unsafe { send(fd, buffer, length, flags) }
    }

    fn sendfile(out: c_int, file: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        if let Some(source) = stream::of(file) {
            return libc_return(stream::send_from_stream(out, &source, offset, count));
        }
        match stream::of(out) {
            None => kernel!(SYS_sendfile, out, file, offset, count),
            // SAFETY: `offset` is null or the program's own variable.
            Some(stream) => libc_return(stream.send_file(file, unsafe { offset.as_mut() }, count)),
        }
    }

    fn sendfile64(out: c_int, file: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        // SAFETY: as `sendfile`: off_t has 64 bits on these machines.
        unsafe { sendfile(out, file, offset, count) }
    }

    fn splice(
        from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t,
        length: size_t, flags: c_uint,
    ) -> ssize_t {
        if stream::of(from).is_none() && stream::of(to).is_none() {
            return blocking!(
                splice(
                    from => c_int, from_offset => *mut off_t, to => c_int, to_offset => *mut off_t,
                    length => size_t, flags => c_uint
                ) -> ssize_t,
                kernel!(SYS_splice, from, from_offset, to, to_offset, length, flags)
            );
        }
        libc_return(stream::splice((from, from_offset), (to, to_offset), length, flags))
    }

    fn preadv2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        let stream = stream::of(fd).filter(|_| offset == WITHOUT_POSITION);
        let Some(stream) = stream else {
            return blocking!(
                preadv2(
                    fd => c_int, parts => *const iovec, count => c_int, offset => off_t, flags => c_int
                ) -> ssize_t,
                kernel!(SYS_preadv2, fd, parts, count, offset, 0usize, flags)
            );
        };
        // SAFETY: the program gives `count` parts, each of writable bytes.
        match unsafe { PartsMut::list(parts, count) } {
            Err(error) => libc_return(Err(error)),
            Ok(parts) if parts.total() == 0 => 0,
            Ok(mut parts) => libc_return(
                message_flags(flags).and_then(|flags| stream.receive(&mut parts, flags)),
            ),
        }
    }

    fn preadv64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        // SAFETY: as `preadv2`: off_t has 64 bits on these machines.
        unsafe { preadv2(fd, parts, count, offset, flags) }
    }

    fn pwritev2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        let stream = stream::of(fd).filter(|_| offset == WITHOUT_POSITION);
        let Some(stream) = stream else {
            return blocking!(
                pwritev2(
                    fd => c_int, parts => *const iovec, count => c_int, offset => off_t, flags => c_int
                ) -> ssize_t,
                kernel!(SYS_pwritev2, fd, parts, count, offset, 0usize, flags)
            );
        };
        // SAFETY: the program gives `count` parts, each of readable bytes.
        match unsafe { Parts::list(parts, count) } {
            Err(error) => libc_return(Err(error)),
            Ok(parts) if parts.total() == 0 => 0,
            Ok(parts) => {
                libc_return(message_flags(flags).and_then(|flags| stream.send(&parts, flags)))
            }
        }
    }

    fn pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        // SAFETY: as `pwritev2`: off_t has 64 bits on these machines.
        unsafe { pwritev2(fd, parts, count, offset, flags) }
    }
}

/// preadv2 and pwritev2 are readv and writev with flags, if this is the position. With another, the
/// kernel says of a socket, as of what is behind the number, that it has none.
const WITHOUT_POSITION: off_t = -1;

/// No SIGPIPE, since Linux 6.18.
const RWF_NOSIGNAL: c_int = 0x100;

/// Flags of preadv2 and pwritev2 as those of a message. What is about files has no effect on a socket.
fn message_flags(flags: c_int) -> Result<c_int, Errno> {
    let idle = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_APPEND;
    if flags & !(idle | libc::RWF_NOWAIT | RWF_NOSIGNAL) != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let as_flag = |set: c_int, flag: c_int| if flags & set != 0 { flag } else { 0 };
    Ok(as_flag(libc::RWF_NOWAIT, libc::MSG_DONTWAIT) | as_flag(RWF_NOSIGNAL, libc::MSG_NOSIGNAL))
}

/// What `_FORTIFY_SOURCE` asks of the checked names: never write past the buffer.
pub(super) fn refuse_overflow(length: size_t, room: size_t) {
    if length > room {
        // glibc's own report and end for this.
        unsafe extern "C" {
            fn __chk_fail() -> !;
        }
        // SAFETY: takes nothing and does not return.
        unsafe { __chk_fail() }
    }
}
