//! Every option that a socket may have, by number: what is there, what it is by default, what it can be
//! set to, and what of that an accepted connection inherits.
//!
//! Left out is what tells of the TCP that is used, of the machine, or of the time; what the engine
//! refuses aloud or gives no effect stands in `docs/calls.md`, and is tried elsewhere.

use std::ffi::c_int;

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET};

use super::Stage;
use crate::calls::Transcript;

/// The same as IP_FREEBIND in the kernel.
const IPV6_FREEBIND: c_int = 78;

/// What ends as IP_PROTOCOL is the local port, in Linux.
const IP_PROTOCOL: c_int = 52;

/// Options by number, and those of them whose values differ for good reason.
const LEVELS: [(c_int, c_int, &[c_int]); 4] = [
    (
        SOL_SOCKET,
        83,
        &[
            libc::SO_SNDBUF,
            libc::SO_RCVBUF,
            libc::SO_INCOMING_CPU,
            libc::SO_MEMINFO,
            libc::SO_INCOMING_NAPI_ID,
            libc::SO_COOKIE,
            libc::SO_PEERNAME,
            libc::SO_NETNS_COOKIE,
        ],
    ),
    (
        IPPROTO_TCP,
        45,
        &[
            libc::TCP_MAXSEG,
            libc::TCP_INFO,
            libc::TCP_WINDOW_CLAMP,
            libc::TCP_TIMESTAMP,
            libc::TCP_CC_INFO,
            libc::TCP_CONGESTION,
            libc::TCP_ZEROCOPY_RECEIVE,
        ],
    ),
    (
        IPPROTO_IP,
        53,
        &[libc::IP_MTU, libc::IP_MULTICAST_TTL, IP_PROTOCOL],
    ),
    (
        IPPROTO_IPV6,
        81,
        &[
            libc::IPV6_ADDRFORM,
            libc::IPV6_MULTICAST_IF,
            libc::IPV6_MULTICAST_HOPS,
            libc::IPV6_MTU,
            IPV6_FREEBIND,
        ],
    ),
];

fn get_all(transcript: &mut Transcript, fd: c_int) {
    for (level, end, differ) in LEVELS {
        for name in (1..end).filter(|name| !differ.contains(name)) {
            let mut value = [0u8; 8];
            let mut length = 8u32;
            let room = value.as_mut_ptr().cast();
            // SAFETY: the buffer and its length.
            let got = unsafe { libc::getsockopt(fd, level, name, room, &raw mut length) };
            let what = format!("getsockopt({level}, {name}) {length} {value:?}");
            transcript.call(&what, got as isize);
        }
    }
}

pub fn by_default(stage: &mut Stage<'_>, fd: c_int) {
    get_all(stage.transcript, fd);
}

/// Options that a connection can be told, or that are wrong in the same way; what the engine refuses stands
/// in `docs/calls.md`.
const SET: [(c_int, &[c_int]); 4] = [
    (
        SOL_SOCKET,
        &[
            2, 3, 4, 6, 9, 10, 12, 13, 15, 18, 19, 20, 21, 28, 30, 31, 38, 39, 40, 45, 46, 49, 55,
            56, 57, 59, 60, 69,
        ],
    ),
    (
        IPPROTO_TCP,
        &[
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 18, 23, 25, 26, 28, 30,
        ],
    ),
    (IPPROTO_IP, &[1, 3, 6, 7, 8, 10, 11, 12, 13, 15, 24]),
    (IPPROTO_IPV6, &[23, 25, 26, 49, 51, 66, 67]),
];

pub fn set(stage: &mut Stage<'_>, fd: c_int) {
    for (level, names) in SET {
        for &name in names {
            stage.transcript.set_integer(fd, level, name, 1);
        }
    }
    get_all(stage.transcript, fd);
}
