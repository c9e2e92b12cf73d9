//! Calls that are seldom made, or wrongly.

use std::ffi::{c_char, c_int, c_void};
use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::interruptions::{self, Work, cancel, started};
use super::{Stage, agents_listener, connecting};
use crate::calls;

// A thread that is cancelled in these unwinds.
unsafe extern "C-unwind" {
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    fn recvmmsg(
        fd: c_int,
        messages: *mut libc::mmsghdr,
        count: u32,
        flags: c_int,
        timeout: *mut libc::timespec,
    ) -> c_int;
    fn epoll_pwait2(
        set: c_int,
        events: *mut libc::epoll_event,
        most: c_int,
        timeout: *const libc::timespec,
        mask: *const libc::sigset_t,
    ) -> c_int;
    fn fclose(file: *mut libc::FILE) -> c_int;
}

unsafe extern "C" {
    fn sigset(signal: c_int, handler: usize) -> usize;
    fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int;
}

const FIFO: &[u8] = b"socket_calls.fifo\0";

extern "C-unwind" fn opens(_work: *mut c_void) -> *mut c_void {
    started();
    // SAFETY: a string; nobody writes to the FIFO.
    unsafe { open(FIFO.as_ptr().cast(), libc::O_RDONLY) as usize as *mut c_void }
}

extern "C-unwind" fn locks(work: *mut c_void) -> *mut c_void {
    started();
    // SAFETY: the starter's work; a whole lock.
    unsafe {
        let mut lock: libc::flock = zeroed();
        lock.l_type = libc::F_WRLCK as i16;
        let fd = (*work.cast::<Work>()).fd;
        fcntl(fd, libc::F_OFD_SETLKW, &raw mut lock) as usize as *mut c_void
    }
}

extern "C-unwind" fn receives_messages(work: *mut c_void) -> *mut c_void {
    started();
    // SAFETY: the starter's work; room for a message.
    unsafe {
        let mut byte = 0u8;
        let mut part = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        let mut message: libc::mmsghdr = zeroed();
        message.msg_hdr.msg_iov = &raw mut part;
        message.msg_hdr.msg_iovlen = 1;
        let fd = (*work.cast::<Work>()).fd;
        recvmmsg(fd, &raw mut message, 1, 0, std::ptr::null_mut()) as usize as *mut c_void
    }
}

extern "C-unwind" fn waits(work: *mut c_void) -> *mut c_void {
    started();
    // SAFETY: the starter's work; room for an event.
    unsafe {
        let mut event: libc::epoll_event = zeroed();
        let set = (*work.cast::<Work>()).set;
        let none = std::ptr::null();
        epoll_pwait2(set, &raw mut event, 1, none, none.cast()) as usize as *mut c_void
    }
}

extern "C-unwind" fn closes_a_file(work: *mut c_void) -> *mut c_void {
    started();
    // SAFETY: the starter's work; a file of its own.
    unsafe {
        let file = libc::fdopen((*work.cast::<Work>()).fd, c"w".as_ptr());
        libc::fputs(c"more".as_ptr(), file);
        fclose(file) as usize as *mut c_void
    }
}

pub fn cancelled(stage: &mut Stage<'_>) {
    // SAFETY: own descriptors, and room for what is made.
    unsafe {
        libc::unlink(FIFO.as_ptr().cast());
        libc::mkfifo(FIFO.as_ptr().cast(), 0o600);
    }
    let mut work = Work { fd: -1, set: -1 };
    cancel(stage, "open", opens, &mut work, true);
    // SAFETY: as above.
    let (holder, pair, pipe) = unsafe {
        let file = libc::memfd_create(c"locked".as_ptr(), 0);
        let path = format!("/proc/self/fd/{file}\0");
        let holder = libc::open(path.as_ptr().cast(), libc::O_RDWR);
        let mut lock: libc::flock = zeroed();
        lock.l_type = libc::F_WRLCK as i16;
        libc::fcntl(holder, libc::F_OFD_SETLK, &raw mut lock);
        work.fd = file;
        let mut pair = [0; 2];
        libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr());
        let mut pipe = [0; 2];
        libc::pipe2(pipe.as_mut_ptr(), libc::O_NONBLOCK);
        while libc::write(pipe[1], [0u8; 4096].as_ptr().cast(), 4096) > 0 {}
        libc::fcntl(pipe[1], libc::F_SETFL, 0);
        (holder, pair, pipe)
    };
    cancel(stage, "fcntl(F_OFD_SETLKW)", locks, &mut work, true);
    work.fd = pair[0];
    cancel(stage, "recvmmsg", receives_messages, &mut work, true);
    // SAFETY: a new descriptor.
    work.set = unsafe { libc::epoll_create1(0) };
    cancel(stage, "epoll_pwait2", waits, &mut work, true);
    work.fd = pipe[1];
    cancel(stage, "fclose", closes_a_file, &mut work, true);
    for fd in [holder, pair[0], pair[1], pipe[0]] {
        // SAFETY: own descriptors.
        unsafe { libc::close(fd) };
    }
    // SAFETY: a string.
    unsafe { libc::unlink(FIFO.as_ptr().cast()) };
}

