//! Calls that have moved a part when the peer resets the connection: they return the part, and the error is for
//! the next call, unless they repeat a whole send in the kernel, whose last one has it.

use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use super::{Stage, sending, splicing};
use crate::calls::{self, Transcript, vector};

/// More than any connection holds of what nobody reads.
const MUCH: usize = 64 << 20;

/// What the calls say after the one that has moved a part.
fn afterwards(stage: &mut Stage<'_>, fd: c_int) {
    sending::broken_pipes();
    stage.transcript.recv(fd, 10, 0);
    stage.transcript.send(fd, "x", 0);
    stage.transcript.recv(fd, 10, 0);
    stage
        .transcript
        .note(format_args!("SIGPIPE {}", sending::broken_pipes()));
}

/// The peer sends a part of what `call` waits for, and resets once that has been taken.
fn receives(stage: &mut Stage<'_>, fd: c_int, call: impl FnOnce(&mut Transcript) + Send) {
    stage.agent.tell("send part");
    calls::await_bytes(fd, 4);
    let received = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut transcript = Transcript::default();
            call(&mut transcript);
            transcript
        });
        calls::until(|| {
            let mut left: c_int = -1;
            // SAFETY: room for the number.
            unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut left) };
            left == 0
        });
        stage.agent.tell("reset");
        waiting.join().expect("the other thread has received")
    });
    stage.transcript.0 += &received.0;
    afterwards(stage, fd);
}

pub fn received(stage: &mut Stage<'_>, fd: c_int) {
    receives(stage, fd, |transcript| {
        transcript.recv(fd, 100, libc::MSG_WAITALL);
    });
}

pub fn thrown_away(stage: &mut Stage<'_>, fd: c_int) {
    receives(stage, fd, |transcript| {
        let flags = libc::MSG_WAITALL | libc::MSG_TRUNC;
        // SAFETY: nothing is written where bytes are thrown away.
        let thrown = unsafe { libc::recv(fd, null_mut(), 100, flags) };
        transcript.call("recv(thrown away)", thrown);
    });
}

pub fn received_in_messages(stage: &mut Stage<'_>, fd: c_int) {
    receives(stage, fd, |transcript| {
        let (mut one, mut other) = ([0u8; 10], [0u8; 10]);
        let mut parts = [vector(&mut one), vector(&mut other)];
        // SAFETY: zeros are two empty headers.
        let mut messages: [libc::mmsghdr; 2] = unsafe { std::mem::zeroed() };
        for (message, part) in messages.iter_mut().zip(&mut parts) {
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (part, 1);
        }
        // SAFETY: two headers of one part each.
        let got = unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), 2, 0, null_mut()) };
        transcript.call("recvmmsg", got as isize);
    });
}

pub fn spliced_into_a_pipe(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("send part");
    stage.agent.tell("reset");
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLHUP);
    let ends = splicing::pipe(0);
    splicing::splice(stage, "a part", fd, ends[1], 100, 0);
    splicing::close(ends);
    afterwards(stage, fd);
}

/// The peer resets once `call` has written as much as there is room for.
fn sends(stage: &mut Stage<'_>, fd: c_int, call: impl FnOnce() -> isize + Send) {
    let sent = std::thread::scope(|scope| {
        let sender = scope.spawn(call);
        calls::until(|| {
            let mut entry = libc::pollfd {
                fd,
                events: libc::POLLOUT,
                revents: 0,
            };
            // SAFETY: one entry.
            unsafe { libc::poll(&raw mut entry, 1, 0) == 0 }
        });
        stage.agent.tell("reset");
        sender.join().expect("the other thread has sent")
    });
    // How much there is room for is not the same.
    let part = (1..MUCH as isize).contains(&sent);
    stage.transcript.note(format_args!("sent a part: {part}"));
    afterwards(stage, fd);
}

pub fn sent(stage: &mut Stage<'_>, fd: c_int) {
    let bytes = vec![b'x'; MUCH];
    // SAFETY: the buffer is whole.
    sends(stage, fd, || unsafe {
        libc::send(fd, bytes.as_ptr().cast(), bytes.len(), 0)
    });
}

pub fn sent_from_a_file(stage: &mut Stage<'_>, fd: c_int) {
    let file = sending::temporary(0);
    file.set_len(MUCH as u64).expect("a file has a length");
    // SAFETY: descriptors; the file's own position.
    sends(stage, fd, || unsafe {
        libc::sendfile(fd, file.as_raw_fd(), null_mut(), MUCH)
    });
}
