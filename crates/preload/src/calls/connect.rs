//! connect: the engine's, or the kernel's.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use host::{ConnectError, ConnectOptions, FastOpen, Readiness, Session};
use libc::{sockaddr, socklen_t};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::calls::blocking::set_kernel_blocking;
use crate::calls::epoll;
use crate::calls::stream::StreamRef;
use crate::engine::{forks, report, session, settings};
use crate::kernel::address::{kernel_name, read_address};
use crate::kernel::deadline::Patience;
use crate::kernel::option::kernel_value;
use crate::kernel::raw::{result, sys};
use crate::numbers::description::Content;
use crate::numbers::placeholder::replace_by_own_socket;
use crate::numbers::table::{self, Held};
use crate::numbers::{duplicate, standard};
use crate::objects::inherited::{Settings, inherited};
use crate::objects::stream::Stream;
use crate::objects::tcp::Tcp;
use crate::thread::signals;

/// The reason that `host` gives for connections within this machine.
const LOCAL: &str = "the address is of this machine";

/// The reason where there are no descriptors left.
const NO_DESCRIPTORS: &str = "there are no descriptors left with which to have the engine open it";

/// How long an engine may take to say whether it waits for data. One that is stopped says so later, and the
/// socket is writable then.
pub const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// Whether the program has set TCP_FASTOPEN_CONNECT on a socket that is not connected.
pub fn is_fast_open_wanted(fd: c_int) -> bool {
    kernel_value::<c_int>(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT).is_ok_and(|on| on != 0)
}

/// connect on a TCP socket of the program. `None`: it is the kernel's to connect.
///
/// # Safety
/// `length` bytes at `address` are readable.
pub unsafe fn connect(
    fd: c_int,
    held: &Held,
    address: *const sockaddr,
    length: socklen_t,
) -> Option<Result<usize, Errno>> {
    let tcp = held.tcp()?;
    // SAFETY: as the caller promises.
    if unsafe { names_nobody(address, length) } {
        return Some(dissolve(fd, held, tcp, || {
            // SAFETY: as the caller promises.
            result(unsafe { sys!(libc::SYS_connect, fd, address, length) })
        }));
    }
    if let Some(stream) = tcp.stream() {
        return Some(again(held, tcp, stream));
    }
    if !tcp.is_undecided() || was_left(fd, tcp) {
        return None;
    }
    // SAFETY: as the caller promises.
    let remote = unsafe { read_address(address, length) }?;
    let session = session::begin()?;
    let deferred = tcp.has_options() && is_fast_open_wanted(fd);
    let fast_open = match deferred {
        true => FastOpen::Hold,
        false => FastOpen::No,
    };
    match begin(fd, tcp, session, remote, fast_open) {
        Ok(true) => {}
        Ok(false) => return None,
        Err(error) => return Some(Err(error)),
    }
    Some(match tcp.stream() {
        // The first write opens it.
        Some(stream) if deferred && stream.socket.await_syn(ANSWER_WITHIN) => {
            stream.opening.store(false, Ordering::Relaxed);
            Ok(0)
        }
        Some(_) if tcp.is_nonblocking() => Err(Errno::INPROGRESS),
        Some(stream) => wait_until_open(held, stream),
        None => Err(Errno::INVAL),
    })
}

/// Whether a connect was left to the kernel, by this process or by another that has the socket.
pub fn was_left(fd: c_int, tcp: &Tcp) -> bool {
    if !tcp.was_left() && (forks::happened() || tcp.is_found()) && is_begun(fd) {
        tcp.leave(true);
    }
    tcp.was_left()
}

/// The state of TCP_INFO in which a socket is connected to nobody.
const CLOSED: u8 = 7;

/// Whether the kernel's socket is being connected or is, or an error says that it could not be, which this leaves there.
fn is_begun(fd: c_int) -> bool {
    let info = kernel_value::<libc::tcp_info>(fd, libc::IPPROTO_TCP, libc::TCP_INFO);
    if info.is_ok_and(|info| info.tcpi_state != CLOSED) {
        return true;
    }
    // SAFETY: the program's own, in its call.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::empty())];
    let _ = rustix::event::poll(&mut polled, Some(&Timespec::default()));
    polled[0].revents().contains(PollFlags::ERR)
}

