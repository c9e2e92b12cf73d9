//! Writing.

use std::ffi::c_int;
use std::io::{Seek, SeekFrom, Write};
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Stage;
use crate::calls::{self, vector};

static BROKEN_PIPES: AtomicU32 = AtomicU32::new(0);

/// The handler of SIGPIPE.
pub extern "C" fn count_broken_pipe(_: c_int) {
    BROKEN_PIPES.fetch_add(1, Ordering::Relaxed);
}

/// How often SIGPIPE has come since this was last asked.
pub fn broken_pipes() -> u32 {
    BROKEN_PIPES.swap(0, Ordering::Relaxed)
}

pub fn plainly(stage: &mut Stage<'_>, fd: c_int) {
    stage.transcript.send(fd, "hello ", 0);
    stage.transcript.write(fd, "world");
    stage.transcript.send(fd, "", 0);
    stage.transcript.send(fd, " more", libc::MSG_MORE);
    stage
        .transcript
        .send(fd, " end", libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
    let got = stage.agent.tell("receive 20");
    stage.transcript.note(got);
}

pub fn gathered(stage: &mut Stage<'_>, fd: c_int) {
    let (mut a, mut b) = (*b"gath", *b"ered");
    let nothing = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let mut parts = [vector(&mut a), nothing, vector(&mut b)];
    // SAFETY: the parts are whole, the header too.
    unsafe {
        stage
            .transcript
            .call("writev", libc::writev(fd, parts.as_ptr(), 3));
        stage
            .transcript
            .call("writev(no parts)", libc::writev(fd, parts.as_ptr(), 0));
        stage
            .transcript
            .call("writev(too many)", libc::writev(fd, parts.as_ptr(), 1025));
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = 3;
        stage
            .transcript
            .call("sendmsg", libc::sendmsg(fd, &raw const message, 0));
        let mut several = [zeroed::<libc::mmsghdr>(), zeroed()];
        for one in &mut several {
            one.msg_hdr = message;
        }
        let sent = libc::sendmmsg(fd, several.as_mut_ptr(), 2, 0);
        stage.transcript.call("sendmmsg", sent as isize);
        stage.transcript.note(format_args!(
            "{} {}",
            several[0].msg_len, several[1].msg_len
        ));
    }
    let got = stage.agent.tell("receive 32");
    stage.transcript.note(got);
}

/// With a bound for what has not left, so much is written and no more that waits behind a closed window.
pub fn bounded(stage: &mut Stage<'_>, fd: c_int) {
    let bound = |stage: &mut Stage<'_>, bytes| {
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
        stage.transcript.set_integer(fd, level, name, bytes);
        stage.transcript.integer_option(fd, level, name);
    };
    // Large enough that it is not what ends it.
    stage
        .transcript
        .set_integer(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 200_000);
    bound(stage, 16_384);
    let block = "x".repeat(4_096);
    let mut sent = 0;
    loop {
        // SAFETY: the buffer is whole.
        let one = unsafe { libc::send(fd, block.as_ptr().cast(), block.len(), libc::MSG_DONTWAIT) };
        if one > 0 {
            sent += one as usize;
            assert!(sent < 1 << 20, "it never waits");
            continue;
        }
        // What has left makes room, until the window is closed.
        let mut entry = libc::pollfd {
            fd,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one entry.
        if unsafe { libc::poll(&raw mut entry, 1, 150) } == 0 {
            break;
        }
    }
    bound(stage, 0);
    stage.transcript.poll(fd, libc::POLLOUT, 0);
    bound(stage, 16_384);
    stage.transcript.poll(fd, libc::POLLOUT, 0);
    let drained = stage.agent.tell(&format!("drain {sent}"));
    stage.transcript.note(drained);
    stage.transcript.settle(fd, libc::POLLOUT, libc::POLLOUT);
    // A blocking call sends everything, however much it is.
    let large = "y".repeat(2 << 20);
    let drained = std::thread::scope(|scope| {
        // SAFETY: the buffer is whole.
        let write = || unsafe { libc::write(fd, large.as_ptr().cast(), large.len()) };
        let writer = scope.spawn(write);
        let drained = stage.agent.tell(&format!("drain {}", large.len()));
        let written = writer.join().expect("the other thread has written");
        stage.transcript.call("write", written);
        drained
    });
    stage.transcript.note(drained);
}

pub fn until_full(stage: &mut Stage<'_>, fd: c_int) {
    let block = "x".repeat(65_536);
    let mut sent = 0;
    loop {
        // SAFETY: the buffer is whole.
        let one = unsafe { libc::send(fd, block.as_ptr().cast(), block.len(), libc::MSG_DONTWAIT) };
        if one < 0 {
            stage.transcript.call("send to a full socket", one);
            break;
        }
        sent += one as usize;
        assert!(sent < 1 << 30, "it never fills");
    }
    stage.transcript.poll(fd, libc::POLLOUT, 0);
    let drained = stage.agent.tell(&format!("drain {sent}"));
    stage.transcript.note(drained);
    stage.transcript.settle(fd, libc::POLLOUT, libc::POLLOUT);
    // A blocking call sends everything, however much it is.
    let large = "y".repeat(8 << 20);
    let drained = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            // SAFETY: the buffer is whole.
            unsafe { libc::write(fd, large.as_ptr().cast(), large.len()) }
        });
        let drained = stage.agent.tell(&format!("drain {}", large.len()));
        let sent = sender.join().expect("the sender has sent");
        stage.transcript.call("write(8 MiB)", sent);
        drained
    });
    stage.transcript.note(drained);
}

