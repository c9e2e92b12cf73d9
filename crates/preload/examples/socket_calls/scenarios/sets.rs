//! Epoll sets in epoll sets, and what a set with little room takes in which order.

use std::ffi::c_int;
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use super::events::{change, set, wait};
use super::{Stage, agents_listener};
use crate::calls::{self, HANG};

/// What a set tells of the one in it, and what that one does. The outer set may be woken for nothing, but not too
/// seldom.
fn told_by_the_outer(outer: c_int, inner: c_int) -> (u64, u64) {
    for _ in 0..200 {
        // SAFETY: room for four events: more than there are, so that the set is looked through.
        unsafe {
            let mut events: [libc::epoll_event; 4] = zeroed();
            libc::epoll_wait(outer, events.as_mut_ptr(), 4, HANG);
            let data = events[0].u64;
            if libc::epoll_wait(inner, events.as_mut_ptr(), 4, 0) == 1 {
                return (data, events[0].u64);
            }
        }
    }
    (0, 0)
}

/// Notes both.
fn note_what_is_told(stage: &mut Stage<'_>, outer: c_int, inner: c_int) {
    let found = told_by_the_outer(outer, inner);
    stage
        .transcript
        .note(format_args!("outer and inner {found:?}"));
}

/// A set in which the connection is, and one that watches it so: the inner and the outer one.
fn one_in_another(stage: &mut Stage<'_>, fd: c_int, watched: c_int) -> (c_int, c_int) {
    let (inner, outer) = (set(stage.transcript), set(stage.transcript));
    let add = libc::EPOLL_CTL_ADD;
    change(stage.transcript, inner, add, fd, libc::EPOLLIN, 1);
    change(stage.transcript, outer, add, inner, watched, 2);
    (inner, outer)
}

pub fn nested(stage: &mut Stage<'_>, fd: c_int) {
    let (inner, outer) = one_in_another(stage, fd, libc::EPOLLIN);
    stage.agent.tell("send abcdefghijklmnopqrst");
    // What is not read at once is told of again, and by its number.
    for letter in 0..20 {
        let found = told_by_the_outer(outer, inner);
        stage
            .transcript
            .note(format_args!("{letter}: outer and inner {found:?}"));
        stage.transcript.poll(outer, libc::POLLIN, 0);
        stage.transcript.recv(fd, 1, 0);
    }
    // What was read is not.
    wait(stage.transcript, outer, 0);
    stage.transcript.poll(outer, libc::POLLIN, 0);
    stage.transcript.poll(inner, libc::POLLIN, 0);
    stage.agent.tell("send x");
    note_what_is_told(stage, outer, inner);
    stage.transcript.poll(inner, libc::POLLIN, 0);
    stage.transcript.recv(fd, 10, 0);
    wait(stage.transcript, outer, 0);
    wait(stage.transcript, inner, 0);
    stage.transcript.close(inner);
    stage.transcript.close(outer);
}

/// Each arrival is an edge of the inner set's number.
pub fn nested_by_edges(stage: &mut Stage<'_>, fd: c_int) {
    let (inner, outer) = one_in_another(stage, fd, libc::EPOLLIN | libc::EPOLLET);
    for _ in 0..12 {
        stage.agent.tell("send x");
        note_what_is_told(stage, outer, inner);
        stage.transcript.recv(fd, 10, 0);
    }
    stage.transcript.close(inner);
    stage.transcript.close(outer);
}

/// What was there before is told of, too: when the inner set is put inside, and when that is changed.
pub fn nested_after_it_came(stage: &mut Stage<'_>, fd: c_int) {
    let (inner, outer) = (set(stage.transcript), set(stage.transcript));
    let edge = libc::EPOLLIN | libc::EPOLLET;
    let (add, again) = (libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD);
    change(stage.transcript, inner, add, fd, libc::EPOLLIN, 1);
    stage.agent.tell("send x");
    // By this it is known here.
    stage.transcript.poll(fd, libc::POLLIN, HANG);
    for (number, operation) in [(2, add), (3, again), (4, again)] {
        change(stage.transcript, outer, operation, inner, edge, number);
        note_what_is_told(stage, outer, inner);
    }
    stage.transcript.recv(fd, 10, 0);
    stage.transcript.close(inner);
    stage.transcript.close(outer);
}

