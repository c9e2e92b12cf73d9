//! poll, select and epoll.

use std::ffi::c_int;
use std::mem::zeroed;

use super::Stage;
use super::receiving::with_alarm;
use crate::agent::Agent;
use crate::calls::{HANG, Transcript};

pub fn poll(stage: &mut Stage<'_>, fd: c_int) {
    let all = libc::POLLIN
        | libc::POLLOUT
        | libc::POLLPRI
        | libc::POLLRDHUP
        | libc::POLLRDNORM
        | libc::POLLWRNORM;
    stage.transcript.poll(fd, all, 0);
    stage.transcript.poll(fd, libc::POLLIN, 0);
    stage.transcript.poll(fd, libc::POLLIN, 30);
    stage.transcript.poll(fd, 0, 0);
    stage.agent.tell("send x");
    stage.transcript.poll(fd, libc::POLLIN, HANG);
    stage.transcript.poll(fd, all, -1);
    let mut pipe = [0; 2];
    // SAFETY: own descriptors and arrays.
    unsafe {
        libc::pipe(pipe.as_mut_ptr());
        let mut several = [
            libc::pollfd {
                fd: pipe[0],
                events: libc::POLLIN,
                revents: 0,
            },
            libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            },
            libc::pollfd {
                fd: -1,
                events: libc::POLLIN,
                revents: 7,
            },
            libc::pollfd {
                fd: 900,
                events: libc::POLLIN,
                revents: 0,
            },
            libc::pollfd {
                fd: pipe[1],
                events: libc::POLLOUT,
                revents: 0,
            },
            libc::pollfd {
                fd,
                events: libc::POLLOUT,
                revents: 0,
            },
        ];
        let found = libc::poll(several.as_mut_ptr(), 6, -1);
        let says: Vec<i16> = several.iter().map(|entry| entry.revents).collect();
        stage
            .transcript
            .note(format_args!("poll of several = {found} {says:x?}"));
        stage.transcript.recv(fd, 10, 0);
        // Woken by what is the kernel's, while waiting for ours.
        let writer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(30));
            libc::write(pipe[1], b"x".as_ptr().cast(), 1)
        });
        let found = libc::poll(several.as_mut_ptr(), 2, HANG);
        stage.transcript.note(format_args!(
            "poll = {found} {:x} {:x}",
            several[0].revents, several[1].revents
        ));
        writer.join().expect("written");
        libc::close(pipe[0]);
        libc::close(pipe[1]);
    }
    with_alarm(true, || {
        stage.transcript.poll(fd, libc::POLLIN, HANG);
        stage.transcript.call("errno", -1);
    });
}

pub fn select(stage: &mut Stage<'_>, fd: c_int) {
    let look = |transcript: &mut Transcript, milliseconds: c_int| {
        // SAFETY: sets with room for the number.
        unsafe {
            let (mut read, mut write): (libc::fd_set, libc::fd_set) = (zeroed(), zeroed());
            libc::FD_SET(fd, &raw mut read);
            libc::FD_SET(fd, &raw mut write);
            let mut time = libc::timeval {
                tv_sec: i64::from(milliseconds / 1000),
                tv_usec: i64::from(milliseconds % 1000 * 1000),
            };
            let none = std::ptr::null_mut();
            let found = libc::select(fd + 1, &raw mut read, &raw mut write, none, &raw mut time);
            transcript.note(format_args!(
                "select = {found} {} {}",
                libc::FD_ISSET(fd, &raw const read),
                libc::FD_ISSET(fd, &raw const write)
            ));
            let mut read: libc::fd_set = zeroed();
            libc::FD_SET(fd, &raw mut read);
            let mut time = libc::timeval {
                tv_sec: i64::from(milliseconds / 1000),
                tv_usec: i64::from(milliseconds % 1000 * 1000),
            };
            let found = libc::select(fd + 1, &raw mut read, none, none, &raw mut time);
            transcript.note(format_args!(
                "select to read = {found} {}",
                libc::FD_ISSET(fd, &raw const read)
            ));
        }
    };
    look(stage.transcript, 0);
    look(stage.transcript, 20);
    stage.agent.tell("send x");
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLIN);
    look(stage.transcript, HANG);
    stage.agent.tell("shutdown");
    stage.transcript.recv(fd, 1, 0);
    stage
        .transcript
        .settle(fd, libc::POLLRDHUP, libc::POLLRDHUP);
    look(stage.transcript, HANG);
}

