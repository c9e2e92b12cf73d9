//! epoll_wait over both parts of a set.
//!
//! 1. What our rings already say is reported first; then the kernel's part of the set, when ours
//!    has nothing. Every few turns the kernel's part is first, even if ours always has something: the program's
//!    signals and timers arrive there, and its array may have no more room than ours fills.
//! 2. An engine that is awake is given the core for a moment: it may be about to answer.
//! 3. To sleep: arm, look once more, make the real call with the program's mask and time.
//!
//! In a set that other processes have, too, what they have done comes first ([`family`]).

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use host::one_shot::Report;
use libc::{epoll_event, pollfd, sigset_t};
use rustix::io::Errno;

use super::family;
use crate::engine::session;
use crate::kernel::deadline::{Deadline, Patience};
use crate::kernel::raw::{result, sys};
use crate::objects::set::sleep::{Bed, MARK, NEWS, PROGRAMS};
use crate::objects::set::{Ours, Set, bell};
use crate::thread::counted::{Counts, during};
use crate::thread::inside::sleeping;

/// Waits that may pass in which only our part is looked at.
const TURNS_WITHOUT_KERNEL: u32 = 8;

/// The most events that are asked of a set at once: more than servers ask for.
const MOST: usize = i32::MAX as usize / size_of::<epoll_event>();

/// # Safety
/// `events` points to room for `most` events; `mask` is null or points to a signal set.
pub unsafe fn wait(
    number: c_int,
    set: &Set,
    events: *mut epoll_event,
    most: c_int,
    patience: Patience,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let room = usize::try_from(most).unwrap_or(0);
    if room == 0 || room > MOST || set.unknown.load(Ordering::Relaxed) {
        return Err(Errno::INVAL);
    }
    let mut room = Room {
        number,
        set,
        events,
        most: room,
        filled: 0,
    };
    let deadline = patience.begin();
    let ours = loop {
        if set.is_familys() {
            family::attend(set);
        }
        set.settle_inside();
        if let Some(ours) = set.ours.get() {
            break ours;
        }
        let limit = set.look_inside();
        let until = deadline.or_after(limit);
        if set.is_familys() {
            room.beside_others(set, until, mask)?;
        } else if limit.is_some() {
            room.kernel_until(set, until, mask)?;
        } else {
            // SAFETY: the mask is the program's.
            unsafe { room.kernel_alone(set, patience, mask)? };
        }
        if room.filled > 0 || deadline.passed() {
            return Ok(room.filled);
        }
    };
    ours.entered();
    set.listen_anew(number);
    let mut limit = set.look_inside();
    let due = ours
        .turn
        .fetch_add(1, Ordering::Relaxed)
        .is_multiple_of(TURNS_WITHOUT_KERNEL);
    if due && has_something(ours) {
        let rung = room.kernel(Deadline::NOW, core::ptr::null())?;
        ours.sleep.quieten(&set.kin, number, rung);
        set.call_unaware(ours, number)?;
    }
    room.collect(ours);
    let waits = room.filled == 0 && !patience.is_zero();
    // Until this returns.
    let mut waiting = waits.then(|| ours.sleep.hesitate());
    if let Some(waiting) = &mut waiting {
        room.collect(ours);
        while room.filled == 0 && !deadline.passed() && waiting.looks_on() {
            room.collect(ours);
            if room.filled == 0 {
                let rung = room.kernel(Deadline::NOW, core::ptr::null())?;
                ours.sleep.quieten(&set.kin, number, rung);
                set.call_unaware(ours, number)?;
            }
        }
        waiting.has_looked(room.filled > 0);
    }
    if room.filled > 0 {
        return Ok(room.leave(set, ours));
    }
    loop {
        if patience.is_zero() {
            let rung = room.kernel(Deadline::NOW, mask)?;
            ours.sleep.quieten(&set.kin, number, rung);
            set.call_unaware(ours, number)?;
            room.collect(ours);
            return Ok(room.leave(set, ours));
        }
        let mut bed = ours.sleep.arm(&set.kin, number, deadline)?;
        room.collect(ours);
        // Collected twice, what is level-triggered would be reported twice.
        let collected = room.filled > 0;
        if collected {
            bed.until = Deadline::NOW;
        } else {
            bed.until = bed.until.or_after(limit);
        }
        let slept = match bed.counted {
            true => during(&set.kin.in_kernel, || room.sleep(&bed, mask)),
            false => room.sleep(&bed, mask),
        };
        ours.sleep.disarm(&set.kin, &bed, slept.unwrap_or(true));
        if set.is_familys() {
            // By the fork of another thread it may be one only now.
            family::attend(set);
        }
        set.call_unaware(ours, number)?;
        if !collected {
            room.collect(ours);
        }
        if room.filled == 0 {
            slept?;
        }
        if room.filled > 0 || deadline.passed() {
            return Ok(room.leave(set, ours));
        }
        limit = set.look_inside();
        set.settle_inside();
    }
}

