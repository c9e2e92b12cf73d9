//! TCP Fast Open of a program that connects (RFC 7413) by a send with MSG_FASTOPEN. What it does by
//! TCP_FASTOPEN_CONNECT is in [`connect`].
//!
//! Without a cookie, and where the engine is not set to it, both are the ordinary handshake, as they are in the
//! kernel towards a server that gives no cookies.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use host::FastOpen;
use libc::{IPPROTO_TCP, sockaddr, socklen_t};
use rustix::io::Errno;

use crate::calls::connect::{self, is_fast_open_wanted};
use crate::calls::stream::{self, StreamRef};
use crate::engine::session;
use crate::kernel::address::read_address;
use crate::kernel::raw::{result, sys};
use crate::numbers::table::{self, Held};
use crate::objects::tcp::Tcp;

/// What comes before a send with MSG_FASTOPEN of `total` bytes to that address. `None`: it is the kernel's.
///
/// # Errors
/// Nothing is to be sent.
///
/// # Safety
/// `length` bytes at `address` are readable.
pub unsafe fn before_send(
    fd: c_int,
    (address, length): (*const sockaddr, socklen_t),
    total: usize,
    flags: c_int,
) -> Result<Option<StreamRef>, Errno> {
    let Some(held) = table::get(fd) else {
        return Ok(None);
    };
    let Some(tcp) = held.tcp() else {
        return Ok(None);
    };
    if tcp.is_undecided() {
        if connect::was_left(fd, tcp) {
            return Ok(None);
        }
        // SAFETY: as the caller promises.
        let Some(remote) = (unsafe { read_address(address, length) }) else {
            return Ok(None);
        };
        let Some(session) = session::begin().filter(|_| kernel_allows(fd)) else {
            return Ok(None);
        };
        // One that waited for nothing would wait for good.
        let fast_open = match total {
            0 => FastOpen::Ask,
            _ => FastOpen::Hold,
        };
        if !connect::begin(fd, tcp, session, remote, fast_open)? {
            return Ok(None);
        }
        let Some(stream) = stream::of(fd) else {
            return Err(Errno::INVAL);
        };
        if stream.socket.await_syn(connect::ANSWER_WITHIN) {
            stream.opening.store(false, Ordering::Relaxed);
        } else {
            open(&held, &stream, flags, Errno::INPROGRESS)?;
        }
        return Ok(Some(stream));
    }
    let Some(stream) = stream::of(fd) else {
        return Ok(None);
    };
    if stream.socket.is_connected() {
        return Err(Errno::ISCONN);
    }
    if !stream.socket.holds_syn() {
        open(&held, &stream, flags, Errno::ALREADY)?;
    }
    Ok(Some(stream))
}

/// Waits for the handshake; who does not wait is told so.
fn open(held: &Held, stream: &StreamRef, flags: c_int, otherwise: Errno) -> Result<(), Errno> {
    if held.tcp().is_none_or(Tcp::is_nonblocking) || flags & libc::MSG_DONTWAIT != 0 {
        return Err(otherwise);
    }
    connect::wait_until_open(held, stream).map(drop)
}

/// Whether the kernel is set to Fast Open for clients (net.ipv4.tcp_fastopen): it lets the option be set, to
/// what it is, only then.
fn kernel_allows(fd: c_int) -> bool {
    let value = c_int::from(is_fast_open_wanted(fd));
    let option = libc::TCP_FASTOPEN_CONNECT;
    // SAFETY: sets an option to what it is.
    let set = unsafe {
        sys!(
            libc::SYS_setsockopt,
            fd,
            IPPROTO_TCP,
            option,
            &raw const value,
            size_of::<c_int>()
        )
    };
    result(set) != Err(Errno::OPNOTSUPP)
}
