//! Listeners, connections and watches: their making, options, facts and end.

use std::net::SocketAddr;

use libc::{c_char, c_int, c_uint, size_t, sockaddr, socklen_t};
use native::{Errno, Setting, Shutdown};

use crate::queue::{Inside, ObQueue, within};
use crate::{address, code, descriptor};

/// `ob_setting`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ObSetting {
    option: u32,
    value: u32,
}

/// `ob_info`.
#[repr(C)]
pub struct ObInfo {
    offloaded: u32,
    rtt_us: u32,
    rttvar_us: u32,
    rto_us: u32,
    cwnd: u32,
    send_mss: u32,
    unacknowledged: u64,
    unread: u64,
    bytes_acked: u64,
    bytes_received: u64,
    retransmits: u64,
    why_not: [c_char; 96],
    served_by: [c_char; 24],
}

// As outboard.h says.
const _: () = assert!(size_of::<ObInfo>() == 184 && size_of::<ObSetting>() == 8);

impl TryFrom<ObSetting> for Setting {
    type Error = Errno;
    fn try_from(ObSetting { option, value }: ObSetting) -> Result<Self, Errno> {
        let on = value != 0;
        Ok(match option {
            1 => Setting::NoDelay(on),
            2 => Setting::Cork(on),
            3 => Setting::QuickAck(on),
            4 => Setting::KeepAlive(on),
            5 => Setting::KeepIdle(value),
            6 => Setting::KeepInterval(value),
            7 => Setting::KeepCount(value),
            8 => Setting::UserTimeout(value),
            9 => Setting::SendBuffer(value),
            10 => Setting::ReceiveBuffer(value),
            11 => Setting::ResetOnClose(on),
            12 => Setting::EagerAccept(value),
            13 => Setting::ReceiveUnit(value),
            _ => return Err(Errno::INVAL),
        })
    }
}

/// The settings that C gives.
///
/// # Errors
/// `EINVAL`: there are none where some should be, or one cannot be.
///
/// # Safety
/// `settings` is NULL or points to `count` settings.
pub(crate) unsafe fn read_settings(
    settings: *const ObSetting,
    count: size_t,
) -> Result<Vec<Setting>, Errno> {
    let given = match (settings.is_null(), count) {
        (_, 0) => &[],
        (true, _) => return Err(Errno::INVAL),
        // SAFETY: as the caller promises.
        (false, _) => unsafe { std::slice::from_raw_parts(settings, count) },
    };
    given.iter().map(|one| (*one).try_into()).collect()
}

/// Makes something in a queue and gives C its handle.
///
/// # Safety
/// `queue` is NULL or a queue, `out` NULL or room for a handle.
pub(crate) unsafe fn make(
    queue: *mut ObQueue,
    out: *mut u64,
    make: impl FnOnce(&mut Inside) -> Result<native::Handle, Errno>,
) -> c_int {
    if out.is_null() {
        return crate::number(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    let made = unsafe { within(queue, |inside| make(inside).map(|made| inside.number(made))) };
    // SAFETY: `out` is room for a handle.
    code(made.map(|made| unsafe { out.write(made) }))
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `address` points to `len` bytes, `out` is NULL or room for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_listen(
    queue: *mut ObQueue,
    address: *const sockaddr,
    len: socklen_t,
    backlog: c_uint,
    cookie: u64,
    out: *mut u64,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        make(queue, out, |inside| {
            inside
                .queue
                .listen(address::read(address, len)?, backlog, cookie)
        })
    }
}

/// See outboard.h.
///
/// # Safety
/// As for [`ob_listen`]; `settings` is NULL or points to `count` settings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_connect(
    queue: *mut ObQueue,
    address: *const sockaddr,
    len: socklen_t,
    settings: *const ObSetting,
    count: size_t,
    cookie: u64,
    out: *mut u64,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        make(queue, out, |inside| {
            let remote = address::read(address, len)?;
            let settings = read_settings(settings, count)?;
            inside.queue.connect(remote, &settings, cookie)
        })
    }
}