/// Whether our part has something to report, with what the engine has said by now.
fn has_something(ours: &Ours) -> bool {
    session::pump();
    ours.ready.any_ready()
}

/// Which part of a set has reported something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Ours,
    Kernels,
}

/// The program's array of events, and how much of it is filled.
struct Room<'a> {
    number: c_int,
    set: &'a Set,
    events: *mut epoll_event,
    most: usize,
    filled: usize,
}

impl Room<'_> {
    /// Adds what our part has to report.
    fn collect(&mut self, ours: &Ours) {
        session::pump();
        loop {
            let (first, left) = (self.filled, self.most - self.filled);
            let mut end = first;
            let reported = ours.ready.collect(left, |event| {
                // SAFETY: `collect` reports at most `left` events, so this is within the array.
                unsafe {
                    self.events.add(end).write_unaligned(epoll_event {
                        events: event.readiness.0,
                        u64: event.data,
                    });
                }
                end += 1;
            });
            self.keep(reported, Part::Ours);
            // What is not told again makes room for others, and is not reported again.
            if reported == 0 || self.filled > first {
                return;
            }
        }
    }

    /// Waits for what the kernel's part has to report, as long as there is no part of ours. That part
    /// is there afterwards if another process that has the set has one.
    ///
    /// # Safety
    /// `mask` is null or points to a signal set.
    unsafe fn kernel_alone(
        &mut self,
        set: &Set,
        patience: Patience,
        mask: *const sigset_t,
    ) -> Result<(), Errno> {
        let Room {
            number,
            events,
            most,
            ..
        } = *self;
        self.unaware(set, false, |room| {
            // SAFETY: the program's own array and mask.
            let reported = unsafe { kernel_wait(number, events, most, patience, mask) }?;
            Ok(room.keep(reported, Part::Kernels))
        })
    }

    /// The same until `until`, for the sets inside this one.
    fn kernel_until(
        &mut self,
        set: &Set,
        until: Deadline,
        mask: *const sigset_t,
    ) -> Result<(), Errno> {
        self.unaware(set, false, |room| room.kernel(until, mask))
    }

    /// The caller waits as `wait` does, which tells whether others came out by that. Who makes a part of ours calls it.
    /// `is_familys`: it knows that the set is a family's, and hears no news.
    fn unaware(
        &mut self,
        set: &Set,
        is_familys: bool,
        wait: impl FnOnce(&mut Self) -> Result<bool, Errno>,
    ) -> Result<(), Errno> {
        set.enter();
        let rung = match set.has_ours() || set.is_familys() != is_familys {
            true => Ok(false),
            false => during(set, || wait(self)),
        };
        set.leave();
        if rung? && !set.put_out(self.number) {
            session::begin();
            let ours = set.ours(self.number)?;
            ours.sleep.quieten(&set.kin, self.number, true);
            set.call_unaware(ours, self.number)?;
        }
        Ok(())
    }

    /// The same in a set that other processes have, too: until one of them has put something there that
    /// makes a part of ours, or the set has something to report.
    fn beside_others(
        &mut self,
        set: &Set,
        deadline: Deadline,
        mask: *const sigset_t,
    ) -> Result<(), Errno> {
        let Some(news) = bell::news() else {
            return self.unaware(set, true, |room| room.kernel(deadline, mask));
        };
        let ask = |fd| pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut asked = [ask(self.number), ask(news)];
        set.unaware.enter();
        let slept = match set.has_ours() {
            true => Ok(0),
            false => {
                let left = deadline.left();
                let left = left.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
                let (at, count) = (asked.as_mut_ptr(), asked.len());
                // SAFETY: the array is whole; the mask is the program's; the time is a copy.
                let sleep = || unsafe { sleeping!(libc::SYS_ppoll, at, count, left, mask, 8usize) };
                during(&set.unaware, sleep)
            }
        };
        set.unaware.leave();
        slept?;
        let [programs, news] = asked.map(|it| it.revents != 0);
        if news {
            family::heard();
        }
        if programs && self.kernel(Deadline::NOW, core::ptr::null())? {
            set.put_out(self.number);
        }
        Ok(())
    }

    /// Sleeps as was made ready, and adds what the kernel's part has to report. True if there were events of a
    /// sleeper's.
    fn sleep(&mut self, bed: &Bed, mask: *const sigset_t) -> Result<bool, Errno> {
        let Some(beside) = bed.beside else {
            return self.kernel(bed.until, mask);
        };
        let mut found = [epoll_event { events: 0, u64: 0 }; 8];
        let (call, at, most) = (libc::SYS_epoll_pwait, found.as_mut_ptr(), found.len());
        let span = bed.until.milliseconds();
        // SAFETY: the array is whole; the mask is the program's.
        let reported = unsafe {
            if bed.until.is_now() {
                result(sys!(call, beside, at, most, span, mask, 8usize))
            } else {
                sleeping!(call, beside, at, most, span, mask, 8usize)
            }
        }?;
        let found = &found[..reported.min(most)];
        let any = |mark| found.iter().any(|event| event.u64 == mark);
        if any(NEWS) {
            family::heard();
        }
        let rung = any(PROGRAMS) && self.kernel(Deadline::NOW, core::ptr::null())?;
        Ok(any(MARK) || rung)
    }

    /// Adds what the kernel's part has to report, waiting for it until `deadline`. Events of a
    /// sleeper's are not for the program; true if there were any.
    fn kernel(&mut self, deadline: Deadline, mask: *const sigset_t) -> Result<bool, Errno> {
        let left = self.most - self.filled;
        if left == 0 {
            return Ok(false);
        }
        let (call, span) = (libc::SYS_epoll_pwait, deadline.milliseconds());
        let (set, most) = (self.number, left as c_int);
        // SAFETY: within the program's array; the mask is the program's.
        let reported = unsafe {
            let events = self.events.add(self.filled);
            if deadline.is_now() {
                result(sys!(call, set, events, most, span, mask, 8usize))
            } else {
                sleeping!(call, set, events, most, span, mask, 8usize)
            }
        }?;
        // A listener may be reported by both parts: each then has a client of its own waiting. Of a one-shot interest one
        // of them is told.
        Ok(self.keep(reported, Part::Kernels))
    }

    /// The caller goes, with what is in the array. If there is more, it is for another.
    fn leave(&self, set: &Set, ours: &Ours) -> usize {
        if self.filled > 0 {
            ours.sleep.pass_on(|| ours.ready.any_ready());
            set.settle();
        }
        self.filled
    }

    /// Of the events that were just `reported` by a part, keeps those that are the program's: no sleeper's, which only the
    /// kernel's has, and none that it was told of. True if there were others.
    fn keep(&mut self, reported: usize, by: Part) -> bool {
        let before = self.filled;
        for index in self.filled..self.filled + reported {
            // SAFETY: these are filled, and `self.filled` is never beyond `index`.
            unsafe {
                let mut event = self.events.add(index).read_unaligned();
                let told = match self.set.once.report(event.u64) {
                    Report::Ordinary => by == Part::Ours || event.u64 != MARK,
                    Report::Told(data) => {
                        event.u64 = data;
                        true
                    }
                    Report::NotAgain => false,
                };
                if told {
                    self.events.add(self.filled).write_unaligned(event);
                    self.filled += 1;
                }
            }
        }
        self.filled - before < reported
    }
}

/// The kernel's epoll_wait, for as long as the program wants.
///
/// # Safety
/// `events` points to room for `most` events; `mask` is null or points to a signal set.
unsafe fn kernel_wait(
    set: c_int,
    events: *mut epoll_event,
    most: usize,
    patience: Patience,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let most = most as c_int;
    // SAFETY: as the caller promises; the time is a copy.
    unsafe {
        match patience.in_milliseconds() {
            Some(span) => sleeping!(libc::SYS_epoll_pwait, set, events, most, span, mask, 8usize),
            None => {
                let span = patience.as_timespec();
                let span = span.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
                sleeping!(
                    libc::SYS_epoll_pwait2,
                    set,
                    events,
                    most,
                    span,
                    mask,
                    8usize
                )
            }
        }
    }
}
