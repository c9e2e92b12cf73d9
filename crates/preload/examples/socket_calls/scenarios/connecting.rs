//! Opening and accepting.

use std::ffi::c_int;
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;

use super::{Stage, agents_listener};
use crate::calls::{self, HANG, Transcript};

pub fn accept(transcript: &mut Transcript, listener: c_int) -> c_int {
    let mut name = [0u8; 128];
    let mut length = 128;
    // SAFETY: the buffer and its length.
    let fd = unsafe { libc::accept(listener, name.as_mut_ptr().cast(), &raw mut length) };
    let fd = transcript.fd("accept", fd);
    if fd >= 0 {
        (name[2], name[3]) = (0, 0);
        transcript.note(format_args!("from {length} {:?}", &name[..16]));
    }
    fd
}

pub fn connect(transcript: &mut Transcript, fd: c_int, address: SocketAddr) -> c_int {
    let connected = calls::with_address(address, |name, length| {
        // SAFETY: the address is whole.
        unsafe { libc::connect(fd, name, length) }
    });
    transcript.call("connect", connected as isize) as c_int
}

/// A port of the agent's at which nobody listens.
pub fn nobody(stage: &mut Stage<'_>) -> SocketAddr {
    let address = agents_listener(stage.agent);
    stage.agent.tell("unlisten");
    address
}

pub fn accept_nonblocking(stage: &mut Stage<'_>) {
    let (listener, address) = calls::listening(stage.here, libc::SOCK_NONBLOCK);
    stage.transcript.poll(listener, libc::POLLIN, 0);
    accept(stage.transcript, listener);
    stage.agent.tell(&format!("connect {address}"));
    stage
        .transcript
        .poll(listener, libc::POLLIN | libc::POLLOUT, HANG);
    let fd = accept(stage.transcript, listener);
    // The flag is the listener's alone.
    // SAFETY: own descriptors.
    unsafe {
        stage
            .transcript
            .call("F_GETFL", libc::fcntl(fd, libc::F_GETFL) as isize)
    };
    accept(stage.transcript, listener);
    stage.transcript.poll(listener, libc::POLLIN, 0);
    stage.transcript.recv(listener, 1, 0);
    stage.transcript.send(listener, "x", libc::MSG_NOSIGNAL);
    stage.transcript.close(fd);
    stage.transcript.close(listener);
}

/// A listener that is to be told of clients that have said something, or have been silent for long
/// (TCP_DEFER_ACCEPT).
pub fn accept_deferred(stage: &mut Stage<'_>) {
    let (listener, address) = calls::listening(stage.here, libc::SOCK_NONBLOCK);
    let defer = |stage: &mut Stage<'_>, seconds| {
        let option = (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
        stage
            .transcript
            .set_integer(listener, option.0, option.1, seconds);
    };
    let is_deferred = |stage: &mut Stage<'_>| {
        stage.transcript.poll(listener, libc::POLLIN, 200);
        accept(stage.transcript, listener);
    };
    let comes = |stage: &mut Stage<'_>| {
        stage.transcript.poll(listener, libc::POLLIN, HANG);
        accept(stage.transcript, listener)
    };
    // For longer than this takes.
    defer(stage, 30);
    for ends in [false, true] {
        stage.agent.tell(&format!("connect {address}"));
        is_deferred(stage);
        stage
            .agent
            .tell(if ends { "shutdown" } else { "send hello" });
        let fd = comes(stage);
        stage.transcript.recv(fd, 10, libc::MSG_DONTWAIT);
        stage.transcript.close(fd);
    }
    defer(stage, 1);
    stage.agent.tell(&format!("connect {address}"));
    is_deferred(stage);
    let fd = comes(stage);
    stage.transcript.recv(fd, 10, libc::MSG_DONTWAIT);
    stage.agent.tell("send hello");
    calls::await_bytes(fd, 5);
    stage.transcript.recv(fd, 10, 0);
    stage.transcript.close(fd);
    defer(stage, 0);
    stage.agent.tell(&format!("connect {address}"));
    let fd = comes(stage);
    stage.transcript.close(fd);
    stage.transcript.close(listener);
}

