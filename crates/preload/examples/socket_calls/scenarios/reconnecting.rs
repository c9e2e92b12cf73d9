//! A socket whose connect has failed is as before, and may connect or listen.

use std::ffi::c_int;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Stage, agents_listener, connecting};
use crate::calls;
use connecting::{accept, bind_to, connect, nobody};

/// What a socket is for poll and for calls that want a connection.
fn look(stage: &mut Stage<'_>, fd: c_int) {
    stage.transcript.poll(fd, libc::POLLIN | libc::POLLOUT, 0);
    stage
        .transcript
        .integer_option(fd, libc::SOL_SOCKET, libc::SO_ERROR);
    stage
        .transcript
        .integer_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY);
    stage.transcript.recv(fd, 1, 0);
    stage.transcript.send(fd, "x", libc::MSG_NOSIGNAL);
}

/// A socket that may connect again is heard by who listens there.
fn says_hello(stage: &mut Stage<'_>, fd: c_int, open: SocketAddr) {
    connect(stage.transcript, fd, open);
    stage.agent.tell("accept");
    stage.transcript.send(fd, "hello", 0);
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
}

/// Refused several times, with another number and in an epoll set; then somebody listens.
pub fn refused(stage: &mut Stage<'_>) {
    let closed = nobody(stage);
    let fd = calls::socket(closed.ip(), 0);
    // SAFETY: own descriptors and events.
    let (other, set) = unsafe { (libc::dup(fd), libc::epoll_create1(0)) };
    let mut event = libc::epoll_event {
        events: (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32,
        u64: 8,
    };
    let wait = |stage: &mut Stage<'_>, milliseconds| {
        // SAFETY: own descriptors and events.
        let (found, first) = unsafe {
            let mut first: libc::epoll_event = zeroed();
            let found = libc::epoll_wait(set, &raw mut first, 1, milliseconds);
            (found, first)
        };
        let (data, bits) = (first.u64, first.events);
        stage
            .transcript
            .note(format_args!("epoll_wait = {found} {data} {bits:#x}"));
    };
    // SAFETY: own descriptors and events.
    let added = unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    stage.transcript.call("ADD", added as isize);
    wait(stage, 0);
    for _ in 0..2 {
        connect(stage.transcript, fd, closed);
        wait(stage, 0);
        look(stage, other);
    }
    stage
        .transcript
        .set_integer(other, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    let open = agents_listener(stage.agent);
    connect(stage.transcript, other, open);
    connect(stage.transcript, fd, open);
    wait(stage, calls::HANG);
    stage.agent.tell("accept");
    stage.transcript.send(fd, "hello", 0);
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
    stage.agent.tell("send answer");
    wait(stage, calls::HANG);
    stage.transcript.recv(other, 10, 0);
    stage
        .transcript
        .integer_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY);
    // SAFETY: an own descriptor.
    unsafe { libc::close(set) };
    stage.transcript.close(fd);
    stage.transcript.close(other);
}

