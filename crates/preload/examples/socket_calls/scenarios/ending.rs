//! The ends of connections.

use std::ffi::c_int;

use super::Stage;
use super::sending::broken_pipes;
use crate::calls;

/// Everything that can be asked of the state of a connection at once.
fn look(stage: &mut Stage<'_>, fd: c_int) {
    let all = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP | libc::POLLPRI;
    stage.transcript.poll(fd, all, 0);
}

pub fn half_closed(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("send last");
    stage.agent.tell("shutdown");
    stage
        .transcript
        .settle(fd, libc::POLLIN | libc::POLLRDHUP, libc::POLLRDHUP);
    look(stage, fd);
    stage.transcript.recv(fd, 100, 0);
    stage.transcript.recv(fd, 100, 0);
    stage.transcript.recv(fd, 100, 0);
    stage.transcript.send(fd, "still", 0);
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
    look(stage, fd);
}

pub fn peer_closes(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("close");
    stage
        .transcript
        .settle(fd, libc::POLLRDHUP, libc::POLLRDHUP);
    stage.transcript.recv(fd, 100, 0);
    // The first goes out and is answered with a reset, the second fails.
    broken_pipes();
    stage.transcript.send(fd, "into the void", 0);
    stage.transcript.settle(fd, libc::POLLOUT, libc::POLLHUP);
    stage.transcript.send(fd, "again", 0);
    stage.transcript.send(fd, "and again", 0);
    stage
        .transcript
        .note(format_args!("SIGPIPE {}", broken_pipes()));
    stage.transcript.send(fd, "quietly", libc::MSG_NOSIGNAL);
    stage.transcript.write(fd, "written");
    stage
        .transcript
        .note(format_args!("SIGPIPE {}", broken_pipes()));
    stage.transcript.recv(fd, 10, 0);
    stage
        .transcript
        .integer_option(fd, libc::SOL_SOCKET, libc::SO_ERROR);
}

pub fn reset(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("reset");
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLHUP);
    look(stage, fd);
    stage.transcript.recv(fd, 100, 0);
    look(stage, fd);
    stage.transcript.recv(fd, 100, 0);
    broken_pipes();
    stage.transcript.send(fd, "x", 0);
    stage
        .transcript
        .note(format_args!("SIGPIPE {}", broken_pipes()));
    stage
        .transcript
        .integer_option(fd, libc::SOL_SOCKET, libc::SO_ERROR);
}

pub fn shutdown_write(stage: &mut Stage<'_>, fd: c_int) {
    stage.transcript.send(fd, "before", 0);
    // SAFETY: an own descriptor.
    unsafe {
        stage
            .transcript
            .call("shutdown(7)", libc::shutdown(fd, 7) as isize);
        stage
            .transcript
            .call("shutdown(WR)", libc::shutdown(fd, libc::SHUT_WR) as isize);
        stage
            .transcript
            .call("shutdown(WR)", libc::shutdown(fd, libc::SHUT_WR) as isize);
    }
    broken_pipes();
    stage.transcript.send(fd, "after", 0);
    stage
        .transcript
        .note(format_args!("SIGPIPE {}", broken_pipes()));
    look(stage, fd);
    let got = stage.agent.tell("rest");
    stage.transcript.note(got);
    stage.agent.tell("send answer");
    stage.transcript.recv(fd, 100, 0);
    stage.agent.tell("close");
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLHUP);
    look(stage, fd);
    stage.transcript.recv(fd, 100, 0);
}

pub fn shutdown_read(stage: &mut Stage<'_>, fd: c_int) {
    // SAFETY: an own descriptor.
    unsafe {
        stage
            .transcript
            .call("shutdown(RD)", libc::shutdown(fd, libc::SHUT_RD) as isize)
    };
    look(stage, fd);
    stage.transcript.recv(fd, 100, 0);
    stage.transcript.send(fd, "writes go on", 0);
    let got = stage.agent.tell("receive 12");
    stage.transcript.note(got);
}

pub fn shutdown_both(stage: &mut Stage<'_>, fd: c_int) {
    // SAFETY: an own descriptor.
    unsafe {
        stage.transcript.call(
            "shutdown(RDWR)",
            libc::shutdown(fd, libc::SHUT_RDWR) as isize,
        )
    };
    look(stage, fd);
    stage.transcript.recv(fd, 100, 0);
    stage.transcript.send(fd, "x", libc::MSG_NOSIGNAL);
    let got = stage.agent.tell("rest");
    stage.transcript.note(got);
}

pub fn close_unread(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("send unread");
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLIN);
    stage.transcript.close(fd);
    let got = stage.agent.tell("rest");
    stage.transcript.note(got);
    stage.transcript.recv(fd, 10, 0);
    stage.transcript.send(fd, "x", 0);
    stage.transcript.close(fd);
}

pub fn close_in_order(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("send read");
    stage.transcript.recv(fd, 10, 0);
    stage.transcript.send(fd, "goodbye", 0);
    stage.transcript.close(fd);
    let got = stage.agent.tell("rest");
    stage.transcript.note(got);
}

pub fn linger(stage: &mut Stage<'_>, fd: c_int) {
    // It ends when all is acknowledged; the agent does not wait for so long.
    linger_for(stage, fd, 600);
}

/// What is below zero is a very long time, and not none.
pub fn linger_below_zero(stage: &mut Stage<'_>, fd: c_int) {
    linger_for(stage, fd, -1);
}

fn linger_for(stage: &mut Stage<'_>, fd: c_int, seconds: c_int) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: seconds,
    };
    stage
        .transcript
        .call("SO_LINGER", calls::set_linger(fd, linger) as isize);
    stage.transcript.send(fd, "lingering", 0);
    stage.transcript.close(fd);
    let got = stage.agent.tell("rest");
    stage.transcript.note(got);
}

pub fn linger_zero(stage: &mut Stage<'_>, fd: c_int) {
    stage.transcript.call(
        "SO_LINGER",
        calls::set_linger(
            fd,
            libc::linger {
                l_onoff: 1,
                l_linger: 0,
            },
        ) as isize,
    );
    stage.transcript.close(fd);
    let got = stage.agent.tell("rest");
    stage.transcript.note(got);
}