/// A file of `length` bytes that has no name.
pub fn temporary(length: usize) -> std::fs::File {
    let path = std::env::temp_dir().join(format!("socket_calls.{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .expect("a file");
    std::fs::remove_file(&path).expect("which is removed");
    let bytes: Vec<u8> = (0..length).map(|at| b'a' + (at % 26) as u8).collect();
    file.write_all(&bytes).expect("and filled");
    file.rewind().expect("and read from its start");
    file
}

pub fn file(stage: &mut Stage<'_>, fd: c_int) {
    let mut file = temporary(100);
    let number = file.as_raw_fd();
    // SAFETY: descriptors, and null or an own offset.
    unsafe {
        let none = std::ptr::null_mut();
        stage
            .transcript
            .call("sendfile(10)", libc::sendfile(fd, number, none, 10));
        stage
            .transcript
            .note(format_args!("position {:?}", file.stream_position().ok()));
        let mut offset: libc::off_t = 50;
        stage.transcript.call(
            "sendfile(50, 20)",
            libc::sendfile(fd, number, &raw mut offset, 20),
        );
        stage.transcript.note(format_args!(
            "offset {offset} position {:?}",
            file.stream_position().ok()
        ));
        stage.transcript.call(
            "sendfile(beyond)",
            libc::sendfile(fd, number, &raw mut offset, 1000),
        );
        stage.transcript.note(format_args!("offset {offset}"));
        stage.transcript.call(
            "sendfile(at the end)",
            libc::sendfile(fd, number, &raw mut offset, 10),
        );
        stage
            .transcript
            .call("sendfile(nothing)", libc::sendfile(fd, number, none, 0));
        offset = -1;
        stage.transcript.call(
            "sendfile(-1)",
            libc::sendfile(fd, number, &raw mut offset, 10),
        );
        stage
            .transcript
            .call("sendfile(from a socket)", libc::sendfile(fd, fd, none, 10));
        stage
            .transcript
            .call("sendfile(from nowhere)", libc::sendfile(fd, -1, none, 10));
        let mut pipe = [0; 2];
        libc::pipe(pipe.as_mut_ptr());
        stage.transcript.call(
            "sendfile(from a pipe)",
            libc::sendfile(fd, pipe[0], none, 10),
        );
        libc::close(pipe[0]);
        libc::close(pipe[1]);
        file.seek(SeekFrom::Start(0)).expect("seekable");
    }
    let got = stage.agent.tell("receive 60");
    stage.transcript.note(got);
}

pub fn file_without_waiting(stage: &mut Stage<'_>, fd: c_int) {
    let mut file = temporary(16 << 20);
    // SAFETY: flags of an own descriptor.
    unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
    let mut sent = 0;
    loop {
        // SAFETY: descriptors.
        let one = unsafe { libc::sendfile(fd, file.as_raw_fd(), std::ptr::null_mut(), 4 << 20) };
        if one <= 0 {
            stage.transcript.call("sendfile to a full socket", one);
            break;
        }
        sent += one as u64;
    }
    let position = file.stream_position().expect("a position");
    stage.transcript.note(format_args!(
        "position is what was sent: {}",
        position == sent
    ));
    let drained = stage.agent.tell(&format!("drain {sent}"));
    stage.transcript.note(drained);
    stage.transcript.settle(fd, libc::POLLOUT, libc::POLLOUT);
    // SAFETY: descriptors.
    let more = unsafe { libc::sendfile(fd, file.as_raw_fd(), std::ptr::null_mut(), 10) };
    stage.transcript.call("sendfile afterwards", more);
}

pub fn time_limit(stage: &mut Stage<'_>, fd: c_int) {
    calls::set_timeout(fd, libc::SO_SNDTIMEO, 50);
    let large = vec![b'z'; 64 << 20];
    // SAFETY: the buffer is whole.
    let first = unsafe { libc::send(fd, large.as_ptr().cast(), large.len(), 0) };
    stage.transcript.note(format_args!(
        "a part was sent: {}",
        first > 0 && (first as usize) < large.len()
    ));
    // It may take some more, as the peer's own buffer fills.
    let mut second = 1;
    while second > 0 {
        // SAFETY: as above.
        second = unsafe { libc::send(fd, large.as_ptr().cast(), large.len(), 0) };
    }
    stage.transcript.call("send to a full socket", second);
}
