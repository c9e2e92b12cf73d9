//! poll over descriptors of both kinds.

use core::ffi::{c_int, c_short};
use core::time::Duration;

use host::Readiness;
use libc::{nfds_t, pollfd, sigset_t};
use rustix::io::Errno;

use crate::calls::epoll::family;
use crate::engine::session;
use crate::engine::wait::Sleep;
use crate::kernel::deadline::{Deadline, Patience};
use crate::kernel::raw::{result, sys};
use crate::numbers::table::{self, Held};
use crate::objects::set::bell;
use crate::objects::stream::Stream;
use crate::thread::inside::sleeping;

/// An entry whose descriptor is ours: where it stands in the program's array, and what it says.
struct Ours {
    index: usize,
    number: c_int,
    held: Held,
    found: c_short,
}

impl Ours {
    fn new(index: usize, number: c_int, held: Held) -> Self {
        Self {
            index,
            number,
            held,
            found: 0,
        }
    }

    /// Has what happens to it end the sleep, or does so no more.
    fn ends(&self, sleep: &Sleep, ends: bool) {
        let held = &self.held;
        if let Some(set) = held.epoll()
            && ends
        {
            // It is readable by its number. Where that cannot be had, what is in there alone may come late.
            let _ = set.nest(self.number, true);
        }
        match (held.stream(), held.listener(), ends) {
            (Some(stream), _, true) => sleep.hears_of(&stream.socket),
            (Some(stream), _, false) => sleep.hears_no_more_of(&stream.socket),
            (_, Some(listening), true) => sleep.hears_of(&listening.listener),
            (_, Some(listening), false) => sleep.hears_no_more_of(&listening.listener),
            (None, None, _) => {}
        }
    }
}

/// Whether none of the descriptors is ours.
///
/// # Safety
/// `fds` points to `count` entries.
pub unsafe fn is_kernels(fds: *const pollfd, count: nfds_t) -> bool {
    if fds.is_null() {
        return true;
    }
    (0..count as usize).all(|index| {
        // SAFETY: as the caller promises.
        let fd = unsafe { (*fds.add(index)).fd };
        table::get(fd).is_none_or(|held| !held.enter_poll())
    })
}

/// # Safety
/// `fds` points to `count` entries; `mask` is null or points to a signal set.
pub unsafe fn poll(
    fds: *mut pollfd,
    count: nfds_t,
    patience: Patience,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let entries: &mut [pollfd] = match count {
        0 => &mut [],
        // SAFETY: as the caller promises.
        _ => unsafe { core::slice::from_raw_parts_mut(fds, count as usize) },
    };
    let mut ours: Vec<Ours> = Vec::new();
    for (index, entry) in entries.iter_mut().enumerate() {
        if let Some(held) = table::get(entry.fd)
            && held.enter_poll()
        {
            if count == 1
                && mask.is_null()
                && !patience.is_zero()
                && let Some(stream) = held.stream()
            {
                return alone(entry, stream, patience);
            }
            ours.push(Ours::new(index, entry.fd, held));
        }
    }
    if ours.is_empty() {
        let timeout = patience.as_timespec();
        let timeout = timeout
            .as_ref()
            .map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: the program's own array and mask; the time is a copy, which the kernel changes.
        return result(unsafe { sys!(libc::SYS_ppoll, fds, count, timeout, mask, 8usize) });
    }
    mixed(entries, &mut ours, patience, mask)
}

/// Waits for one connection alone, as calls do that read or write it.
fn alone(entry: &mut pollfd, stream: &Stream, patience: Patience) -> Result<usize, Errno> {
    let wanted = Readiness(u32::from(entry.events as u16));
    let deadline = patience.begin();
    let ready = match stream.socket.wait(wanted, deadline.time_left()) {
        Ok(ready) => ready,
        Err(Errno::TIMEDOUT) => Readiness::NONE,
        Err(error) => return Err(error),
    };
    // The bits are those of poll.
    entry.revents = (ready.0 & 0x7fff) as c_short;
    Ok(usize::from(entry.revents != 0))
}

