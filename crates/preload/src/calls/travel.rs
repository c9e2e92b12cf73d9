//! Sockets that travel: in a message to another program, and through exec.
//!
//! A listening socket is the kernel's as well, and travels as such. Who finds one among the descriptors
//! that he is handed shows it to the engine, and accepts from both sides.
//!
//! A number of a connection of the engine's is a placeholder to the kernel, and of no use to anybody else. So what
//! travels in its stead is a *ticket* of the engine's ([`host::ticket`]), and who finds one among the
//! descriptors that he is handed claims the connection. A program without this library has the ticket,
//! on which every call fails at once; the engine says so in `outboard explain`.

use core::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use host::reserve::refill;
use host::{Carried, ticket};
use libc::msghdr;
use rustix::io::Errno;

use crate::calls::{blocking, epoll, listener, socket};
use crate::engine::{report, session, settings};
use crate::kernel::option::kernel_value;
use crate::kernel::raw::{result, sys};
use crate::numbers::description::Content;
use crate::numbers::placeholder::replace_by_placeholder;
use crate::numbers::table::{self, Held};
use crate::numbers::{self, standard};
use crate::objects::stream::Stream;
use crate::objects::tcp::Tcp;

/// What a connection is called when something is said of it.
pub const CONNECTION: &str = "connection";

/// Why a connection could not be passed.
const NOT_PASSED: &str = "it was passed to another program, and the engine gave no ticket for it";

/// Why a connection that was passed here is of no use.
const NOT_CLAIMED: &str = "it was passed to this program, and the engine does not know it any more";

/// The same.
const NOT_ANSWERED: &str =
    "it was passed to this program while the engine did not run, and cannot be had";

/// Numbers that are looked at when a program starts and cannot see which are open.
const INHERITED: c_int = 256;

/// A ticket for the connection behind a number, to be passed in its stead. `None`: it is no connection
/// of the engine's, or the engine gives no ticket, which is said.
pub fn ticket_for(fd: c_int, held: &Held) -> Option<OwnedFd> {
    let tcp = held.tcp()?;
    let stream = tcp.stream()?;
    let mut carried = Carried {
        ipv6: tcp.family == libc::AF_INET6,
        nonblocking: tcp.is_nonblocking(),
        ..Carried::default()
    };
    stream.carry(&mut carried);
    // As far as what was given up for those before is free again.
    refill();
    let ticket = stream.socket.ticket(carried);
    if ticket.is_err() {
        report::left_to_kernel(fd, CONNECTION, NOT_PASSED);
    }
    ticket.ok()
}

/// Descriptors that have come with a message, or with the program itself: tickets among them are
/// claimed, and their numbers stand for connections from then on; sockets that listen are shown to the
/// engine.
pub fn arrived(fds: impl Iterator<Item = c_int>) {
    if settings::get().is_none() {
        return;
    }
    let mut tickets = Tickets::default();
    for fd in fds {
        match kernel_value::<c_int>(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) {
            Ok(libc::AF_UNIX) => tickets.use_up(fd),
            Ok(family @ (libc::AF_INET | libc::AF_INET6)) => of_the_kernel(fd, family),
            _ => {}
        }
    }
}

/// The states of TCP_INFO in which a socket is on its way to nobody.
const CLOSED: u8 = 7;
const LISTENS: u8 = 10;

/// A TCP socket that another program has made, and which listens, or may come to.
fn of_the_kernel(fd: c_int, family: c_int) {
    // SOCK_STREAM is that of TCP, and of others.
    if kernel_value::<c_int>(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) != Ok(libc::IPPROTO_TCP) {
        return;
    }
    let Ok(info) = kernel_value::<libc::tcp_info>(fd, libc::IPPROTO_TCP, libc::TCP_INFO) else {
        return;
    };
    if !matches!(info.tcpi_state, CLOSED | LISTENS) {
        return;
    }
    let listens = info.tcpi_state == LISTENS;
    // SAFETY: asks for the flags.
    let flags = result(unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETFL) }).unwrap_or(0);
    let nonblocking = flags as c_int & libc::O_NONBLOCK != 0;
    socket::found(
        fd,
        family,
        nonblocking && !(listens && blocking::is_noted(fd)),
    );
    if listens {
        // Of a listening socket the kernel tells the backlog here.
        listener::join(fd, info.tcpi_sacked);
    }
}

/// Tickets that came together. Copies of one are numbers of one connection.
#[derive(Default)]
struct Tickets {
    claimed: Vec<(u64, Held)>,
    /// The engine has not answered in time. What came along is not waited for as long once more.
    unanswered: bool,
}

impl Tickets {
    /// The number stands for the ticket's connection from now on, if it is a ticket.
    fn use_up(&mut self, fd: c_int) {
        // SAFETY: the program was handed it, and has not got it yet.
        let shown = unsafe { BorrowedFd::borrow_raw(fd) };
        if !ticket::is_one(shown) {
            return;
        }
        let Ok(identity) = ticket::identity(shown) else {
            return;
        };
        let known = self.claimed.iter().find(|(known, _)| *known == identity);
        let held = match known {
            Some((_, held)) => Ok(held.clone()),
            None if self.unanswered => Err(Errno::TIMEDOUT),
            None => claim(shown),
        };
        match held.and_then(|held| settle(fd, &held).map(|()| held)) {
            Ok(held) => self.claimed.push((identity, held)),
            Err(Errno::TIMEDOUT) => {
                self.unanswered = true;
                report::left_to_kernel(fd, CONNECTION, NOT_ANSWERED);
            }
            Err(_) => report::left_to_kernel(fd, CONNECTION, NOT_CLAIMED),
        }
    }
}

