//! recvfrom, sendto, and the calls with message headers.

use core::ffi::{c_int, c_uint, c_void};
use libc::{mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use rustix::io::Errno;

use super::{blocking, kernel, points};
use crate::calls::stream::{self, Earlier, StreamRef};
use crate::calls::{fast_open, travel};
use crate::kernel::buffers::{Parts, PartsMut};
use crate::kernel::deadline::{Deadline, Patience};
use crate::kernel::raw::libc_return;
use crate::numbers;
use crate::numbers::table;

points! {
    fn recvfrom(
        fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int,
        address: *mut sockaddr, address_length: *mut socklen_t,
    ) -> ssize_t {
        match stream::of(fd) {
            None => blocking!(
                recvfrom(
                    fd => c_int, buffer => *mut c_void, length => size_t, flags => c_int,
                    address => *mut sockaddr, address_length => *mut socklen_t
                ) -> ssize_t,
                kernel!(SYS_recvfrom, fd, buffer, length, flags, address, address_length)
            ),
            Some(stream) => {
                // SAFETY: the program gives `length` writable bytes at `buffer`.
                let received = unsafe { stream.receive_into(buffer, length, flags) };
                // A stream names no sender: the kernel leaves the address alone and says so.
                if received.is_ok() && !address.is_null() && !address_length.is_null() {
                    // SAFETY: the program's own variable.
                    unsafe { *address_length = 0 };
                }
                libc_return(received)
            }
        }
    }

    fn __recvfrom_chk(
        fd: c_int, buffer: *mut c_void, length: size_t, room: size_t, flags: c_int,
        address: *mut sockaddr, address_length: *mut socklen_t,
    ) -> ssize_t {
        super::data::refuse_overflow(length, room);
        // SAFETY: as `recvfrom`.
        unsafe { recvfrom(fd, buffer, length, flags, address, address_length) }
    }

    fn sendto(
        fd: c_int, buffer: *const c_void, length: size_t, flags: c_int,
        address: *const sockaddr, address_length: socklen_t,
    ) -> ssize_t {
        let stream = match first_flight(fd, flags, (address, address_length), length) {
            Ok(stream) => stream,
            Err(error) => return libc_return(Err(error)),
        };
        match stream {
            None => blocking!(
                sendto(
                    fd => c_int, buffer => *const c_void, length => size_t, flags => c_int,
                    address => *const sockaddr, address_length => socklen_t
                ) -> ssize_t,
                kernel!(SYS_sendto, fd, buffer, length, flags, address, address_length)
            ),
            // A connected stream ignores the address, as TCP does in the kernel.
            // SAFETY: the program gives `length` readable bytes at `buffer`.
            Some(stream) => libc_return(unsafe { stream.send_from(buffer, length, flags) }),
        }
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        match stream::of(fd) {
            None => {
                let received = blocking!(
                    recvmsg(fd => c_int, message => *mut msghdr, flags => c_int) -> ssize_t,
                    kernel!(SYS_recvmsg, fd, message, flags)
                );
                if received >= 0 {
                    // SAFETY: the kernel has just filled the program's header.
                    unsafe { numbers_came(message) };
                }
                received
            }
            // SAFETY: the program's own message header.
            Some(stream) => libc_return(unsafe { receive_message(&stream, message, flags, Earlier::Nothing) }),
        }
    }

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        let stream = if flags & libc::MSG_FASTOPEN == 0 || message.is_null() {
            stream::of(fd)
        } else {
            // SAFETY: the program's own message header.
            let to = unsafe { ((*message).msg_name.cast_const().cast(), (*message).msg_namelen) };
            // SAFETY: the same.
            let total = unsafe { total_of(message) };
            match first_flight(fd, flags, to, total) {
                Ok(stream) => stream,
                Err(error) => return libc_return(Err(error)),
            }
        };
        match stream {
            None => {
                // SAFETY: the program's own message header.
                let outgoing = unsafe { travel::outgoing(message) };
                let message = outgoing.as_ref().map_or(message, |it| &raw const it.header);
                blocking!(
                    sendmsg(fd => c_int, message => *const msghdr, flags => c_int) -> ssize_t,
                    kernel!(SYS_sendmsg, fd, message, flags)
                )
            }
            // SAFETY: the program's own message header.
            Some(stream) => libc_return(unsafe { send_message(&stream, message, flags) }),
        }
    }

    fn recvmmsg(
        fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec,
    ) -> c_int {
        let Some(stream) = stream::of(fd) else {
            let received = blocking!(
                recvmmsg(
                    fd => c_int, messages => *mut mmsghdr, count => c_uint, flags => c_int,
                    timeout => *mut timespec
                ) -> c_int,
                kernel!(SYS_recvmmsg, fd, messages, count, flags, timeout)
            );
            for index in 0..usize::try_from(received).unwrap_or(0) {
                // SAFETY: the kernel has just filled so many of the program's headers.
                unsafe { numbers_came(&raw mut (*messages.add(index)).msg_hdr) };
            }
            return received;
        };
        // SAFETY: null or the program's own.
        let mut limit = match TimeOfAll::begin(unsafe { timeout.as_mut() }) {
            Ok(limit) => limit,
            Err(error) => return libc_return(Err(error)) as c_int,
        };
        // This call alone looks for an error before it looks for data.
        if flags & libc::MSG_ERRQUEUE == 0
            && let Some(error) = stream.socket.take_error()
        {
            return libc_return(Err(error)) as c_int;
        }
        let mut flags = flags;
        let wait_for_one = flags & libc::MSG_WAITFORONE != 0;
        flags &= !libc::MSG_WAITFORONE;
        // SAFETY: the program gives `count` message headers.
        libc_return(unsafe {
            each_message(messages, count, |_, _| limit.is_over(), |message, first| {
                let flags = if wait_for_one && !first { flags | libc::MSG_DONTWAIT } else { flags };
                let earlier = if first { Earlier::Nothing } else { Earlier::Something };
                receive_message(&stream, &raw mut (*message).msg_hdr, flags, earlier)
            })
        }) as c_int
    }

    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        if flags & libc::MSG_FASTOPEN != 0 && count > 0 && table::get(fd).is_some_and(|it| it.tcp().is_some()) {
            // A second one finds the connection begun.
            // SAFETY: the program's own message header.
            return unsafe {
                let sent = sendmsg(fd, &raw const (*messages).msg_hdr, flags);
                if sent < 0 {
                    return -1;
                }
                (*messages).msg_len = sent as c_uint;
                1
            };
        }
        let Some(stream) = stream::of(fd) else {
            // SAFETY: the program gives `count` message headers.
            if unsafe { carry(messages, count) } {
                // SAFETY: as above.
                return unsafe { send_several(fd, messages, count, flags) };
            }
            return blocking!(
                sendmmsg(
                    fd => c_int, messages => *mut mmsghdr, count => c_uint, flags => c_int
                ) -> c_int,
                kernel!(SYS_sendmmsg, fd, messages, count, flags)
            );
        };
        // SAFETY: the program gives `count` message headers.
        libc_return(unsafe {
            // What was sent in part is the last: the program goes on from there.
            let in_part = |message: *mut mmsghdr, sent| sent < total_of(&raw const (*message).msg_hdr);
            each_message(messages, count, in_part, |message, _| {
                send_message(&stream, &raw const (*message).msg_hdr, flags)
            })
        }) as c_int
    }

    fn __sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        // SAFETY: as `sendmmsg`.
        unsafe { sendmmsg(fd, messages, count, flags) }
    }
}