/// A member that always has something to report keeps none of the others from it.
pub fn with_one_place(stage: &mut Stage<'_>, fd: c_int) {
    let set = set(stage.transcript);
    let mut pipe = [0; 2];
    // SAFETY: an own array, and an own descriptor.
    unsafe {
        libc::pipe(pipe.as_mut_ptr());
        libc::write(pipe[1], c"x".as_ptr().cast(), 1);
    }
    let add = libc::EPOLL_CTL_ADD;
    change(stage.transcript, set, add, fd, libc::EPOLLOUT, 1);
    change(stage.transcript, set, add, pipe[0], libc::EPOLLIN, 2);
    let mut seen = [false; 3];
    for _ in 0..32 {
        // SAFETY: room for one event.
        unsafe {
            let mut event: libc::epoll_event = zeroed();
            libc::epoll_wait(set, &raw mut event, 1, HANG);
            seen[event.u64 as usize] = true;
        }
    }
    stage.transcript.note(format_args!("seen: {seen:?}"));
    for end in pipe {
        stage.transcript.close(end);
    }
    stage.transcript.close(set);
}

/// What a set tells until it has nothing: the data of each event.
fn told(set: c_int) -> Vec<u64> {
    let mut told = Vec::new();
    for milliseconds in [HANG, 50, 50] {
        // SAFETY: room for four events.
        unsafe {
            let mut events: [libc::epoll_event; 4] = zeroed();
            let found = libc::epoll_wait(set, events.as_mut_ptr(), 4, milliseconds);
            told.extend(events.iter().take(found.max(0) as usize).map(|it| it.u64));
        }
    }
    told
}

/// A client of this machine, and one of another: they come by different ways.
fn two_clients(stage: &mut Stage<'_>, address: SocketAddr) -> TcpStream {
    let near = TcpStream::connect(address).expect("a client of this machine");
    stage.agent.tell(&format!("connect {address}"));
    near
}

fn accept_two(stage: &mut Stage<'_>, listener: c_int) {
    for _ in 0..2 {
        // SAFETY: nothing is asked but the number.
        let accepted = unsafe { libc::accept(listener, null_mut(), null_mut()) };
        stage.transcript.fd("accept", accepted);
        stage.transcript.close(accepted);
    }
    stage.agent.tell("close");
}

const ONCE: c_int = libc::EPOLLIN | libc::EPOLLONESHOT;

/// Clients that come by two ways are one event of it, until it is set again.
pub fn one_shot_listener(stage: &mut Stage<'_>) {
    let (listener, address) = calls::listening(stage.here, 0);
    let set = set(stage.transcript);
    let (add, again, out) = (
        libc::EPOLL_CTL_ADD,
        libc::EPOLL_CTL_MOD,
        libc::EPOLL_CTL_DEL,
    );
    change(stage.transcript, set, add, listener, ONCE, 1);
    for round in 2..5 {
        let near = two_clients(stage, address);
        let heard = told(set);
        stage.transcript.note(format_args!("told {heard:?}"));
        accept_two(stage, listener);
        drop(near);
        change(stage.transcript, set, again, listener, ONCE, round);
    }
    // Set again while the clients are there, it is told of again.
    let near = two_clients(stage, address);
    for round in 5..8 {
        let heard = told(set);
        stage.transcript.note(format_args!("told {heard:?}"));
        change(stage.transcript, set, again, listener, ONCE, round);
    }
    change(stage.transcript, set, out, listener, 0, 0);
    wait(stage.transcript, set, 20);
    change(stage.transcript, set, add, listener, ONCE, 8);
    let heard = told(set);
    stage.transcript.note(format_args!("told {heard:?}"));
    change(
        stage.transcript,
        set,
        again,
        listener,
        libc::EPOLLIN | libc::EPOLLET,
        9,
    );
    accept_two(stage, listener);
    drop(near);
    stage.transcript.close(set);
    stage.transcript.close(listener);
}

