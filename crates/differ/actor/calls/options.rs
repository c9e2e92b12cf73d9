//! Options and flags.

use crate::errors::{last, name, value};
use differ::outcome::Outcome;
use differ::program::Opt;
use std::ffi::c_int;
use std::mem::size_of_val;

/// Level and name.
fn place(option: Opt) -> (c_int, c_int) {
    use libc as l;
    match option {
        Opt::ReuseAddress => (l::SOL_SOCKET, l::SO_REUSEADDR),
        Opt::ReusePort => (l::SOL_SOCKET, l::SO_REUSEPORT),
        Opt::KeepAlive => (l::SOL_SOCKET, l::SO_KEEPALIVE),
        Opt::Error => (l::SOL_SOCKET, l::SO_ERROR),
        Opt::Type => (l::SOL_SOCKET, l::SO_TYPE),
        Opt::AcceptConnections => (l::SOL_SOCKET, l::SO_ACCEPTCONN),
        Opt::Protocol => (l::SOL_SOCKET, l::SO_PROTOCOL),
        Opt::Domain => (l::SOL_SOCKET, l::SO_DOMAIN),
        Opt::Linger => (l::SOL_SOCKET, l::SO_LINGER),
        Opt::ReceiveTimeout => (l::SOL_SOCKET, l::SO_RCVTIMEO),
        Opt::SendTimeout => (l::SOL_SOCKET, l::SO_SNDTIMEO),
        Opt::ReceiveLowAt => (l::SOL_SOCKET, l::SO_RCVLOWAT),
        Opt::Priority => (l::SOL_SOCKET, l::SO_PRIORITY),
        Opt::OutOfBandInline => (l::SOL_SOCKET, l::SO_OOBINLINE),
        Opt::NoDelay => (l::IPPROTO_TCP, l::TCP_NODELAY),
        Opt::Cork => (l::IPPROTO_TCP, l::TCP_CORK),
        Opt::KeepIdle => (l::IPPROTO_TCP, l::TCP_KEEPIDLE),
        Opt::KeepInterval => (l::IPPROTO_TCP, l::TCP_KEEPINTVL),
        Opt::KeepCount => (l::IPPROTO_TCP, l::TCP_KEEPCNT),
        Opt::UserTimeout => (l::IPPROTO_TCP, l::TCP_USER_TIMEOUT),
        Opt::QuickAck => (l::IPPROTO_TCP, l::TCP_QUICKACK),
        Opt::DeferAccept => (l::IPPROTO_TCP, l::TCP_DEFER_ACCEPT),
        Opt::MaxSegment => (l::IPPROTO_TCP, l::TCP_MAXSEG),
        Opt::SynCount => (l::IPPROTO_TCP, l::TCP_SYNCNT),
        Opt::Linger2 => (l::IPPROTO_TCP, l::TCP_LINGER2),
        Opt::V6Only => (l::IPPROTO_IPV6, l::IPV6_V6ONLY),
        Opt::TypeOfService => (l::IPPROTO_IP, l::IP_TOS),
        Opt::Broadcast => (l::SOL_SOCKET, l::SO_BROADCAST),
        Opt::BusyPoll => (l::SOL_SOCKET, l::SO_BUSY_POLL),
        Opt::Zerocopy => (l::SOL_SOCKET, l::SO_ZEROCOPY),
        Opt::NotSentLowAt => (l::IPPROTO_TCP, l::TCP_NOTSENT_LOWAT),
        Opt::WindowClamp => (l::IPPROTO_TCP, l::TCP_WINDOW_CLAMP),
        Opt::Congestion => (l::IPPROTO_TCP, l::TCP_CONGESTION),
        Opt::TrafficClass => (l::IPPROTO_IPV6, l::IPV6_TCLASS),
        Opt::Mtu => (l::IPPROTO_IP, l::IP_MTU),
        Opt::FreeBind => (l::IPPROTO_IP, l::IP_FREEBIND),
    }
}

fn set_value<T>(fd: c_int, option: Opt, given: &T) -> Outcome {
    let (level, name) = place(option);
    let pointer: *const T = given;
    // SAFETY: the value and its size.
    value(unsafe { libc::setsockopt(fd, level, name, pointer.cast(), size_of_val(given) as u32) })
}

/// Names of congestion controls, by the number that a program has for each.
const CONTROLS: [&[u8]; 3] = [b"reno", b"cubic", b"none such"];

pub fn set(fd: c_int, option: Opt, given: i32) -> Outcome {
    match option {
        Opt::Congestion => {
            let (level, name) = place(option);
            let control = CONTROLS[given.unsigned_abs() as usize % CONTROLS.len()];
            let length = control.len() as u32;
            // SAFETY: the name and its length.
            value(unsafe { libc::setsockopt(fd, level, name, control.as_ptr().cast(), length) })
        }
        Opt::Linger => set_value(
            fd,
            option,
            &libc::linger {
                l_onoff: c_int::from(given >= 0),
                l_linger: given.max(0),
            },
        ),
        Opt::ReceiveTimeout | Opt::SendTimeout => set_value(
            fd,
            option,
            &libc::timeval {
                tv_sec: i64::from(given) / 1000,
                tv_usec: i64::from(given) % 1000 * 1000,
            },
        ),
        _ => set_value(fd, option, &given),
    }
}

pub fn get(fd: c_int, option: Opt) -> Outcome {
    let (level, number) = place(option);
    // Room for each of their kinds: an integer, a linger, a time.
    let mut room = [0u64; 2];
    let mut length = size_of_val(&room) as u32;
    // SAFETY: the room and its size.
    let got =
        unsafe { libc::getsockopt(fd, level, number, room.as_mut_ptr().cast(), &raw mut length) };
    if got < 0 {
        return last();
    }
    let first = room[0] as u32 as i32;
    Outcome::Text(match option {
        Opt::Error if first != 0 => name(first),
        Opt::Linger => format!("{first} {} ({length})", (room[0] >> 32) as i32),
        Opt::ReceiveTimeout | Opt::SendTimeout => {
            format!("{} s {} us ({length})", room[0], room[1])
        }
        _ => format!("{first} ({length})"),
    })
}

pub fn unread(fd: c_int) -> Outcome {
    let mut count: c_int = -1;
    // SAFETY: room for an integer.
    if unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut count) } < 0 {
        return last();
    }
    Outcome::Value(count.into())
}

pub fn set_nonblocking(fd: c_int, on: bool, by_ioctl: bool) -> Outcome {
    if by_ioctl {
        let mut on = c_int::from(on);
        // SAFETY: an integer.
        return value(unsafe { libc::ioctl(fd, libc::FIONBIO, &raw mut on) });
    }
    // SAFETY: takes no pointer.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return last();
    }
    let flags = if on {
        flags | libc::O_NONBLOCK
    } else {
        flags & !libc::O_NONBLOCK
    };
    // SAFETY: takes no pointer.
    value(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) })
}

pub fn flags(fd: c_int) -> Outcome {
    // SAFETY: takes no pointer.
    let (file, descriptor) = unsafe {
        (
            libc::fcntl(fd, libc::F_GETFL),
            libc::fcntl(fd, libc::F_GETFD),
        )
    };
    if file < 0 {
        return last();
    }
    Outcome::Text(format!("file {file:#o}, descriptor {descriptor}"))
}
