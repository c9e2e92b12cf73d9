//! Sockets that the program has made, or was handed, and that could become ours.

use core::ffi::c_int;

use crate::numbers::description::Content;
use crate::numbers::table::{self, Held};
use crate::objects::tcp::Tcp;

/// The program was handed a socket that another one has made, and that is not connected: it goes on as if
/// this one had made it. Options may be set.
pub fn found(fd: c_int, family: c_int, nonblocking: bool) {
    let tcp = Tcp::found(family, nonblocking);
    table::install(fd, Held::new(Content::Tcp(tcp)));
}

/// The program has a new socket `fd`: remembers it, if it is one that could become ours.
pub fn made(fd: c_int, domain: c_int, kind: c_int, protocol: c_int) {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    if (domain != libc::AF_INET && domain != libc::AF_INET6)
        || kind & !flags != libc::SOCK_STREAM
        || (protocol != 0 && protocol != libc::IPPROTO_TCP)
    {
        return;
    }
    let tcp = Tcp::new(domain, kind & libc::SOCK_NONBLOCK != 0);
    table::install(fd, Held::new(Content::Tcp(tcp)));
}
