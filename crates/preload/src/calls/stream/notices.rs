//! Notifications of MSG_ZEROCOPY, as recvmsg takes them from the error queue.

use core::mem::size_of;

use libc::{cmsghdr, msghdr};
use rustix::io::Errno;

use super::StreamRef;

/// In `ee_origin`: a notification of MSG_ZEROCOPY.
const ORIGIN: u8 = 5;
/// In `ee_code`: the bytes were copied.
const COPIED: u8 = 1;

/// `struct sock_extended_err` of linux/errqueue.h, and the address behind it, which is nobody's.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Notification {
    errno: u32,
    origin: u8,
    kind: u8,
    code: u8,
    pad: u8,
    /// The first send that is over.
    info: u32,
    /// The last one.
    data: u32,
    offender: [u32; 7],
}

/// Bytes of it with a `struct sockaddr_in`, and with a `struct sockaddr_in6`.
const FOR_IPV4: usize = 32;
const FOR_IPV6: usize = 44;
const _: () = assert!(size_of::<Notification>() == FOR_IPV6);

impl StreamRef {
    /// recvmsg from the error queue.
    ///
    /// # Safety
    /// The program's own message header.
    ///
    /// # Errors
    /// `EAGAIN`: there is nothing in it.
    pub unsafe fn receive_notice(&self, message: *mut msghdr) -> Result<usize, Errno> {
        let (info, data) = self.next_notice()?;
        let notification = Notification {
            origin: ORIGIN,
            code: COPIED,
            info,
            data,
            ..Notification::default()
        };
        let (level, kind, length) = if self.family() == libc::AF_INET6 {
            (libc::SOL_IPV6, libc::IPV6_RECVERR, FOR_IPV6)
        } else {
            (libc::SOL_IP, libc::IP_RECVERR, FOR_IPV4)
        };
        // SAFETY: within the room that the program gives for what comes along.
        unsafe {
            let message = &mut *message;
            let room = match message.msg_control.is_null() {
                true => 0,
                false => message.msg_controllen,
            };
            message.msg_namelen = 0;
            message.msg_flags = libc::MSG_ERRQUEUE;
            message.msg_controllen = 0;
            // As the kernel's put_cmsg: what does not fit is cut off, and nothing of less than a head.
            let whole = size_of::<cmsghdr>() + length;
            if room < whole {
                message.msg_flags |= libc::MSG_CTRUNC;
            }
            if room < size_of::<cmsghdr>() {
                return Ok(0);
            }
            let length = length.min(room - size_of::<cmsghdr>());
            let head = cmsghdr {
                cmsg_len: size_of::<cmsghdr>() + length,
                cmsg_level: level,
                cmsg_type: kind,
            };
            let at = message.msg_control.cast::<u8>();
            at.cast::<cmsghdr>().write_unaligned(head);
            let from = (&raw const notification).cast::<u8>();
            core::ptr::copy_nonoverlapping(from, at.add(size_of::<cmsghdr>()), length);
            message.msg_controllen = (head.cmsg_len.next_multiple_of(size_of::<usize>())).min(room);
        }
        Ok(0)
    }
}
