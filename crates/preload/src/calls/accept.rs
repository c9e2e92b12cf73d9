//! accept, which takes from both sides.
//!
//! A connection of the engine's gets a number of its own: a [placeholder].

use core::ffi::c_int;

use host::{Readiness, Socket};
use libc::{sockaddr, socklen_t};
use rustix::io::Errno;

use crate::calls::blocking;
use crate::engine::session;
use crate::kernel::address::write_address;
use crate::kernel::deadline::{Deadline, Patience};
use crate::kernel::raw::{result, sys};
use crate::numbers;
use crate::numbers::description::Content;
use crate::numbers::placeholder::{Number, placeholder};
use crate::numbers::standard;
use crate::numbers::table::{self, Held};
use crate::objects::listening::Listening;
use crate::objects::tcp::Tcp;
use crate::thread::signals;

/// accept4.
///
/// # Safety
/// `address` and `length` are null or the program's buffer and its length.
pub unsafe fn accept(
    fd: c_int,
    held: &Held,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> Result<usize, Errno> {
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(Errno::INVAL);
    }
    let (Some(tcp), Some(listening)) = (held.tcp(), held.listener()) else {
        return Err(Errno::INVAL);
    };
    let kernel = || {
        // SAFETY: as the caller promises.
        let new = result(unsafe { sys!(libc::SYS_accept4, fd, address, length, flags) })?;
        numbers::handed_out(new as c_int);
        Ok(new)
    };
    let mut deadline: Option<Deadline> = None;
    loop {
        if listening.gives_kernel_its_turn() {
            match kernel() {
                Err(Errno::AGAIN) => {}
                other => return other,
            }
        }
        match offloaded(tcp, listening, flags) {
            Ok((new, peer)) => {
                if !address.is_null() {
                    // SAFETY: as the caller promises. A buffer that cannot be is found out after
                    // the connection was taken, as in the kernel.
                    unsafe { write_address(peer, tcp.family, address, length)? };
                }
                return Ok(new as usize);
            }
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error),
        }
        match kernel() {
            Err(Errno::AGAIN) => blocking::look(fd, tcp),
            other => return other,
        }
        if tcp.is_nonblocking() {
            return Err(Errno::AGAIN);
        }
        let limit = listening.receive_timeout();
        let deadline = *deadline.get_or_insert_with(|| Patience::socket_timeout(limit).begin());
        match listening.listener.wait(deadline.time_left()) {
            Ok(()) => {}
            Err(Errno::TIMEDOUT) => return Err(Errno::AGAIN),
            Err(Errno::INTR) if !deadline.is_bounded() && signals::goes_on() => {}
            Err(error) => return Err(error),
        }
    }
}

/// A connection that the engine has handed over, under a number of its own.
fn offloaded(
    tcp: &Tcp,
    listening: &Listening,
    flags: c_int,
) -> Result<(c_int, std::net::SocketAddr), Errno> {
    session::pump();
    if !listening.listener.readiness().intersects(Readiness::IN) {
        listening.listener.want();
        if !listening.listener.readiness().intersects(Readiness::IN) {
            return Err(Errno::AGAIN);
        }
    }
    // The number first: without one the connection stays where it is, as in the kernel.
    let number = placeholder(tcp.family, flags & libc::SOCK_CLOEXEC != 0)?;
    let socket: Socket = listening.listener.accept_offloaded()?;
    let peer = socket.peer();
    let stream = listening.stream_of(socket);
    let accepted = Tcp::accepted(tcp.family, flags & libc::SOCK_NONBLOCK != 0, stream);
    let held = Held::new(Content::Tcp(accepted));
    let new = number.keep();
    if !table::install(new, held) {
        // Beyond the table: the connection has ended with the description.
        drop(Number::of(new));
        return Err(Errno::MFILE);
    }
    standard::number_changed(new);
    Ok((new, peer))
}