pub(super) fn set(transcript: &mut Transcript) -> c_int {
    // SAFETY: makes a set.
    transcript.fd("epoll_create1", unsafe {
        libc::epoll_create1(libc::EPOLL_CLOEXEC)
    })
}

pub(super) fn change(
    transcript: &mut Transcript,
    set: c_int,
    operation: c_int,
    fd: c_int,
    events: c_int,
    data: u64,
) {
    let mut event = libc::epoll_event {
        events: events as u32,
        u64: data,
    };
    // SAFETY: an event.
    let changed = unsafe { libc::epoll_ctl(set, operation, fd, &raw mut event) };
    transcript.call(
        &format!("epoll_ctl({operation}, {:#x})", events as u32),
        changed as isize,
    );
}

pub(super) fn wait(transcript: &mut Transcript, set: c_int, milliseconds: c_int) -> c_int {
    // SAFETY: room for four events.
    unsafe {
        let mut events: [libc::epoll_event; 4] = zeroed();
        let found = libc::epoll_wait(set, events.as_mut_ptr(), 4, milliseconds);
        let mut says: Vec<(u64, u32)> = events
            .iter()
            .take(found.max(0) as usize)
            .map(|event| (event.u64, event.events))
            .collect();
        says.sort_unstable();
        transcript.note(format_args!(
            "epoll_wait({milliseconds}) = {found} {says:x?}"
        ));
        found
    }
}

pub fn level(stage: &mut Stage<'_>, fd: c_int) {
    let set = set(stage.transcript);
    change(
        stage.transcript,
        set,
        libc::EPOLL_CTL_ADD,
        fd,
        libc::EPOLLIN | libc::EPOLLRDHUP,
        5,
    );
    wait(stage.transcript, set, 0);
    wait(stage.transcript, set, 20);
    stage.agent.tell("send abc");
    wait(stage.transcript, set, HANG);
    wait(stage.transcript, set, HANG);
    stage.transcript.recv(fd, 2, 0);
    wait(stage.transcript, set, HANG);
    stage.transcript.recv(fd, 2, 0);
    wait(stage.transcript, set, 0);
    change(
        stage.transcript,
        set,
        libc::EPOLL_CTL_MOD,
        fd,
        libc::EPOLLIN | libc::EPOLLOUT,
        6,
    );
    wait(stage.transcript, set, 0);
    stage.agent.tell("close");
    stage
        .transcript
        .settle(fd, libc::POLLRDHUP, libc::POLLRDHUP);
    wait(stage.transcript, set, HANG);
    stage.transcript.close(fd);
    wait(stage.transcript, set, 0);
    stage.transcript.close(set);
}

/// As the runtimes of Rust and others do: wait by one number, add by another.
pub fn duplicated_set(stage: &mut Stage<'_>, fd: c_int) {
    let waits = set(stage.transcript);
    // SAFETY: own descriptors.
    unsafe {
        let adds = libc::fcntl(waits, libc::F_DUPFD_CLOEXEC, 3);
        stage.transcript.fd("F_DUPFD_CLOEXEC", adds);
        change(
            stage.transcript,
            adds,
            libc::EPOLL_CTL_ADD,
            fd,
            libc::EPOLLIN,
            5,
        );
        stage.agent.tell("send abc");
        wait(stage.transcript, waits, HANG);
        stage.transcript.recv(fd, 3, 0);
        // The first number goes: a copy of a copy still means the set.
        let third = libc::dup(adds);
        stage.transcript.close(adds);
        stage.transcript.close(waits);
        stage.agent.tell("send def");
        wait(stage.transcript, third, HANG);
        change(
            stage.transcript,
            third,
            libc::EPOLL_CTL_DEL,
            fd,
            libc::EPOLLIN,
            0,
        );
        wait(stage.transcript, third, 0);
        stage.transcript.close(third);
    }
}

