//! Descriptor numbers: duplicated, replaced, inherited.

use std::ffi::c_int;
use std::mem::zeroed;

use super::Stage;

pub fn duplicate(stage: &mut Stage<'_>, fd: c_int) {
    // SAFETY: own descriptors.
    unsafe {
        let second = stage.transcript.fd("dup", libc::dup(fd));
        let third = stage
            .transcript
            .fd("F_DUPFD", libc::fcntl(fd, libc::F_DUPFD, 100));
        stage
            .transcript
            .note(format_args!("at least 100: {}", third >= 100));
        let fourth = stage
            .transcript
            .fd("F_DUPFD_CLOEXEC", libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0));
        stage
            .transcript
            .call("F_GETFD", libc::fcntl(fourth, libc::F_GETFD) as isize);
        stage.transcript.close(fd);
        stage.transcript.send(fd, "closed", 0);
        stage.transcript.send(second, "by dup", 0);
        stage.agent.tell("send to-any");
        stage.transcript.recv(third, 100, 0);
        let got = stage.agent.tell("receive 6");
        stage.transcript.note(got);
        // Flags belong to what the numbers share.
        libc::fcntl(third, libc::F_SETFL, libc::O_NONBLOCK);
        stage.transcript.recv(second, 10, 0);
        stage.transcript.close(second);
        stage.transcript.close(third);
        stage.transcript.send(fourth, "last", 0);
        stage.transcript.close(fourth);
    }
    let got = stage.agent.tell("rest");
    stage.transcript.note(got);
}

pub fn replace(stage: &mut Stage<'_>, fd: c_int) {
    // SAFETY: own descriptors.
    unsafe {
        let mut pipe = [0; 2];
        libc::pipe(pipe.as_mut_ptr());
        // Over a pipe, as inetd does with 0, 1 and 2.
        stage
            .transcript
            .fd("dup2 over a pipe", libc::dup2(fd, pipe[1]));
        stage.transcript.read(pipe[0], 10);
        stage.transcript.write(pipe[1], "through");
        let got = stage.agent.tell("receive 7");
        stage.transcript.note(got);
        stage.transcript.fd("dup2 onto itself", libc::dup2(fd, fd));
        stage
            .transcript
            .fd("dup3 onto itself", libc::dup3(fd, fd, 0));
        stage.transcript.fd("dup2 of nothing", libc::dup2(-1, fd));
        // A file over a connection: the other number keeps it open.
        stage
            .transcript
            .fd("dup2 of a pipe over it", libc::dup2(pipe[0], fd));
        stage.transcript.send(fd, "no socket", 0);
        stage.transcript.write(pipe[1], "still there");
        let got = stage.agent.tell("receive 11");
        stage.transcript.note(got);
        libc::close(pipe[0]);
        // The last number: replaced is closed.
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        stage.transcript.fd(
            "dup3 over the last",
            libc::dup3(null, pipe[1], libc::O_CLOEXEC),
        );
        libc::close(null);
        libc::close(pipe[1]);
    }
    let got = stage.agent.tell("rest");
    stage.transcript.note(got);
}

pub fn flags(stage: &mut Stage<'_>, fd: c_int) {
    // SAFETY: own descriptors.
    unsafe {
        stage
            .transcript
            .call("F_GETFL", libc::fcntl(fd, libc::F_GETFL) as isize);
        stage.transcript.call(
            "F_SETFL",
            libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) as isize,
        );
        stage
            .transcript
            .call("F_GETFL", libc::fcntl(fd, libc::F_GETFL) as isize);
        stage.transcript.recv(fd, 10, 0);
        let mut off: c_int = 0;
        stage.transcript.call(
            "FIONBIO",
            libc::ioctl(fd, libc::FIONBIO, &raw mut off) as isize,
        );
        stage
            .transcript
            .call("F_GETFL", libc::fcntl(fd, libc::F_GETFL) as isize);
        stage.transcript.call(
            "F_SETFD",
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) as isize,
        );
        stage
            .transcript
            .call("F_GETFD", libc::fcntl(fd, libc::F_GETFD) as isize);
        stage
            .transcript
            .call("FIOCLEX off", libc::ioctl(fd, libc::FIONCLEX) as isize);
        stage
            .transcript
            .call("F_GETFD", libc::fcntl(fd, libc::F_GETFD) as isize);
        stage.transcript.call("TCGETS", libc::isatty(fd) as isize);
    }
}