pub fn accept_flags(stage: &mut Stage<'_>) {
    let (listener, address) = calls::listening(stage.here, 0);
    let none = std::ptr::null_mut::<libc::sockaddr>();
    for flags in [
        0,
        libc::SOCK_NONBLOCK,
        libc::SOCK_CLOEXEC,
        libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
    ] {
        stage.agent.tell(&format!("connect {address}"));
        // SAFETY: own descriptors.
        unsafe {
            let fd = stage.transcript.fd(
                "accept4",
                libc::accept4(listener, none, std::ptr::null_mut(), flags),
            );
            stage
                .transcript
                .call("F_GETFL", libc::fcntl(fd, libc::F_GETFL) as isize);
            stage
                .transcript
                .call("F_GETFD", libc::fcntl(fd, libc::F_GETFD) as isize);
            stage.transcript.close(fd);
        }
    }
    // SAFETY: flags that cannot be.
    let wrong = unsafe { libc::accept4(listener, none, std::ptr::null_mut(), 1) };
    stage.transcript.call("accept4(1)", wrong as isize);
    stage
        .transcript
        .integer_option(listener, libc::SOL_SOCKET, libc::SO_ACCEPTCONN);
    // SAFETY: flags of an own descriptor.
    unsafe {
        stage
            .transcript
            .call("F_GETFL", libc::fcntl(listener, libc::F_GETFL) as isize)
    };
    stage.transcript.close(listener);
}

pub fn accept_through_set(stage: &mut Stage<'_>) {
    // SAFETY: own descriptors and events.
    unsafe {
        let set = libc::epoll_create1(0);
        let (listener, address) = calls::listening(stage.here, libc::SOCK_NONBLOCK);
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLRDHUP) as u32,
            u64: 3,
        };
        stage.transcript.call(
            "ADD",
            libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, listener, &raw mut event) as isize,
        );
        let mut events: [libc::epoll_event; 4] = zeroed();
        let mut wait = |stage: &mut Stage<'_>, milliseconds| {
            let found = libc::epoll_wait(set, events.as_mut_ptr(), 4, milliseconds);
            // Beyond what was found the array may hold anything.
            let first = if found > 0 { events[0] } else { zeroed() };
            let (data, bits) = (first.u64, first.events);
            stage
                .transcript
                .note(format_args!("epoll_wait = {found} {data} {bits:#x}"));
        };
        stage.agent.tell(&format!("connect {address}"));
        wait(stage, HANG);
        wait(stage, HANG);
        let fd = accept(stage.transcript, listener);
        stage.transcript.call(
            "DEL",
            libc::epoll_ctl(set, libc::EPOLL_CTL_DEL, listener, &raw mut event) as isize,
        );
        stage.agent.tell(&format!("connect {address}"));
        wait(stage, 30);
        stage.transcript.close(fd);
        stage.transcript.close(listener);
        libc::close(set);
    }
}

pub fn accept_time_limit(stage: &mut Stage<'_>) {
    let (listener, _) = calls::listening(stage.here, 0);
    calls::set_timeout(listener, libc::SO_RCVTIMEO, 40);
    let before = std::time::Instant::now();
    accept(stage.transcript, listener);
    let waited = before.elapsed().as_millis();
    stage
        .transcript
        .note(format_args!("waited as told: {}", waited >= 35));
    stage.transcript.close(listener);
}

pub fn listen_twice(stage: &mut Stage<'_>) {
    let (listener, address) = calls::listening(stage.here, 0);
    // SAFETY: an own descriptor.
    unsafe {
        stage
            .transcript
            .call("listen again", libc::listen(listener, 100) as isize)
    };
    stage.agent.tell(&format!("connect {address}"));
    let fd = accept(stage.transcript, listener);
    stage.agent.tell("send hello");
    stage.transcript.recv(fd, 10, 0);
    // Another socket on the same address is refused as long as this one listens.
    let second = calls::socket(stage.here, 0);
    calls::with_address(address, |name, length| {
        // SAFETY: the address is whole.
        stage.transcript.call(
            "bind to the same",
            unsafe { libc::bind(second, name, length) } as isize,
        )
    });
    stage.transcript.close(second);
    stage.transcript.close(fd);
    stage.transcript.close(listener);
}