/// What a thread hears that waits for one event.
fn hear_one(set: c_int) -> std::thread::JoinHandle<(c_int, u64)> {
    std::thread::spawn(move || {
        // SAFETY: room for one event.
        unsafe {
            let mut event: libc::epoll_event = zeroed();
            let found = libc::epoll_wait(set, &raw mut event, 1, HANG);
            (found, event.u64)
        }
    })
}

/// Threads wait in a set before there is anything in it but a pipe.
pub fn added_while_waiting(stage: &mut Stage<'_>, fd: c_int) {
    let set = set(stage.transcript);
    let once = libc::EPOLLIN | libc::EPOLLONESHOT;
    // SAFETY: own descriptors and arrays.
    unsafe {
        let mut pipe = [0; 2];
        libc::pipe(pipe.as_mut_ptr());
        change(stage.transcript, set, libc::EPOLL_CTL_ADD, pipe[0], once, 1);
        let waiting = [hear_one(set), hear_one(set)];
        // They are asleep by then; if not, that is no harm.
        std::thread::sleep(std::time::Duration::from_millis(50));
        change(stage.transcript, set, libc::EPOLL_CTL_ADD, fd, once, 2);
        std::thread::sleep(std::time::Duration::from_millis(20));
        stage.agent.tell("send abc");
        stage.transcript.settle(fd, libc::POLLIN, libc::POLLIN);
        libc::write(pipe[1], b"x".as_ptr().cast(), 1);
        let mut heard = waiting.map(|thread| thread.join().expect("it waited"));
        heard.sort_unstable();
        stage.transcript.note(format_args!("heard {heard:?}"));
        stage.transcript.recv(fd, 10, 0);
        libc::close(pipe[0]);
        libc::close(pipe[1]);
    }
    stage.transcript.close(set);
}

/// Two events come at once, for two threads that each take one.
pub fn one_each(stage: &mut Stage<'_>, fd: c_int) {
    let set = set(stage.transcript);
    let once = libc::EPOLLIN | libc::EPOLLONESHOT;
    // SAFETY: makes a number.
    let second = unsafe { libc::dup(fd) };
    change(stage.transcript, set, libc::EPOLL_CTL_ADD, fd, once, 1);
    change(stage.transcript, set, libc::EPOLL_CTL_ADD, second, once, 2);
    let waiting = [hear_one(set), hear_one(set)];
    std::thread::sleep(std::time::Duration::from_millis(50));
    stage.agent.tell("send abc");
    let mut heard = waiting.map(|thread| thread.join().expect("it waited"));
    heard.sort_unstable();
    stage.transcript.note(format_args!("heard {heard:?}"));
    stage.transcript.close(second);
    stage.transcript.close(set);
}

/// poll on the number of a set into which a socket comes meanwhile.
pub fn polled_set(stage: &mut Stage<'_>, fd: c_int) {
    let set = set(stage.transcript);
    let waiting = std::thread::spawn(move || {
        let mut entry = libc::pollfd {
            fd: set,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry.
        let found = unsafe { libc::poll(&raw mut entry, 1, HANG) };
        (found, entry.revents)
    });
    std::thread::sleep(std::time::Duration::from_millis(50));
    stage.agent.tell("send abc");
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLIN);
    change(
        stage.transcript,
        set,
        libc::EPOLL_CTL_ADD,
        fd,
        libc::EPOLLIN,
        2,
    );
    let heard = waiting.join().expect("it waited");
    stage.transcript.note(format_args!("polled {heard:?}"));
    wait(stage.transcript, set, HANG);
    stage.transcript.close(set);
}

