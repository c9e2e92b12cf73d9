//! Listening sockets, which the kernel and the engine serve together.
//!
//! The program's descriptor stays the kernel's listening socket. `listen` shows it to the engine
//! too, and [`accept`](crate::calls::accept) takes from both.

use core::ffi::{c_int, c_void};

use host::Listener;
use libc::socklen_t;
use rustix::io::Errno;

use crate::calls::blocking::{self, set_kernel_blocking};
use crate::calls::epoll;
use crate::engine::{report, session, settings};
use crate::kernel::address::kernel_name;
use crate::kernel::raw::{result, sys};
use crate::numbers::duplicate;
use crate::numbers::table::{self, Held};
use crate::objects::inherited::inherited;
use crate::objects::listening::Listening;
use crate::objects::special;
use crate::objects::tcp::Tcp;

/// What a listening socket is called when the engine is told of it: with its address, by which the
/// engine finds its own (`Explanation::listener`).
fn named(fd: c_int) -> String {
    match kernel_name(fd) {
        Some(local) => host::Explanation::listener(local),
        None => "listener".to_owned(),
    }
}

/// What has become of a listening socket that was to be shown to an engine.
enum Shown {
    /// It listens there, too.
    Taken,
    /// There is none just now. It is shown to the next.
    NotYet,
    /// The kernel alone has it, for a reason.
    Never(&'static str),
}

/// listen.
pub fn listen(fd: c_int, held: &Held, backlog: c_int) -> Result<(), Errno> {
    // SAFETY: as the program gave it.
    let kernel = || result(unsafe { sys!(libc::SYS_listen, fd, backlog) });
    let Some(tcp) = held.tcp() else {
        return kernel().map(drop);
    };
    if tcp.stream().is_some() {
        return Err(Errno::INVAL);
    }
    kernel()?;
    // The kernel takes a negative backlog for a very large one, and bounds it.
    let backlog = backlog as u32;
    if let Some(listening) = tcp.listener() {
        listening.listener.set_backlog(backlog);
        return Ok(());
    }
    match announce(fd, tcp, backlog)? {
        Shown::Taken => {}
        _ if settings::are_strict() => {
            // SAFETY: ends the listening that the kernel has begun.
            unsafe { sys!(libc::SYS_shutdown, fd, libc::SHUT_RD) };
            return Err(Errno::OPNOTSUPP);
        }
        Shown::NotYet => {}
        Shown::Never(reason) => report::left_to_kernel(fd, &named(fd), reason),
    }
    Ok(())
}

/// Shows a listening socket to the engine.
fn announce(fd: c_int, tcp: &Tcp, backlog: u32) -> Result<Shown, Errno> {
    let Some(session) = session::begin() else {
        return Ok(Shown::NotYet);
    };
    if let Some(reason) = tcp.only_kernel(fd) {
        return Ok(Shown::Never(reason));
    }
    if epoll::make_room(tcp, || true).is_err() {
        return Ok(Shown::Never(epoll::NO_ROOM));
    }
    match duplicate(fd).and_then(|kernel| session.listen_on(kernel, backlog)) {
        Ok(listener) => {
            let taken = listener.is_offloaded();
            report::listens(fd, &listener);
            become_listener(fd, tcp, listener)?;
            Ok(if taken { Shown::Taken } else { Shown::NotYet })
        }
        Err(error) => Ok(Shown::Never(host::why_refused(error))),
    }
}

/// The program has been handed a socket that listens already, and may never call listen on it: it
/// accepts from the engine as well from now on.
pub fn join(fd: c_int, backlog: u32) {
    if let Some(held) = table::get(fd)
        && let Some(tcp) = held.tcp()
        && let Ok(Shown::Never(reason)) = announce(fd, tcp, backlog)
    {
        report::left_to_kernel(fd, &named(fd), reason);
    }
}

fn become_listener(fd: c_int, tcp: &Tcp, listener: Listener) -> Result<(), Errno> {
    // `accept` asks the kernel without waiting; the program's own flag is kept apart.
    set_kernel_blocking(fd, false)?;
    blocking::note(fd, !tcp.is_nonblocking());
    let listening = Listening::new(listener);
    inherit(fd, tcp, &listening);
    epoll::become_engines(tcp, || tcp.become_listener(listening));
    Ok(())
}

/// The program has set an option on a socket that is the kernel's or listens: what it accepts from
/// now on inherits it.
///
/// # Safety
/// `length` bytes at `value` are readable.
pub unsafe fn option_set(
    fd: c_int,
    held: &Held,
    (level, name): (c_int, c_int),
    value: *const c_void,
    length: socklen_t,
) {
    let Some(tcp) = held.tcp() else { return };
    tcp.option_set(level, name);
    // SAFETY: as the caller promises.
    unsafe { tcp.specials.set(level, name, value, length) };
    if let Some(listening) = tcp.listener() {
        inherit(fd, tcp, listening);
        if level == libc::IPPROTO_TCP
            && matches!(
                name,
                libc::TCP_MAXSEG | libc::TCP_FASTOPEN | libc::TCP_DEFER_ACCEPT
            )
        {
            listening.listener.options_changed();
        }
    }
}

/// Whether the program may set an option on a socket that is not a connection of the engine's.
///
/// # Errors
/// What it finds instead of a change without effect.
pub fn may_set(held: &Held, level: c_int, name: c_int) -> Result<(), Errno> {
    let Some(tcp) = held.tcp() else {
        return Ok(());
    };
    let listens_here = tcp
        .listener()
        .is_some_and(|listening| listening.listener.is_offloaded());
    special::check(level, name, listens_here)
}

fn inherit(fd: c_int, tcp: &Tcp, listening: &Listening) {
    let settings = inherited(fd, tcp.chosen());
    tcp.specials.tell();
    listening.take(settings);
}

/// A listening socket was shut down for reading: the kernel has stopped listening.
pub fn shut_down(held: &Held, how: c_int) {
    if how != libc::SHUT_WR
        && let Some(listening) = held.listener()
    {
        listening.listener.stop();
    }
}
