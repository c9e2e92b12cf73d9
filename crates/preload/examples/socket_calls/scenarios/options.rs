//! Socket options and names.

use std::ffi::c_int;
use std::mem::{size_of, zeroed};

use libc::{IPPROTO_TCP, SOL_SOCKET};

use super::Stage;
use crate::calls;

pub fn defaults(stage: &mut Stage<'_>, fd: c_int) {
    for name in [
        libc::SO_TYPE,
        libc::SO_PROTOCOL,
        libc::SO_DOMAIN,
        libc::SO_ERROR,
        libc::SO_ACCEPTCONN,
        libc::SO_KEEPALIVE,
        libc::SO_REUSEADDR,
        libc::SO_BROADCAST,
        libc::SO_RCVLOWAT,
    ] {
        stage.transcript.integer_option(fd, SOL_SOCKET, name);
    }
    for name in [
        libc::TCP_NODELAY,
        libc::TCP_CORK,
        libc::TCP_KEEPIDLE,
        libc::TCP_KEEPINTVL,
        libc::TCP_KEEPCNT,
        libc::TCP_USER_TIMEOUT,
    ] {
        stage.transcript.integer_option(fd, IPPROTO_TCP, name);
    }
    stage
        .transcript
        .integer_option(fd, libc::IPPROTO_IP, libc::IP_TOS);
    stage
        .transcript
        .integer_option(fd, libc::IPPROTO_IP, libc::IP_MTU);
    stage
        .transcript
        .integer_option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU);
    // SAFETY: structures and their lengths.
    unsafe {
        let mut linger: libc::linger = zeroed();
        let mut length = size_of::<libc::linger>() as u32;
        let got = libc::getsockopt(
            fd,
            SOL_SOCKET,
            libc::SO_LINGER,
            (&raw mut linger).cast(),
            &raw mut length,
        );
        stage.transcript.note(format_args!(
            "SO_LINGER {got} {} {} {length}",
            linger.l_onoff, linger.l_linger
        ));
        let mut time: libc::timeval = zeroed();
        let mut length = size_of::<libc::timeval>() as u32;
        let got = libc::getsockopt(
            fd,
            SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw mut time).cast(),
            &raw mut length,
        );
        stage.transcript.note(format_args!(
            "SO_RCVTIMEO {got} {} {} {length}",
            time.tv_sec, time.tv_usec
        ));
        let mut info: libc::tcp_info = zeroed();
        let mut length = size_of::<libc::tcp_info>() as u32;
        let got = libc::getsockopt(
            fd,
            IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        );
        stage
            .transcript
            .note(format_args!("TCP_INFO {got} state {}", info.tcpi_state));
        let mut short: u16 = 0;
        let mut length = 2;
        let got = libc::getsockopt(
            fd,
            SOL_SOCKET,
            libc::SO_TYPE,
            (&raw mut short).cast(),
            &raw mut length,
        );
        stage
            .transcript
            .note(format_args!("SO_TYPE in two bytes {got} {short} {length}"));
    }
}