pub fn close_range(stage: &mut Stage<'_>, fd: c_int) {
    // SAFETY: the number is one that nothing else uses.
    unsafe {
        let high = libc::fcntl(fd, libc::F_DUPFD, 500);
        stage.transcript.close(fd);
        stage.transcript.send(high, "high", 0);
        stage.transcript.call(
            "close_range",
            libc::close_range(high as u32, 600, 0) as isize,
        );
        stage.transcript.send(high, "closed", 0);
    }
    let got = stage.agent.tell("rest");
    stage.transcript.note(got);
    // What is hidden from the program is still there: another connection works.
    let again = super::accepted_connection(stage.agent, stage.here);
    stage.transcript.send(again, "works", 0);
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
    stage.transcript.close(again);
}

/// The child writes, then reads, on a connection that its parent had, and that the parent closes.
pub fn fork(stage: &mut Stage<'_>, fd: c_int) {
    stage.transcript.send(fd, "parent", 0);
    let got = stage.agent.tell("receive 6");
    stage.transcript.note(got);
    stage.agent.tell("send for-the-child");
    // SAFETY: the child makes a few calls and ends.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            let said = libc::write(fd, b"child".as_ptr().cast(), 5);
            let mut bytes = [0u8; 32];
            let read = libc::read(fd, bytes.as_mut_ptr().cast(), 32);
            libc::close(fd);
            libc::_exit(if said == 5 && read == 13 { 0 } else { 1 });
        }
        // The child has it alone now, until it ends.
        libc::close(fd);
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        status
    };
    stage
        .transcript
        .note(format_args!("the child ended with {status}"));
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
    let got = stage.agent.tell("rest");
    stage.transcript.note(got);
}

pub fn nature(stage: &mut Stage<'_>, fd: c_int) {
    // SAFETY: own descriptors and buffers.
    unsafe {
        let mut about: libc::stat = zeroed();
        stage
            .transcript
            .call("fstat", libc::fstat(fd, &raw mut about) as isize);
        stage.transcript.note(format_args!(
            "a socket: {}",
            about.st_mode & libc::S_IFMT == libc::S_IFSOCK
        ));
        stage
            .transcript
            .call("lseek", libc::lseek(fd, 0, libc::SEEK_CUR) as isize);
        let mut bytes = [0u8; 4];
        stage
            .transcript
            .call("pread", libc::pread(fd, bytes.as_mut_ptr().cast(), 4, 0));
        stage
            .transcript
            .call("pwrite", libc::pwrite(fd, bytes.as_ptr().cast(), 4, 0));
        stage
            .transcript
            .call("ftruncate", libc::ftruncate(fd, 0) as isize);
        stage.transcript.call("fsync", libc::fsync(fd) as isize);
        stage
            .transcript
            .call("listen", libc::listen(fd, 1) as isize);
        let none = std::ptr::null_mut();
        stage
            .transcript
            .call("accept", libc::accept(fd, none, none.cast()) as isize);
    }
}

pub fn wrong(stage: &mut Stage<'_>, fd: c_int) {
    // SAFETY: what is wrong is found out before it is used.
    unsafe {
        let none = std::ptr::null_mut::<libc::c_void>();
        stage.transcript.call(
            "getsockopt(null)",
            libc::getsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                none,
                std::ptr::null_mut(),
            ) as isize,
        );
        let one: c_int = 1;
        stage.transcript.call(
            "setsockopt(short)",
            libc::setsockopt(
                fd,
                libc::IPPROTO_TCP,
                libc::TCP_NODELAY,
                (&raw const one).cast(),
                2,
            ) as isize,
        );
        stage.transcript.call(
            "setsockopt(null)",
            libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, none, 4) as isize,
        );
        stage
            .transcript
            .call("shutdown(-1)", libc::shutdown(fd, -1) as isize);
        let mut length: libc::socklen_t = 128;
        stage.transcript.call(
            "getpeername(null)",
            libc::getpeername(fd, std::ptr::null_mut(), &raw mut length) as isize,
        );
        stage.transcript.call(
            "accept4(flags)",
            libc::accept4(fd, std::ptr::null_mut(), std::ptr::null_mut(), 1) as isize,
        );
    }
}