/// How many bytes a message has; 0 of one that cannot be.
///
/// # Safety
/// `message` points to a message header whose parts are readable.
unsafe fn total_of(message: *const msghdr) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        let count = c_int::try_from((*message).msg_iovlen).unwrap_or(0);
        Parts::list((*message).msg_iov, count).map_or(0, |parts| parts.total())
    }
}

/// The connection behind `fd`, if it is one of ours; a send with MSG_FASTOPEN begins it.
fn first_flight(
    fd: c_int,
    flags: c_int,
    to: (*const sockaddr, socklen_t),
    total: usize,
) -> Result<Option<StreamRef>, Errno> {
    if flags & libc::MSG_FASTOPEN == 0 {
        return Ok(stream::of(fd));
    }
    // SAFETY: the program gives so many bytes of an address.
    unsafe { fast_open::before_send(fd, to, total, flags) }
}

/// Whether connections are passed by these messages.
///
/// # Safety
/// `messages` points to `count` headers.
unsafe fn carry(messages: *const mmsghdr, count: c_uint) -> bool {
    (0..count.min(MOST_MESSAGES) as usize).any(|index| {
        // SAFETY: within the array that the caller promises.
        unsafe { travel::carries(&raw const (*messages.add(index)).msg_hdr) }
    })
}

/// Messages to whom the kernel delivers them, some of which pass connections: the list is copied.
///
/// # Safety
/// `messages` points to `count` headers.
unsafe fn send_several(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    let count = count.min(MOST_MESSAGES);
    // SAFETY: within the array that the caller promises.
    let header = |index| unsafe { &raw const (*messages.add(index)).msg_hdr };
    // SAFETY: as the caller promises.
    let outgoing = |index| unsafe { travel::outgoing(header(index)) };
    let passed: Vec<Option<travel::Outgoing>> = (0..count as usize).map(outgoing).collect();
    let copy = |(index, passed): (usize, &Option<travel::Outgoing>)| {
        // SAFETY: within the array that the caller promises.
        let mut copy = unsafe { messages.add(index).read() };
        if let Some(passed) = passed {
            copy.msg_hdr = passed.header;
        }
        copy
    };
    let mut copies: Vec<mmsghdr> = passed.iter().enumerate().map(copy).collect();
    let sent = kernel!(SYS_sendmmsg, fd, copies.as_mut_ptr(), count, flags) as c_int;
    for (index, copy) in copies
        .iter()
        .enumerate()
        .take(usize::try_from(sent).unwrap_or(0))
    {
        // SAFETY: within the array that the caller promises.
        unsafe { (*messages.add(index)).msg_len = copy.msg_len };
    }
    sent
}

