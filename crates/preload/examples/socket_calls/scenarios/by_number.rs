//! Calls by their numbers, where they are not what they are by their names.

use std::ffi::c_int;
use std::mem::zeroed;
use std::time::Duration;

use super::Stage;
use crate::calls;

const SIGSET_BYTES: usize = 8;

/// Says what a call has returned and what it has left of its time: all, a part of it, or nothing.
fn note(stage: &mut Stage<'_>, name: &str, found: i64, limit: i64, left: libc::timespec) {
    stage.transcript.call(name, found as isize);
    let left = Duration::new(left.tv_sec as u64, left.tv_nsec as u32);
    let is = match Duration::from_secs(limit as u64) {
        limit if left == limit => "all",
        _ if left.is_zero() => "nothing",
        limit if left < limit => "a part",
        _ => "more",
    };
    stage.transcript.note(format_args!("left: {is}"));
}

fn pselect(stage: &mut Stage<'_>, fd: c_int, limit: i64, mask: *const libc::sigset_t) {
    // SAFETY: a set with room for `fd`, a time, and a mask with its size.
    let (found, set, left) = unsafe {
        let mut set: libc::fd_set = zeroed();
        libc::FD_SET(fd, &raw mut set);
        let mut left: libc::timespec = zeroed();
        left.tv_sec = limit;
        let mask = [mask as usize, SIGSET_BYTES];
        let none = std::ptr::null_mut::<libc::fd_set>();
        let (set_at, left_at) = (&raw mut set, &raw mut left);
        let number = libc::SYS_pselect6;
        let found = libc::syscall(number, fd + 1, set_at, none, none, left_at, mask.as_ptr());
        (found, set, left)
    };
    note(stage, "pselect6", found, limit, left);
    // SAFETY: a whole set.
    let is_in = unsafe { libc::FD_ISSET(fd, &raw const set) };
    stage.transcript.note(format_args!("in the set: {is_in}"));
}

fn ppoll(stage: &mut Stage<'_>, fd: c_int, limit: i64) {
    // SAFETY: an entry and a time.
    let (found, left) = unsafe {
        let mut entry: libc::pollfd = zeroed();
        (entry.fd, entry.events) = (fd, libc::POLLIN);
        let mut left: libc::timespec = zeroed();
        left.tv_sec = limit;
        let (entry_at, left_at) = (&raw mut entry, &raw mut left);
        let found = libc::syscall(libc::SYS_ppoll, entry_at, 1, left_at, 0, SIGSET_BYTES);
        (found, left)
    };
    note(stage, "ppoll", found, limit, left);
}

pub fn waiting(stage: &mut Stage<'_>, fd: c_int) {
    pselect(stage, fd, 0, std::ptr::null());
    ppoll(stage, fd, 0);
    stage.agent.tell("send x");
    calls::await_bytes(fd, 1);
    pselect(stage, fd, 3600, std::ptr::null());
    ppoll(stage, fd, 3600);
    stage.transcript.recv(fd, 10, 0);
    // A signal that waits, and that is let in for the time of the call.
    super::receiving::with_alarm(false, || {
        // SAFETY: whole sets.
        let before = unsafe {
            let (mut alarm, mut before): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
            libc::sigaddset(&raw mut alarm, libc::SIGALRM);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const alarm, &raw mut before);
            before
        };
        pselect(stage, fd, 3600, &raw const before);
        // SAFETY: a whole set.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    });
}
