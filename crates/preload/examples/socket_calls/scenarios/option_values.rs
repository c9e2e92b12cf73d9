//! What an option can be set to, in how many bytes, and what it then says in how much room: of each
//! option that a connection of the engine's takes.
//!
//! Some values need a privilege: without it the kernel's errno is the measure, too.

use std::ffi::c_int;
use std::mem::{size_of, size_of_val};

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET};

use super::Stage;
use crate::calls::Transcript;

const fn socket(name: c_int) -> (c_int, c_int) {
    (SOL_SOCKET, name)
}

const fn tcp(name: c_int) -> (c_int, c_int) {
    (IPPROTO_TCP, name)
}

const fn ip(name: c_int) -> (c_int, c_int) {
    (IPPROTO_IP, name)
}

const fn ipv6(name: c_int) -> (c_int, c_int) {
    (IPPROTO_IPV6, name)
}

/// The level and the name of options that are an integer, and say what they were set to.
const INTEGERS: [(c_int, c_int); 48] = [
    socket(libc::SO_REUSEADDR),
    socket(libc::SO_REUSEPORT),
    socket(libc::SO_KEEPALIVE),
    socket(libc::SO_BROADCAST),
    socket(libc::SO_OOBINLINE),
    socket(libc::SO_PRIORITY),
    socket(libc::SO_RCVLOWAT),
    socket(libc::SO_ZEROCOPY),
    socket(libc::SO_BUSY_POLL),
    socket(libc::SO_PREFER_BUSY_POLL),
    socket(libc::SO_BUSY_POLL_BUDGET),
    socket(libc::SO_RXQ_OVFL),
    socket(libc::SO_SELECT_ERR_QUEUE),
    socket(libc::SO_SNDBUF),
    socket(libc::SO_RCVBUF),
    // These can only be asked for.
    socket(libc::SO_TYPE),
    socket(libc::SO_ERROR),
    socket(libc::SO_DOMAIN),
    socket(libc::SO_PROTOCOL),
    socket(libc::SO_ACCEPTCONN),
    tcp(libc::TCP_NODELAY),
    tcp(libc::TCP_CORK),
    tcp(libc::TCP_KEEPIDLE),
    tcp(libc::TCP_KEEPINTVL),
    tcp(libc::TCP_KEEPCNT),
    tcp(libc::TCP_SYNCNT),
    tcp(libc::TCP_DEFER_ACCEPT),
    tcp(libc::TCP_WINDOW_CLAMP),
    tcp(libc::TCP_NOTSENT_LOWAT),
    tcp(libc::TCP_USER_TIMEOUT),
    tcp(libc::TCP_LINGER2),
    tcp(libc::TCP_THIN_LINEAR_TIMEOUTS),
    tcp(libc::TCP_FASTOPEN_CONNECT),
    ip(libc::IP_TOS),
    ip(libc::IP_RECVERR),
    ip(libc::IP_PKTINFO),
    ip(libc::IP_MTU_DISCOVER),
    ip(libc::IP_RECVTTL),
    ip(libc::IP_RECVTOS),
    ip(libc::IP_RECVOPTS),
    ip(libc::IP_RETOPTS),
    ip(libc::IP_FREEBIND),
    ip(libc::IP_BIND_ADDRESS_NO_PORT),
    ipv6(libc::IPV6_TCLASS),
    ipv6(libc::IPV6_MTU_DISCOVER),
    ipv6(libc::IPV6_RECVERR),
    ipv6(libc::IPV6_RECVPKTINFO),
    ipv6(libc::IPV6_V6ONLY),
];

/// The ends of every range that one of them has, and what is beyond.
const VALUES: [c_int; 36] = [
    1,
    0,
    -1,
    2,
    3,
    5,
    6,
    7,
    8,
    31,
    60,
    87,
    88,
    100,
    119,
    120,
    121,
    127,
    128,
    255,
    256,
    536,
    1024,
    1151,
    1152,
    2304,
    4608,
    32_767,
    32_768,
    65_535,
    65_536,
    212_992,
    1_000_000,
    1_000_000_000,
    c_int::MAX,
    c_int::MIN,
];

/// Options that are larger than an integer, in words of four bytes.
const LONGER: [(c_int, c_int, &[&[u32]]); 3] = [
    (
        SOL_SOCKET,
        libc::SO_LINGER,
        &[
            &[1, 3],
            // Off, the seconds stay.
            &[0, 9],
            &[5, 0],
            &[1, -1i32 as u32],
            &[1, i32::MIN as u32],
            &[1, i32::MAX as u32],
            &[-1i32 as u32, 7],
            &[0, 0],
        ],
    ),
    (SOL_SOCKET, libc::SO_RCVTIMEO, &TIMES),
    (SOL_SOCKET, libc::SO_SNDTIMEO, &TIMES),
];

const TIMES: [&[u32]; 9] = [
    // Seconds and microseconds, of eight bytes each.
    &[0, 0, 1, 0],
    &[0, 0, 500_000, 0],
    &[3, 0, 999_999, 0],
    &[0, 0, 1_000_000, 0],
    &[0, 0, -1i32 as u32, -1i32 as u32],
    &[-1i32 as u32, -1i32 as u32, 0, 0],
    &[0, 0x7fff_ffff, 0, 0],
    &[7, 0, 0, 0],
    &[0, 0, 0, 0],
];

