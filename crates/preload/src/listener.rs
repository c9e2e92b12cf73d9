//! Listening sockets, which the kernel and the engine serve together.
//!
//! The program's descriptor stays the kernel's listening socket. `listen` shows it to the engine
//! too, and `accept` takes from both. A connection of the engine's gets a number of its own: a
//! duplicate of a socket that is connected to nothing, which is cheap to make and says "socket" to
//! whoever asks what it is.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;

use host::{Listener, Readiness, Socket};
use libc::{sockaddr, socklen_t};
use rustix::io::Errno;

use crate::deadline::{Deadline, Patience};
use crate::description::Content;
use crate::lock::lock;
use crate::numbers::duplicate;
use crate::raw::{result, sys};
use crate::stream::{Stream, Values, inherited, kernel_name, write_address};
use crate::table::{self, Held};
use crate::tcp::Tcp;
use crate::{
    blocking, epoll, numbers, pool, report, session, settings, signals, special, standard,
};

/// After so many connections of the engine's in a row the kernel's have their turn.
const KERNEL_TURN: u32 = 32;

/// A listening socket that the engine knows.
pub struct Listening {
    pub listener: Listener,
    /// Connections of the engine's that were accepted since the kernel had its turn.
    turns: AtomicU32,
    /// The process that has last said that it accepts here: a child does that anew.
    told_by: AtomicU32,
    /// SO_RCVTIMEO in nanoseconds, 0 for none: it bounds accept, and what is accepted inherits it.
    receive_timeout: AtomicU64,
    /// SO_SNDTIMEO likewise.
    send_timeout: AtomicU64,
    /// SO_ZEROCOPY.
    zerocopy: AtomicBool,
    /// Options that are without effect on what is accepted, and are read back there.
    kept: Mutex<Option<Values>>,
}

impl Listening {
    /// This process waits for connections under the number `fd`.
    pub fn tell(&self, fd: c_int) {
        let process = std::process::id();
        if self.told_by.swap(process, Ordering::Relaxed) != process {
            report::listens(fd, &self.listener);
        }
    }
}

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
    let listening = Listening {
        listener,
        turns: AtomicU32::new(0),
        told_by: AtomicU32::new(std::process::id()),
        receive_timeout: AtomicU64::new(0),
        send_timeout: AtomicU64::new(0),
        zerocopy: AtomicBool::new(false),
        kept: Mutex::default(),
    };
    inherit(fd, tcp, &listening);
    tcp.become_listener(listening);
    epoll::move_watches(tcp);
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
    let listener = &listening.listener;
    for (kind, value) in settings.known {
        // The kernel has accepted the value; what the engine bounds more narrowly stays default.
        let _ = listener.set_option(kind, value);
    }
    if let Some(bytes) = settings.send_buffer {
        listener.set_send_buffer(bytes);
    }
    listener.set_receive_low(settings.receive_low);
    let (receive, send) = (settings.receive_timeout, settings.send_timeout);
    listening.receive_timeout.store(receive, Ordering::Relaxed);
    listening.send_timeout.store(send, Ordering::Relaxed);
    listening
        .zerocopy
        .store(settings.zerocopy, Ordering::Relaxed);
    *lock(&listening.kept) = settings.kept;
}

/// A listening socket was shut down for reading: the kernel has stopped listening.
pub fn shut_down(held: &Held, how: c_int) {
    if how != libc::SHUT_WR
        && let Some(listening) = held.listener()
    {
        listening.listener.stop();
    }
}

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
        let kernel_first = listening.turns.load(Ordering::Relaxed) >= KERNEL_TURN;
        if kernel_first {
            listening.turns.store(0, Ordering::Relaxed);
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
        let limit = listening.receive_timeout.load(Ordering::Relaxed);
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
    let number = Number(placeholder(tcp.family, flags & libc::SOCK_CLOEXEC != 0)?);
    let socket: Socket = listening.listener.accept_offloaded()?;
    listening.turns.fetch_add(1, Ordering::Relaxed);
    let peer = socket.peer();
    let stream = Stream::new(socket);
    stream.take_timeouts(
        listening.receive_timeout.load(Ordering::Relaxed),
        listening.send_timeout.load(Ordering::Relaxed),
    );
    stream.set_zerocopy(listening.zerocopy.load(Ordering::Relaxed));
    stream.take_kept(lock(&listening.kept).clone());
    let accepted = Tcp::accepted(tcp.family, flags & libc::SOCK_NONBLOCK != 0, stream);
    let held = pool::make(Content::Tcp(accepted));
    let new = number.keep();
    if !table::install(new, held) {
        // Beyond the table: the connection has ended with the description.
        drop(Number(new));
        return Err(Errno::MFILE);
    }
    standard::number_changed(new);
    Ok((new, peer))
}