pub fn cannot_connect(stage: &mut Stage<'_>) {
    let there = agents_listener(stage.agent);
    let v4 = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9));
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 9));
    let mapped = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped(), 9));
    let any = [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        Ipv6Addr::LOCALHOST.into(),
    ];
    for (family, to) in [
        (any[0], v6),
        (any[1], v4),
        (any[0], (Ipv4Addr::new(224, 0, 0, 1), 9).into()),
        (any[0], (Ipv4Addr::BROADCAST, 9).into()),
        (
            any[1],
            ("ff02::1".parse::<Ipv6Addr>().expect("an address"), 9).into(),
        ),
    ] {
        let fd = calls::socket(family, 0);
        connecting::connect(stage.transcript, fd, to);
        stage.transcript.close(fd);
    }
    let fd = calls::socket(any[1], 0);
    stage
        .transcript
        .set_integer(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1);
    connecting::connect(stage.transcript, fd, mapped);
    stage.transcript.close(fd);
    // It may try again with one that it can have.
    let fd = calls::socket(there.ip(), 0);
    let wrong = if there.is_ipv4() { v6 } else { v4 };
    connecting::connect(stage.transcript, fd, wrong);
    connecting::connect(stage.transcript, fd, there);
    stage.agent.tell("accept");
    stage.agent.tell("unlisten");
    stage.transcript.send(fd, "works", 0);
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
    stage.transcript.close(fd);
}

pub fn messages_in_time(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("send abcdef");
    calls::await_bytes(fd, 6);
    for (seconds, nanoseconds) in [(0, 0), (60, 0), (0, 1_000_000_000), (-1, 0)] {
        let mut bytes = [0u8; 2];
        // SAFETY: room for two messages of a byte each.
        let received = unsafe {
            let mut parts: [libc::iovec; 2] = zeroed();
            let mut messages: [libc::mmsghdr; 2] = zeroed();
            for at in 0..2 {
                parts[at].iov_base = bytes.as_mut_ptr().add(at).cast();
                parts[at].iov_len = 1;
                messages[at].msg_hdr.msg_iov = &raw mut parts[at];
                messages[at].msg_hdr.msg_iovlen = 1;
            }
            let mut limit = libc::timespec {
                tv_sec: seconds,
                tv_nsec: nanoseconds,
            };
            recvmmsg(fd, messages.as_mut_ptr(), 2, 0, &raw mut limit)
        };
        stage.transcript.call("recvmmsg", received as isize);
        stage.transcript.note(format_args!("{bytes:?}"));
    }
    stage.transcript.recv(fd, 10, 0);
}

pub fn pselect_by_number(stage: &mut Stage<'_>, fd: c_int) {
    stage.agent.tell("send x");
    calls::await_bytes(fd, 1);
    // SAFETY: a set with room for `fd`, a time, and a mask that is not there.
    unsafe {
        let mut set: libc::fd_set = zeroed();
        libc::FD_SET(fd, &raw mut set);
        let mut limit: libc::timespec = zeroed();
        let mask = [0usize, 8];
        let none = std::ptr::null_mut::<libc::fd_set>();
        let found = libc::syscall(
            libc::SYS_pselect6,
            fd + 1,
            &raw mut set,
            none,
            none,
            &raw mut limit,
            mask.as_ptr(),
        );
        stage.transcript.call("pselect6", found as isize);
        stage.transcript.note(libc::FD_ISSET(fd, &raw const set));
    }
    stage.transcript.recv(fd, 10, 0);
}

pub fn handler_by_sigset(stage: &mut Stage<'_>, fd: c_int) {
    const HOLD: usize = 2;
    let handler = interruptions::makes_calls as *const () as usize;
    interruptions::CONNECTION.store(fd, Ordering::SeqCst);
    // SAFETY: a handler that makes calls, a time, and a byte of room.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        for set in [handler, handler, HOLD, handler] {
            let former = sigset(libc::SIGALRM, set);
            let is = [former == handler, former == HOLD, former == libc::SIG_DFL];
            stage.transcript.note(format_args!("sigset: {is:?}"));
        }
        let mut action: libc::sigaction = zeroed();
        libc::sigaction(libc::SIGALRM, std::ptr::null(), &raw mut action);
        stage
            .transcript
            .note(format_args!("asked: {}", action.sa_sigaction == handler));
        // It comes in the middle of calls, too.
        interruptions::every(200);
        for _ in 0..20_000 {
            let mut byte = 0u8;
            libc::recv(
                fd,
                (&raw mut byte).cast(),
                1,
                libc::MSG_DONTWAIT | libc::MSG_PEEK,
            );
        }
        interruptions::every(0);
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
    }
}

pub fn interrupting_or_not(stage: &mut Stage<'_>, fd: c_int) {
    let handler = interruptions::counts as *const () as usize;
    for interrupts in [1, 0] {
        // SAFETY: a handler, and a time.
        unsafe {
            libc::signal(libc::SIGALRM, handler);
            let set = siginterrupt(libc::SIGALRM, interrupts);
            stage.transcript.call("siginterrupt", set as isize);
        }
        let ends = (interrupts == 0).then(|| {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                // SAFETY: the scenario's own descriptor.
                unsafe { libc::shutdown(fd, libc::SHUT_RD) };
            })
        });
        // Blocked in the other thread, or it would be that one's.
        interruptions::every(20_000);
        stage.transcript.recv(fd, 1, 0);
        interruptions::every(0);
        if let Some(ends) = ends {
            let _ = ends.join();
        }
    }
    // SAFETY: the default.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_DFL) };
}
