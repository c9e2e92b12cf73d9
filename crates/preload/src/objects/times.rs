//! Options that are times: SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, TCP_LINGER2. The kernel counts in ticks,
//! of which it has no more than fit a `long`.

use libc::{c_int, linger, timeval};
use rustix::io::Errno;

use crate::kernel::scratch;

const SECOND: u64 = 1_000_000_000;

/// The kernel's longest time, in seconds.
fn longest() -> u64 {
    i64::MAX as u64 / (SECOND / scratch::tick())
}

/// SO_LINGER as the engine has it: 0 is off, otherwise the seconds and one.
pub fn linger_code(value: &linger) -> u32 {
    match (value.l_onoff, u32::try_from(value.l_linger)) {
        (0, _) => 0,
        (_, Ok(seconds)) => seconds.saturating_add(1),
        // The kernel takes what is below zero for a very long time.
        (_, Err(_)) => u32::MAX,
    }
}

/// The seconds of SO_LINGER as they are read back; none, if it is off and they stay as they were.
pub fn linger_seconds(value: &linger) -> Option<c_int> {
    match (value.l_onoff, value.l_linger) {
        (0, _) => None,
        (_, seconds @ 0..) => Some(seconds),
        // The kernel's longest time, as far as there is room for it.
        _ => Some(longest() as c_int),
    }
}

/// A time limit in nanoseconds, rounded as the kernel rounds it: 0 is none, and one below zero waits not
/// at all, for as little as can be said here.
///
/// # Errors
/// `EDOM`: it has not got that many microseconds.
pub fn nanoseconds(value: &timeval) -> Result<u64, Errno> {
    if !(0..1_000_000).contains(&value.tv_usec) {
        return Err(Errno::DOM);
    }
    let Ok(seconds) = u64::try_from(value.tv_sec) else {
        return Ok(1);
    };
    if (seconds, value.tv_usec) == (0, 0) || seconds >= longest() - 1 {
        return Ok(0);
    }
    let tick = scratch::tick();
    let part = (value.tv_usec as u64 * 1_000).div_ceil(tick) * tick;
    Ok(seconds.saturating_mul(SECOND).saturating_add(part))
}

/// How long FIN-WAIT-2 lasts if nobody says otherwise, in seconds.
pub const FIN_WAIT_2: u32 = 60;
/// How long it lasts at most.
const MOST_FIN_WAIT_2: c_int = 120;

/// TCP_LINGER2 as the engine has it, in seconds: the kernel takes 0 for the default, and what is below
/// zero for no time at all.
pub fn fin_wait_2(value: c_int) -> u32 {
    match value {
        0 => FIN_WAIT_2,
        1.. => value.min(MOST_FIN_WAIT_2) as u32,
        _ => 0,
    }
}

/// The inverse of [`fin_wait_2`], as the kernel says it.
pub fn fin_wait_2_said(seconds: u32) -> c_int {
    match seconds {
        0 => -1,
        seconds => seconds as c_int,
    }
}
