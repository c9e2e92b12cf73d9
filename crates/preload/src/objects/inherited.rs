//! What a connection inherits of the kernel's socket: the one that it was to be, or its listener.

use core::ffi::c_int;

use host::OptionKind;
use libc::{IPPROTO_TCP, SOL_SOCKET, linger, timeval};

use super::congestion;
use super::known::{Known, PLAIN, plain_value};
use super::stream::kept::{self, Values};
use super::times::{linger_code, nanoseconds};
use crate::kernel::option::kernel_value;

/// See the [module](self).
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
            && let Ok(value) = plain_value(level, kind, value)
            && value != default
            // The kernel sizes buffers by itself: that is not the program's wish.
            && (kind != OptionKind::ReceiveBuffer || chosen.receive_buffer)
        {
            settings.known.push((kind, value));
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
        && let Some(code) = congestion::code(&name)
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
        .is_ok_and(|name| congestion::code(&name).is_some())
}
