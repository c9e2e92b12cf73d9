//! The C interface: the structure that the runner reads, and the functions behind its pointers.
//!
//! All `unsafe` of this crate is here. What the runner passes is trusted as far as C must trust it:
//! pointers are valid for the lengths that come with them, as for the system calls of the same names.

mod calls;
mod clock;
mod memory;
mod options;
mod pipes;
mod readiness;
mod transfer;

use core::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

use libc::{
    epoll_event, iovec, msghdr, nfds_t, off64_t, pollfd, size_t, sockaddr, socklen_t, ssize_t,
    timeval, timezone, useconds_t,
};

use crate::host::Host;

/// `struct packetdrill_interface`: what the library gives the runner. Every function takes
/// `userdata` first and otherwise what the C function of its name takes.
#[repr(C)]
#[allow(missing_docs, reason = "each is the C function of its name")]
#[rustfmt::skip]
pub struct Interface {
    pub userdata: *mut c_void,
    pub free: unsafe extern "C" fn(*mut c_void),
    pub socket: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int,
    pub bind: unsafe extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    pub listen: unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    pub accept: unsafe extern "C" fn(*mut c_void, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    pub connect: unsafe extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    pub read: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, size_t) -> ssize_t,
    pub readv: unsafe extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> ssize_t,
    pub recv: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    pub recvfrom: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t,
    pub recvmsg: unsafe extern "C" fn(*mut c_void, c_int, *mut msghdr, c_int) -> ssize_t,
    pub write: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, size_t) -> ssize_t,
    pub writev: unsafe extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> ssize_t,
    pub send: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, size_t, c_int) -> ssize_t,
    pub sendto: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t,
    pub sendmsg: unsafe extern "C" fn(*mut c_void, c_int, *const msghdr, c_int) -> ssize_t,
    /// Variadic in C; on x86-64 a fixed argument in its place is passed alike.
    pub fcntl: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_long) -> c_int,
    /// As `fcntl`.
    pub ioctl: unsafe extern "C" fn(*mut c_void, c_int, c_ulong, *mut c_void) -> c_int,
    pub close: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    pub shutdown: unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    pub getsockopt: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    pub setsockopt: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    pub poll: unsafe extern "C" fn(*mut c_void, *mut pollfd, nfds_t, c_int) -> c_int,
    /// A datagram for the stack.
    pub netdev_send: unsafe extern "C" fn(*mut c_void, *const c_void, size_t) -> c_int,
    /// The next datagram of the stack's: its bytes, its length, when it left in microseconds.
    pub netdev_receive: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut size_t, *mut i64) -> c_int,
    pub usleep: unsafe extern "C" fn(*mut c_void, useconds_t) -> c_int,
    pub gettimeofday: unsafe extern "C" fn(*mut c_void, *mut timeval, *mut timezone) -> c_int,
    pub epoll_create: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    pub epoll_ctl: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    pub epoll_wait: unsafe extern "C" fn(*mut c_void, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pub pipe: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int,
    pub splice: unsafe extern "C" fn(*mut c_void, c_int, *mut off64_t, c_int, *mut off64_t, size_t, c_uint) -> ssize_t,
}

/// What the runner looks up and calls first: fills in `interface`. `flags` is what `--so_flags` said,
/// or null.
///
/// # Safety
/// `flags` is null or a string, `interface` is valid for writing.
// SAFETY: no other function of the process has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut Interface,
) {
    // SAFETY: as this function demands.
    let flags = unsafe { memory::string(flags) };
    let host = Box::into_raw(Box::new(Host::new(&flags)));
    let filled = Interface {
        userdata: host.cast(),
        free: clock::free,
        socket: calls::socket,
        bind: calls::bind,
        listen: calls::listen,
        accept: calls::accept,
        connect: calls::connect,
        read: transfer::read,
        readv: transfer::readv,
        recv: transfer::recv,
        recvfrom: transfer::recvfrom,
        recvmsg: transfer::recvmsg,
        write: transfer::write,
        writev: transfer::writev,
        send: transfer::send,
        sendto: transfer::sendto,
        sendmsg: transfer::sendmsg,
        fcntl: options::fcntl,
        ioctl: options::ioctl,
        close: calls::close,
        shutdown: calls::shutdown,
        getsockopt: options::getsockopt,
        setsockopt: options::setsockopt,
        poll: readiness::poll,
        netdev_send: clock::netdev_send,
        netdev_receive: clock::netdev_receive,
        usleep: clock::usleep,
        gettimeofday: clock::gettimeofday,
        epoll_create: readiness::epoll_create,
        epoll_ctl: readiness::epoll_ctl,
        epoll_wait: readiness::epoll_wait,
        pipe: pipes::pipe,
        splice: pipes::splice,
    };
    // SAFETY: as this function demands.
    unsafe { interface.write(filled) };
}
