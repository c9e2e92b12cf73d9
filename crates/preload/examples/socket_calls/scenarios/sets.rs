//! Epoll sets in epoll sets, and what a set with little room takes in which order.

use std::ffi::c_int;
use std::mem::zeroed;

use super::Stage;
use super::events::{change, set, wait};
use crate::calls::HANG;

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
    let found = told_by_the_outer(outer, inner);
    stage
        .transcript
        .note(format_args!("outer and inner {found:?}"));
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
        let found = told_by_the_outer(outer, inner);
        stage
            .transcript
            .note(format_args!("outer and inner {found:?}"));
        stage.transcript.recv(fd, 10, 0);
    }
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
