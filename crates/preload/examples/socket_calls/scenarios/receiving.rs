//! Reading.

use std::ffi::c_int;
use std::mem::zeroed;

use super::Stage;
use crate::calls::{self, HANG, vector};

pub fn in_parts(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("send hello,world");
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLIN);
    stage.transcript.recv(fd, 5, 0);
    stage.transcript.recv(fd, 0, 0);
    stage.transcript.read(fd, 1);
    stage.transcript.recv(fd, 100, 0);
    stage.agent.tell("send again");
    stage.transcript.read(fd, 100);
}

pub fn peek(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("send abcdef");
    stage.transcript.recv(fd, 3, libc::MSG_PEEK);
    stage
        .transcript
        .recv(fd, 6, libc::MSG_PEEK | libc::MSG_WAITALL);
    stage
        .transcript
        .recv(fd, 100, libc::MSG_PEEK | libc::MSG_DONTWAIT);
    stage.transcript.recv(fd, 100, 0);
    stage
        .transcript
        .recv(fd, 100, libc::MSG_PEEK | libc::MSG_DONTWAIT);
}

pub fn do_not_wait(stage: &mut Stage<'_>, fd: c_int) {
    stage.transcript.recv(fd, 10, libc::MSG_DONTWAIT);
    stage.transcript.recv(fd, 0, libc::MSG_DONTWAIT);
    stage
        .transcript
        .recv(fd, 10, libc::MSG_DONTWAIT | libc::MSG_WAITALL);
    stage
        .transcript
        .recv(fd, 10, libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE);
    stage.transcript.recv(fd, 10, libc::MSG_OOB);
}

pub fn wait_for_all(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("send one");
    let rest = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut transcript = calls::Transcript::default();
            transcript.recv(fd, 6, libc::MSG_WAITALL);
            transcript
        });
        std::thread::sleep(std::time::Duration::from_millis(30));
        stage.agent.tell("send two");
        waiting.join().expect("the other thread received")
    });
    stage.transcript.0 += &rest.0;
    stage.agent.tell("send end");
    stage.agent.tell("shutdown");
    stage.transcript.recv(fd, 100, libc::MSG_WAITALL);
    stage.transcript.recv(fd, 100, libc::MSG_WAITALL);
}

pub fn scattered(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("send scattered-bytes");
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLIN);
    let (mut a, mut b) = ([0u8; 4], [0u8; 6]);
    let nothing = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let parts = [vector(&mut a), nothing, vector(&mut b)];
    // SAFETY: three parts, of which one is empty.
    let read = unsafe { libc::readv(fd, parts.as_ptr(), 3) };
    let whole = [&a[..], &b[..]].concat();
    stage.transcript.bytes("readv(4, 0, 6)", read, &whole);
    // SAFETY: no parts at all, or a count that cannot be.
    unsafe {
        stage
            .transcript
            .call("readv(no parts)", libc::readv(fd, parts.as_ptr(), 0));
        stage
            .transcript
            .call("readv(-1 parts)", libc::readv(fd, parts.as_ptr(), -1));
    }
    stage.transcript.recv(fd, 100, 0);
}

pub fn messages(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("send message");
    let mut bytes = [0u8; 32];
    let mut parts = [vector(&mut bytes)];
    // SAFETY: made of integers and pointers.
    let mut message: libc::msghdr = unsafe { zeroed() };
    let mut name = [0u8; 128];
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = 1;
    message.msg_name = name.as_mut_ptr().cast();
    message.msg_namelen = 128;
    // SAFETY: the header is whole.
    let read = unsafe { libc::recvmsg(fd, &raw mut message, 0) };
    stage.transcript.bytes("recvmsg", read, &bytes);
    stage.transcript.note(format_args!(
        "name {} flags {:#x}",
        message.msg_namelen, message.msg_flags
    ));
    stage.agent.tell("send from");
    let mut length: libc::socklen_t = 128;
    // SAFETY: the buffers and their lengths.
    let read = unsafe {
        libc::recvfrom(
            fd,
            bytes.as_mut_ptr().cast(),
            32,
            0,
            name.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    stage.transcript.bytes("recvfrom", read, &bytes);
    stage
        .transcript
        .note(format_args!("address length {length}"));
    // SAFETY: the header is whole.
    unsafe {
        stage.transcript.call(
            "recvmsg(MSG_DONTWAIT)",
            libc::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT),
        );
    }
}

pub fn available(stage: &mut Stage<'_>, fd: c_int) {
    let mut waiting: c_int = -1;
    let mut ask = |stage: &mut Stage<'_>| {
        // SAFETY: FIONREAD takes a pointer to an integer.
        let asked = unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut waiting) };
        stage
            .transcript
            .note(format_args!("FIONREAD = {asked}, {waiting}"));
    };
    ask(stage);
    stage.agent.tell("send 1234567");
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLIN);
    ask(stage);
    stage.transcript.recv(fd, 3, 0);
    ask(stage);
    stage.agent.tell("shutdown");
    stage
        .transcript
        .settle(fd, libc::POLLIN | libc::POLLRDHUP, libc::POLLRDHUP);
    stage.transcript.recv(fd, 10, 0);
    ask(stage);
}