/// The descriptors with which the program was started.
pub fn inherited() {
    let Some(open) = numbers::open() else {
        // SAFETY: asked for its name, and nothing else; a number that is not open has none.
        let is_ticket = |fd: &c_int| ticket::is_one(unsafe { BorrowedFd::borrow_raw(*fd) });
        let tickets: Vec<c_int> = (0..INHERITED).filter(is_ticket).collect();
        epoll::look_blindly(0..INHERITED, &tickets);
        return arrived(0..INHERITED);
    };
    let sets = epoll::look(&open);
    arrived(open.into_iter());
    sets.restore();
}

fn claim(shown: BorrowedFd<'_>) -> Result<Held, Errno> {
    let session = session::begin().ok_or(Errno::CONNREFUSED)?;
    let (socket, carried) = session.claim(shown)?;
    let stream = Stream::new(socket);
    stream.take_carried(&carried);
    let family = if carried.ipv6 {
        libc::AF_INET6
    } else {
        libc::AF_INET
    };
    let tcp = Tcp::accepted(family, carried.nonblocking, stream);
    Ok(Held::new(Content::Tcp(tcp)))
}

/// Makes the number of a ticket one of the connection.
fn settle(fd: c_int, held: &Held) -> Result<(), Errno> {
    let family = held.tcp().map_or(libc::AF_INET, |tcp| tcp.family);
    replace_by_placeholder(fd, family)?;
    if !table::install(fd, held.clone()) {
        return Err(Errno::MFILE);
    }
    standard::number_changed(fd);
    Ok(())
}

/// A message in which tickets stand for connections.
pub struct Outgoing {
    /// In place of the program's.
    pub header: msghdr,
    /// What goes along; `header` points to it.
    _control: Vec<usize>,
    /// Closed once the message is on its way.
    _tickets: Vec<OwnedFd>,
}

/// Whether a message to be sent carries connections of the engine's. Epoll sets that it carries are others' as well from
/// now on.
///
/// # Safety
/// `message` is null or points to a header for sendmsg.
pub unsafe fn carries(message: *const msghdr) -> bool {
    // SAFETY: as the caller promises.
    let header = unsafe { message.as_ref() };
    let with_rights = header.is_some_and(|header| {
        !header.msg_control.is_null() && header.msg_controllen >= size_of::<libc::cmsghdr>()
    });
    // SAFETY: as the caller promises.
    with_rights
        && unsafe { rights(message) }.fold(false, |carries, at| {
            // SAFETY: within the list.
            let fd = unsafe { at.read_unaligned() };
            epoll::opens_number(fd);
            carries | table::get(fd).is_some_and(|held| held.stream().is_some())
        })
}

/// The message to be sent instead, if it carries connections of the engine's.
///
/// # Safety
/// As [`carries`].
pub unsafe fn outgoing(message: *const msghdr) -> Option<Outgoing> {
    // SAFETY: as the caller promises.
    let header = unsafe { carries(message).then(|| &*message) }?;
    let length = header.msg_controllen;
    // Aligned as a list of parts has to be.
    let mut control = vec![0usize; length.div_ceil(size_of::<usize>())];
    let mut header = *header;
    // SAFETY: so many bytes are the program's, and the copy has room for them.
    unsafe {
        let from = header.msg_control.cast::<u8>().cast_const();
        core::ptr::copy_nonoverlapping(from, control.as_mut_ptr().cast::<u8>(), length);
    }
    header.msg_control = control.as_mut_ptr().cast();
    let mut tickets = Vec::new();
    // SAFETY: the copy of a list is one.
    for at in unsafe { rights(&raw const header) } {
        // SAFETY: within the copy.
        let fd = unsafe { at.read_unaligned() };
        let Some(ticket) = table::get(fd).and_then(|held| ticket_for(fd, &held)) else {
            continue;
        };
        // SAFETY: as above.
        unsafe { at.write_unaligned(ticket.as_raw_fd()) };
        tickets.push(ticket);
    }
    Some(Outgoing {
        header,
        _control: control,
        _tickets: tickets,
    })
}

/// Where the descriptors of a message stand.
///
/// # Safety
/// `message` points to a header that is filled, and stays while this is used.
pub unsafe fn rights(message: *const msghdr) -> impl Iterator<Item = *mut c_int> {
    // SAFETY: as the caller promises.
    let mut part = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: as above.
    let end = unsafe { (*message).msg_control as usize + (*message).msg_controllen };
    let mut fds: (*mut c_int, usize) = (core::ptr::null_mut(), 0);
    core::iter::from_fn(move || {
        loop {
            if fds.1 > 0 {
                let at = fds.0;
                fds = (at.wrapping_add(1), fds.1 - 1);
                return Some(at);
            }
            // SAFETY: a part of the list, or none.
            let header = unsafe { part.as_ref() }?;
            if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_RIGHTS {
                // SAFETY: descriptors fill the part from here on.
                let first = unsafe { libc::CMSG_DATA(part) };
                // A length that goes beyond the list is the kernel's to refuse.
                let whole = (part as usize).saturating_add(header.cmsg_len).min(end);
                let count = whole.saturating_sub(first as usize) / size_of::<c_int>();
                fds = (first.cast(), count);
            }
            // SAFETY: within the list, as CMSG_NXTHDR checks.
            part = unsafe { libc::CMSG_NXTHDR(message, part) };
        }
    })
}
