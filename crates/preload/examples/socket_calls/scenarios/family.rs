//! What a child has to know at its first look.

use std::ffi::c_int;
use std::mem::zeroed;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Stage, agents_listener};
use crate::calls::{self, HANG};

/// Runs `child` in a child, and notes what it returns: 0 to 255.
fn in_a_child(stage: &mut Stage<'_>, child: impl FnOnce() -> c_int) {
    // SAFETY: the child makes a few calls and ends.
    let status = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(child());
        }
        let mut status = 0;
        libc::waitpid(pid, &raw mut status, 0);
        status
    };
    let ended = (libc::WIFEXITED(status), libc::WEXITSTATUS(status));
    stage.transcript.note(format_args!("the child: {ended:?}"));
}

/// Where one process ends reading the others find what has come and then the end, also those who sleep.
pub fn end_reading_elsewhere(stage: &mut Stage<'_>, fd: c_int) {
    for how in [libc::SHUT_RD, libc::SHUT_RDWR] {
        let fd = if how == libc::SHUT_RD {
            fd
        } else {
            super::opened_connection(stage.agent)
        };
        let shut_down = |wait| {
            // SAFETY: makes a process, which makes two calls and ends.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                std::thread::sleep(std::time::Duration::from_millis(wait));
                // SAFETY: an own descriptor.
                unsafe { libc::_exit(libc::shutdown(fd, how)) };
            }
            pid
        };
        // Most likely the parent sleeps by then; if it does not, the outcome is the same.
        let child = shut_down(200);
        stage.transcript.recv(fd, 10, 0);
        await_child(stage, child);
        stage
            .transcript
            .poll(fd, libc::POLLIN | libc::POLLRDHUP, HANG);
        if how == libc::SHUT_RD {
            // What comes afterwards is read.
            stage.agent.tell("send late");
            calls::await_bytes(fd, 4);
            stage.transcript.recv(fd, 10, 0);
        }
        stage.transcript.recv(fd, 10, 0);
        // Who is made afterwards knows it, too.
        in_a_child(stage, || {
            let mut byte = 0u8;
            // SAFETY: room for a byte.
            (unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, 0) }) as c_int
        });
        if how == libc::SHUT_RD {
            stage.transcript.send(fd, "open", 0);
            let got = stage.agent.tell("receive 4");
            stage.transcript.note(got);
        } else {
            stage.transcript.close(fd);
        }
        stage.agent.tell("close");
    }
}

fn await_child(stage: &mut Stage<'_>, child: libc::pid_t) {
    let mut status = 0;
    // SAFETY: room for a status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    stage.transcript.note(format_args!("the child: {status}"));
}

/// A client waits before anybody has asked for one: whoever looks once, without waiting, sees it.
pub fn looks_once(stage: &mut Stage<'_>) {
    for fork in [false, true] {
        let (listener, address) = calls::listening(stage.here, 0);
        stage.agent.tell(&format!("connect {address}"));
        let look = || {
            // SAFETY: own descriptors, a whole set and a whole time.
            unsafe {
                let mut set: libc::fd_set = zeroed();
                libc::FD_SET(listener, &raw mut set);
                let mut time: libc::timeval = zeroed();
                let none = std::ptr::null_mut();
                libc::select(listener + 1, &raw mut set, none, none, &raw mut time)
            }
        };
        if fork {
            in_a_child(stage, look);
        } else {
            let found = look();
            stage.transcript.call("select", found as isize);
        }
        stage.agent.tell("close");
        stage.transcript.close(listener);
    }
}

/// A connection cannot be opened, which turns out before a child has looked at it.
pub fn refused_before_a_look(stage: &mut Stage<'_>) {
    let nobody = agents_listener(stage.agent);
    stage.agent.tell("unlisten");
    for fork_first in [true, false] {
        let fd = calls::socket(nobody.ip(), libc::SOCK_NONBLOCK);
        let mut pipe = [0; 2];
        // SAFETY: room for two numbers.
        unsafe { libc::pipe(pipe.as_mut_ptr()) };
        let connect = || {
            calls::with_address(nobody, |name, length| {
                // SAFETY: the address is whole.
                unsafe { libc::connect(fd, name, length) }
            })
        };
        // SAFETY: own descriptors; the child makes a few calls and ends.
        unsafe {
            stage.transcript.call("connect", connect() as isize);
            let mut hung_up = zeroed::<libc::pollfd>();
            (hung_up.fd, hung_up.events) = (fd, libc::POLLIN);
            if !fork_first {
                libc::poll(&raw mut hung_up, 1, HANG);
            }
            let pid = libc::fork();
            if pid == 0 {
                // Not before the parent has seen it.
                let mut byte = 0u8;
                libc::read(pipe[0], (&raw mut byte).cast(), 1);
                libc::poll(&raw mut hung_up, 1, HANG);
                let mut error: c_int = 0;
                let mut length = 4;
                let error_at = (&raw mut error).cast();
                libc::getsockopt(
                    fd,
                    libc::SOL_SOCKET,
                    libc::SO_ERROR,
                    error_at,
                    &raw mut length,
                );
                libc::_exit(error);
            }
            libc::poll(&raw mut hung_up, 1, HANG);
            stage
                .transcript
                .note(format_args!("poll: {:#x}", hung_up.revents));
            libc::write(pipe[1], c"x".as_ptr().cast(), 1);
            let mut status = 0;
            libc::waitpid(pid, &raw mut status, 0);
            stage
                .transcript
                .note(format_args!("the child's error: {}", status >> 8));
            libc::close(pipe[0]);
            libc::close(pipe[1]);
        }
        stage.transcript.close(fd);
    }
}