pub fn truncate(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("send throwaway-keep");
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLIN);
    // SAFETY: with MSG_TRUNC a stream writes nothing.
    let thrown = unsafe { libc::recv(fd, std::ptr::null_mut(), 10, libc::MSG_TRUNC) };
    stage.transcript.call("recv(10, MSG_TRUNC)", thrown);
    stage.transcript.recv(fd, 100, 0);
    // So many and no more, though they come in two pieces.
    stage.agent.tell("send first");
    let rest = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut transcript = calls::Transcript::default();
            let all = libc::MSG_TRUNC | libc::MSG_WAITALL;
            // SAFETY: with MSG_TRUNC a stream writes nothing.
            let thrown = unsafe { libc::recv(fd, std::ptr::null_mut(), 10, all) };
            transcript.call("recv(10, MSG_TRUNC | MSG_WAITALL)", thrown);
            transcript
        });
        std::thread::sleep(std::time::Duration::from_millis(30));
        stage.agent.tell("send second-and-more");
        waiting.join().expect("the other thread received")
    });
    stage.transcript.0 += &rest.0;
    stage.transcript.recv(fd, 100, 0);
    stage.agent.tell("send message");
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLIN);
    let mut bytes = *b"....";
    let mut parts = [vector(&mut bytes)];
    // SAFETY: made of integers and pointers.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = 1;
    let flags = libc::MSG_TRUNC | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header is whole.
    let thrown = unsafe { libc::recvmsg(fd, &raw mut message, flags) };
    stage
        .transcript
        .bytes("recvmsg(4, MSG_TRUNC)", thrown, &bytes);
    let said = message.msg_flags;
    stage.transcript.note(format_args!("flags {said:#x}"));
    stage.transcript.recv(fd, 100, 0);
}

/// Every way to ask for no bytes: read and its like return at once, recv and its like wait for some.
pub fn nothing(stage: &mut Stage<'_>, fd: c_int) {
    ask_for_nothing(stage, fd, "nothing there");
    stage.agent.tell("send some");
    stage.transcript.settle(fd, libc::POLLIN, libc::POLLIN);
    ask_for_nothing(stage, fd, "something there");
    stage.transcript.recv(fd, 100, 0);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut transcript = calls::Transcript::default();
            transcript.recv(fd, 0, 0);
            transcript
        });
        std::thread::sleep(std::time::Duration::from_millis(30));
        let waits = !waiting.is_finished();
        stage.transcript.note(format_args!("it waits: {waits}"));
        stage.agent.tell("send more");
        let rest = waiting.join().expect("the other thread received");
        stage.transcript.0 += &rest.0;
    });
    stage.transcript.recv(fd, 100, 0);
    stage.agent.tell("shutdown");
    stage
        .transcript
        .settle(fd, libc::POLLIN | libc::POLLRDHUP, libc::POLLRDHUP);
    ask_for_nothing(stage, fd, "the end");
}

fn ask_for_nothing(stage: &mut Stage<'_>, fd: c_int, when: &str) {
    stage.transcript.note(when);
    let empty = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let mut parts = [empty; 2];
    // SAFETY: parts without bytes.
    unsafe {
        stage.transcript.read(fd, 0);
        let read = libc::readv(fd, parts.as_ptr(), 2);
        stage.transcript.call("readv(0, 0)", read);
        let read = libc::preadv2(fd, parts.as_ptr(), 2, -1, 0);
        stage.transcript.call("preadv2(0, 0)", read);
    }
    let at_once = libc::MSG_DONTWAIT;
    for flags in [0, libc::MSG_PEEK, libc::MSG_WAITALL, libc::MSG_TRUNC] {
        stage.transcript.recv(fd, 0, at_once | flags);
    }
    for count in [0, 2] {
        // SAFETY: made of integers and pointers.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = count;
        // SAFETY: the header is whole, and its parts have no bytes.
        let read = unsafe { libc::recvmsg(fd, &raw mut message, at_once) };
        let name = format!("recvmsg({count} parts of nothing)");
        stage.transcript.call(&name, read);
    }
}

