//! Options that are one integer, here and in the kernel.

use core::ffi::c_int;

use host::OptionKind;
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET};
use rustix::io::Errno;

use super::times::{self, fin_wait_2};

/// An option that the engine knows, its name in the kernel, and what it is when nobody has set it.
pub struct Known {
    pub level: c_int,
    pub name: c_int,
    pub kind: OptionKind,
    pub default: u32,
}

const fn known(level: c_int, name: c_int, kind: OptionKind, default: u32) -> Known {
    Known {
        level,
        name,
        kind,
        default,
    }
}

/// All of them.
pub const PLAIN: [Known; 14] = [
    known(SOL_SOCKET, libc::SO_KEEPALIVE, OptionKind::KeepAlive, 0),
    known(IPPROTO_TCP, libc::TCP_NODELAY, OptionKind::NoDelay, 0),
    known(IPPROTO_TCP, libc::TCP_CORK, OptionKind::Cork, 0),
    known(IPPROTO_TCP, libc::TCP_QUICKACK, OptionKind::QuickAck, 1),
    known(IPPROTO_TCP, libc::TCP_KEEPIDLE, OptionKind::KeepIdle, 7200),
    known(
        IPPROTO_TCP,
        libc::TCP_KEEPINTVL,
        OptionKind::KeepInterval,
        75,
    ),
    known(IPPROTO_TCP, libc::TCP_KEEPCNT, OptionKind::KeepCount, 9),
    known(
        IPPROTO_TCP,
        libc::TCP_USER_TIMEOUT,
        OptionKind::UserTimeout,
        0,
    ),
    known(
        IPPROTO_TCP,
        libc::TCP_LINGER2,
        OptionKind::FinWait2,
        times::FIN_WAIT_2,
    ),
    known(
        IPPROTO_TCP,
        libc::TCP_MAXSEG,
        OptionKind::MaxSegment,
        NO_MAXIMUM,
    ),
    known(
        IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        OptionKind::NotSentLow,
        0,
    ),
    known(IPPROTO_IP, libc::IP_TOS, OptionKind::TrafficClass, 0),
    known(IPPROTO_IPV6, libc::IPV6_TCLASS, OptionKind::TrafficClass, 0),
    known(
        SOL_SOCKET,
        libc::SO_RCVBUF,
        OptionKind::ReceiveBuffer,
        131_072,
    ),
];

/// TCP_MAXSEG of a socket that is not connected and whose program has not set it (TCP_MSS_DEFAULT).
pub const NO_MAXIMUM: u32 = 536;

/// The one with this name in the kernel.
pub fn plain(level: c_int, name: c_int) -> Option<Known> {
    PLAIN
        .into_iter()
        .find(|known| known.level == level && known.name == name)
}

/// An option's value as the engine takes it; negative ones are what the kernel makes of them.
pub fn plain_value(level: c_int, kind: OptionKind, value: c_int) -> Result<u32, Errno> {
    match kind {
        OptionKind::NoDelay | OptionKind::Cork | OptionKind::KeepAlive | OptionKind::QuickAck => {
            Ok(u32::from(value != 0))
        }
        OptionKind::FinWait2 => Ok(fin_wait_2(value)),
        // A negative one is a very high one.
        OptionKind::NotSentLow => Ok(value as u32),
        // IPv4's is a byte of whatever is given; of IPv6's, −1 is the default.
        OptionKind::TrafficClass if level == IPPROTO_IP => Ok(u32::from(value as u8)),
        OptionKind::TrafficClass if value == -1 => Ok(0),
        _ => u32::try_from(value).map_err(|_| Errno::INVAL),
    }
}
