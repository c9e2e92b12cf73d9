//! epoll over the stack.

use std::sync::mpsc;

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT};
use wire::tcp::Flags;

use crate::library::Loaded;
use crate::{NONE, await_sleep, loaded};

/// A send buffer that two segments' worth of bytes fill.
const SMALL_BUFFER: &std::ffi::CStr = c"ip=192.0.2.1,tcp_timestamps=0,tcp_wmem=4096 3000 3000";
/// Asks without waiting.
const NOW: i32 = 0;

/// The peer sends a byte at a place in its stream.
fn byte(library: &Loaded, seq: u32, iss: u32) {
    library.send(Flags::PSH, seq, Some(iss + 1), b"x", NONE);
}

#[test]
fn level_triggered_is_told_as_long_as_it_holds() {
    let library = loaded();
    let (fd, iss) = library.connection();
    let epoll = library.epoll_create();
    assert_eq!(library.epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN), 0);
    assert_eq!(library.epoll_wait(epoll, 8, NOW), []);
    byte(&library, 1, iss);
    for _ in 0..2 {
        assert_eq!(library.epoll_wait(epoll, 8, NOW), [(fd, EPOLLIN)]);
    }
    assert_eq!(library.read(fd, 8), b"x");
    assert_eq!(library.epoll_wait(epoll, 8, NOW), []);
}

#[test]
fn edge_triggered_input_is_told_once_for_each_arrival() {
    let library = loaded();
    let (fd, iss) = library.connection();
    let epoll = library.epoll_create();
    let events = EPOLLIN | EPOLLET;
    assert_eq!(library.epoll_ctl(epoll, EPOLL_CTL_ADD, fd, events), 0);
    for seq in 1..=2 {
        // The byte before is still there.
        byte(&library, seq, iss);
        assert_eq!(library.epoll_wait(epoll, 8, NOW), [(fd, EPOLLIN)]);
        assert_eq!(library.epoll_wait(epoll, 8, NOW), []);
    }
    // What was read before anybody asked is nobody's edge.
    byte(&library, 3, iss);
    assert_eq!(library.read(fd, 8), b"xxx");
    assert_eq!(library.epoll_wait(epoll, 8, NOW), []);
    // The end of the stream is one, and stays readable.
    library.send(Flags::FIN, 4, Some(iss + 1), &[], NONE);
    assert_eq!(library.epoll_wait(epoll, 8, NOW), [(fd, EPOLLIN)]);
    assert_eq!(library.epoll_wait(epoll, 8, NOW), []);
}

#[test]
fn edge_triggered_output_is_told_when_there_is_room_again() {
    let library = Loaded::new(SMALL_BUFFER);
    let (fd, iss) = library.connection();
    library.set_non_blocking(fd);
    let epoll = library.epoll_create();
    let events = EPOLLOUT | EPOLLIN | EPOLLET;
    assert_eq!(library.epoll_ctl(epoll, EPOLL_CTL_ADD, fd, events), 0);
    assert_eq!(library.epoll_wait(epoll, 8, NOW), [(fd, EPOLLOUT)]);
    assert_eq!(library.epoll_wait(epoll, 8, NOW), []);
    assert_eq!(library.write(fd, &[0; 4000]), 3000);
    assert_eq!(library.epoll_wait(epoll, 8, NOW), []);
    // An acknowledgement makes room, the next one only more of it.
    library.send(Flags::NONE, 1, Some(iss + 1 + 2000), &[], NONE);
    assert_eq!(library.epoll_wait(epoll, 8, NOW), [(fd, EPOLLOUT)]);
    library.send(Flags::NONE, 1, Some(iss + 1 + 3000), &[], NONE);
    assert_eq!(library.epoll_wait(epoll, 8, NOW), []);
}