pub fn edge(stage: &mut Stage<'_>, fd: c_int) {
    let set = set(stage.transcript);
    let all = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
    change(stage.transcript, set, libc::EPOLL_CTL_ADD, fd, all, 9);
    wait(stage.transcript, set, 0);
    wait(stage.transcript, set, 0);
    stage.agent.tell("send abc");
    wait(stage.transcript, set, HANG);
    wait(stage.transcript, set, 0);
    stage.transcript.recv(fd, 1, 0);
    wait(stage.transcript, set, 0);
    // New data is a new edge, though there was some before.
    stage.agent.tell("send def");
    wait(stage.transcript, set, HANG);
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLIN);
    stage.transcript.recv(fd, 10, 0);
    change(stage.transcript, set, libc::EPOLL_CTL_MOD, fd, all, 10);
    wait(stage.transcript, set, 0);
    stage.agent.tell("shutdown");
    wait(stage.transcript, set, HANG);
    wait(stage.transcript, set, 0);
    stage.transcript.close(set);
}

pub fn one_shot(stage: &mut Stage<'_>, fd: c_int) {
    let set = set(stage.transcript);
    change(
        stage.transcript,
        set,
        libc::EPOLL_CTL_ADD,
        fd,
        libc::EPOLLIN | libc::EPOLLONESHOT,
        1,
    );
    stage.agent.tell("send abc");
    wait(stage.transcript, set, HANG);
    wait(stage.transcript, set, 20);
    stage.agent.tell("send def");
    wait(stage.transcript, set, 20);
    change(
        stage.transcript,
        set,
        libc::EPOLL_CTL_MOD,
        fd,
        libc::EPOLLIN | libc::EPOLLONESHOT,
        2,
    );
    wait(stage.transcript, set, HANG);
    stage.transcript.close(set);
}

pub fn members(stage: &mut Stage<'_>, fd: c_int) {
    let set = set(stage.transcript);
    // SAFETY: own descriptors.
    let second = unsafe { libc::dup(fd) };
    change(
        stage.transcript,
        set,
        libc::EPOLL_CTL_MOD,
        fd,
        libc::EPOLLIN,
        1,
    );
    change(stage.transcript, set, libc::EPOLL_CTL_DEL, fd, 0, 1);
    change(
        stage.transcript,
        set,
        libc::EPOLL_CTL_ADD,
        fd,
        libc::EPOLLOUT,
        1,
    );
    change(
        stage.transcript,
        set,
        libc::EPOLL_CTL_ADD,
        fd,
        libc::EPOLLOUT,
        1,
    );
    change(
        stage.transcript,
        set,
        libc::EPOLL_CTL_ADD,
        second,
        libc::EPOLLOUT,
        2,
    );
    wait(stage.transcript, set, 0);
    change(stage.transcript, set, libc::EPOLL_CTL_DEL, second, 0, 2);
    change(stage.transcript, set, libc::EPOLL_CTL_DEL, second, 0, 2);
    wait(stage.transcript, set, 0);
    change(
        stage.transcript,
        -1,
        libc::EPOLL_CTL_ADD,
        fd,
        libc::EPOLLIN,
        1,
    );
    change(
        stage.transcript,
        fd,
        libc::EPOLL_CTL_ADD,
        second,
        libc::EPOLLIN,
        1,
    );
    change(stage.transcript, set, 77, fd, libc::EPOLLIN, 1);
    // SAFETY: what is wrong is found out before it is used.
    unsafe {
        let none = std::ptr::null_mut();
        stage.transcript.call(
            "epoll_ctl(null)",
            libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, second, none) as isize,
        );
        let mut event: libc::epoll_event = zeroed();
        stage.transcript.call(
            "epoll_wait(0)",
            libc::epoll_wait(set, &raw mut event, 0, 0) as isize,
        );
        stage.transcript.call(
            "epoll_wait(-1)",
            libc::epoll_wait(set, &raw mut event, -1, 0) as isize,
        );
        stage.transcript.call(
            "epoll_wait(no set)",
            libc::epoll_wait(fd, &raw mut event, 1, 0) as isize,
        );
        libc::close(second);
    }
    stage.transcript.close(set);
}