/// See outboard.h.
///
/// # Safety
/// As for [`ob_connect`]; `local` points to `local_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_connect_from(
    queue: *mut ObQueue,
    local: *const sockaddr,
    local_len: socklen_t,
    remote: *const sockaddr,
    len: socklen_t,
    settings: *const ObSetting,
    count: size_t,
    cookie: u64,
    out: *mut u64,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        make(queue, out, |inside| {
            let local = address::read(local, local_len)?;
            let remote = address::read(remote, len)?;
            let settings = read_settings(settings, count)?;
            inside
                .queue
                .connect_from(Some(local), remote, &settings, cookie)
        })
    }
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `out` NULL or room for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_watch(
    queue: *mut ObQueue,
    fd: c_int,
    events: u32,
    cookie: u64,
    out: *mut u64,
) -> c_int {
    // SAFETY: the borrow ends in the call.
    let fd = match unsafe { descriptor(fd) } {
        Ok(fd) => fd,
        Err(errno) => return crate::number(errno),
    };
    // SAFETY: as the caller promises.
    unsafe { make(queue, out, |inside| inside.queue.watch(fd, events, cookie)) }
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_close(queue: *mut ObQueue, number: u64) -> c_int {
    // SAFETY: as the caller promises.
    let closed = unsafe {
        within(queue, |inside| {
            let closed = inside.handle(number);
            inside.spans.forget(closed);
            inside.queue.close(closed)
        })
    };
    code(closed)
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_shutdown(queue: *mut ObQueue, number: u64, how: c_int) -> c_int {
    let how = match how {
        libc::SHUT_RD => Shutdown::Read,
        libc::SHUT_WR => Shutdown::Write,
        libc::SHUT_RDWR => Shutdown::Both,
        _ => return crate::number(Errno::INVAL),
    };
    // SAFETY: as the caller promises.
    code(unsafe {
        within(queue, |inside| {
            inside.queue.shutdown(inside.handle(number), how)
        })
    })
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_set(
    queue: *mut ObQueue,
    number: u64,
    option: u32,
    value: u32,
) -> c_int {
    // SAFETY: as the caller promises.
    let set = unsafe {
        within(queue, |inside| {
            let setting = ObSetting { option, value }.try_into()?;
            inside.queue.set(inside.handle(number), setting)
        })
    };
    code(set)
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `out` NULL or room for the facts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_get_info(queue: *mut ObQueue, number: u64, out: *mut ObInfo) -> c_int {
    if out.is_null() {
        return crate::number(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    let facts = unsafe { within(queue, |inside| inside.queue.facts(inside.handle(number))) };
    code(facts.map(|facts| {
        let tcp = facts.tcp.as_ref();
        let fact = |get: fn(&native::ConnInfo) -> u32| tcp.map_or(0, get);
        let info = ObInfo {
            offloaded: facts.is_offloaded.into(),
            rtt_us: fact(|tcp| tcp.rtt_us),
            rttvar_us: fact(|tcp| tcp.rtt_var_us),
            rto_us: fact(|tcp| tcp.rto_us),
            cwnd: fact(|tcp| tcp.congestion_window),
            send_mss: fact(|tcp| tcp.send_mss),
            unacknowledged: facts.unacknowledged,
            unread: facts.unread,
            bytes_acked: tcp.map_or(0, |tcp| tcp.bytes_acked),
            bytes_received: tcp.map_or(0, |tcp| tcp.bytes_received),
            retransmits: tcp.map_or(0, |tcp| tcp.retransmits),
            why_not: text(facts.why_not.unwrap_or_default()),
            served_by: text(facts.served_by),
        };
        // SAFETY: `out` is room for the facts.
        unsafe { out.write(info) };
    }))
}

/// As much of it as there is room for, with a 0 behind it.
fn text<const ROOM: usize>(from: &str) -> [c_char; ROOM] {
    let mut to = [0; ROOM];
    for (to, from) in to[..ROOM - 1].iter_mut().zip(from.bytes()) {
        *to = from as c_char;
    }
    to
}

/// Gives C one of a connection's addresses.
///
/// # Safety
/// As for [`ob_local`].
unsafe fn tell_address(
    queue: *mut ObQueue,
    address: *mut sockaddr,
    len: *mut socklen_t,
    get: impl FnOnce(&mut Inside) -> Result<SocketAddr, Errno>,
) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe { within(queue, get).and_then(|told| address::write(told, address, len)) })
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `len` NULL or a length, `address` NULL or points to so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_local(
    queue: *mut ObQueue,
    number: u64,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        tell_address(queue, address, len, |inside| {
            inside.queue.local(inside.handle(number))
        })
    }
}

/// See outboard.h.
///
/// # Safety
/// As for [`ob_local`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_peer(
    queue: *mut ObQueue,
    number: u64,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        tell_address(queue, address, len, |inside| {
            inside.queue.peer(inside.handle(number))
        })
    }
}