#[test]
fn a_listener_is_ready_while_connections_wait() {
    let library = loaded();
    let listener = library.listener();
    let epoll = library.epoll_create();
    let add = library.epoll_ctl(epoll, EPOLL_CTL_ADD, listener, EPOLLIN);
    assert_eq!(add, 0);
    library.send(Flags::SYN, 0, None, &[], NONE);
    let (syn_ack, _) = library.receive().expect("a SYN-ACK");
    assert_eq!(library.epoll_wait(epoll, 8, NOW), []);
    let ack = Some(syn_ack.segment.seq + 1);
    library.send(Flags::NONE, 1, ack, &[], NONE);
    assert_eq!(library.epoll_wait(epoll, 8, NOW), [(listener, EPOLLIN)]);
    library.accept(listener);
    assert_eq!(library.epoll_wait(epoll, 8, NOW), []);
}

#[test]
fn one_shot_is_told_once_until_it_is_asked_again() {
    let library = loaded();
    let (fd, _) = library.connection();
    let epoll = library.epoll_create();
    let events = EPOLLOUT | EPOLLONESHOT;
    assert_eq!(library.epoll_ctl(epoll, EPOLL_CTL_ADD, fd, events), 0);
    for _ in 0..2 {
        assert_eq!(library.epoll_wait(epoll, 8, NOW), [(fd, EPOLLOUT)]);
        assert_eq!(library.epoll_wait(epoll, 8, NOW), []);
        assert_eq!(library.epoll_ctl(epoll, EPOLL_CTL_MOD, fd, events), 0);
    }
}

#[test]
fn those_told_last_come_first_next_time() {
    let library = loaded();
    let epoll = library.epoll_create();
    let fds = [library.socket(), library.socket(), library.socket()];
    for fd in fds {
        // A socket that was never connected hangs up, whatever one asks for.
        assert_eq!(library.epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN), 0);
    }
    let mut told: Vec<i32> = Vec::new();
    for _ in 0..3 {
        let one = library.epoll_wait(epoll, 1, NOW);
        told.extend(one.iter().map(|&(fd, _)| fd));
    }
    assert_eq!(told, fds);
    assert_eq!(library.epoll_wait(epoll, 8, NOW).len(), 3);
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let library = loaded();
    let epoll = library.epoll_create();
    let fd = library.socket();
    let control = |epoll, operation, fd| library.epoll_ctl(epoll, operation, fd, EPOLLIN);
    assert_eq!(control(epoll, EPOLL_CTL_MOD, fd), -libc::ENOENT);
    assert_eq!(control(epoll, EPOLL_CTL_DEL, fd), -libc::ENOENT);
    assert_eq!(control(epoll, EPOLL_CTL_ADD, fd), 0);
    assert_eq!(control(epoll, EPOLL_CTL_ADD, fd), -libc::EEXIST);
    assert_eq!(control(epoll, 77, fd), -libc::EINVAL);
    assert_eq!(control(fd, EPOLL_CTL_ADD, fd), -libc::EINVAL);
    assert_eq!(control(epoll, EPOLL_CTL_ADD, -1), -libc::EBADF);
    assert_eq!(control(-1, EPOLL_CTL_ADD, fd), -libc::EBADF);
    // What is closed is asked about no longer.
    assert_eq!(library.close(fd), 0);
    assert_eq!(library.epoll_wait(epoll, 8, NOW), []);
    assert_eq!(library.close(epoll), 0);
    assert_eq!(control(epoll, EPOLL_CTL_DEL, fd), -libc::EBADF);
}

#[test]
fn one_who_waits_is_woken_by_an_event() {
    let library = loaded();
    let (fd, iss) = library.connection();
    let epoll = library.epoll_create();
    assert_eq!(library.epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN), 0);
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            tell.send(rustix::thread::gettid()).unwrap();
            library.epoll_wait(epoll, 8, -1)
        });
        await_sleep(told.recv().unwrap());
        library.sleep(300_000);
        assert!(!waiter.is_finished());
        byte(&library, 1, iss);
        assert_eq!(waiter.join().unwrap(), [(fd, EPOLLIN)]);
    });
}