/// A number that is closed again unless it is kept.
struct Number(c_int);

impl Number {
    fn keep(self) -> c_int {
        let number = self.0;
        core::mem::forget(self);
        number
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: a number that nobody else knows.
        unsafe { sys!(libc::SYS_close, self.0) };
    }
}

/// A new number, the lowest that is free, for a socket that is connected to nothing.
fn placeholder(family: c_int, close_on_exec: bool) -> Result<c_int, Errno> {
    static TEMPLATES: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];
    let template = &TEMPLATES[usize::from(family == libc::AF_INET6)];
    let command = if close_on_exec {
        libc::F_DUPFD_CLOEXEC
    } else {
        libc::F_DUPFD
    };
    let duplicate = |of: c_int| {
        // SAFETY: makes a new number.
        result(unsafe { sys!(libc::SYS_fcntl, of, command, 0usize) }).map(|new| new as c_int)
    };
    let new = match template.load(Ordering::Relaxed) {
        -1 => Err(Errno::BADF),
        of => duplicate(of),
    };
    let new = match new {
        // None yet, or the program has closed what it does not know.
        Err(Errno::BADF) => {
            let fresh = private_socket(family)?;
            template.store(fresh, Ordering::Relaxed);
            duplicate(fresh)?
        }
        other => other?,
    };
    table::handed_out(new);
    Ok(new)
}

/// Makes `fd`, which is open, a number for a socket that is connected to nothing.
pub fn replace_by_placeholder(fd: c_int, family: c_int) -> Result<(), Errno> {
    replace(&Number(placeholder(family, true)?), fd)
}

/// Gives the numbers of `held`, of which `fd` is one, a socket of the kernel's that is theirs alone.
pub fn replace_by_own_socket(fd: c_int, held: &Held, family: c_int) -> Result<(), Errno> {
    let fresh = Number(private_socket(family)?);
    for number in table::numbers_of(held).chain([fd]) {
        replace(&fresh, number)?;
    }
    Ok(())
}

/// Makes the number what `fresh` is, but for whether it stays open on exec.
fn replace(fresh: &Number, fd: c_int) -> Result<(), Errno> {
    // SAFETY: asks for a flag.
    let flags = result(unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETFD) })?;
    let close_on_exec = flags & libc::FD_CLOEXEC as usize != 0;
    let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: the number was the program's, and stays open.
    result(unsafe { sys!(libc::SYS_dup3, fresh.0, fd, flags) }).map(drop)
}

fn private_socket(family: c_int) -> Result<c_int, Errno> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: makes a socket.
    let low = result(unsafe { sys!(libc::SYS_socket, family, kind, 0usize) })? as c_int;
    // SAFETY: makes a duplicate out of the program's way.
    let high = result(unsafe {
        sys!(
            libc::SYS_fcntl,
            low,
            libc::F_DUPFD_CLOEXEC,
            numbers::hidden_floor()
        )
    });
    match high {
        Ok(high) => {
            drop(Number(low));
            Ok(high as c_int)
        }
        Err(_) => Ok(low),
    }
}

/// Sets or clears O_NONBLOCK in the kernel.
pub fn set_kernel_blocking(fd: c_int, blocks: bool) -> Result<(), Errno> {
    // SAFETY: reads and sets flags.
    unsafe {
        let flags = result(sys!(libc::SYS_fcntl, fd, libc::F_GETFL))? as c_int;
        let wanted = match blocks {
            true => flags & !libc::O_NONBLOCK,
            false => flags | libc::O_NONBLOCK,
        };
        if flags != wanted {
            result(sys!(libc::SYS_fcntl, fd, libc::F_SETFL, wanted))?;
        }
    }
    Ok(())
}
