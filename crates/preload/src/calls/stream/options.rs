//! getsockopt and setsockopt.
//!
//! What the engine has to know goes there; what has to do with waiting is kept here; what is
//! without effect on a connected socket is accepted; the rest is refused as a kernel without that
//! feature refuses it, and noted. Asking for what is not known here asks the kernel's socket behind
//! the number, which has the defaults. What the kernel bounds or rounds it is asked to
//! ([`scratch`](crate::kernel::scratch)).

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use host::OptionKind;
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, linger, socklen_t, timeval};
use rustix::io::Errno;

use super::StreamRef;
use super::tcp_info;
use crate::kernel::option::{kernel_value, read, read_byte_or_integer, write, write_integer};
use crate::kernel::raw::{result, sys};
use crate::kernel::scratch::{Tried, tried};
use crate::objects::congestion;
use crate::objects::known::{NO_MAXIMUM, plain, plain_value};
use crate::objects::special;
use crate::objects::stream::kept;
use crate::objects::times::{fin_wait_2_said, linger_code, linger_seconds, nanoseconds};

/// The timeouts' names since time has 64 bits everywhere; the same structure on these machines.
const SO_RCVTIMEO_NEW: c_int = 66;
const SO_SNDTIMEO_NEW: c_int = 67;

/// Options that change nothing on a connected socket of the engine's: they are about binding,
/// queueing in the kernel, or hints.
const WITHOUT_EFFECT: [(c_int, c_int); 29] = [
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
        if c_int::try_from(length).is_err() {
            return Err(Errno::INVAL);
        }
        if self.is_foreign(level) {
            // SAFETY: as the caller promises.
            return result(unsafe { sys!(libc::SYS_setsockopt, fd, level, name, value, length) })
                .map(drop);
        }
        // SAFETY: as the caller promises.
        unsafe {
            match (level, name) {
                (SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
                    let bytes = self.taken(level, name, value, length, doubled)?;
                    self.socket.set_send_buffer(bytes);
                    Ok(())
                }
                (SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => {
                    let bytes = self.taken(level, name, value, length, doubled)?;
                    self.socket
                        .set_option(OptionKind::ReceiveBuffer, bytes as u32)
                }
                (SOL_SOCKET, libc::SO_LINGER) => {
                    let value = read::<linger>(value, length)?;
                    if let Some(seconds) = linger_seconds(&value) {
                        self.kept.set(level, name, seconds);
                    }
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
                    let given = |bytes: c_int| u64::try_from(bytes).unwrap_or(i32::MAX as u64);
                    let bytes = self.taken(level, name, value, length, given)?;
                    let chosen = self.socket.option(OptionKind::ReceiveBuffer);
                    let most = chosen.map_or(u64::MAX, |buffer| u64::from(buffer) / 2);
                    self.socket.set_receive_low(bytes.min(most));
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
                    if length == 0 {
                        return Err(Errno::INVAL);
                    }
                    let given =
                        core::slice::from_raw_parts(value.cast::<u8>(), length.min(15) as usize);
                    let code = congestion::code(given).ok_or(Errno::NOENT)?;
                    self.socket.set_option(OptionKind::Congestion, code)
                }
                // Only before it is connected.
                (IPPROTO_TCP, libc::TCP_FASTOPEN | libc::TCP_FASTOPEN_CONNECT)
                | (IPPROTO_IPV6, libc::IPV6_V6ONLY) => Err(Errno::INVAL),
                // Of one that is connected it cannot be taken back.
                (IPPROTO_TCP, libc::TCP_WINDOW_CLAMP) if read::<c_int>(value, length)? == 0 => {
                    Err(Errno::INVAL)
                }
                (IPPROTO_TCP, libc::TCP_MAXSEG) if read::<c_int>(value, length)? == 0 => Ok(()),
                _ if WITHOUT_EFFECT.contains(&(level, name))
                    || self.is_about_other_packets(level, name) =>
                {
                    if kept::is_any_integer(level, name) {
                        self.kept.set(level, name, read(value, length)?);
                    } else {
                        match tried(self.family(), level, name, name, value, length) {
                            Tried::Taken(Some(taken)) => self.kept.set(level, name, taken),
                            Tried::Taken(None) => {}
                            Tried::Refused(error) => return Err(error),
                            Tried::Unknown => self.kept.set(level, name, read(value, length)?),
                        }
                    }
                    special::without_effect(level, name);
                    Ok(())
                }
                _ => match plain(level, name) {
                    Some(known) => {
                        let value = match level {
                            IPPROTO_IP => read_byte_or_integer(value, length)?,
                            _ => read(value, length)?,
                        };
                        self.socket
                            .set_option(known.kind, plain_value(level, known.kind, value)?)
                    }
                    // The length is what the kernel looks at first.
                    None if level == SOL_SOCKET && (length as usize) < size_of::<c_int>() => {
                        Err(Errno::INVAL)
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
                    let before = || kernel_value::<linger>(fd, level, name).map(|was| was.l_linger);
                    let answer = linger {
                        l_onoff: c_int::from(code != 0),
                        l_linger: match self.kept.get(level, name) {
                            Some(seconds) => seconds,
                            None if code != 0 => (code - 1) as c_int,
                            None => before().unwrap_or(0),
                        },
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
                    write_integer(level, self.socket.info()?.path_mtu as c_int, value, length)
                }
                (IPPROTO_TCP, libc::TCP_ZEROCOPY_RECEIVE) => {
                    self.unsupported("TCP_ZEROCOPY_RECEIVE");
                    Err(Errno::NOPROTOOPT)
                }
                (IPPROTO_TCP, libc::TCP_INFO) => {
                    write(&tcp_info::tcp_info(&self.socket)?, value, length)
                }
                (IPPROTO_TCP, libc::TCP_CC_INFO) => match self.socket.info()?.bbr {
                    Some(bbr) => write(&tcp_info::bbr_info(&bbr), value, length),
                    // The others tell nothing, as in the kernel.
                    None => write(&[0u32; 0], value, length),
                },
                (IPPROTO_TCP, libc::TCP_CONGESTION) => {
                    let code = self.socket.option(OptionKind::Congestion);
                    write(&congestion::name(code), value, length)
                }
                _ => match plain(level, name) {
                    Some(known) if !self.is_about_other_packets(level, name) => {
                        let number = self.socket.option(known.kind).unwrap_or(known.default);
                        let said = match known.kind {
                            OptionKind::FinWait2 => fin_wait_2_said(number),
                            _ => number as c_int,
                        };
                        write_integer(level, said, value, length)
                    }
                    _ => match self.kept.get(level, name) {
                        Some(kept) => write_integer(level, kept, value, length),
                        None => kernels(),
                    },
                },
            }
        }
    }
}

impl StreamRef {
    /// Whether options of a level are another family's, of which the kernel's answer is as good here.
    fn is_foreign(&self, level: c_int) -> bool {
        level == IPPROTO_IPV6 && self.family() == libc::AF_INET
    }

    /// Whether an option is the class of IPv4's packets, where these are IPv6's, or the other way round: a
    /// socket has one for each.
    fn is_about_other_packets(&self, level: c_int, name: c_int) -> bool {
        let packets = || match self.socket.peer().ip().to_canonical() {
            core::net::IpAddr::V4(_) => IPPROTO_IP,
            core::net::IpAddr::V6(_) => IPPROTO_IPV6,
        };
        matches!(
            (level, name),
            (IPPROTO_IP, libc::IP_TOS) | (IPPROTO_IPV6, libc::IPV6_TCLASS)
        ) && level != packets()
    }

    /// An integer as the kernel takes it, or as `otherwise` says where that cannot be asked.
    ///
    /// # Safety
    /// `value` and `length` are the program's, as it gave them to setsockopt.
    unsafe fn taken(
        &self,
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: socklen_t,
        otherwise: impl Fn(c_int) -> u64,
    ) -> Result<u64, Errno> {
        // What is asked for has one name, whoever has set it.
        let asked = match name {
            libc::SO_SNDBUFFORCE => libc::SO_SNDBUF,
            libc::SO_RCVBUFFORCE => libc::SO_RCVBUF,
            _ => name,
        };
        // SAFETY: as the caller promises.
        match unsafe { tried(self.family(), level, name, asked, value, length) } {
            Tried::Taken(Some(taken @ 0..)) => Ok(taken as u64),
            Tried::Refused(error) => Err(error),
            // SAFETY: as the caller promises.
            _ => Ok(otherwise(unsafe { read(value, length)? })),
        }
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

/// The kernel doubles the buffer sizes that it is given, for what it keeps beside the data.
fn doubled(bytes: c_int) -> u64 {
    u64::from(bytes.max(0) as u32).min(i32::MAX as u64 / 2) * 2
}

fn set_timeout(timeout: &AtomicU64, value: &timeval) -> Result<(), Errno> {
    timeout.store(nanoseconds(value)?, Ordering::Relaxed);
    Ok(())
}
