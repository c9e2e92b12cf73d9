//! splice, its relatives, and reading and writing with a position that a socket has not got.

use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use super::{Stage, sending};
use crate::calls::{self, vector};

pub fn pipe(flags: c_int) -> [c_int; 2] {
    let mut ends = [0; 2];
    // SAFETY: room for two numbers.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), flags) };
    assert_eq!(made, 0, "a pipe");
    ends
}

pub fn close(ends: [c_int; 2]) {
    for end in ends {
        // SAFETY: an own descriptor, or one that is closed.
        unsafe { libc::close(end) };
    }
}

pub fn splice(
    stage: &mut Stage<'_>,
    what: &str,
    from: c_int,
    to: c_int,
    length: usize,
    flags: u32,
) -> isize {
    // SAFETY: no positions.
    let moved = unsafe { libc::splice(from, null_mut(), to, null_mut(), length, flags) };
    stage
        .transcript
        .call(&format!("splice({what}, {length}, {flags:#x})"), moved)
}

fn set_nonblocking(fd: c_int, on: bool) {
    // SAFETY: takes no pointer.
    unsafe { libc::fcntl(fd, libc::F_SETFL, if on { libc::O_NONBLOCK } else { 0 }) };
}

pub fn into_a_pipe(stage: &mut Stage<'_>, fd: c_int) {
    let ends = pipe(libc::O_NONBLOCK);
    set_nonblocking(fd, true);
    splice(stage, "nothing there", fd, ends[1], 100, 0);
    stage.agent.tell("send hello_and_more");
    calls::await_bytes(fd, 14);
    splice(stage, "a part", fd, ends[1], 5, 0);
    stage.transcript.read(ends[0], 100);
    splice(
        stage,
        "the rest",
        fd,
        ends[1],
        100,
        libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK,
    );
    stage.transcript.read(ends[0], 100);
    // Without waiting on the pipe's side alone.
    set_nonblocking(fd, false);
    stage.agent.tell("send again");
    splice(stage, "waits", fd, ends[1], 100, libc::SPLICE_F_NONBLOCK);
    stage.transcript.read(ends[0], 100);
    close(ends);
    wrong(stage, fd);
    full(stage, fd);
    let ends = pipe(0);
    // SAFETY: an own descriptor.
    unsafe { libc::close(ends[0]) };
    stage.agent.tell("send unread");
    calls::await_bytes(fd, 6);
    sending::broken_pipes();
    splice(stage, "nobody reads", fd, ends[1], 100, 0);
    let signals = sending::broken_pipes();
    stage.transcript.note(format_args!("SIGPIPE {signals}"));
    stage.transcript.recv(fd, 100, 0);
    close(ends);
    let ends = pipe(0);
    // SAFETY: no position.
    let moved = unsafe {
        stage.agent.tell("send by_sendfile");
        libc::sendfile(ends[1], fd, null_mut(), 100)
    };
    stage.transcript.call("sendfile(to a pipe)", moved);
    stage.transcript.read(ends[0], 100);
    stage.agent.tell("shutdown");
    splice(stage, "the end", fd, ends[1], 100, 0);
    close(ends);
}

/// A pipe without room leaves the bytes where they are.
fn full(stage: &mut Stage<'_>, fd: c_int) {
    let ends = pipe(libc::O_NONBLOCK);
    let page = [b'p'; 4096];
    // SAFETY: the page is whole.
    while unsafe { libc::write(ends[1], page.as_ptr().cast(), page.len()) } > 0 {}
    stage.agent.tell("send kept");
    calls::await_bytes(fd, 4);
    splice(
        stage,
        "a full pipe",
        fd,
        ends[1],
        100,
        libc::SPLICE_F_NONBLOCK,
    );
    splice(stage, "a full pipe", fd, ends[1], 100, 0);
    stage.transcript.recv(fd, 100, 0);
    close(ends);
}