fn set<T>(
    transcript: &mut Transcript,
    fd: c_int,
    (level, name): (c_int, c_int),
    value: &T,
    length: usize,
) where
    T: std::fmt::Debug + ?Sized,
{
    let given = std::ptr::from_ref(value).cast();
    // SAFETY: no more bytes than there are, or a length that cannot be.
    let set = unsafe { libc::setsockopt(fd, level, name, given, length as u32) };
    let what = format!("setsockopt({level}, {name}, {value:?}, {length})");
    transcript.call(&what, set as isize);
}

fn get(transcript: &mut Transcript, fd: c_int, (level, name): (c_int, c_int), room: usize) {
    let mut value = [0xa5u8; 24];
    let mut length = room as u32;
    let at = value.as_mut_ptr().cast();
    // SAFETY: no more room than there is, or a length that cannot be.
    let got = unsafe { libc::getsockopt(fd, level, name, at, &raw mut length) };
    let shown = match got {
        0 => &value[..],
        _ => &[],
    };
    let what = format!("getsockopt({level}, {name}, {room}) {length} {shown:?}");
    transcript.call(&what, got as isize);
}

/// A length below zero.
const NEGATIVE: usize = u32::MAX as usize;

/// Every value, and every length.
pub fn integers(stage: &mut Stage<'_>, fd: c_int) {
    let transcript = &mut *stage.transcript;
    for option in INTEGERS {
        for value in VALUES {
            set(transcript, fd, option, &value, size_of::<c_int>());
            get(transcript, fd, option, size_of::<c_int>());
        }
        let long = [9, 0x0101_0101];
        for length in [0, 1, 2, 3, 5, 8, NEGATIVE] {
            set(transcript, fd, option, &long, length);
            get(transcript, fd, option, size_of::<c_int>());
        }
        for room in [0, 1, 2, 3, 5, 8, NEGATIVE] {
            get(transcript, fd, option, room);
        }
    }
}

/// Structures.
pub fn structures(stage: &mut Stage<'_>, fd: c_int) {
    let transcript = &mut *stage.transcript;
    for (level, name, values) in LONGER {
        let option = (level, name);
        for value in values {
            let whole = size_of_val(*value);
            set(transcript, fd, option, *value, whole);
            get(transcript, fd, option, 24);
            for length in [0, 3, 4, 7, 8, 12, 15] {
                set(transcript, fd, option, *value, length.min(whole));
                get(transcript, fd, option, length);
            }
        }
        set(transcript, fd, option, values[0], NEGATIVE);
        get(transcript, fd, option, NEGATIVE);
        let last = values[values.len() - 1];
        set(transcript, fd, option, last, size_of_val(last));
    }
}

/// The name of a congestion control, which need not end in the room that there is.
pub fn names(stage: &mut Stage<'_>, fd: c_int) {
    let transcript = &mut *stage.transcript;
    let option = tcp(libc::TCP_CONGESTION);
    let name = *b"reno\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    for length in [4, 0, 1, 3, 5, 15, 16, 20, NEGATIVE] {
        set(transcript, fd, option, &name, length);
        for room in [16, 20, 15, 3, 0, NEGATIVE] {
            get(transcript, fd, option, room);
        }
    }
}

/// What a thread without rights may set: the permissions of one that had them are given back.
pub fn without_rights(stage: &mut Stage<'_>, fd: c_int) {
    let before = capabilities();
    set_capabilities([0; 6]);
    for option in [
        socket(libc::SO_PRIORITY),
        socket(libc::SO_BUSY_POLL),
        socket(libc::SO_PREFER_BUSY_POLL),
        socket(libc::SO_BUSY_POLL_BUDGET),
        socket(libc::SO_SNDBUFFORCE),
        socket(libc::SO_RCVBUFFORCE),
    ] {
        for value in [0, 1, 6, 7, 8, 9, 64, 65, -1, 10_000_000] {
            set(stage.transcript, fd, option, &value, size_of::<c_int>());
            get(stage.transcript, fd, option, size_of::<c_int>());
        }
    }
    set_capabilities(before);
}

/// Version 3 of `struct __user_cap_header_struct` of linux/capability.h, for the calling thread.
const HEADER: [u32; 2] = [0x2008_0522, 0];

/// The calling thread's: effective, permitted and inheritable, twice.
fn capabilities() -> [u32; 6] {
    let mut header = HEADER;
    let mut held = [0; 6];
    // SAFETY: both as the kernel has them.
    let got = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), held.as_mut_ptr()) };
    assert_eq!(got, 0, "{}", std::io::Error::last_os_error());
    held
}

/// Only what is effective changes: what is permitted can be had again.
fn set_capabilities(effective: [u32; 6]) {
    let mut header = HEADER;
    let mut wanted = capabilities();
    (wanted[0], wanted[3]) = (effective[0], effective[3]);
    // SAFETY: both as the kernel has them.
    let set = unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), wanted.as_ptr()) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}