pub fn inherited(stage: &mut Stage<'_>) {
    let (listener, address) = calls::listening(stage.here, 0);
    for (level, name, value) in [
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 77),
        (libc::IPPROTO_IP, libc::IP_TOS, 0x10),
    ] {
        stage.transcript.set_integer(listener, level, name, value);
    }
    set_beforehand(stage.transcript, listener);
    stage.agent.tell(&format!("connect {address}"));
    let fd = accept(stage.transcript, listener);
    for (level, name) in [
        (libc::IPPROTO_TCP, libc::TCP_NODELAY),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
        (libc::IPPROTO_IP, libc::IP_TOS),
    ] {
        stage.transcript.integer_option(fd, level, name);
    }
    look_afterwards(stage.transcript, fd);
    stage.transcript.close(fd);
    stage.transcript.close(listener);
}

/// TCP_MAXSEG bounds what the peer sends, too, if it is set early enough.
pub fn segments_of_accepted(stage: &mut Stage<'_>) {
    let fd = calls::socket(stage.here, 0);
    stage
        .transcript
        .integer_option(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG);
    for value in [87, 40_000, 1000] {
        stage
            .transcript
            .set_integer(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, value);
    }
    let name = SocketAddr::new(stage.here, 0);
    calls::with_address(name, |name, length| {
        // SAFETY: the address is whole.
        stage
            .transcript
            .call("bind", unsafe { libc::bind(fd, name, length) } as isize)
    });
    // SAFETY: an own socket.
    stage
        .transcript
        .call("listen", unsafe { libc::listen(fd, 8) } as isize);
    stage
        .transcript
        .integer_option(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG);
    let address = SocketAddr::new(stage.here, calls::port_of(fd));
    stage.agent.tell(&format!("connect {address}"));
    let accepted = accept(stage.transcript, fd);
    segments(stage, accepted);
    stage.transcript.close(accepted);
    stage.transcript.close(fd);
}

pub fn segments_of_connected(stage: &mut Stage<'_>) {
    let address = agents_listener(stage.agent);
    let fd = calls::socket(address.ip(), 0);
    stage
        .transcript
        .set_integer(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, 1000);
    connect(stage.transcript, fd, address);
    stage.agent.tell("accept");
    segments(stage, fd);
    stage.transcript.close(fd);
}

fn segments(stage: &mut Stage<'_>, fd: c_int) {
    let peer = stage.agent.tell("segment");
    stage.transcript.note(format_args!(
        "the peer's {peer}, here {}",
        calls::segment(fd)
    ));
}

pub fn options_before(stage: &mut Stage<'_>) {
    let address = agents_listener(stage.agent);
    let fd = calls::socket(address.ip(), 0);
    set_beforehand(stage.transcript, fd);
    connect(stage.transcript, fd, address);
    stage.agent.tell("accept");
    look_afterwards(stage.transcript, fd);
    stage.transcript.close(fd);
}

/// Options of a socket that is not connected, which it has when it is, or what it accepts has.
fn set_beforehand(transcript: &mut Transcript, fd: c_int) {
    for (name, value) in [
        (libc::SO_SNDBUF, 40_000),
        (libc::SO_RCVBUF, 50_000),
        (libc::SO_RCVLOWAT, 10),
    ] {
        transcript.set_integer(fd, libc::SOL_SOCKET, name, value);
    }
    for (name, milliseconds) in [(libc::SO_RCVTIMEO, 150), (libc::SO_SNDTIMEO, 2_500)] {
        let set = calls::set_timeout(fd, name, milliseconds);
        transcript.call("a time limit", set as isize);
    }
}

/// The same, and that they have effect.
fn look_afterwards(transcript: &mut Transcript, fd: c_int) {
    for name in [libc::SO_SNDBUF, libc::SO_RCVBUF, libc::SO_RCVLOWAT] {
        transcript.integer_option(fd, libc::SOL_SOCKET, name);
    }
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        // SAFETY: a structure of integers, and its length.
        unsafe {
            let mut time: libc::timeval = zeroed();
            let mut length = size_of::<libc::timeval>() as u32;
            let value = (&raw mut time).cast();
            libc::getsockopt(fd, libc::SOL_SOCKET, name, value, &raw mut length);
            transcript.note(format_args!("{} s {} us", time.tv_sec, time.tv_usec));
        }
    }
    let before = std::time::Instant::now();
    transcript.recv(fd, 10, 0);
    let waited = before.elapsed().as_millis();
    transcript.note(format_args!("waited: {}", waited >= 140));
}

