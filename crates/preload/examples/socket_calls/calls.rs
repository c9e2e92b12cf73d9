//! The calls, each of which writes down what it returned.

use std::ffi::{c_int, c_void};
use std::fmt::Write as _;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

/// Milliseconds that what is bound to come may take: only a hang takes longer.
pub const HANG: c_int = 60_000;

/// What was called and what came back.
#[derive(Default)]
pub struct Transcript(pub String);

fn errno() -> String {
    let error = std::io::Error::last_os_error();
    let number = error.raw_os_error().unwrap_or(0);
    const NAMES: [(c_int, &str); 23] = [
        (libc::EAGAIN, "EAGAIN"),
        (libc::EINPROGRESS, "EINPROGRESS"),
        (libc::EALREADY, "EALREADY"),
        (libc::EISCONN, "EISCONN"),
        (libc::ENOTCONN, "ENOTCONN"),
        (libc::ECONNREFUSED, "ECONNREFUSED"),
        (libc::ECONNRESET, "ECONNRESET"),
        (libc::ECONNABORTED, "ECONNABORTED"),
        (libc::EPIPE, "EPIPE"),
        (libc::EINVAL, "EINVAL"),
        (libc::EBADF, "EBADF"),
        (libc::EINTR, "EINTR"),
        (libc::EEXIST, "EEXIST"),
        (libc::ENOENT, "ENOENT"),
        (libc::ESPIPE, "ESPIPE"),
        (libc::EFAULT, "EFAULT"),
        (libc::ENOPROTOOPT, "ENOPROTOOPT"),
        (libc::ENOTSOCK, "ENOTSOCK"),
        (libc::EADDRINUSE, "EADDRINUSE"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::EMSGSIZE, "EMSGSIZE"),
        (libc::EDOM, "EDOM"),
        (libc::ETIMEDOUT, "ETIMEDOUT"),
    ];
    NAMES
        .iter()
        .find(|(value, _)| *value == number)
        .map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}

impl Transcript {
    /// Writes a line.
    pub fn note(&mut self, line: impl std::fmt::Display) {
        let _ = writeln!(self.0, "  {line}");
    }

    /// Writes what a call returned, and passes it on.
    pub fn call(&mut self, name: &str, returned: isize) -> isize {
        let outcome = if returned < 0 {
            errno()
        } else {
            returned.to_string()
        };
        self.note(format_args!("{name} = {outcome}"));
        returned
    }

    /// A call that returns a descriptor, whose number does not matter.
    pub fn fd(&mut self, name: &str, returned: c_int) -> c_int {
        let outcome = if returned < 0 {
            errno()
        } else {
            "a descriptor".to_owned()
        };
        self.note(format_args!("{name} = {outcome}"));
        returned
    }

    pub fn recv(&mut self, fd: c_int, most: usize, flags: c_int) -> isize {
        let mut bytes = vec![0u8; most];
        // SAFETY: the buffer has `most` bytes.
        let read = unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), most, flags) };
        self.bytes(&format!("recv({most}, {flags:#x})"), read, &bytes)
    }

    pub fn read(&mut self, fd: c_int, most: usize) -> isize {
        let mut bytes = vec![0u8; most];
        // SAFETY: the buffer has `most` bytes.
        let read = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), most) };
        self.bytes(&format!("read({most})"), read, &bytes)
    }

    /// A call that fills a buffer.
    pub fn bytes(&mut self, name: &str, returned: isize, bytes: &[u8]) -> isize {
        let outcome = match returned {
            ..0 => errno(),
            read => format!(
                "{read} {:?}",
                String::from_utf8_lossy(&bytes[..(read as usize).min(bytes.len())])
            ),
        };
        self.note(format_args!("{name} = {outcome}"));
        returned
    }

    pub fn send(&mut self, fd: c_int, bytes: &str, flags: c_int) -> isize {
        // SAFETY: the buffer is whole.
        let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) };
        self.call(&format!("send({}, {flags:#x})", bytes.len()), sent)
    }

    pub fn write(&mut self, fd: c_int, bytes: &str) -> isize {
        // SAFETY: the buffer is whole.
        let sent = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        self.call(&format!("write({})", bytes.len()), sent)
    }

    /// poll on one descriptor, waiting for `events`, at most `milliseconds`.
    pub fn poll(&mut self, fd: c_int, events: i16, milliseconds: c_int) -> i16 {
        let mut entry = libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        // SAFETY: one entry.
        let found = unsafe { libc::poll(&raw mut entry, 1, milliseconds) };
        self.note(format_args!(
            "poll({events:#x}) = {found} {:#x}",
            entry.revents
        ));
        entry.revents
    }

    /// Waits until poll says exactly `wanted` of `events`: what comes in several steps is looked at
    /// when it has come.
    pub fn settle(&mut self, fd: c_int, events: i16, wanted: i16) {
        let mut entry = libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        until(|| {
            // SAFETY: one entry.
            unsafe { libc::poll(&raw mut entry, 1, 0) };
            entry.revents & wanted == wanted
        });
        self.note(format_args!("settled({events:#x}) = {:#x}", entry.revents));
    }

    pub fn integer_option(&mut self, fd: c_int, level: c_int, name: c_int) -> c_int {
        let mut value: c_int = -1;
        let mut length = size_of::<c_int>() as libc::socklen_t;
        // SAFETY: an integer and its length.
        let got =
            unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut length) };
        let outcome = if got < 0 {
            errno()
        } else {
            format!("{value} ({length})")
        };
        self.note(format_args!("getsockopt({level}, {name}) = {outcome}"));
        value
    }

    pub fn set_integer(&mut self, fd: c_int, level: c_int, name: c_int, value: c_int) -> c_int {
        // SAFETY: an integer and its length.
        let set = unsafe {
            libc::setsockopt(
                fd,
                level,
                name,
                (&raw const value).cast(),
                size_of::<c_int>() as u32,
            )
        };
        self.call(
            &format!("setsockopt({level}, {name}, {value})"),
            set as isize,
        ) as c_int
    }

    pub fn close(&mut self, fd: c_int) {
        // SAFETY: the scenario's own descriptor.
        let closed = unsafe { libc::close(fd) };
        self.call("close", closed as isize);
    }
}