/// The same without waiting: the error is told once, by connect or by SO_ERROR.
pub fn refused_without_waiting(stage: &mut Stage<'_>) {
    let closed = nobody(stage);
    let fd = calls::socket(closed.ip(), libc::SOCK_NONBLOCK);
    let (both, error) = (libc::POLLIN | libc::POLLOUT, libc::POLLERR);
    for by_option in [false, true, false] {
        connect(stage.transcript, fd, closed);
        stage
            .transcript
            .set_integer(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        stage.transcript.settle(fd, both, error);
        if by_option {
            stage
                .transcript
                .integer_option(fd, libc::SOL_SOCKET, libc::SO_ERROR);
            stage.transcript.poll(fd, both, 0);
        }
        connect(stage.transcript, fd, closed);
        look(stage, fd);
    }
    let open = agents_listener(stage.agent);
    connect(stage.transcript, fd, open);
    stage.transcript.settle(fd, both, libc::POLLOUT);
    connect(stage.transcript, fd, open);
    connect(stage.transcript, fd, open);
    stage.agent.tell("accept");
    stage.agent.tell("reset");
    stage.transcript.settle(fd, both, libc::POLLHUP);
    // It has been connected.
    connect(stage.transcript, fd, open);
    stage.transcript.close(fd);
}

/// From a port that the program names: the kernel keeps only such.
pub fn from_a_port(stage: &mut Stage<'_>) {
    let closed = nobody(stage);
    let free = calls::socket(closed.ip(), 0);
    bind_to(stage, free, SocketAddr::new(stage.here, 0));
    let port = calls::port_of(free);
    stage.transcript.close(free);
    let fd = calls::socket(closed.ip(), 0);
    bind_to(stage, fd, SocketAddr::new(stage.here, port));
    connect(stage.transcript, fd, closed);
    connect(stage.transcript, fd, closed);
    let same = calls::port_of(fd) == port;
    stage.transcript.note(format_args!("bound: {same}"));
    let open = agents_listener(stage.agent);
    connect(stage.transcript, fd, open);
    stage.agent.tell("accept");
    let from = stage.agent.tell("peer");
    let same = from == SocketAddr::new(stage.here, port).to_string();
    stage.transcript.note(format_args!("from it: {same}"));
    stage.transcript.close(fd);
}

/// It may listen instead.
pub fn listens_instead(stage: &mut Stage<'_>) {
    let closed = nobody(stage);
    let any: IpAddr = match closed {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let fd = calls::socket(closed.ip(), 0);
    connect(stage.transcript, fd, closed);
    bind_to(stage, fd, SocketAddr::new(any, 0));
    // SAFETY: an own descriptor.
    let listens = unsafe { libc::listen(fd, 1) };
    stage.transcript.call("listen", listens as isize);
    let address = SocketAddr::new(stage.here, calls::port_of(fd));
    stage.agent.tell(&format!("connect {address}"));
    let accepted = accept(stage.transcript, fd);
    stage.transcript.close(accepted);
    stage.transcript.close(fd);
}

fn connect_to_nobody(stage: &mut Stage<'_>, fd: c_int) {
    // SAFETY: an address of zeros, which is of no family, and its length.
    let connected = unsafe {
        let nobody: libc::sockaddr = zeroed();
        libc::connect(fd, &raw const nobody, size_of::<libc::sockaddr>() as u32)
    };
    stage
        .transcript
        .call("connect to nobody", connected as isize);
}

/// What is connected, was accepted or is being connected is connected to nobody any more, and connects
/// anew; what listens does so no longer.
pub fn to_nobody(stage: &mut Stage<'_>) {
    let open = agents_listener(stage.agent);
    let fd = calls::socket(open.ip(), 0);
    connect_to_nobody(stage, fd);
    connect(stage.transcript, fd, open);
    stage.agent.tell("accept");
    stage.transcript.send(fd, "hello", 0);
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
    // SAFETY: an own descriptor.
    let other = unsafe { libc::dup(fd) };
    connect_to_nobody(stage, fd);
    let got = stage.agent.tell("receive 1");
    stage.transcript.note(got);
    connect(stage.transcript, other, open);
    stage.agent.tell("accept");
    stage.agent.tell("send hello");
    stage.transcript.recv(fd, 10, 0);
    stage.transcript.close(other);
    stage.transcript.close(fd);

    let (listener, address) = calls::listening(stage.here, 0);
    stage.agent.tell(&format!("connect {address}"));
    let accepted = accept(stage.transcript, listener);
    connect_to_nobody(stage, accepted);
    let got = stage.agent.tell("receive 1");
    stage.transcript.note(got);
    says_hello(stage, accepted, open);
    stage.transcript.close(accepted);
    connect_to_nobody(stage, listener);
    let got = stage.agent.tell(&format!("connect {address}"));
    stage.transcript.note(got);
    stage.transcript.close(listener);

    let full = stage.agent.tell("full").parse().expect("an address");
    let fd = calls::socket(stage.here, libc::SOCK_NONBLOCK);
    connect(stage.transcript, fd, full);
    connect_to_nobody(stage, fd);
    connect(stage.transcript, fd, full);
    // There is room for one, which the first does not take: nobody wants it any more.
    stage.agent.tell("accept");
    let from = calls::port_of(fd);
    stage
        .transcript
        .note(format_args!("has a port: {}", from != 0));
    stage.transcript.poll(fd, libc::POLLOUT, calls::HANG);
    connect(stage.transcript, fd, full);
    let same = calls::port_of(fd) == from;
    stage.transcript.note(format_args!("keeps it: {same}"));
    stage.transcript.close(fd);
}

/// A connect that waits no longer goes on in the background.
pub fn timed_out(stage: &mut Stage<'_>) {
    let full = stage.agent.tell("full").parse().expect("an address");
    let fd = calls::socket(stage.here, 0);
    calls::set_timeout(fd, libc::SO_SNDTIMEO, 50);
    connect(stage.transcript, fd, full);
    connect(stage.transcript, fd, full);
    stage
        .transcript
        .integer_option(fd, libc::SOL_SOCKET, libc::SO_ERROR);
    // There is room again, and the SYN is sent once more.
    stage.agent.tell("accept");
    calls::set_timeout(fd, libc::SO_SNDTIMEO, 0);
    stage.transcript.poll(fd, libc::POLLOUT, calls::HANG);
    connect(stage.transcript, fd, full);
    connect(stage.transcript, fd, full);
    stage.transcript.close(fd);
}

/// It is given up, whichever way is shut, and the socket may connect again.
pub fn shut_while_opening(stage: &mut Stage<'_>) {
    // The first connect of a process may sleep for other reasons.
    let open = agents_listener(stage.agent);
    let first = calls::socket(stage.here, 0);
    connect(stage.transcript, first, open);
    stage.transcript.close(first);
    for how in [libc::SHUT_RD, libc::SHUT_WR, libc::SHUT_RDWR] {
        let full = stage.agent.tell("full").parse().expect("an address");
        let fd = calls::socket(stage.here, 0);
        let (is_there, there) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || {
                let mut transcript = calls::Transcript::default();
                // SAFETY: it has no arguments.
                is_there
                    .send(unsafe { libc::gettid() })
                    .expect("somebody hears");
                connect(&mut transcript, fd, full);
                transcript
            });
            let stat = format!("/proc/self/task/{}/stat", there.recv().expect("a thread"));
            let is_asleep = || std::fs::read_to_string(&stat).is_ok_and(|it| calls::is_asleep(&it));
            while !is_asleep() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            // SAFETY: an own descriptor.
            let shut = unsafe { libc::shutdown(fd, how) };
            stage.transcript.call("shutdown", shut as isize);
            let waited = waits.join().expect("it has waited");
            stage.transcript.note(waited.0.trim());
        });
        let open = agents_listener(stage.agent);
        says_hello(stage, fd, open);
        stage.transcript.close(fd);
        stage.agent.tell("close");
        stage.agent.tell("unlisten");
    }
}