fn wrong(stage: &mut Stage<'_>, fd: c_int) {
    let ends = pipe(libc::O_NONBLOCK);
    let null = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/null")
        .expect("a device");
    stage.agent.tell("send x");
    calls::await_bytes(fd, 1);
    splice(stage, "of no length", fd, ends[1], 0, 0);
    splice(stage, "unknown flags", fd, ends[1], 1, 0x10);
    splice(stage, "the wrong end", fd, ends[0], 1, 0);
    splice(stage, "from the wrong end", ends[1], fd, 1, 0);
    splice(stage, "to a device", fd, null.as_raw_fd(), 1, 0);
    splice(stage, "to itself", fd, fd, 1, 0);
    splice(stage, "to nothing", fd, -1, 1, 0);
    splice(stage, "from nothing", -1, fd, 1, 0);
    let mut position: libc::off64_t = 0;
    let at: *mut libc::off64_t = &raw mut position;
    // SAFETY: an own position.
    unsafe {
        let none = null_mut();
        for (what, from, from_at, to, to_at) in [
            ("a position in the socket", fd, at, ends[1], none),
            ("a position in the pipe", fd, none, ends[1], at),
            ("from a position in the pipe", ends[0], at, fd, none),
            ("to a position in the socket", ends[0], none, fd, at),
        ] {
            stage
                .transcript
                .call(what, libc::splice(from, from_at, to, to_at, 1, 0));
        }
        stage
            .transcript
            .call("tee to a socket", libc::tee(ends[0], fd, 1, 0));
        stage
            .transcript
            .call("tee from a socket", libc::tee(fd, ends[1], 1, 0));
        let mut byte = *b"v";
        let part = vector(&mut byte);
        stage
            .transcript
            .call("vmsplice", libc::vmsplice(fd, &raw const part, 1, 0));
        let copied = libc::copy_file_range(fd, none, null.as_raw_fd(), none, 1, 0);
        stage.transcript.call("copy_file_range", copied);
        stage
            .transcript
            .call("sendfile at a position", libc::sendfile(ends[1], fd, at, 1));
        stage.transcript.call(
            "sendfile to the wrong end",
            libc::sendfile(ends[0], fd, none, 1),
        );
        stage.transcript.call(
            "sendfile to a device",
            libc::sendfile(null.as_raw_fd(), fd, none, 1),
        );
        stage
            .transcript
            .call("sendfile to nothing", libc::sendfile(-1, fd, none, 1));
    }
    stage.transcript.recv(fd, 1, 0);
    close(ends);
}

pub fn out_of_a_pipe(stage: &mut Stage<'_>, fd: c_int) {
    let ends = pipe(0);
    splice(
        stage,
        "an empty pipe",
        ends[0],
        fd,
        10,
        libc::SPLICE_F_NONBLOCK,
    );
    stage.transcript.write(ends[1], "hello_and_more");
    splice(stage, "a part", ends[0], fd, 5, libc::SPLICE_F_MORE);
    splice(stage, "the rest", ends[0], fd, 100, 0);
    let got = stage.agent.tell("receive 14");
    stage.transcript.note(got);
    // A copy of what the pipe holds goes out, and the pipe's own afterwards.
    let copies = pipe(0);
    stage.transcript.write(ends[1], "twice");
    // SAFETY: takes no pointer.
    let copied = unsafe { libc::tee(ends[0], copies[1], 100, 0) };
    stage.transcript.call("tee", copied);
    splice(stage, "the copy", copies[0], fd, 100, 0);
    splice(stage, "itself", ends[0], fd, 100, 0);
    let got = stage.agent.tell("receive 10");
    stage.transcript.note(got);
    close(copies);
    large(stage, fd, ends);
    without_room(stage, fd, ends);
    // SAFETY: an own descriptor.
    unsafe { libc::close(ends[1]) };
    splice(stage, "nobody writes", ends[0], fd, 10, 0);
    close(ends);
    let ends = pipe(0);
    stage.transcript.write(ends[1], "late");
    // SAFETY: takes no pointer.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
    sending::broken_pipes();
    splice(stage, "after the end", ends[0], fd, 10, 0);
    let signals = sending::broken_pipes();
    stage.transcript.note(format_args!("SIGPIPE {signals}"));
    close(ends);
}

/// More than either end holds, for calls that wait.
fn large(stage: &mut Stage<'_>, fd: c_int, ends: [c_int; 2]) {
    const ALL: usize = 8 << 20;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bytes = vec![b'l'; ALL];
            // SAFETY: the bytes are whole.
            let written = unsafe { libc::write(ends[1], bytes.as_ptr().cast(), ALL) };
            assert_eq!(written, ALL as isize, "a pipe that waits takes all");
        });
        scope.spawn(|| {
            let mut left = ALL;
            while left > 0 {
                // SAFETY: no positions.
                let moved = unsafe { libc::splice(ends[0], null_mut(), fd, null_mut(), left, 0) };
                assert!(moved > 0, "splice: {}", std::io::Error::last_os_error());
                left -= moved as usize;
            }
        });
        let drained = stage.agent.tell(&format!("drain {ALL}"));
        stage.transcript.note(drained);
    });
}

