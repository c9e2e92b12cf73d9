//! Descriptors as messages.

use super::made::named;
use crate::errors::{last, value};
use differ::outcome::Outcome;
use differ::program::Slot;
use std::ffi::c_int;
use std::mem::{size_of, zeroed};

/// Room for one descriptor and its header, aligned as the header wants it.
#[repr(align(8))]
struct Ancillary([u8; 64]);

/// Calls `with` with a message of one byte and room for a descriptor.
fn with_message<R>(with: impl FnOnce(&mut libc::msghdr) -> R) -> R {
    let mut byte = b'd';
    let mut ancillary = Ancillary([0; 64]);
    let mut piece = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: integers and pointers, for which null is good.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = ancillary.0.as_mut_ptr().cast();
    // SAFETY: computes.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<c_int>() as u32) } as usize;
    with(&mut header)
}

pub fn pass(via: c_int, fd: c_int) -> Outcome {
    with_message(|header| {
        // SAFETY: the room holds a header and a number.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
            libc::CMSG_DATA(first).cast::<c_int>().write_unaligned(fd);
            value(libc::sendmsg(via, header, libc::MSG_NOSIGNAL) as i64)
        }
    })
}

pub fn take(via: c_int, new: Slot) -> Outcome {
    with_message(|header| {
        // SAFETY: the message is whole; its header is looked at only if it has come.
        unsafe {
            if libc::recvmsg(via, header, libc::MSG_DONTWAIT) < 0 {
                return last();
            }
            let first = libc::CMSG_FIRSTHDR(header);
            if first.is_null() || (*first).cmsg_type != libc::SCM_RIGHTS {
                return Outcome::Text("no descriptor".into());
            }
            named(new, libc::CMSG_DATA(first).cast::<c_int>().read_unaligned())
        }
    })
}