/// Whether poll says of it that it hangs up.
fn hangs_up(stage: &mut Stage<'_>, fd: c_int) {
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one entry.
    unsafe { libc::poll(&raw mut entry, 1, calls::HANG) };
    let hangs_up = entry.revents & libc::POLLHUP != 0;
    stage.transcript.note(format_args!("hangs up: {hangs_up}"));
}

/// Who polls learns by SO_ERROR, once, that it was given up.
pub fn shut_while_polled(stage: &mut Stage<'_>) {
    let (error, option) = (libc::SOL_SOCKET, libc::SO_ERROR);
    for how in [libc::SHUT_RD, libc::SHUT_WR, libc::SHUT_RDWR, -1] {
        let full = stage.agent.tell("full").parse().expect("an address");
        let fd = calls::socket(stage.here, libc::SOCK_NONBLOCK);
        let give_up = |stage: &mut Stage<'_>| match how {
            -1 => connect_to_nobody(stage, fd),
            how => {
                // SAFETY: an own descriptor.
                let shut = unsafe { libc::shutdown(fd, how) };
                stage.transcript.call("shutdown", shut as isize);
            }
        };
        connect(stage.transcript, fd, full);
        give_up(stage);
        hangs_up(stage, fd);
        stage.transcript.integer_option(fd, error, option);
        hangs_up(stage, fd);
        stage.transcript.integer_option(fd, error, option);
        connect(stage.transcript, fd, full);
        give_up(stage);
        // SAFETY: own descriptors.
        let other = unsafe { libc::dup(fd) };
        stage.transcript.integer_option(other, error, option);
        stage.transcript.integer_option(fd, error, option);
        stage.transcript.close(other);
        // What nobody has asked for is forgotten with the next connect.
        connect(stage.transcript, fd, full);
        give_up(stage);
        connect(stage.transcript, fd, full);
        stage.transcript.integer_option(fd, error, option);
        stage.transcript.close(fd);
        stage.agent.tell("close");
        stage.agent.tell("unlisten");
    }
    // What was open and what was accepted.
    let open = agents_listener(stage.agent);
    let fd = calls::socket(stage.here, 0);
    connect(stage.transcript, fd, open);
    stage.agent.tell("accept");
    for _ in 0..2 {
        connect_to_nobody(stage, fd);
        stage.transcript.integer_option(fd, error, option);
    }
    stage.transcript.close(fd);
}