fn mixed(
    entries: &mut [pollfd],
    ours: &mut [Ours],
    patience: Patience,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    // The kernel is asked about the rest, and about its part of a listener or of an epoll set. It
    // passes over negative numbers. The end of the array is for the sleeper.
    let mut asked = entries.to_vec();
    for Ours { index, held, .. } in ours.iter() {
        if held.stream().is_some() {
            asked[*index].fd = -1;
        }
    }
    let deadline = patience.begin();
    let news = attend(ours);
    let mut limit = look_inside(ours);
    session::pump();
    let mut sleep: Option<Sleep> = None;
    loop {
        let mut until = Deadline::NOW;
        let mut armed = None;
        if !look(entries, ours) && !patience.is_zero() {
            // Arm, say what for, then look once more.
            let one = Sleep::begin_again(&mut sleep)?;
            ours.iter().for_each(|it| it.ends(one, true));
            asked.extend(news.into_iter().chain(one.fds()).map(|fd| pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            }));
            if !look(entries, ours) {
                until = one.bound(deadline).or_after(limit);
            }
            armed = Some(one);
        }
        let slept = kernel(&mut asked, until, mask);
        if let Some(armed) = armed {
            ours.iter().for_each(|it| it.ends(armed, false));
            let rung = asked[entries.len()..].iter().any(|bell| bell.revents != 0);
            armed.rest(rung || slept.is_err());
            slept?;
            if news.is_some() && asked[entries.len()].revents != 0 {
                family::heard();
            }
            session::pump();
            limit = look_inside(ours);
            look(entries, ours);
        } else {
            slept?;
        }
        asked.truncate(entries.len());
        let found = merge(entries, &asked, ours);
        if found > 0 || patience.is_zero() || deadline.passed() {
            return Ok(found);
        }
    }
}

/// What is to be done before one waits for epoll sets. Where other processes have them, too, what these have done
/// comes first; a descriptor that tells of more comes back.
fn attend(ours: &[Ours]) -> Option<c_int> {
    let mut news = None;
    for set in ours.iter().filter_map(|it| it.held.epoll()) {
        if set.is_familys() {
            session::begin();
            news = bell::news();
            family::attend(set);
        }
        set.settle_inside();
        set.settle();
    }
    news
}

/// Looks into the sets inside those that are asked for, and says for how long one may sleep before one does so again.
fn look_inside(ours: &[Ours]) -> Option<Duration> {
    let sets = ours.iter().filter_map(|it| it.held.epoll());
    sets.filter_map(|set| set.look_inside()).min()
}

/// Asks our side; true if any of ours has something to say that is asked for.
fn look(entries: &[pollfd], ours: &mut [Ours]) -> bool {
    let mut any = false;
    for Ours {
        index, held, found, ..
    } in ours
    {
        *found = held.poll_readiness() & (entries[*index].events | libc::POLLERR | libc::POLLHUP);
        any |= *found != 0;
    }
    any
}

fn kernel(asked: &mut [pollfd], until: Deadline, mask: *const sigset_t) -> Result<usize, Errno> {
    let left = until.left();
    let left = left.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let (fds, count) = (asked.as_mut_ptr(), asked.len());
    // SAFETY: the array is whole; the mask is the program's; the time is a copy.
    unsafe {
        if until.is_now() {
            result(sys!(libc::SYS_ppoll, fds, count, left, mask, 8usize))
        } else {
            sleeping!(libc::SYS_ppoll, fds, count, left, mask, 8usize)
        }
    }
}

/// Puts both answers into the program's array; how many entries have something to say.
fn merge(entries: &mut [pollfd], asked: &[pollfd], ours: &[Ours]) -> usize {
    for (entry, asked) in entries.iter_mut().zip(asked) {
        entry.revents = if asked.fd < 0 { 0 } else { asked.revents };
    }
    for Ours { index, found, .. } in ours {
        entries[*index].revents |= found;
    }
    entries.iter().filter(|entry| entry.revents != 0).count()
}
