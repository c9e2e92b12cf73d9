//! Making, naming, connecting and ending sockets.

use super::made::named;
use crate::address::{Room, is_ipv4};
use crate::errors::{last, value};
use crate::setting::setting;
use differ::outcome::Outcome;
use differ::program::{AcceptBy, Address, Destination, End, Family, How, Port, Slot};
use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A port of the peer's at which nobody listens.
const NOBODY: u16 = 9;

pub fn socket(new: Slot, family: Family, nonblocking: bool) -> Outcome {
    let family = match family {
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    };
    let flags = if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
    // SAFETY: takes no pointer.
    named(new, unsafe {
        libc::socket(family, libc::SOCK_STREAM | flags, 0)
    })
}

pub fn bind(fd: c_int, address: Address, port: Port) -> Outcome {
    let port = match port {
        Port::Any => 0,
        Port::Own(port) => setting().own_ports + u16::from(port),
    };
    let ip: IpAddr = match (is_ipv4(fd), address) {
        (true, Address::Any) => Ipv4Addr::UNSPECIFIED.into(),
        (true, Address::Interface) => setting().here.0.into(),
        (false, Address::Any) => Ipv6Addr::UNSPECIFIED.into(),
        (false, Address::Interface) => setting().here.1.into(),
    };
    let name = Room::of(SocketAddr::new(ip, port));
    // SAFETY: the address is whole.
    value(unsafe { libc::bind(fd, name.pointer(), name.length) })
}

pub fn listen(fd: c_int, backlog: i32) -> Outcome {
    // SAFETY: takes no pointer.
    value(unsafe { libc::listen(fd, backlog) })
}

pub fn accept(fd: c_int, new: Slot, by: AcceptBy) -> Outcome {
    let mut name = Room::empty();
    let (pointer, length) = (name.pointer_mut(), &raw mut name.length);
    // SAFETY: room for an address, and its length.
    let number = unsafe {
        match by {
            AcceptBy::Accept => libc::accept(fd, pointer, length),
            AcceptBy::Accept4 => libc::accept4(fd, pointer, length, 0),
            AcceptBy::Accept4Nonblocking => libc::accept4(fd, pointer, length, libc::SOCK_NONBLOCK),
            AcceptBy::Accept4CloseOnExec => libc::accept4(fd, pointer, length, libc::SOCK_CLOEXEC),
        }
    };
    match named(new, number) {
        Outcome::Error(error) => Outcome::Error(error),
        _ => Outcome::Accepted(
            number,
            name.read().and_then(|it| setting().connection(it.port())),
        ),
    }
}

pub fn accept_any(fds: &[c_int], new: Slot) -> Outcome {
    let mut entries: Vec<libc::pollfd> = fds
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: the entries and their number.
    if unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as u64, -1) } < 0 {
        return last();
    }
    match entries.iter().find(|entry| entry.revents != 0) {
        Some(ready) => accept(ready.fd, new, AcceptBy::Accept),
        None => Outcome::Value(0),
    }
}

pub fn connect(fd: c_int, to: Destination) -> Outcome {
    let there: IpAddr = if is_ipv4(fd) {
        setting().there.0.into()
    } else {
        setting().there.1.into()
    };
    let port = match to {
        Destination::Peer(connection) => setting().peer_ports + u16::from(connection),
        Destination::Nobody => NOBODY,
    };
    let name = Room::of(SocketAddr::new(there, port));
    // SAFETY: the address is whole.
    value(unsafe { libc::connect(fd, name.pointer(), name.length) })
}

pub fn shutdown(fd: c_int, how: How) -> Outcome {
    let how = match how {
        How::Read => libc::SHUT_RD,
        How::Write => libc::SHUT_WR,
        How::Both => libc::SHUT_RDWR,
    };
    // SAFETY: takes no pointer.
    value(unsafe { libc::shutdown(fd, how) })
}

pub fn name(fd: c_int, of: End) -> Outcome {
    let mut name = Room::empty();
    let (pointer, length) = (name.pointer_mut(), &raw mut name.length);
    // SAFETY: room for an address, and its length.
    let got = unsafe {
        match of {
            End::Local => libc::getsockname(fd, pointer, length),
            End::Remote => libc::getpeername(fd, pointer, length),
        }
    };
    if got < 0 {
        return last();
    }
    Outcome::Text(match name.read() {
        Some(address) => setting().name(address.ip(), address.port()),
        None => format!("family {}", name.bytes.sin6_family),
    })
}