pub fn timing(stage: &mut Stage<'_>, fd: c_int) {
    let set = set(stage.transcript);
    change(
        stage.transcript,
        set,
        libc::EPOLL_CTL_ADD,
        fd,
        libc::EPOLLIN,
        1,
    );
    let before = std::time::Instant::now();
    wait(stage.transcript, set, 50);
    let waited = before.elapsed().as_millis();
    stage
        .transcript
        .note(format_args!("waited as told: {}", waited >= 48));
    with_alarm(true, || {
        wait(stage.transcript, set, HANG);
        stage.transcript.call("errno", -1);
    });
    let mut pipe = [0; 2];
    // SAFETY: own descriptors.
    unsafe { libc::pipe(pipe.as_mut_ptr()) };
    change(
        stage.transcript,
        set,
        libc::EPOLL_CTL_ADD,
        pipe[0],
        libc::EPOLLIN,
        2,
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            // SAFETY: own descriptors.
            unsafe { libc::write(pipe[1], b"x".as_ptr().cast(), 1) }
        });
        wait(stage.transcript, set, HANG);
    });
    // Both are reported, if not in one turn.
    stage.agent.tell("send x");
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLIN);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        // SAFETY: room for four events.
        unsafe {
            let mut events: [libc::epoll_event; 4] = zeroed();
            let found = libc::epoll_wait(set, events.as_mut_ptr(), 4, -1);
            seen.extend(
                events
                    .iter()
                    .take(found.max(0) as usize)
                    .map(|event| event.u64),
            );
        }
    }
    stage.transcript.note(format_args!("reported {seen:?}"));
    // SAFETY: own descriptors.
    unsafe {
        libc::close(pipe[0]);
        libc::close(pipe[1]);
    }
    stage.transcript.close(set);
}

/// Does what waits, while the agent is told something a moment later.
fn told_later<R>(agent: &mut Agent, command: &str, waits: impl FnOnce() -> R) -> R {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            agent.tell(command);
        });
        waits()
    })
}

/// What is found in a set when poll has said so, which may be for nothing, but not too often.
fn polled_until_found(set: c_int) -> c_int {
    for _ in 0..200 {
        let mut entry = libc::pollfd {
            fd: set,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, and room for one event.
        let found = unsafe {
            libc::poll(&raw mut entry, 1, HANG);
            let mut event: libc::epoll_event = zeroed();
            libc::epoll_wait(set, &raw mut event, 1, 0)
        };
        if found != 0 || entry.revents == 0 {
            return found;
        }
    }
    0
}

/// As libraries do it that embed a set in a loop of somebody else's.
pub fn slept_in_and_polled(stage: &mut Stage<'_>, fd: c_int) {
    let set = set(stage.transcript);
    change(
        stage.transcript,
        set,
        libc::EPOLL_CTL_ADD,
        fd,
        libc::EPOLLIN,
        1,
    );
    for round in 0..3 {
        // It is slept in first, more than once: whom to wake for what is in it is known then.
        let Stage {
            agent, transcript, ..
        } = &mut *stage;
        told_later(agent, "send x", || wait(transcript, set, HANG));
        stage.transcript.recv(fd, 10, 0);
        // What is there for nothing is not told again.
        wait(stage.transcript, set, 0);
        let found = told_later(stage.agent, "send y", || polled_until_found(set));
        stage.transcript.note(format_args!("{round}: {found}"));
        stage.transcript.recv(fd, 10, 0);
    }
    stage.transcript.close(set);
}