/// Has the engine begin to open a connection. False: it is the kernel's to connect.
///
/// `fast_open`: whether its SYN asks for Fast Open, and may wait for data.
pub fn begin(
    fd: c_int,
    tcp: &Tcp,
    session: &Session,
    remote: SocketAddr,
    fast_open: FastOpen,
) -> Result<bool, Errno> {
    if !is_for(fd, tcp, remote) {
        // The kernel has an error for that, and the socket stays as it is.
        return Ok(false);
    }
    // Whatever it was before, nobody has asked.
    tcp.take_error();
    if let Some(reason) = tcp.only_kernel(fd) {
        return leave_to_kernel(fd, tcp, reason);
    }
    // An IPv6 socket reaches IPv4 by mapped addresses.
    let remote = canonical(remote);
    let mut options = ConnectOptions::default();
    options.fast_open = fast_open;
    options.local = kernel_name(fd)
        .filter(|local| local.port() != 0 || !local.ip().is_unspecified())
        .map(|local| as_family_of(remote, canonical(local)));
    if options.local.is_some() {
        let Ok(bound) = duplicate(fd) else {
            return leave_to_kernel(fd, tcp, NO_DESCRIPTORS);
        };
        options.bound = Some(Arc::new(bound));
    }
    let settings = if tcp.has_options() {
        inherited(fd, tcp.chosen())
    } else {
        Settings::default()
    };
    if tcp.has_options()
        && let Ok(index) = kernel_value::<c_int>(fd, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX)
    {
        options.interface = index as u32;
    }
    for (kind, value) in &settings.known {
        // The kernel has accepted the value; what the engine bounds more narrowly stays default.
        let _ = options.set_option(*kind, *value);
    }
    if let Some(bytes) = settings.send_buffer {
        options.set_send_buffer(bytes);
    }
    options.set_receive_low(settings.receive_low);
    let is_engines = || session.can_offload(remote, &options).is_ok();
    if epoll::make_room(tcp, is_engines).is_err() {
        return leave_to_kernel(fd, tcp, epoll::NO_ROOM);
    }
    match session.connect(remote, options) {
        Ok(socket) => {
            let stream = Stream::new(socket);
            stream
                .opening
                .store(tcp.is_nonblocking(), Ordering::Relaxed);
            stream.take_timeouts(settings.receive_timeout, settings.send_timeout);
            stream.set_zerocopy(settings.zerocopy);
            stream.is_engines.store(false, Ordering::Relaxed);
            let may_wait = fast_open == FastOpen::Hold;
            stream.fast_open.store(may_wait, Ordering::Relaxed);
            tcp.specials.tell();
            epoll::become_engines(tcp, || tcp.become_stream(stream));
            (0..3).for_each(standard::number_changed);
            Ok(true)
        }
        Err(ConnectError::KernelsJob(reason)) => leave_to_kernel(fd, tcp, reason),
        // Nothing has begun. The kernel needs none.
        Err(ConnectError::Failed(Errno::MFILE | Errno::NFILE)) => {
            leave_to_kernel(fd, tcp, NO_DESCRIPTORS)
        }
        Err(ConnectError::Failed(error)) => Err(error),
    }
}

/// It is the kernel's to connect: false, or refused if that is not wanted.
fn leave_to_kernel(fd: c_int, tcp: &Tcp, reason: &'static str) -> Result<bool, Errno> {
    report::left_to_kernel(fd, "connection", reason);
    // What stays on this machine is the kernel's by design, and no failure.
    if settings::are_strict() && reason != LOCAL {
        return Err(Errno::OPNOTSUPP);
    }
    // From here on it is the kernel's, without a look of ours at every call.
    if tcp.is_unwatched() {
        drop(table::remove(fd));
    }
    tcp.leave(true);
    Ok(false)
}

/// Whether a socket reaches such addresses at all.
fn is_for(fd: c_int, tcp: &Tcp, remote: SocketAddr) -> bool {
    let of_v6 = tcp.family == libc::AF_INET6;
    if remote.is_ipv6() != of_v6 {
        return false;
    }
    let is_mapped = of_v6 && remote.ip().to_canonical().is_ipv4();
    let only_v6 = || kernel_value::<c_int>(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);
    !is_mapped || only_v6() == Ok(0)
}

/// The address itself, of one that is mapped into IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}

/// What a socket of IPv6 that is bound to any address is bound to for a peer of IPv4.
fn as_family_of(remote: SocketAddr, local: SocketAddr) -> SocketAddr {
    if remote.is_ipv4() && local.is_ipv6() && local.ip().is_unspecified() {
        SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), local.port())
    } else {
        local
    }
}

/// Waits for the handshake. One that has failed may connect anew.
pub fn wait_until_open(held: &Held, stream: &Stream) -> Result<usize, Errno> {
    let deadline = Patience::socket_timeout(stream.send_timeout()).begin();
    loop {
        match stream.socket.wait(Readiness::OUT, deadline.time_left()) {
            Ok(_) => break,
            Err(Errno::INTR) if !deadline.is_bounded() && signals::goes_on() => {}
            Err(error) => {
                // It goes on, and the next connect is told what became of it.
                stream.opening.store(true, Ordering::Relaxed);
                return Err(match error {
                    Errno::TIMEDOUT => Errno::INPROGRESS,
                    error => error,
                });
            }
        }
    }
    stream.opening.store(false, Ordering::Relaxed);
    failure(held, stream).map_or(Ok(0), Err)
}

