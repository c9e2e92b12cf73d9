//! A process that is stopped and goes on (SIGSTOP, SIGCONT) while it waits in a call. What differs then stands in
//! `docs/calls.md`.

use std::ffi::c_int;
use std::mem::zeroed;
use std::time::Duration;

use super::Stage;
use crate::calls::{self, HANG};

type Call = fn(c_int) -> isize;

/// A process that makes a call, and ends with what that returned.
struct Child(libc::pid_t);

impl Child {
    fn start(call: impl FnOnce() -> isize) -> Self {
        // SAFETY: makes a process, which makes a call and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let returned = call();
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            let said = if returned < 0 {
                100 + errno
            } else {
                returned as c_int
            };
            // SAFETY: ends this process.
            unsafe { libc::_exit(said) };
        }
        Self(pid)
    }

    /// Waits until it sleeps.
    fn until_asleep(&self) {
        let mut times = 0;
        calls::until(|| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0));
            let sleeps = calls::is_asleep(&stat.unwrap_or_default());
            times = if sleeps { times + 1 } else { 0 };
            std::thread::sleep(Duration::from_millis(5));
            times == 10
        });
    }

    /// Stops it, and lets it go on.
    fn is_stopped_for_a_moment(&self) {
        // SAFETY: signals to an own child, which is waited for.
        unsafe {
            let mut status = 0;
            libc::kill(self.0, libc::SIGSTOP);
            libc::waitpid(self.0, &raw mut status, libc::WUNTRACED);
            // It may end for this.
            libc::kill(self.0, libc::SIGCONT);
        }
    }

    /// What its call has returned.
    fn returned(&self) -> c_int {
        let mut status = 0;
        // SAFETY: an own child.
        let ended = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        assert_eq!(ended, self.0);
        libc::WEXITSTATUS(status)
    }
}

fn receive(fd: c_int) -> isize {
    let mut bytes = [0u8; 10];
    // SAFETY: so much room.
    unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), bytes.len(), 0) }
}

fn poll(fd: c_int) -> isize {
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry.
    unsafe { libc::poll(&raw mut entry, 1, HANG) as isize }
}

/// The kernel ends epoll_wait, and goes on with the others.
fn wait_in_a_set(fd: c_int) -> isize {
    // SAFETY: own descriptors, and room for an event.
    unsafe {
        let set = libc::epoll_create1(0);
        let mut event: libc::epoll_event = zeroed();
        event.events = libc::EPOLLIN as u32;
        libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event);
        libc::epoll_wait(set, &raw mut event, 1, HANG) as isize
    }
}

pub fn waiting(stage: &mut Stage<'_>, fd: c_int) {
    let ways: [(&str, Call); 3] = [
        ("recv", receive),
        ("poll", poll),
        ("epoll_wait", wait_in_a_set),
    ];
    for (name, call) in ways {
        let child = Child::start(|| call(fd));
        child.until_asleep();
        child.is_stopped_for_a_moment();
        // Whoever ends for that does so by now, most likely.
        std::thread::sleep(Duration::from_millis(100));
        stage.agent.tell("send hello");
        let returned = child.returned();
        stage.transcript.note(format_args!("{name}: {returned}"));
        if name != "recv" {
            stage.transcript.recv(fd, 10, 0);
        }
    }
}