/// A TCP socket of the family of `address`.
pub fn socket(address: IpAddr, flags: c_int) -> c_int {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    // SAFETY: makes a socket.
    unsafe { libc::socket(family, libc::SOCK_STREAM | flags, 0) }
}

/// Calls `with` with the address as the kernel has it.
pub fn with_address<R>(
    address: SocketAddr,
    with: impl FnOnce(*const libc::sockaddr, libc::socklen_t) -> R,
) -> R {
    match address {
        SocketAddr::V4(v4) => {
            // SAFETY: made of integers.
            let mut name: libc::sockaddr_in = unsafe { zeroed() };
            name.sin_family = libc::AF_INET as u16;
            name.sin_port = v4.port().to_be();
            name.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            with(
                (&raw const name).cast(),
                size_of::<libc::sockaddr_in>() as u32,
            )
        }
        SocketAddr::V6(v6) => {
            // SAFETY: made of integers.
            let mut name: libc::sockaddr_in6 = unsafe { zeroed() };
            name.sin6_family = libc::AF_INET6 as u16;
            name.sin6_port = v6.port().to_be();
            name.sin6_addr.s6_addr = v6.ip().octets();
            with(
                (&raw const name).cast(),
                size_of::<libc::sockaddr_in6>() as u32,
            )
        }
    }
}

/// A listening socket on `address` at any port, and that port.
pub fn listening(address: IpAddr, flags: c_int) -> (c_int, SocketAddr) {
    let fd = socket(address, flags);
    with_address(SocketAddr::new(address, 0), |name, length| {
        // SAFETY: the address is whole.
        let bound = unsafe { libc::bind(fd, name, length) };
        assert_eq!(bound, 0, "bind: {}", errno());
    });
    // SAFETY: an own socket.
    assert_eq!(unsafe { libc::listen(fd, 16) }, 0, "listen: {}", errno());
    (fd, SocketAddr::new(address, port_of(fd)))
}

/// The local port.
pub fn port_of(fd: c_int) -> u16 {
    // SAFETY: made of integers, and long enough for any address.
    let mut name: libc::sockaddr_in6 = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    // SAFETY: the buffer and its length.
    let got = unsafe { libc::getsockname(fd, (&raw mut name).cast(), &raw mut length) };
    assert_eq!(got, 0, "getsockname: {}", errno());
    // The port is at the same place for both families.
    u16::from_be(name.sin6_port)
}

/// Makes a close of `stream` a reset.
pub fn set_linger_zero(stream: &TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    set_linger(stream.as_raw_fd(), linger);
}

/// SO_LINGER.
pub fn set_linger(fd: c_int, linger: libc::linger) -> c_int {
    let size = size_of::<libc::linger>() as u32;
    // SAFETY: the structure and its length.
    unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size,
        )
    }
}

/// Looks again and again until `there` says yes, or until that is a hang.
pub fn until(mut there: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !there() && begin.elapsed().as_millis() < HANG as u128 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Whether a process or thread sleeps, by its `stat` (proc(5)): the state comes after the name, which stands in
/// parentheses.
pub fn is_asleep(stat: &str) -> bool {
    let after_name = stat.rsplit(')').next();
    after_name.is_some_and(|rest| rest.starts_with(" S"))
}

/// Waits until so many bytes can be read.
pub fn await_bytes(fd: c_int, count: usize) {
    let mut bytes = vec![0u8; count];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the buffer has `count` bytes.
    until(|| unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), count, flags) } >= count as isize);
}

/// TCP_MAXSEG, −1 if there is no answer.
pub fn segment(fd: c_int) -> c_int {
    let mut value: c_int = -1;
    let mut length = size_of::<c_int>() as u32;
    let room = (&raw mut value).cast();
    // SAFETY: an integer and its length.
    unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            room,
            &raw mut length,
        )
    };
    value
}

/// SO_RCVTIMEO or SO_SNDTIMEO.
pub fn set_timeout(fd: c_int, name: c_int, milliseconds: i64) -> c_int {
    let time = libc::timeval {
        tv_sec: milliseconds / 1000,
        tv_usec: milliseconds % 1000 * 1000,
    };
    let size = size_of::<libc::timeval>() as u32;
    // SAFETY: the structure and its length.
    unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, name, (&raw const time).cast(), size) }
}

/// A vector of the given bytes.
pub fn vector(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_mut_ptr().cast::<c_void>(),
        iov_len: bytes.len(),
    }
}