/// shutdown on a connection, in whichever direction. One that is being opened is given up, as in the kernel: who
/// waits for it in connect is told of a reset, and the socket may connect again.
pub fn shutdown(held: &Held, stream: &Stream, how: c_int) -> Result<(), Errno> {
    let is_a_way = matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR);
    if is_a_way && stream.socket.is_opening() {
        stream.socket.reset();
        start_over(held, stream, Some(Errno::CONNRESET));
        return Ok(());
    }
    stream.shutdown(how)
}

/// Why it has failed, which this tells once: after that the socket is as before.
fn failure(held: &Held, stream: &Stream) -> Option<Errno> {
    let error = stream.socket.take_error();
    if stream.left.load(Ordering::Relaxed) {
        // Another thread was told, or has given it up.
        return Some(error.unwrap_or(Errno::CONNABORTED));
    }
    if !stream.socket.never_opened() {
        return error;
    }
    start_over(held, stream, None);
    Some(error.unwrap_or(Errno::CONNABORTED))
}

/// A connection has failed, and the program has been told why: its numbers stand for the kernel's socket
/// again, which waits for a connect or a listen. Calls under way end with the connection. `error` is what SO_ERROR is
/// still to say of it.
fn start_over(held: &Held, stream: &Stream, error: Option<Errno>) {
    let Some(tcp) = held.tcp() else { return };
    if stream.left.swap(true, Ordering::Relaxed) {
        return;
    }
    let fresh = tcp.afresh();
    if let Some(error) = error {
        fresh.has_ended_by(error);
    }
    epoll::move_back(held, &fresh);
    let fresh = Held::new(Content::Tcp(fresh));
    table::replace(held, &fresh);
    if let Some(fd) = table::numbers_of(&fresh).next() {
        // Meanwhile the program's wish was kept here alone. All numbers have one file.
        let _ = set_kernel_blocking(fd, !tcp.is_nonblocking());
    }
    (0..3).for_each(standard::number_changed);
}

/// connect to an address of no family: the socket is to be connected to nobody. What is a connection is
/// reset, and its numbers stand for a socket that may connect or listen; what listens stops. What is the kernel's is
/// its own.
fn dissolve(
    fd: c_int,
    held: &Held,
    tcp: &Tcp,
    kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let Some(stream) = tcp.stream() else {
        let stopped = kernel();
        if stopped.is_ok() {
            // The next may be the engine's.
            tcp.leave(false);
            if let Some(listening) = tcp.listener() {
                listening.listener.stop();
            }
        }
        return stopped;
    };
    if !stream.has_own_socket()
        && let Err(error) = replace_by_own_socket(fd, held, tcp.family)
    {
        return Err(error);
    }
    let was_there = stream.socket.reset();
    start_over(held, stream, was_there.then_some(Errno::CONNRESET));
    Ok(0)
}

/// Whether an address is of no family (AF_UNSPEC).
///
/// # Safety
/// `length` bytes at `address` are readable.
unsafe fn names_nobody(address: *const sockaddr, length: socklen_t) -> bool {
    if address.is_null() || (length as usize) < size_of::<libc::sa_family_t>() {
        return false;
    }
    // SAFETY: the family comes first.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    c_int::from(family) == libc::AF_UNSPEC
}

/// An option was set on a connection: one that fails leaves it to its successor.
///
/// # Safety
/// `length` bytes at `value` are readable.
pub unsafe fn option_set(
    fd: c_int,
    stream: &StreamRef,
    (level, name): (c_int, c_int),
    value: *const c_void,
    length: socklen_t,
) {
    if !stream.has_own_socket() || stream.socket.is_connected() {
        return;
    }
    // SAFETY: as the caller promises.
    unsafe { sys!(libc::SYS_setsockopt, fd, level, name, value, length) };
    if let Some(tcp) = stream.held().tcp() {
        tcp.option_set(level, name);
    }
}

/// connect on what is connected, or is being connected.
fn again(held: &Held, tcp: &Tcp, stream: &Stream) -> Result<usize, Errno> {
    if stream.socket.is_connected() {
        // A connect that did not wait is answered once: it has succeeded.
        return if stream.opening.swap(false, Ordering::Relaxed) {
            Ok(0)
        } else {
            Err(Errno::ISCONN)
        };
    }
    if stream.socket.holds_syn() {
        return Err(Errno::ISCONN);
    }
    // One that was open has been connected, whatever became of it.
    let over = stream.socket.readiness().intersects(Readiness::HUP);
    if over && !stream.socket.never_opened() && !stream.opening.load(Ordering::Relaxed) {
        return Err(Errno::ISCONN);
    }
    if let Some(error) = failure(held, stream) {
        return Err(error);
    }
    if tcp.is_nonblocking() {
        return Err(Errno::ALREADY);
    }
    wait_until_open(held, stream).map_err(|error| match error {
        Errno::INPROGRESS => Errno::ALREADY,
        error => error,
    })
}