pub fn time_limit(stage: &mut Stage<'_>, fd: c_int) {
    calls::set_timeout(fd, libc::SO_RCVTIMEO, 40);
    let before = std::time::Instant::now();
    stage.transcript.recv(fd, 10, 0);
    let waited = before.elapsed().as_millis();
    stage
        .transcript
        .note(format_args!("waited as told: {}", waited >= 35));
    stage.agent.tell("send part");
    stage.transcript.recv(fd, 10, libc::MSG_WAITALL);
}

extern "C" fn ignore(_: c_int) {}

/// Runs `call` with an alarm in its middle: it goes off again and again, since the first time may be
/// before the call.
pub fn with_alarm(restart: bool, call: impl FnOnce()) {
    let every = |microseconds| {
        let time = libc::timeval {
            tv_sec: 0,
            tv_usec: microseconds,
        };
        let timer = libc::itimerval {
            it_value: time,
            it_interval: time,
        };
        // SAFETY: a whole structure.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
    };
    // SAFETY: handlers that do nothing, or count.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = ignore as extern "C" fn(c_int) as usize;
        action.sa_flags = if restart { libc::SA_RESTART } else { 0 };
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        // The other handler says the same, so that there is no doubt which it was.
        action.sa_sigaction = super::sending::count_broken_pipe as extern "C" fn(c_int) as usize;
        libc::sigaction(libc::SIGPIPE, &raw const action, std::ptr::null_mut());
    }
    every(40_000);
    call();
    every(0);
    // SAFETY: as it was before.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_DFL) };
}

pub fn interrupted(stage: &mut Stage<'_>, fd: c_int) {
    with_alarm(false, || {
        stage.transcript.recv(fd, 10, 0);
    });
    calls::set_timeout(fd, libc::SO_RCVTIMEO, i64::from(HANG));
    with_alarm(true, || {
        stage.transcript.recv(fd, 10, 0);
    });
    calls::set_timeout(fd, libc::SO_RCVTIMEO, 0);
    std::thread::scope(|scope| {
        let (transcript, agent) = (&mut *stage.transcript, &mut *stage.agent);
        with_alarm(true, || {
            scope.spawn(move || {
                // The alarm is to go to the other thread.
                // SAFETY: blocks a signal in this thread.
                unsafe {
                    let mut set: libc::sigset_t = zeroed();
                    libc::sigaddset(&raw mut set, libc::SIGALRM);
                    libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
                }
                std::thread::sleep(std::time::Duration::from_millis(120));
                agent.tell("send late");
            });
            transcript.recv(fd, 10, 0);
        });
    });
}

pub fn low_water(stage: &mut Stage<'_>, fd: c_int) {
    let name = (libc::SOL_SOCKET, libc::SO_RCVLOWAT);
    let set = |stage: &mut Stage<'_>, bytes| {
        stage.transcript.set_integer(fd, name.0, name.1, bytes);
        stage.transcript.integer_option(fd, name.0, name.1);
    };
    set(stage, 10);
    stage.agent.tell("send four");
    calls::await_bytes(fd, 4);
    stage.transcript.poll(fd, libc::POLLIN, 150);
    // Not waiting, it takes what there is.
    stage.transcript.recv(fd, 2, libc::MSG_DONTWAIT);
    stage.agent.tell("send 12345678");
    stage.transcript.poll(fd, libc::POLLIN, HANG);
    // Waiting for fewer, it waits for those.
    stage.transcript.recv(fd, 3, 0);
    stage.transcript.poll(fd, libc::POLLIN, 150);
    stage.transcript.recv(fd, 7, 0);
    // Waiting for more, it waits for so many, or for as long as it may.
    stage.agent.tell("send five5");
    calls::await_bytes(fd, 5);
    calls::set_timeout(fd, libc::SO_RCVTIMEO, 150);
    stage.transcript.recv(fd, 100, 0);
    set(stage, 0);
    stage.agent.tell("send x");
    stage.transcript.poll(fd, libc::POLLIN, HANG);
    set(stage, 10);
    stage.agent.tell("shutdown");
    stage.transcript.poll(fd, libc::POLLIN, HANG);
    stage.transcript.recv(fd, 100, 0);
    stage.transcript.recv(fd, 100, 0);
}