/// A close that no library sees.
fn close_unseen(fd: c_int) {
    // SAFETY: an own descriptor, which is used no more; the kernel changes rcx and r11 besides.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_close => _,
            in("rdi") fd,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
}

/// Makes a number.
type Make = fn() -> c_int;

/// A number that was closed without a call of libc's, handed out again by all that hand out numbers.
pub fn handed_out_again(stage: &mut Stage<'_>) {
    // SAFETY: makes numbers, which the loop closes.
    let makers: &[(&str, Make)] = unsafe {
        &[
            ("open", || libc::open(c"/dev/null".as_ptr(), libc::O_RDWR)),
            ("openat2", || {
                let how = [libc::O_RDWR as u64, 0, 0];
                let path = c"/dev/null".as_ptr();
                libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path, how.as_ptr(), 24) as c_int
            }),
            ("creat", || libc::creat(c"/dev/null".as_ptr(), 0)),
            ("memfd_create", || libc::memfd_create(c"test".as_ptr(), 0)),
            ("timerfd_create", || {
                libc::timerfd_create(libc::CLOCK_MONOTONIC, 0)
            }),
            ("eventfd", || libc::eventfd(0, 0)),
            ("signalfd", || {
                let none: libc::sigset_t = zeroed();
                libc::signalfd(-1, &raw const none, 0)
            }),
            ("inotify_init", || libc::inotify_init()),
            ("inotify_init1", || libc::inotify_init1(0)),
            ("pidfd_open", || {
                libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) as c_int
            }),
            ("pipe", || {
                let mut pair = [0; 2];
                libc::pipe(pair.as_mut_ptr());
                libc::close(pair[1]);
                pair[0]
            }),
            ("epoll_create1", || libc::epoll_create1(0)),
            ("dup", || libc::dup(1)),
            ("mkstemp", || {
                let mut path = *b"/tmp/outboard-test-XXXXXX\0";
                let fd = libc::mkstemp(path.as_mut_ptr().cast());
                libc::unlink(path.as_ptr().cast());
                fd
            }),
            ("fopen", || {
                let file = libc::fopen(c"/dev/null".as_ptr(), c"r".as_ptr());
                libc::fileno(file)
            }),
            ("tmpfile", || libc::fileno(libc::tmpfile())),
            ("opendir", || libc::dirfd(libc::opendir(c"/".as_ptr()))),
            ("posix_openpt", || libc::posix_openpt(libc::O_RDWR)),
            ("recvmsg", received_number),
            ("socketpair", || {
                let mut pair = [0; 2];
                libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr());
                libc::close(pair[1]);
                pair[0]
            }),
        ]
    };
    for (name, make) in makers {
        let fd = super::accepted_connection(stage.agent, stage.here);
        // The lowest number that is free is the one that comes next.
        // SAFETY: own descriptors.
        let fd = unsafe {
            let low = libc::dup(fd);
            libc::close(fd);
            low
        };
        close_unseen(fd);
        let again = make();
        stage
            .transcript
            .note(format_args!("{name}: the same number: {}", again == fd));
        stage
            .transcript
            .send(again, "to nobody", libc::MSG_DONTWAIT);
        stage.transcript.close(again);
        let got = stage.agent.tell("rest");
        stage.transcript.note(got);
    }
}

/// A number that comes over a UNIX socket; the socket's own numbers are high.
fn received_number() -> c_int {
    // SAFETY: own descriptors, and buffers as large as is said.
    unsafe {
        let mut low = [0; 2];
        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, low.as_mut_ptr());
        let pair = low.map(|fd| libc::fcntl(fd, libc::F_DUPFD, 300));
        // By the way that is not seen: the number under test stays as it was.
        low.into_iter().for_each(close_unseen);
        let mut byte = [0u8];
        let mut part = crate::calls::vector(&mut byte);
        let mut control = [0u64; 8];
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(1);
        libc::sendmsg(pair[0], &raw const message, 0);
        libc::recvmsg(pair[1], &raw mut message, 0);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let fd = libc::CMSG_DATA(header).cast::<c_int>().read_unaligned();
        for end in pair {
            libc::close(end);
        }
        fd
    }
}