pub fn connect_nonblocking(stage: &mut Stage<'_>) {
    let address = agents_listener(stage.agent);
    let fd = calls::socket(address.ip(), libc::SOCK_NONBLOCK);
    connect(stage.transcript, fd, address);
    stage.transcript.poll(fd, libc::POLLOUT, HANG);
    stage
        .transcript
        .integer_option(fd, libc::SOL_SOCKET, libc::SO_ERROR);
    stage.agent.tell("accept");
    connect(stage.transcript, fd, address);
    stage.transcript.send(fd, "hello", 0);
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
    stage.transcript.recv(fd, 10, 0);
    stage.transcript.close(fd);
}

pub fn connect_in_set(stage: &mut Stage<'_>) {
    let address = agents_listener(stage.agent);
    let fd = calls::socket(address.ip(), libc::SOCK_NONBLOCK);
    // SAFETY: own descriptors and events.
    unsafe {
        let set = libc::epoll_create1(0);
        let all = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET;
        let mut event = libc::epoll_event {
            events: all as u32,
            u64: 8,
        };
        stage.transcript.call(
            "ADD",
            libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event) as isize,
        );
        let mut events: [libc::epoll_event; 4] = zeroed();
        let mut wait = |stage: &mut Stage<'_>, milliseconds| {
            let found = libc::epoll_wait(set, events.as_mut_ptr(), 4, milliseconds);
            // Beyond what was found the array may hold anything.
            let first = if found > 0 { events[0] } else { zeroed() };
            let (data, bits) = (first.u64, first.events);
            stage
                .transcript
                .note(format_args!("epoll_wait = {found} {data} {bits:#x}"));
        };
        // Not connected yet: hung up.
        wait(stage, 0);
        connect(stage.transcript, fd, address);
        wait(stage, HANG);
        stage.agent.tell("accept");
        stage.agent.tell("send hello");
        wait(stage, HANG);
        stage.transcript.recv(fd, 10, 0);
        libc::close(set);
    }
    stage.transcript.close(fd);
}

pub fn refused(stage: &mut Stage<'_>) {
    let address = nobody(stage);
    let fd = calls::socket(address.ip(), 0);
    connect(stage.transcript, fd, address);
    stage
        .transcript
        .integer_option(fd, libc::SOL_SOCKET, libc::SO_ERROR);
    stage.transcript.close(fd);
}

pub fn refused_nonblocking(stage: &mut Stage<'_>) {
    let address = nobody(stage);
    let fd = calls::socket(address.ip(), libc::SOCK_NONBLOCK);
    connect(stage.transcript, fd, address);
    stage
        .transcript
        .settle(fd, libc::POLLOUT | libc::POLLIN, libc::POLLERR);
    stage
        .transcript
        .integer_option(fd, libc::SOL_SOCKET, libc::SO_ERROR);
    stage
        .transcript
        .integer_option(fd, libc::SOL_SOCKET, libc::SO_ERROR);
    stage.transcript.close(fd);
}

pub fn twice(stage: &mut Stage<'_>) {
    let address = agents_listener(stage.agent);
    let fd = calls::socket(address.ip(), 0);
    connect(stage.transcript, fd, address);
    connect(stage.transcript, fd, address);
    stage.agent.tell("accept");
    // SAFETY: an own descriptor.
    unsafe {
        stage
            .transcript
            .call("listen", libc::listen(fd, 1) as isize)
    };
    stage.transcript.close(fd);
}

pub fn not_connected(stage: &mut Stage<'_>) {
    let fd = calls::socket(stage.here, 0);
    stage.transcript.recv(fd, 1, 0);
    stage.transcript.send(fd, "x", libc::MSG_NOSIGNAL);
    stage.transcript.poll(fd, libc::POLLIN | libc::POLLOUT, 0);
    // SAFETY: an own descriptor and buffers.
    unsafe {
        stage
            .transcript
            .call("shutdown", libc::shutdown(fd, libc::SHUT_WR) as isize);
        let mut name = [0u8; 128];
        let mut length = 128;
        stage.transcript.call(
            "getpeername",
            libc::getpeername(fd, name.as_mut_ptr().cast(), &raw mut length) as isize,
        );
        let none = std::ptr::null_mut();
        stage.transcript.call(
            "accept",
            libc::accept(fd, none, std::ptr::null_mut()) as isize,
        );
        stage.transcript.call(
            "connect(short)",
            libc::connect(fd, name.as_ptr().cast(), 3) as isize,
        );
    }
    stage.transcript.close(fd);
}

