//! select, as poll over the same descriptors.

use core::ffi::c_int;

use libc::{fd_set, pollfd, sigset_t, timespec, timeval};
use rustix::io::Errno;

use crate::calls::poll;
use crate::kernel::deadline::Patience;
use crate::kernel::raw::{result, sys};
use crate::numbers::table;

/// What each of the three sets asks for, and what in poll's answer satisfies it: the kernel's
/// POLLIN_SET, POLLOUT_SET and POLLEX_SET.
const ASK: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
const SATISFIES: [i16; 3] = [
    libc::POLLIN | libc::POLLHUP | libc::POLLERR,
    libc::POLLOUT | libc::POLLERR,
    libc::POLLPRI,
];

/// A set of descriptors as words, longer than `fd_set` where the program made it so.
type Words = *mut u64;

/// # Safety
/// Each set is null or has `count` bits; `timeout` is null or the program's.
pub unsafe fn select(
    count: c_int,
    sets: [*mut fd_set; 3],
    timeout: *mut timeval,
) -> Result<usize, Errno> {
    // SAFETY: as the caller promises.
    let Some(timeout) = (unsafe { timeout.as_mut() }) else {
        // SAFETY: as the caller promises.
        return unsafe { pselect(count, sets, core::ptr::null(), core::ptr::null()) };
    };
    if timeout.tv_sec < 0 || timeout.tv_usec < 0 {
        return Err(Errno::INVAL);
    }
    let microseconds = timeout.tv_usec;
    let mut span = timespec {
        tv_sec: timeout.tv_sec.saturating_add(microseconds / 1_000_000),
        tv_nsec: microseconds % 1_000_000 * 1_000,
    };
    let deadline = Patience::timespec(Some(&span))?.begin();
    // SAFETY: as the caller promises.
    let found = unsafe { pselect(count, sets, &raw mut span, core::ptr::null()) };
    // Linux tells how much of the time was left.
    if let Some(left) = deadline.left() {
        timeout.tv_sec = left.tv_sec;
        timeout.tv_usec = left.tv_nsec / 1_000;
    }
    found
}

/// # Safety
/// Each set is null or has `count` bits; `timeout` and `mask` are null or the program's.
pub unsafe fn pselect(
    count: c_int,
    sets: [*mut fd_set; 3],
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let words = sets.map(|set| set.cast::<u64>());
    // SAFETY: as the caller promises.
    if unsafe { is_kernels(count, sets) } {
        // SAFETY: as the caller promises; the kernel changes the time, so it gets a copy, and the
        // mask comes with its size.
        return unsafe {
            let mut copy = timeout.as_ref().copied();
            let timeout = copy
                .as_mut()
                .map_or(core::ptr::null_mut(), core::ptr::from_mut);
            let mask = [mask as usize, 8];
            let [read, write, except] = words;
            result(sys!(
                libc::SYS_pselect6,
                count,
                read,
                write,
                except,
                timeout,
                mask.as_ptr()
            ))
        };
    }
    // SAFETY: as the caller promises.
    let patience = Patience::timespec(unsafe { timeout.as_ref() })?;
    let mut entries: Vec<pollfd> = (0..count)
        .filter_map(|fd| {
            // SAFETY: as the caller promises.
            let events = unsafe { asks(&words, fd) };
            (events != 0).then_some(pollfd {
                fd,
                events,
                revents: 0,
            })
        })
        .collect();
    // SAFETY: the array is ours and whole; the mask is the program's.
    unsafe { poll::poll(entries.as_mut_ptr(), entries.len() as u64, patience, mask)? };
    if entries
        .iter()
        .any(|entry| entry.revents & libc::POLLNVAL != 0)
    {
        return Err(Errno::BADF);
    }
    let mut found = 0;
    for (set, (ask, satisfies)) in words.into_iter().zip(ASK.into_iter().zip(SATISFIES)) {
        if set.is_null() {
            continue;
        }
        for entry in &entries {
            let ready = entry.events & ask != 0 && entry.revents & satisfies != 0;
            // SAFETY: below `count`, as the caller promises.
            unsafe { put(set, entry.fd, ready) };
            found += usize::from(ready);
        }
    }
    Ok(found)
}

/// Whether none of the descriptors is ours.
///
/// # Safety
/// Each set is null or has `count` bits.
pub unsafe fn is_kernels(count: c_int, sets: [*mut fd_set; 3]) -> bool {
    let words = sets.map(|set| set.cast::<u64>());
    !(0..count).any(|fd| {
        // SAFETY: as the caller promises.
        let asked = unsafe { asks(&words, fd) != 0 };
        asked && table::get(fd).is_some_and(|held| held.enter_poll())
    })
}

/// What the program wants to know of `fd`, as poll's events.
///
/// # Safety
/// Each set is null or has a bit for `fd`.
unsafe fn asks(sets: &[Words; 3], fd: c_int) -> i16 {
    let (word, bit) = (fd as usize / 64, fd as usize % 64);
    sets.iter().zip(ASK).fold(0, |events, (set, ask)| {
        // SAFETY: as the caller promises.
        let wanted = !set.is_null() && unsafe { set.add(word).read() } >> bit & 1 == 1;
        events | if wanted { ask } else { 0 }
    })
}

/// # Safety
/// The set has a bit for `fd`.
unsafe fn put(set: Words, fd: c_int, value: bool) {
    let (word, bit) = (fd as usize / 64, fd as usize % 64);
    // SAFETY: as the caller promises.
    unsafe {
        let before = set.add(word).read();
        set.add(word)
            .write(before & !(1 << bit) | u64::from(value) << bit);
    }
}