pub fn set(stage: &mut Stage<'_>, fd: c_int) {
    for (level, name, value) in [
        (IPPROTO_TCP, libc::TCP_NODELAY, 1),
        (IPPROTO_TCP, libc::TCP_NODELAY, 0),
        (IPPROTO_TCP, libc::TCP_NODELAY, 7),
        (IPPROTO_TCP, libc::TCP_CORK, 1),
        (IPPROTO_TCP, libc::TCP_CORK, 0),
        (SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (IPPROTO_TCP, libc::TCP_KEEPIDLE, 60),
        (IPPROTO_TCP, libc::TCP_KEEPINTVL, 10),
        (IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        (IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 5000),
        (SOL_SOCKET, libc::SO_SNDBUF, 65_536),
        (SOL_SOCKET, libc::SO_SNDBUF, 1),
        (SOL_SOCKET, libc::SO_RCVBUF, 65_536),
        (libc::IPPROTO_IP, libc::IP_TOS, 0x10),
        (libc::IPPROTO_IP, libc::IP_TOS, 0xb9),
    ] {
        stage.transcript.set_integer(fd, level, name, value);
        stage.transcript.integer_option(fd, level, name);
    }
    stage.transcript.call(
        "SO_LINGER",
        calls::set_linger(
            fd,
            libc::linger {
                l_onoff: 1,
                l_linger: 3,
            },
        ) as isize,
    );
    stage.transcript.call(
        "SO_RCVTIMEO",
        calls::set_timeout(fd, libc::SO_RCVTIMEO, 1500) as isize,
    );
    // SAFETY: structures and their lengths.
    unsafe {
        let mut time: libc::timeval = zeroed();
        let mut length = size_of::<libc::timeval>() as u32;
        libc::getsockopt(
            fd,
            SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw mut time).cast(),
            &raw mut length,
        );
        stage.transcript.note(format_args!(
            "SO_RCVTIMEO {} {} {length}",
            time.tv_sec, time.tv_usec
        ));
        let mut name = [0u8; 16];
        let mut length = 16;
        let set = libc::setsockopt(
            fd,
            IPPROTO_TCP,
            libc::TCP_CONGESTION,
            c"reno".as_ptr().cast(),
            4,
        );
        stage.transcript.call("TCP_CONGESTION reno", set as isize);
        libc::getsockopt(
            fd,
            IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &raw mut length,
        );
        stage.transcript.note(format_args!(
            "{:?} {length}",
            String::from_utf8_lossy(&name)
        ));
    }
    stage.transcript.send(fd, "works", 0);
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
    calls::set_linger(
        fd,
        libc::linger {
            l_onoff: 0,
            l_linger: 0,
        },
    );
}

pub fn refused(stage: &mut Stage<'_>, fd: c_int) {
    for (level, name, value) in [
        (IPPROTO_TCP, libc::TCP_KEEPIDLE, 0),
        (IPPROTO_TCP, libc::TCP_KEEPIDLE, 40_000),
        (IPPROTO_TCP, libc::TCP_KEEPCNT, 128),
        (IPPROTO_TCP, libc::TCP_KEEPINTVL, -1),
        (IPPROTO_TCP, libc::TCP_USER_TIMEOUT, -1),
        (IPPROTO_TCP, 9999, 1),
        (SOL_SOCKET, 9999, 1),
    ] {
        stage.transcript.set_integer(fd, level, name, value);
    }
    stage.transcript.integer_option(fd, IPPROTO_TCP, 9999);
    stage.transcript.integer_option(fd, SOL_SOCKET, 9999);
    stage.transcript.call(
        "SO_RCVTIMEO",
        calls::set_timeout(fd, libc::SO_RCVTIMEO, -1) as isize,
    );
    // SAFETY: the name is whole.
    let set = unsafe {
        libc::setsockopt(
            fd,
            IPPROTO_TCP,
            libc::TCP_CONGESTION,
            c"nosuch".as_ptr().cast(),
            6,
        )
    };
    stage.transcript.call("TCP_CONGESTION nosuch", set as isize);
}

pub fn names(stage: &mut Stage<'_>, fd: c_int) {
    type Ask = unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int;
    let asks: [(&str, Ask); 2] = [
        ("getsockname", libc::getsockname),
        ("getpeername", libc::getpeername),
    ];
    for (name, ask) in asks {
        for room in [128u32, 16, 4, 0] {
            let mut bytes = [0u8; 128];
            let mut length = room;
            // SAFETY: the buffer is at least as long as said.
            let got = unsafe { ask(fd, bytes.as_mut_ptr().cast(), &raw mut length) };
            // The ports differ from run to run.
            bytes[2] = 0;
            bytes[3] = 0;
            stage.transcript.note(format_args!(
                "{name}({room}) = {got} {length} {:?}",
                &bytes[..28]
            ));
        }
        // SAFETY: a length that cannot be.
        let got = unsafe {
            let mut length = -1i32 as u32;
            ask(fd, [0u8; 16].as_mut_ptr().cast(), &raw mut length)
        };
        stage.transcript.call("a length of -1", got as isize);
    }
}