/// What else is known by the same data, or comes under the same number, is told of.
pub fn beside_a_one_shot_listener(stage: &mut Stage<'_>) {
    let (listener, address) = calls::listening(stage.here, 0);
    let set = set(stage.transcript);
    let add = libc::EPOLL_CTL_ADD;
    let mut pipe = [0; 2];
    // SAFETY: an own array.
    unsafe { libc::pipe(pipe.as_mut_ptr()) };
    change(stage.transcript, set, add, listener, ONCE, 1);
    change(stage.transcript, set, add, pipe[0], ONCE, 1);
    let near = two_clients(stage, address);
    // The listener is told of; then the pipe is.
    let heard = told(set);
    stage.transcript.note(format_args!("told {heard:?}"));
    // SAFETY: an own descriptor.
    unsafe { libc::write(pipe[1], c"x".as_ptr().cast(), 1) };
    let heard = told(set);
    stage.transcript.note(format_args!("told {heard:?}"));
    accept_two(stage, listener);
    drop(near);
    // Another listener under the same number, and the one of before under another.
    // SAFETY: own descriptors.
    let before = unsafe { libc::dup(listener) };
    stage.transcript.close(listener);
    let (other, elsewhere) = calls::listening(stage.here, 0);
    // SAFETY: own descriptors.
    unsafe { libc::dup2(other, listener) };
    change(stage.transcript, set, add, listener, ONCE, 2);
    let near = two_clients(stage, elsewhere);
    let heard = told(set);
    stage.transcript.note(format_args!("told {heard:?}"));
    accept_two(stage, other);
    drop(near);
    for fd in [set, listener, other, before, pipe[0], pipe[1]] {
        stage.transcript.close(fd);
    }
}

/// After a fork the set is told of whatever process sets the interest again.
pub fn one_shot_listener_and_a_child(stage: &mut Stage<'_>) {
    let (listener, address) = calls::listening(stage.here, 0);
    let set = set(stage.transcript);
    let (add, again) = (libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD);
    change(stage.transcript, set, add, listener, ONCE, 1);
    for round in 2..4 {
        // SAFETY: the child makes calls alone, and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let mut event = libc::epoll_event {
                    events: ONCE as u32,
                    u64: round,
                };
                let set_again = libc::epoll_ctl(set, again, listener, &raw mut event);
                libc::_exit(set_again);
            }
            let mut status = -1;
            libc::waitpid(child, &raw mut status, 0);
            stage.transcript.note(format_args!("child {status}"));
        }
        let near = TcpStream::connect(address).expect("a client of this machine");
        let mut heard = told(set);
        heard.dedup();
        stage.transcript.note(format_args!("told {heard:?}"));
        // SAFETY: nothing is asked but the number.
        let accepted = unsafe { libc::accept(listener, null_mut(), null_mut()) };
        stage.transcript.fd("accept", accepted);
        stage.transcript.close(accepted);
        drop(near);
    }
    stage.transcript.close(set);
    stage.transcript.close(listener);
}

/// What was told of once is not told of again, whatever comes.
pub fn one_shot_listener_shut_down_after_a_fork(stage: &mut Stage<'_>) {
    let (listener, address) = calls::listening(stage.here, 0);
    let set = set(stage.transcript);
    let add = libc::EPOLL_CTL_ADD;
    change(stage.transcript, set, add, listener, ONCE, 1);
    let near = TcpStream::connect(address).expect("a client of this machine");
    let mut heard = told(set);
    heard.dedup();
    stage.transcript.note(format_args!("told {heard:?}"));
    // SAFETY: the child waits a moment, and ends.
    unsafe {
        let mut status = -1;
        let child = libc::fork();
        if child == 0 {
            libc::shutdown(listener, libc::SHUT_RD);
            let mut event: libc::epoll_event = zeroed();
            libc::_exit(libc::epoll_wait(set, &raw mut event, 1, 50));
        }
        libc::waitpid(child, &raw mut status, 0);
        stage.transcript.note(format_args!("child {status}"));
        let mut event: libc::epoll_event = zeroed();
        let told = libc::epoll_wait(set, &raw mut event, 1, 50);
        stage.transcript.note(format_args!("told {told}"));
    }
    drop(near);
    stage.transcript.close(set);
    stage.transcript.close(listener);
}

