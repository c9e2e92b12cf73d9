//! MSG_ZEROCOPY and the error queue.

use std::ffi::c_int;
use std::mem::zeroed;

use libc::{SO_ZEROCOPY, SOL_SOCKET};

use super::Stage;
use crate::calls::{HANG, vector};

/// recvmsg from the error queue, with so much room for what comes along.
fn notice(stage: &mut Stage<'_>, fd: c_int, room: usize) {
    let mut control = [0u64; 16];
    let mut bytes = [0u8; 16];
    let mut part = vector(&mut bytes);
    // SAFETY: integers and pointers, and the memory that they point to.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = room;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        let got = libc::recvmsg(fd, &raw mut message, flags);
        stage.transcript.call(&format!("recvmsg({room})"), got);
        if got >= 0 {
            stage.transcript.note(format_args!(
                "flags {:#x}, control {} {control:x?}",
                message.msg_flags, message.msg_controllen
            ));
        }
    }
}

pub fn notifications(stage: &mut Stage<'_>, fd: c_int) {
    // Without the option the flag is nothing.
    stage.transcript.send(fd, "plain", libc::MSG_ZEROCOPY);
    notice(stage, fd, 128);
    for value in [2, -1, 1] {
        stage
            .transcript
            .set_integer(fd, SOL_SOCKET, SO_ZEROCOPY, value);
    }
    stage.transcript.integer_option(fd, SOL_SOCKET, SO_ZEROCOPY);
    stage.transcript.send(fd, "unasked", 0);
    stage.transcript.send(fd, "", libc::MSG_ZEROCOPY);
    notice(stage, fd, 128);
    for room in [128, 48, 20, 0] {
        stage.transcript.send(fd, "noticed", libc::MSG_ZEROCOPY);
        stage.agent.tell("receive 1");
        stage.transcript.settle(fd, libc::POLLIN, libc::POLLERR);
        notice(stage, fd, room);
        stage.transcript.poll(fd, libc::POLLOUT, 0);
    }
    stage.transcript.send(fd, "once more", libc::MSG_ZEROCOPY);
    stage.transcript.poll(fd, 0, HANG);
    stage.transcript.recv(fd, 10, libc::MSG_ERRQUEUE);
    stage
        .transcript
        .recv(fd, 10, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT);
    stage
        .transcript
        .integer_option(fd, SOL_SOCKET, libc::SO_ERROR);
}