/// A connection without room leaves the bytes where they are.
fn without_room(stage: &mut Stage<'_>, fd: c_int, ends: [c_int; 2]) {
    set_nonblocking(fd, true);
    let block = vec![b'x'; 65_536];
    let (mut sent, mut refused) = (0, 0);
    // What the peer takes of it makes room once more, until its own buffer is full.
    while refused < 5 {
        // SAFETY: the buffer is whole.
        match unsafe { libc::send(fd, block.as_ptr().cast(), block.len(), 0) } {
            more @ 1.. => (sent, refused) = (sent + more as usize, 0),
            _ => {
                refused += 1;
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
    stage.transcript.write(ends[1], "kept");
    splice(stage, "no room", ends[0], fd, 10, 0);
    let drained = stage.agent.tell(&format!("drain {sent}"));
    stage.transcript.note(drained);
    stage.transcript.settle(fd, libc::POLLOUT, libc::POLLOUT);
    splice(stage, "room again", ends[0], fd, 10, 0);
    let got = stage.agent.tell("receive 4");
    stage.transcript.note(got);
    set_nonblocking(fd, false);
}

/// RWF_NOSIGNAL, since Linux 6.18.
const UNKNOWN: c_int = 0x4000_0000;

pub fn positions(stage: &mut Stage<'_>, fd: c_int) {
    let (mut a, mut b) = (*b"first ", *b"second");
    let parts = [vector(&mut a), vector(&mut b)];
    let list = parts.as_ptr();
    let transcript = &mut *stage.transcript;
    // SAFETY: the parts are whole.
    unsafe {
        for (what, flags) in [
            ("none", 0),
            ("NOWAIT", libc::RWF_NOWAIT),
            ("DSYNC", libc::RWF_DSYNC),
            ("HIPRI", libc::RWF_HIPRI),
            ("APPEND", libc::RWF_APPEND),
            ("unknown", UNKNOWN),
        ] {
            let sent = libc::pwritev2(fd, list, 2, -1, flags);
            transcript.call(&format!("pwritev2({what})"), sent);
        }
        transcript.call("pwritev2(nothing)", libc::pwritev2(fd, list, 0, -1, 0));
        transcript.call("pwritev2(too many)", libc::pwritev2(fd, list, 1025, -1, 0));
        transcript.call("pwritev2 at 0", libc::pwritev2(fd, list, 2, 0, 0));
        transcript.call("pwritev2 at -2", libc::pwritev2(fd, list, 2, -2, 0));
        transcript.call("pwritev", libc::pwritev(fd, list, 2, 0));
        transcript.call("pwrite", libc::pwrite(fd, a.as_ptr().cast(), 1, 0));
    }
    let got = stage.agent.tell("receive 60");
    stage.transcript.note(got);
    let (mut a, mut b) = ([0u8; 3], [0u8; 30]);
    let parts = [vector(&mut a), vector(&mut b)];
    let list = parts.as_ptr();
    // SAFETY: the parts are whole.
    unsafe {
        let read = |flags| libc::preadv2(fd, list, 2, -1, flags);
        let by_number = |flags: c_int| {
            libc::syscall(libc::SYS_preadv2, fd, list, 2usize, -1isize, 0usize, flags) as isize
        };
        stage
            .transcript
            .call("preadv2(NOWAIT), nothing", read(libc::RWF_NOWAIT));
        stage
            .transcript
            .call("preadv2(nothing)", libc::preadv2(fd, list, 0, -1, 0));
        stage.agent.tell("send now_there");
        stage.transcript.call("preadv2", read(0));
        stage.agent.tell("send and_again");
        calls::await_bytes(fd, 9);
        stage
            .transcript
            .call("preadv2(NOWAIT)", by_number(libc::RWF_NOWAIT));
        stage.agent.tell("send more");
        calls::await_bytes(fd, 4);
        stage.transcript.call("preadv2(unknown)", read(UNKNOWN));
        stage
            .transcript
            .call("preadv2(HIPRI)", by_number(libc::RWF_HIPRI));
        stage
            .transcript
            .call("preadv2 at 0", libc::preadv2(fd, list, 2, 0, 0));
        stage
            .transcript
            .call("preadv", libc::preadv(fd, list, 2, 0));
        stage
            .transcript
            .call("pread", libc::pread(fd, a.as_mut_ptr().cast(), 1, 0));
    }
    let read = [&a[..], &b[..]].concat();
    stage
        .transcript
        .note(format_args!("{:?}", String::from_utf8_lossy(&read)));
}
