//! The device and the clock. Their safety is that of `calls`.

use core::ffi::{c_int, c_void};
use core::time::Duration;

use libc::{size_t, timeval, timezone, useconds_t};

use super::memory::{bytes, host, put};
use crate::host::Host;

/// The end of everything that `packetdrill_interface_init` gave.
pub(super) unsafe extern "C" fn free(userdata: *mut c_void) {
    if !userdata.is_null() {
        // SAFETY: it was a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(userdata.cast::<Host>()) });
    }
}

pub(super) unsafe extern "C" fn netdev_send(
    userdata: *mut c_void,
    data: *const c_void,
    len: size_t,
) -> c_int {
    // SAFETY: as of all calls.
    let (host, datagram) = unsafe { (host(userdata), bytes(data, len)) };
    host.send(&datagram);
    0
}

pub(super) unsafe extern "C" fn netdev_receive(
    userdata: *mut c_void,
    into: *mut c_void,
    len: *mut size_t,
    micros: *mut i64,
) -> c_int {
    // SAFETY: as of all calls.
    let host = unsafe { host(userdata) };
    let (at, datagram) = host.receive().unwrap_or_default();
    // SAFETY: as of all calls; `len` says how much room there is, and then how much was used.
    unsafe {
        *len = put(&datagram, into, *len);
        if !micros.is_null() {
            *micros = at.as_micros() as i64;
        }
    }
    0
}

pub(super) unsafe extern "C" fn usleep(userdata: *mut c_void, micros: useconds_t) -> c_int {
    // SAFETY: as of all calls.
    let host = unsafe { host(userdata) };
    host.sleep(Duration::from_micros(micros.into()));
    0
}

pub(super) unsafe extern "C" fn gettimeofday(
    userdata: *mut c_void,
    time: *mut timeval,
    _zone: *mut timezone,
) -> c_int {
    // SAFETY: as of all calls.
    let host = unsafe { host(userdata) };
    let micros = host.micros();
    if !time.is_null() {
        let value = timeval {
            tv_sec: (micros / 1_000_000) as i64,
            tv_usec: (micros % 1_000_000) as i64,
        };
        // SAFETY: as of all calls.
        unsafe { time.write(value) };
    }
    0
}
