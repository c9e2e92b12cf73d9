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
