//! Sleeping, for a thread that blocks on descriptors of both kinds.

use core::ptr::{null, null_mut};
use core::sync::atomic::AtomicU32;
use core::time::Duration;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, MutexGuard};

use host::{Sleeper, Watchable};
use rustix::event::PollFd;
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::engine::session;
use crate::kernel::deadline::Deadline;
use crate::kernel::lock::lock;
use crate::thread::inside::sleeping;

/// Sleepers that no thread uses at the moment.
static IDLE: Mutex<Vec<Sleeper>> = Mutex::new(Vec::new());

/// What a thread sleeps by that waits for several things. See [`Sleeper`] for what is to be done in which
/// order.
pub struct Sleep(Option<Sleeper>);

impl Sleep {
    /// One, armed.
    pub fn begin() -> Result<Self, Errno> {
        let idle = lock(&IDLE).pop();
        let mut sleeper = match idle {
            Some(sleeper) => sleeper,
            None => session::current()
                .ok_or(Errno::NOMEM)?
                .sleeper_at_any_rate(),
        };
        sleeper.line_up_with_others();
        sleeper.arm();
        Ok(Self(Some(sleeper)))
    }

    /// Arms `sleep`, which is made now if it is not there: the caller says what it waits for, and looks at
    /// that once more.
    pub fn begin_again(sleep: &mut Option<Self>) -> Result<&mut Self, Errno> {
        match sleep {
            Some(sleep) => {
                sleep.0.iter_mut().for_each(Sleeper::arm);
                Ok(sleep)
            }
            None => Ok(sleep.insert(Self::begin()?)),
        }
    }

    /// What happens to this ends the sleep.
    pub fn hears_of(&self, one: &impl Watchable) {
        if let Some(sleeper) = &self.0 {
            sleeper.hears_of(one);
        }
    }

    /// The inverse of [`hears_of`](Self::hears_of), before it rests.
    pub fn hears_no_more_of(&self, one: &impl Watchable) {
        if let Some(sleeper) = &self.0 {
            sleeper.hears_no_more_of(one);
        }
    }

    /// The descriptors to wait for, for reading.
    pub fn fds(&self) -> impl Iterator<Item = RawFd> {
        self.0
            .iter()
            .flat_map(|sleeper| sleeper.fds().map(|fd| fd.as_raw_fd()))
    }

    /// `deadline`, or the time until which this sleep may last, if that comes first.
    pub fn bound(&self, deadline: Deadline) -> Deadline {
        deadline.or_after(self.0.as_ref().and_then(Sleeper::limit))
    }

    /// Disarms; `rung` if one of the descriptors was found readable, or that is not known.
    pub fn rest(&mut self, rung: bool) {
        if let Some(sleeper) = &mut self.0 {
            sleeper.disarm(rung);
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(mut sleeper) = self.0.take() {
            // If it was slept by, it rests already.
            sleeper.disarm(false);
            sleeper.step_out();
            lock(&IDLE).push(sleeper);
        }
    }
}

/// Keeps other threads from the list of sleepers, for the time of a fork.
pub struct Quiet(#[expect(dead_code, reason = "held, not used")] MutexGuard<'static, Vec<Sleeper>>);

/// See [`Quiet`].
pub fn quiet() -> Quiet {
    Quiet(lock(&IDLE))
}

/// In the child of a fork: the sleepers are the parent's.
pub fn forget_all() {
    lock(&IDLE).clear();
}

/// Sleeps for `span`, or until a signal is handled.
pub fn pause(span: Duration) -> Result<(), Errno> {
    let span = libc::timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    };
    // SAFETY: sleeps.
    unsafe { sleeping!(libc::SYS_nanosleep, &raw const span, 0usize) }.map(drop)
}

/// poll(2), for the [host](host::sleep_by).
pub fn poll(fds: &mut [PollFd<'_>], limit: Option<&Timespec>) -> Result<usize, Errno> {
    // The kernel's layout, as rustix has it.
    const { assert!(size_of::<PollFd<'_>>() == size_of::<libc::pollfd>()) };
    // It is told how long is left.
    let mut limit = limit.copied();
    let limit = limit.as_mut().map_or(null_mut(), core::ptr::from_mut);
    // SAFETY: the array is whole, and the time a copy.
    unsafe {
        sleeping!(
            libc::SYS_ppoll,
            fds.as_mut_ptr(),
            fds.len(),
            limit,
            0usize,
            8usize
        )
    }
}

/// FUTEX_WAIT between processes, for the [host](host::sleep_by).
pub fn futex(word: &AtomicU32, asleep: u32, limit: Option<&Timespec>) -> Result<(), Errno> {
    let limit = limit.map_or(null(), core::ptr::from_ref);
    // SAFETY: a word, and a time or none.
    let slept = unsafe {
        sleeping!(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            asleep,
            limit
        )
    };
    slept.map(drop)
}