/// The kernel's UIO_MAXIOV, which bounds the messages of one call.
const MOST_MESSAGES: c_uint = 1024;

/// Descriptors that came with a message are new numbers, and tickets among them connections.
///
/// # Safety
/// `message` points to a header that recvmsg has filled.
unsafe fn numbers_came(message: *mut msghdr) {
    // SAFETY: the kernel has made the list of what came along whole.
    let fds = unsafe { travel::rights(message) };
    travel::arrived(fds.map(|at| {
        // SAFETY: within that list.
        numbers::handed_out(unsafe { at.read_unaligned() })
    }));
}

/// # Safety
/// `message` points to a message header whose parts are writable.
unsafe fn receive_message(
    stream: &StreamRef,
    message: *mut msghdr,
    flags: c_int,
    earlier: Earlier,
) -> Result<usize, Errno> {
    // SAFETY: as the caller promises.
    unsafe {
        let count = c_int::try_from((*message).msg_iovlen).map_err(|_| Errno::MSGSIZE)?;
        if flags & libc::MSG_ERRQUEUE != 0 {
            return stream.receive_notice(message);
        }
        let mut parts = PartsMut::list((*message).msg_iov, count).map_err(too_many)?;
        let received = stream.receive_after(&mut parts, flags, earlier)?;
        // No address, no ancillary data: a stream of ours has neither.
        (*message).msg_namelen = 0;
        (*message).msg_controllen = 0;
        // The kernel says of each message how its descriptors, if any, were to come.
        (*message).msg_flags = flags & libc::MSG_CMSG_CLOEXEC;
        Ok(received)
    }
}

/// # Safety
/// `message` points to a message header whose parts are readable.
unsafe fn send_message(
    stream: &StreamRef,
    message: *const msghdr,
    flags: c_int,
) -> Result<usize, Errno> {
    // SAFETY: as the caller promises.
    unsafe {
        let count = c_int::try_from((*message).msg_iovlen).map_err(|_| Errno::MSGSIZE)?;
        let parts = Parts::list((*message).msg_iov, count).map_err(too_many)?;
        if !(*message).msg_control.is_null() && (*message).msg_controllen != 0 {
            // Descriptors do not travel over TCP, and timestamps and marks are not ours to set.
            stream.unsupported("sendmsg_ancillary_data");
            return Err(Errno::INVAL);
        }
        stream.send(&parts, flags)
    }
}

/// The time of recvmmsg. The kernel looks at it after every message, and at no other moment.
struct TimeOfAll<'a>(Option<(&'a mut timespec, Deadline)>);

impl<'a> TimeOfAll<'a> {
    fn begin(timeout: Option<&'a mut timespec>) -> Result<Self, Errno> {
        let deadline = Patience::timespec(timeout.as_deref())?.begin();
        Ok(Self(timeout.map(|timeout| (timeout, deadline))))
    }

    /// Whether it is over. The program is told what is left.
    fn is_over(&mut self) -> bool {
        let Some((timeout, deadline)) = &mut self.0 else {
            return false;
        };
        let Some(left) = deadline.left() else {
            return false;
        };
        **timeout = left;
        left.tv_sec == 0 && left.tv_nsec == 0
    }
}

/// Runs one call a message until one fails, or it is over after one that moved so many bytes; what came before it
/// counts.
///
/// # Safety
/// `messages` points to `count` headers.
unsafe fn each_message(
    messages: *mut mmsghdr,
    count: c_uint,
    mut is_over: impl FnMut(*mut mmsghdr, usize) -> bool,
    mut one: impl FnMut(*mut mmsghdr, bool) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    for index in 0..count.min(MOST_MESSAGES) as usize {
        // SAFETY: within the array that the caller promises.
        let message = unsafe { messages.add(index) };
        let moved = match one(message, index == 0) {
            Ok(moved) => moved,
            Err(error) if index == 0 => return Err(error),
            Err(_) => return Ok(index),
        };
        // SAFETY: as above.
        unsafe { (*message).msg_len = moved as c_uint };
        if is_over(message, moved) {
            return Ok(index + 1);
        }
    }
    Ok(count.min(MOST_MESSAGES) as usize)
}

/// A message with more parts than the kernel takes is too long, not invalid.
fn too_many(error: Errno) -> Errno {
    if error == Errno::INVAL {
        Errno::MSGSIZE
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What follows would stand where the rest of it belongs.
    #[test]
    fn a_message_that_was_sent_in_part_is_the_last() {
        // SAFETY: structures of numbers.
        let mut messages: [mmsghdr; 3] = unsafe { core::mem::zeroed() };
        let mut sends = [10, 4, 10].into_iter();
        // SAFETY: three headers.
        let sent = unsafe {
            each_message(
                messages.as_mut_ptr(),
                3,
                |_, sent| sent < 10,
                |_, _| Ok(sends.next().unwrap()),
            )
        };
        assert_eq!(sent, Ok(2));
        assert_eq!(messages.map(|message| message.msg_len), [10, 4, 0]);
    }
}