/// One process connects a socket within this machine, and the other then connects it to elsewhere: it is connected, or
/// the other is told what has become of it.
pub fn connected_elsewhere(stage: &mut Stage<'_>) {
    let elsewhere = agents_listener(stage.agent);
    for nobody in [false, true] {
        let (listener, here) = calls::listening(stage.here, 0);
        if nobody {
            stage.transcript.close(listener);
        }
        let fd = calls::socket(stage.here, if nobody { libc::SOCK_NONBLOCK } else { 0 });
        let connect = |address| {
            calls::with_address(address, |name, length| {
                // SAFETY: the address is whole.
                unsafe { libc::connect(fd, name, length) }
            })
        };
        in_a_child(stage, || c_int::from(connect(here) == 0));
        stage
            .transcript
            .call("connect", connect(elsewhere) as isize);
        stage.transcript.close(fd);
        if !nobody {
            stage.transcript.close(listener);
        }
    }
    stage.agent.tell("unlisten");
}

/// What one process shuts down is shut for the other, from the moment on at which it has.
pub fn shut_down_elsewhere(stage: &mut Stage<'_>, fd: c_int) {
    // SAFETY: ignores a signal: the number of the error is what is looked at.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    in_a_child(stage, || {
        // SAFETY: an own descriptor.
        unsafe { libc::shutdown(fd, libc::SHUT_WR) }
    });
    stage.transcript.send(fd, "late", 0);
    stage.transcript.settle(fd, libc::POLLOUT, libc::POLLOUT);
    stage.agent.tell("send still-open");
    stage.transcript.recv(fd, 10, libc::MSG_WAITALL);
    // SAFETY: as it was before.
    unsafe { libc::signal(libc::SIGPIPE, before) };
}

/// A child waits in a set in which threads of its parent were about to wait, at the moment of the fork.
pub fn forked_while_threads_wait(stage: &mut Stage<'_>, fd: c_int) {
    /// Enough that a lock which one of the threads may hold is held at one of the forks.
    const FORKS: usize = 200;
    // SAFETY: makes descriptors.
    let (set, always) = unsafe { (libc::epoll_create1(0), libc::eventfd(1, 0)) };
    for member in [fd, always] {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: member as u64,
        };
        // SAFETY: own descriptors, and a whole event.
        unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, member, &raw mut event) };
    }
    let wait = || {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event.
        let found = unsafe { libc::epoll_wait(set, &raw mut event, 1, HANG) };
        c_int::from(found != 1 || event.u64 != always as u64)
    };
    let done = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    wait();
                }
            });
        }
        let fork = |_| {
            let mut status = -1;
            // SAFETY: the child makes a few calls and ends, if need be by the signal.
            unsafe {
                let pid = libc::fork();
                if pid == 0 {
                    libc::alarm(20);
                    libc::_exit(wait());
                }
                libc::waitpid(pid, &raw mut status, 0);
            }
            status
        };
        let bad = (0..FORKS).map(fork).find(|status| *status != 0);
        done.store(true, Ordering::Relaxed);
        bad
    });
    stage
        .transcript
        .note(format_args!("a child that did not end well: {ended:?}"));
    stage.transcript.close(set);
    stage.transcript.close(always);
}

/// Children that a lock would be left held in.
const FORKS: usize = 60;

/// Asks for options of a connection, sets them, and puts a socket that is not connected into a set and takes it out.
fn use_locks(fd: c_int, undecided: c_int, set: c_int) {
    let option = |value: c_int| {
        let size = size_of::<c_int>() as libc::socklen_t;
        let value = (&raw const value).cast();
        // SAFETY: an integer and its length.
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_OOBINLINE, value, size) };
    };
    for value in 0..20 {
        option(value & 1);
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        for operation in [libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_DEL] {
            // SAFETY: own descriptors and an own event.
            unsafe { libc::epoll_ctl(set, operation, undecided, &raw mut event) };
        }
    }
}

/// What other threads hold at a fork no child finds held.
pub fn fork_beside_calls(stage: &mut Stage<'_>, fd: c_int) {
    let undecided = calls::socket(stage.here, 0);
    // SAFETY: makes a descriptor.
    let set = unsafe { libc::epoll_create1(0) };
    let over = AtomicBool::new(false);
    let mut ended = 0;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    use_locks(fd, undecided, set);
                }
            });
        }
        for _ in 0..FORKS {
            // SAFETY: the child makes calls alone, and ends, by the alarm if it must.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::alarm(20);
                    use_locks(fd, undecided, set);
                    libc::_exit(0);
                }
                let mut status = -1;
                libc::waitpid(child, &raw mut status, 0);
                ended += usize::from(status == 0);
                if status != 0 {
                    break;
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let said = format!("{ended} of {FORKS} children have ended");
    stage.transcript.note(said);
    stage.transcript.close(set);
    stage.transcript.close(undecided);
}
