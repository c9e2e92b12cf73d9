//! Several messages by one call.

use std::ffi::c_int;
use std::mem::zeroed;

use super::Stage;
use crate::calls::{self, Transcript};

/// Receives two messages of a byte each, with this time limit.
fn two(transcript: &mut Transcript, fd: c_int, flags: c_int, limit: (i64, i64)) {
    let mut bytes = [0u8; 2];
    let mut left = libc::timespec {
        tv_sec: limit.0,
        tv_nsec: limit.1,
    };
    // SAFETY: room for two messages.
    let (received, lengths) = unsafe {
        let mut parts: [libc::iovec; 2] = zeroed();
        let mut messages: [libc::mmsghdr; 2] = zeroed();
        for at in 0..2 {
            parts[at].iov_base = bytes.as_mut_ptr().add(at).cast();
            parts[at].iov_len = 1;
            messages[at].msg_hdr.msg_iov = &raw mut parts[at];
            messages[at].msg_hdr.msg_iovlen = 1;
        }
        let received = libc::recvmmsg(fd, messages.as_mut_ptr(), 2, flags, &raw mut left);
        (received, messages.map(|message| message.msg_len))
    };
    transcript.call("recvmmsg", received as isize);
    let is = match (left.tv_sec, left.tv_nsec) {
        left if left == limit => "all",
        (0, 0) => "nothing",
        left if left < limit => "a part",
        _ => "more",
    };
    transcript.note(format_args!("{bytes:?}, {lengths:?}, left: {is}"));
}

pub fn in_time(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("send abcdef");
    calls::await_bytes(fd, 6);
    // The first message counts however short the time is; after it, it is looked at.
    two(stage.transcript, fd, 0, (0, 0));
    two(stage.transcript, fd, 0, (0, 1));
    two(stage.transcript, fd, 0, (3600, 0));
    two(stage.transcript, fd, 0, (0, 1_000_000_000));
    two(stage.transcript, fd, 0, (0, -1));
    two(stage.transcript, fd, 0, (-1, 0));
    two(stage.transcript, fd, libc::MSG_WAITFORONE, (3600, 0));
    two(stage.transcript, fd, libc::MSG_DONTWAIT, (3600, 0));
    stage.transcript.recv(fd, 10, libc::MSG_DONTWAIT);
}
