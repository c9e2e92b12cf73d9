//! The calls that move bytes. Their safety is that of `calls`.

use core::ffi::{c_int, c_void};

use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use sim::script::Errno;
use sim::sockets::Refusal;

use super::memory::{bytes, host, pieces, put, put_address, result};
use crate::numbers::Object;

/// Reads into pieces of memory.
///
/// # Safety
/// As of the calls; every piece is valid for writing.
unsafe fn receive(userdata: *mut c_void, fd: c_int, into: &[iovec], flags: c_int) -> ssize_t {
    // SAFETY: as this function demands.
    let host = unsafe { host(userdata) };
    let room = into.iter().map(|piece| piece.iov_len).sum();
    let received = host.call(
        |state| match state.numbers.find(fd)? {
            Object::ReadEnd(pipe) => {
                let bytes = state.pipes[pipe].peek(room)?;
                state.pipes[pipe].consume(bytes.len());
                Ok(bytes)
            }
            object => state.sockets.receive(object.socket()?, room, flags),
        },
        None,
    );
    let received = received.map(|bytes| {
        let bytes = bytes.unwrap_or_default();
        let mut at = 0;
        for piece in into {
            // SAFETY: as this function demands.
            at += unsafe { put(&bytes[at..], piece.iov_base, piece.iov_len) };
        }
        at as i64
    });
    result(received) as ssize_t
}

/// Writes bytes: all of them, if the socket blocks.
///
/// # Safety
/// As of the calls.
unsafe fn transmit(userdata: *mut c_void, fd: c_int, data: &[u8], flags: c_int) -> ssize_t {
    // SAFETY: as this function demands.
    let host = unsafe { host(userdata) };
    let mut sent = 0;
    let done = host.call(
        |state| {
            let object = state.numbers.find(fd)?;
            let blocking = match object {
                Object::Socket(fd) => {
                    !*state.sockets.non_blocking(fd)? && flags & libc::MSG_DONTWAIT == 0
                }
                _ => true,
            };
            loop {
                let rest = &data[sent..];
                let taken = match object {
                    Object::WriteEnd(pipe) => state.pipes[pipe].write(rest),
                    _ => state.sockets.send(object.socket()?, rest, flags),
                };
                match taken {
                    Ok(taken) => sent += taken,
                    // What was taken is what counts.
                    Err(Refusal::Error(_)) if sent > 0 => return Ok(()),
                    Err(refusal) => return Err(refusal),
                }
                if sent == data.len() || !blocking {
                    return Ok(());
                }
            }
        },
        None,
    );
    result(done.map(|_| sent as i64)) as ssize_t
}

fn one(base: *mut c_void, len: size_t) -> [iovec; 1] {
    [iovec {
        iov_base: base,
        iov_len: len,
    }]
}

pub(super) unsafe extern "C" fn read(
    userdata: *mut c_void,
    fd: c_int,
    into: *mut c_void,
    len: size_t,
) -> ssize_t {
    // SAFETY: as of all calls.
    unsafe { receive(userdata, fd, &one(into, len), 0) }
}

pub(super) unsafe extern "C" fn readv(
    userdata: *mut c_void,
    fd: c_int,
    into: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: as of all calls.
    unsafe { receive(userdata, fd, &pieces(into, count.max(0) as usize), 0) }
}

pub(super) unsafe extern "C" fn recv(
    userdata: *mut c_void,
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as of all calls.
    unsafe { receive(userdata, fd, &one(into, len), flags) }
}

pub(super) unsafe extern "C" fn recvfrom(
    userdata: *mut c_void,
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: as of all calls.
    unsafe {
        let received = receive(userdata, fd, &one(into, len), flags);
        let mut state = host(userdata).lock();
        let peer = state.find(fd).and_then(|fd| state.sockets.names(fd));
        if let Ok((_, Some(peer))) = peer
            && received >= 0
        {
            put_address(peer, from, from_len);
        }
        received
    }
}

pub(super) unsafe extern "C" fn recvmsg(
    userdata: *mut c_void,
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    if message.is_null() {
        return result(Err(Errno::EFAULT)) as ssize_t;
    }
    // SAFETY: as of all calls.
    unsafe {
        let header = &mut *message;
        header.msg_controllen = 0;
        header.msg_flags = 0;
        receive(
            userdata,
            fd,
            &pieces(header.msg_iov, header.msg_iovlen),
            flags,
        )
    }
}

pub(super) unsafe extern "C" fn write(
    userdata: *mut c_void,
    fd: c_int,
    data: *const c_void,
    len: size_t,
) -> ssize_t {
    // SAFETY: as of all calls.
    unsafe { transmit(userdata, fd, &bytes(data, len), 0) }
}

pub(super) unsafe extern "C" fn writev(
    userdata: *mut c_void,
    fd: c_int,
    from: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: as of all calls.
    unsafe { transmit(userdata, fd, &gathered(from, count.max(0) as usize), 0) }
}

pub(super) unsafe extern "C" fn send(
    userdata: *mut c_void,
    fd: c_int,
    data: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as of all calls.
    unsafe { transmit(userdata, fd, &bytes(data, len), flags) }
}

/// The address is ignored, as by TCP.
pub(super) unsafe extern "C" fn sendto(
    userdata: *mut c_void,
    fd: c_int,
    data: *const c_void,
    len: size_t,
    flags: c_int,
    _to: *const sockaddr,
    _to_len: socklen_t,
) -> ssize_t {
    // SAFETY: as of all calls.
    unsafe { transmit(userdata, fd, &bytes(data, len), flags) }
}

pub(super) unsafe extern "C" fn sendmsg(
    userdata: *mut c_void,
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    if message.is_null() {
        return result(Err(Errno::EFAULT)) as ssize_t;
    }
    // SAFETY: as of all calls.
    unsafe {
        let header = &*message;
        let data = gathered(header.msg_iov, header.msg_iovlen);
        transmit(userdata, fd, &data, flags)
    }
}

/// The bytes of a vector, in a row.
///
/// # Safety
/// `from` is valid for reading `count` pieces, and each piece for reading.
unsafe fn gathered(from: *const iovec, count: usize) -> Vec<u8> {
    // SAFETY: as this function demands.
    let pieces = unsafe { pieces(from, count) };
    pieces
        .iter()
        // SAFETY: as this function demands.
        .flat_map(|piece| unsafe { bytes(piece.iov_base, piece.iov_len) })
        .collect()
}
