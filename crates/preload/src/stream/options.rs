//! getsockopt and setsockopt.
//!
//! What the engine has to know goes there; what has to do with waiting is kept here; what is
//! without effect on a connected socket is accepted; the rest is refused as a kernel without that
//! feature refuses it, and noted. Asking for what is not known here asks the kernel's socket behind
//! the number, which has the defaults.

mod kept;
mod value;

pub use kept::{Kept, Values};
pub use value::kernel_value;

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use host::OptionKind;
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, linger, socklen_t, timeval};
use rustix::io::Errno;

use super::StreamRef;
use super::{facts, tcp_info};
use crate::raw::{result, sys};
use crate::special;
use value::{read, write};

/// The timeouts' names since time has 64 bits everywhere; the same structure on these machines.
const SO_RCVTIMEO_NEW: c_int = 66;
const SO_SNDTIMEO_NEW: c_int = 67;

/// An option that the engine knows, its name in the kernel, and what it is when nobody has set it.
struct Known {
    level: c_int,
    name: c_int,
    kind: OptionKind,
    default: u32,
}

const fn known(level: c_int, name: c_int, kind: OptionKind, default: u32) -> Known {
    Known {
        level,
        name,
        kind,
        default,
    }
}

/// Options that are one integer here and there.
const PLAIN: [Known; 13] = [
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
    known(IPPROTO_TCP, libc::TCP_LINGER2, OptionKind::FinWait2, 60),
    known(
        IPPROTO_TCP,
        libc::TCP_MAXSEG,
        OptionKind::MaxSegment,
        NO_MAXIMUM,
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

/// Options that change nothing on a connected socket of the engine's: they are about binding,
/// queueing in the kernel, or hints.
const WITHOUT_EFFECT: [(c_int, c_int); 30] = [
    (SOL_SOCKET, libc::SO_REUSEADDR),
    (SOL_SOCKET, libc::SO_REUSEPORT),
    (SOL_SOCKET, libc::SO_BROADCAST),
    (SOL_SOCKET, libc::SO_OOBINLINE),
    (SOL_SOCKET, libc::SO_PRIORITY),
    (SOL_SOCKET, libc::SO_BUSY_POLL),
    (SOL_SOCKET, libc::SO_INCOMING_CPU),
    (IPPROTO_TCP, libc::TCP_DEFER_ACCEPT),
    (IPPROTO_TCP, libc::TCP_SYNCNT),
    (IPPROTO_TCP, libc::TCP_WINDOW_CLAMP),
    (IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
    (SOL_SOCKET, libc::SO_RXQ_OVFL),
    (SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE),
    (SOL_SOCKET, libc::SO_PREFER_BUSY_POLL),
    (SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET),
    (IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS),
    (IPPROTO_IP, libc::IP_RECVERR),
    (IPPROTO_IP, libc::IP_RECVOPTS),
    (IPPROTO_IP, libc::IP_RETOPTS),
    (IPPROTO_IP, libc::IP_PKTINFO),
    (IPPROTO_IP, libc::IP_MTU_DISCOVER),
    (IPPROTO_IP, libc::IP_RECVTTL),
    (IPPROTO_IP, libc::IP_RECVTOS),
    (IPPROTO_IP, libc::IP_FREEBIND),
    (IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT),
    (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
    (IPPROTO_IPV6, libc::IPV6_RECVERR),
    (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    (IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
    (IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
];

/// What a connection inherits of a kernel socket: the one that it was to be, or its listener.
#[derive(Default)]
pub struct Settings {
    /// What the engine's side knows, where it differs from the default.
    pub known: Vec<(OptionKind, u32)>,
    /// SO_SNDBUF in bytes, if the program has chosen it.
    pub send_buffer: Option<u64>,
    /// SO_RCVLOWAT in bytes.
    pub receive_low: u64,
    /// SO_RCVTIMEO in nanoseconds, 0 for none.
    pub receive_timeout: u64,
    /// SO_SNDTIMEO in nanoseconds, 0 for none.
    pub send_timeout: u64,
    /// SO_ZEROCOPY.
    pub zerocopy: bool,
    /// What is without effect on a connection, and only read back.
    pub kept: Option<Values>,
}

/// What of a kernel socket is as the program wanted it; otherwise it is as the kernel likes.
#[derive(Clone, Copy, Default)]
pub struct Chosen {
    pub send_buffer: bool,
    pub receive_buffer: bool,
    pub congestion: bool,
}

/// TCP_MAXSEG of a socket that is not connected and whose program has not set it (TCP_MSS_DEFAULT).
const NO_MAXIMUM: u32 = 536;

/// What the program has set on the kernel's socket `fd`.
pub fn inherited(fd: c_int, chosen: Chosen) -> Settings {
    let mut settings = Settings::default();
    for Known {
        level,
        name,
        kind,
        default,
    } in PLAIN
    {
        if let Ok(value) = kernel_value::<c_int>(fd, level, name)
            && value as u32 != default
            // The kernel sizes buffers by itself: that is not the program's wish.
            && (kind != OptionKind::ReceiveBuffer || chosen.receive_buffer)
        {
            settings.known.push((kind, value as u32));
        }
    }
    if chosen.send_buffer
        && let Ok(bytes @ 0..) = kernel_value::<c_int>(fd, SOL_SOCKET, libc::SO_SNDBUF)
    {
        settings.send_buffer = Some(bytes as u64);
    }
    if let Ok(bytes @ 1..) = kernel_value::<c_int>(fd, SOL_SOCKET, libc::SO_RCVLOWAT) {
        settings.receive_low = bytes as u64;
    }
    if let Ok(value) = kernel_value::<linger>(fd, SOL_SOCKET, libc::SO_LINGER)
        && value.l_onoff != 0
    {
        let code = linger_code(&value);
        settings.known.push((OptionKind::Linger, code));
    }
    if chosen.congestion
        && let Ok(name) = kernel_value::<[u8; 16]>(fd, IPPROTO_TCP, libc::TCP_CONGESTION)
        && let Some(code) = facts::congestion_code(&name)
    {
        settings.known.push((OptionKind::Congestion, code));
    }
    let timeout = |name| {
        kernel_value::<timeval>(fd, SOL_SOCKET, name)
            .ok()
            .and_then(|value| nanoseconds(&value).ok())
            .unwrap_or(0)
    };
    settings.receive_timeout = timeout(libc::SO_RCVTIMEO);
    settings.send_timeout = timeout(libc::SO_SNDTIMEO);
    settings.zerocopy =
        kernel_value::<c_int>(fd, SOL_SOCKET, libc::SO_ZEROCOPY).is_ok_and(|on| on != 0);
    settings.kept = kept::of_listener(fd);
    settings
}

/// Whether the engine has the congestion control of the kernel's socket `fd`.
pub fn knows_congestion(fd: c_int) -> bool {
    kernel_value::<[u8; 16]>(fd, IPPROTO_TCP, libc::TCP_CONGESTION)
        .is_ok_and(|name| facts::congestion_code(&name).is_some())
}

impl StreamRef {
    /// setsockopt; `fd` is the number through which it was asked.
    ///
    /// # Safety
    /// `length` bytes at `value` are readable.
    pub unsafe fn set_option(
        &self,
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: socklen_t,
    ) -> Result<(), Errno> {
        if self.is_foreign(level) {
            // SAFETY: as the caller promises.
            return result(unsafe { sys!(libc::SYS_setsockopt, fd, level, name, value, length) })
                .map(drop);
        }
        // SAFETY: as the caller promises.
        unsafe {
            match (level, name) {
                (SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
                    self.socket.set_send_buffer(doubled(read(value, length)?));
                    Ok(())
                }
                (SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => {
                    let bytes = doubled(read(value, length)?);
                    self.socket
                        .set_option(OptionKind::ReceiveBuffer, bytes as u32)
                }
                (SOL_SOCKET, libc::SO_LINGER) => {
                    let value = read::<linger>(value, length)?;
                    self.socket
                        .set_option(OptionKind::Linger, linger_code(&value))
                }
                (SOL_SOCKET, libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW) => {
                    set_timeout(&self.receive_timeout, &read(value, length)?)
                }
                (SOL_SOCKET, libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW) => {
                    set_timeout(&self.send_timeout, &read(value, length)?)
                }
                (SOL_SOCKET, libc::SO_RCVLOWAT) => {
                    // The kernel takes a negative mark for a very high one.
                    let bytes = match read(value, length)? {
                        bytes @ 0.. => bytes,
                        _ => c_int::MAX,
                    };
                    self.socket.set_receive_low(bytes as u64);
                    Ok(())
                }
                (SOL_SOCKET, libc::SO_ZEROCOPY) => match read::<c_int>(value, length)? {
                    on @ (0 | 1) => {
                        self.set_zerocopy(on == 1);
                        Ok(())
                    }
                    _ => Err(Errno::INVAL),
                },
                (IPPROTO_TCP, libc::TCP_CONGESTION) => {
                    let given =
                        core::slice::from_raw_parts(value.cast::<u8>(), length.min(16) as usize);
                    let code = facts::congestion_code(given).ok_or(Errno::NOENT)?;
                    self.socket.set_option(OptionKind::Congestion, code)
                }
                // Only before it is connected.
                (IPPROTO_TCP, libc::TCP_FASTOPEN | libc::TCP_FASTOPEN_CONNECT)
                | (IPPROTO_IPV6, libc::IPV6_V6ONLY) => Err(Errno::INVAL),
                _ if WITHOUT_EFFECT.contains(&(level, name)) => {
                    self.kept.set(level, name, read(value, length)?);
                    special::without_effect(level, name);
                    Ok(())
                }
                _ => match plain(level, name) {
                    Some(known) => {
                        let value: c_int = read(value, length)?;
                        self.socket
                            .set_option(known.kind, plain_value(known.kind, value)?)
                    }
                    None => {
                        let option = special::title(level, name);
                        self.unsupported(&format!("socket option {option}"));
                        Err(Errno::NOPROTOOPT)
                    }
                },
            }
        }
    }

    /// getsockopt; `fd` is the number through which it was asked.
    ///
    /// # Safety
    /// `value` and `length` are the program's buffer and its length.
    pub unsafe fn get_option(
        &self,
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        length: *mut socklen_t,
    ) -> Result<(), Errno> {
        let timeout = |span: &AtomicU64| {
            let span = span.load(Ordering::Relaxed);
            timeval {
                tv_sec: (span / 1_000_000_000) as i64,
                tv_usec: (span % 1_000_000_000 / 1_000) as i64,
            }
        };
        // SAFETY: as the caller promises.
        let kernels = || unsafe {
            result(sys!(libc::SYS_getsockopt, fd, level, name, value, length)).map(drop)
        };
        if self.is_foreign(level) {
            return kernels();
        }
        // SAFETY: as the caller promises.
        unsafe {
            match (level, name) {
                (SOL_SOCKET, libc::SO_ERROR) => {
                    let error = self.socket.take_error().map_or(0, Errno::raw_os_error);
                    write(&error, value, length)
                }
                (SOL_SOCKET, libc::SO_SNDBUF) => write(
                    &(self.socket.send_buffer().min(i32::MAX as u64) as c_int),
                    value,
                    length,
                ),
                (SOL_SOCKET, libc::SO_LINGER) => {
                    let code = self.socket.option(OptionKind::Linger).unwrap_or(0);
                    let answer = linger {
                        l_onoff: c_int::from(code != 0),
                        l_linger: code.saturating_sub(1) as c_int,
                    };
                    write(&answer, value, length)
                }
                (SOL_SOCKET, libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW) => {
                    write(&timeout(&self.receive_timeout), value, length)
                }
                (SOL_SOCKET, libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW) => {
                    write(&timeout(&self.send_timeout), value, length)
                }
                (SOL_SOCKET, libc::SO_RCVLOWAT) => {
                    write(&(self.socket.receive_low() as c_int), value, length)
                }
                (SOL_SOCKET, libc::SO_ZEROCOPY) => {
                    write(&c_int::from(self.zerocopy()), value, length)
                }
                (SOL_SOCKET, libc::SO_INCOMING_CPU) => {
                    // What has come lies in memory that is shared: no core is nearer than this one.
                    write(&(rustix::thread::sched_getcpu() as c_int), value, length)
                }
                (SOL_SOCKET, libc::SO_COOKIE) if self.is_engines.load(Ordering::Relaxed) => {
                    write_cookie(self.socket.cookie(), value, length)
                }
                (SOL_SOCKET, libc::SO_PEERNAME) => self.peer_of_room(value, length),
                (IPPROTO_TCP, libc::TCP_MAXSEG) => {
                    // Of a connection the kernel says what it sends, whatever was set.
                    let bytes = self
                        .socket
                        .info()
                        .map_or(NO_MAXIMUM, |facts| facts.send_mss);
                    write(&(bytes as c_int), value, length)
                }
                (IPPROTO_IP, libc::IP_MTU) | (IPPROTO_IPV6, libc::IPV6_MTU) => {
                    write(&(self.socket.info()?.path_mtu as c_int), value, length)
                }
                (IPPROTO_TCP, libc::TCP_ZEROCOPY_RECEIVE) => {
                    self.unsupported("TCP_ZEROCOPY_RECEIVE");
                    Err(Errno::NOPROTOOPT)
                }
                (IPPROTO_TCP, libc::TCP_INFO) => {
                    write(&tcp_info::tcp_info(&self.socket)?, value, length)
                }
                (IPPROTO_TCP, libc::TCP_CONGESTION) => {
                    let code = self.socket.option(OptionKind::Congestion);
                    write(&facts::congestion_name(code), value, length)
                }
                _ => match plain(level, name) {
                    Some(known) => {
                        let number = self.socket.option(known.kind).unwrap_or(known.default);
                        write(&(number as c_int), value, length)
                    }
                    None => match self.kept.get(level, name) {
                        Some(kept) => write(&kept, value, length),
                        None => kernels(),
                    },
                },
            }
        }
    }
}

fn plain(level: c_int, name: c_int) -> Option<Known> {
    PLAIN
        .into_iter()
        .find(|known| known.level == level && known.name == name)
}

impl StreamRef {
    /// Whether options of a level are another family's, of which the kernel's answer is as good here.
    fn is_foreign(&self, level: c_int) -> bool {
        level == IPPROTO_IPV6 && self.family() == libc::AF_INET
    }

    /// SO_PEERNAME: as getpeername, but a buffer that is larger than the address is wrong.
    ///
    /// # Safety
    /// `value` and `length` are the program's buffer and its length.
    unsafe fn peer_of_room(&self, value: *mut c_void, length: *mut socklen_t) -> Result<(), Errno> {
        // SAFETY: as the caller promises.
        unsafe {
            let room = *length.as_ref().ok_or(Errno::FAULT)?;
            let whole = match self.family() {
                libc::AF_INET => size_of::<libc::sockaddr_in>(),
                _ => size_of::<libc::sockaddr_in6>(),
            };
            if room as usize > whole {
                return Err(Errno::INVAL);
            }
            self.peer_name(value.cast(), length)?;
            *length = room;
            Ok(())
        }
    }
}

/// SO_COOKIE, which has to be read as a whole.
///
/// # Safety
/// `value` and `length` are the program's buffer and its length.
unsafe fn write_cookie(
    cookie: u64,
    value: *mut c_void,
    length: *mut socklen_t,
) -> Result<(), Errno> {
    // SAFETY: as the caller promises.
    unsafe {
        let room = length.as_ref().ok_or(Errno::FAULT)?;
        if (*room as usize) < size_of::<u64>() {
            return Err(Errno::INVAL);
        }
        write(&cookie, value, length)
    }
}

/// An option's value as the engine takes it; negative ones are what the kernel makes of them.
fn plain_value(kind: OptionKind, value: c_int) -> Result<u32, Errno> {
    match kind {
        OptionKind::NoDelay | OptionKind::Cork | OptionKind::KeepAlive | OptionKind::QuickAck => {
            Ok(u32::from(value != 0))
        }
        _ => u32::try_from(value).map_err(|_| Errno::INVAL),
    }
}

/// The kernel doubles the buffer sizes that it is given, for what it keeps beside the data.
fn doubled(bytes: c_int) -> u64 {
    u64::from(bytes.max(0) as u32).min(i32::MAX as u64 / 2) * 2
}

/// As the engine has it: 0 is off, otherwise the seconds and one.
fn linger_code(value: &linger) -> u32 {
    if value.l_onoff == 0 {
        0
    } else {
        (value.l_linger.max(0) as u32).saturating_add(1)
    }
}

fn set_timeout(timeout: &AtomicU64, value: &timeval) -> Result<(), Errno> {
    timeout.store(nanoseconds(value)?, Ordering::Relaxed);
    Ok(())
}

/// A time limit as the kernel reads it: 0 is none, and so it is for a negative one… which waits
/// not at all, for as little as can be said here.
fn nanoseconds(value: &timeval) -> Result<u64, Errno> {
    if !(0..1_000_000).contains(&value.tv_usec) {
        return Err(Errno::DOM);
    }
    if value.tv_sec < 0 {
        return Ok(1);
    }
    Ok((value.tv_sec as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(value.tv_usec as u64 * 1_000))
}