/// bind before connect: the port is the program's own choice, or the kernel's at bind.
pub fn from_a_port(stage: &mut Stage<'_>) {
    let to = super::agents_listener(stage.agent);
    let fd = calls::socket(stage.here, 0);
    bind_to(stage, fd, SocketAddr::new(stage.here, 0));
    let port = calls::port_of(fd);
    connect_to(stage, fd, to);
    stage.agent.tell("accept");
    let from = stage.agent.tell("peer");
    stage.transcript.note(format_args!(
        "from the bound port: {} {}",
        from == SocketAddr::new(stage.here, port).to_string(),
        calls::port_of(fd) == port
    ));
    stage.transcript.send(fd, "hello", 0);
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
    // The port is taken as long as the connection is there: beyond its close, too.
    stage.transcript.close(fd);
    let second = calls::socket(stage.here, 0);
    bind_to(stage, second, SocketAddr::new(stage.here, port));
    // SAFETY: own descriptors.
    unsafe { libc::close(second) };
    let got = stage.agent.tell("rest");
    stage.transcript.note(got);
}

/// Several connections from one port, as of a server that calls back, and one from any address.
pub fn from_one_port(stage: &mut Stage<'_>) {
    let to = super::agents_listener(stage.agent);
    let any: std::net::IpAddr = match stage.here {
        std::net::IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        std::net::IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let fd = calls::socket(stage.here, 0);
    stage
        .transcript
        .set_integer(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1);
    bind_to(stage, fd, SocketAddr::new(any, 0));
    let port = calls::port_of(fd);
    connect_to(stage, fd, to);
    stage.agent.tell("accept");
    let from = stage.agent.tell("peer");
    let expected = SocketAddr::new(stage.here, port).to_string();
    stage
        .transcript
        .note(format_args!("from the bound port: {}", from == expected));
    // Another peer, the same port.
    let to = super::agents_listener(stage.agent);
    let second = calls::socket(stage.here, 0);
    stage
        .transcript
        .set_integer(second, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1);
    bind_to(stage, second, SocketAddr::new(any, port));
    connect_to(stage, second, to);
    stage.agent.tell("accept");
    stage.transcript.send(second, "hello", 0);
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
    stage.transcript.close(fd);
    stage.transcript.close(second);
}

/// A socket of IPv6 that is bound and connected to addresses of IPv4, by their mapped ones.
pub fn from_a_mapped_address(stage: &mut Stage<'_>) {
    let std::net::IpAddr::V4(here) = stage.here else {
        return;
    };
    let to = super::agents_listener(stage.agent);
    let std::net::IpAddr::V4(there) = to.ip() else {
        return;
    };
    for bound in [here.to_ipv6_mapped(), std::net::Ipv6Addr::UNSPECIFIED] {
        let fd = calls::socket(bound.into(), 0);
        bind_to(stage, fd, SocketAddr::new(bound.into(), 0));
        let port = calls::port_of(fd);
        connect_to(
            stage,
            fd,
            SocketAddr::new(there.to_ipv6_mapped().into(), to.port()),
        );
        stage.agent.tell("accept");
        let from = stage.agent.tell("peer");
        let expected = SocketAddr::new(here.into(), port).to_string();
        stage
            .transcript
            .note(format_args!("from the bound port: {}", from == expected));
        stage.transcript.close(fd);
    }
}

pub fn bind_to(stage: &mut Stage<'_>, fd: c_int, address: SocketAddr) {
    calls::with_address(address, |name, length| {
        // SAFETY: the address is whole.
        let bound = unsafe { libc::bind(fd, name, length) };
        stage.transcript.call("bind", bound as isize);
    });
}

fn connect_to(stage: &mut Stage<'_>, fd: c_int, address: SocketAddr) {
    calls::with_address(address, |name, length| {
        // SAFETY: the address is whole.
        let connected = unsafe { libc::connect(fd, name, length) };
        stage.transcript.call("connect", connected as isize);
    });
}