/// Another thread changes what is asked of a socket while it begins to connect: each change holds from then on.
pub fn changed_while_it_connects(stage: &mut Stage<'_>) {
    let address = agents_listener(stage.agent);
    let mut wrong = Vec::new();
    for round in 0..200 {
        let fd = calls::socket(address.ip(), libc::SOCK_NONBLOCK);
        let (begin, is_over) = (std::sync::Barrier::new(2), AtomicBool::new(false));
        // SAFETY: own descriptors, events and an own array.
        let (changed, told) = unsafe {
            let set = libc::epoll_create1(0);
            let change = |operation, events: c_int, data| {
                let mut event = libc::epoll_event {
                    events: events as u32,
                    u64: data,
                };
                libc::epoll_ctl(set, operation, fd, &raw mut event)
            };
            change(libc::EPOLL_CTL_ADD, libc::EPOLLPRI | libc::EPOLLET, 1);
            let changed = std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    begin.wait();
                    loop {
                        let ends = is_over.load(Ordering::Relaxed);
                        let changed = change(libc::EPOLL_CTL_MOD, libc::EPOLLOUT, 2);
                        if changed != 0 || ends {
                            break changed;
                        }
                    }
                });
                begin.wait();
                calls::with_address(address, |name, length| libc::connect(fd, name, length));
                is_over.store(true, Ordering::Relaxed);
                other.join().expect("it has changed it")
            });
            let mut told = 0;
            // What is not connected yet has hung up.
            for _ in 0..1_000 {
                let mut event: libc::epoll_event = zeroed();
                libc::epoll_wait(set, &raw mut event, 1, HANG);
                if event.events & libc::EPOLLHUP as u32 == 0 {
                    told = event.u64;
                    break;
                }
            }
            stage.agent.tell("accept");
            libc::close(set);
            libc::close(fd);
            (changed, told)
        };
        if (changed, told) != (0, 2) {
            wrong.push((round, changed, told));
        }
    }
    stage.transcript.note(format_args!("wrong: {wrong:?}"));
    stage.agent.tell("unlisten");
}

/// The data of what is in a set, from the text of its `/proc/self/fdinfo`.
fn data_of(fdinfo: &str) -> Vec<&str> {
    let mut words = fdinfo.split_ascii_whitespace();
    let mut found = Vec::new();
    while words.any(|word| word == "data:") {
        found.extend(words.next());
    }
    found
}

/// Whoever else has the set finds what the program has put into it.
pub fn one_shot_listener_of_others(stage: &mut Stage<'_>) {
    let (add, again) = (libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD);
    for way in ["started", "sent"] {
        let (listener, address) = calls::listening(stage.here, 0);
        let set = set(stage.transcript);
        change(stage.transcript, set, add, listener, ONCE, 0xabc);
        let fdinfo = format!("/proc/self/fdinfo/{set}");
        let text = if way == "started" {
            // SAFETY: an own descriptor.
            unsafe { libc::fcntl(set, libc::F_SETFD, 0) };
            let cat = std::process::Command::new("cat").arg(fdinfo).output();
            String::from_utf8_lossy(&cat.expect("cat").stdout).into_owned()
        } else {
            send_to_itself(set);
            std::fs::read_to_string(fdinfo).expect("a set")
        };
        let data = data_of(&text);
        stage.transcript.note(format_args!("{way}: {data:?}"));
        let near = two_clients(stage, address);
        let mut heard = told(set);
        heard.dedup();
        stage.transcript.note(format_args!("told {heard:?}"));
        change(stage.transcript, set, again, listener, ONCE, 0xdef);
        let mut heard = told(set);
        heard.dedup();
        stage.transcript.note(format_args!("told {heard:?}"));
        accept_two(stage, listener);
        drop(near);
        stage.transcript.close(set);
        stage.transcript.close(listener);
    }
}

/// Sends a descriptor along with a byte, which nobody takes out.
fn send_to_itself(fd: c_int) {
    let (one, _other) = UnixStream::pair().expect("a pair");
    let mut control = [0u64; 4];
    let mut byte = libc::iovec {
        iov_base: c"x".as_ptr().cast_mut().cast(),
        iov_len: 1,
    };
    // SAFETY: a message of this function's own, with room for one descriptor.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut byte, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as usize;
        let part = libc::CMSG_FIRSTHDR(&raw const message);
        (*part).cmsg_level = libc::SOL_SOCKET;
        (*part).cmsg_type = libc::SCM_RIGHTS;
        (*part).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
        libc::CMSG_DATA(part).cast::<c_int>().write_unaligned(fd);
        assert_eq!(libc::sendmsg(one.as_raw_fd(), &raw const message, 0), 1);
    }
}
