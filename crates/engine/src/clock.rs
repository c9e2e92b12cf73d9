//! Time as the worker sees it: nanoseconds since it started, and nanoseconds that it had a core for.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};
use tcp::Instant;

/// A monotonic clock that began at zero; by default when the machine did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    start: u64,
    /// Where it reads what time it is; the machine's clock if nowhere.
    told: Option<&'static AtomicU64>,
    /// How much later it is after each look there.
    step: u64,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        Self::default().again()
    }

    /// Says what is written here, in nanoseconds: for who drives turns himself, in a time of his own.
    pub const fn told(nanoseconds: &'static AtomicU64) -> Self {
        Self::told_in_steps(nanoseconds, 0)
    }

    /// The same, and each look takes so long: who looks again and again finds that time passes.
    pub const fn told_in_steps(nanoseconds: &'static AtomicU64, step: u64) -> Self {
        Self {
            start: 0,
            told: Some(nanoseconds),
            step,
        }
    }

    /// One that begins now and goes as this does.
    #[inline]
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            start: self.raw(),
            ..*self
        }
    }

    /// One that began at this time of this one, without a look.
    #[must_use]
    pub fn since(&self, at: Instant) -> Self {
        Self {
            start: self.start.saturating_add(at.as_nanos()),
            ..*self
        }
    }

    /// When it began, by the machine's monotonic clock, in nanoseconds.
    pub fn began_ns(&self) -> u64 {
        self.start
    }

    /// Now.
    #[inline]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.raw().saturating_sub(self.start))
    }

    fn raw(&self) -> u64 {
        match self.told {
            // It stands for no other memory.
            Some(nanoseconds) => nanoseconds.fetch_add(self.step, Ordering::Relaxed),
            None => nanoseconds(ClockId::Monotonic),
        }
    }
}

/// How long the thread that looks has had a core for, piece by piece, if that is wanted at all: the clock of
/// a thread takes a system call.
#[derive(Debug, Default)]
pub struct CoreTime {
    /// What its clock said last; `None` if nobody wants to know.
    last: Option<u64>,
    /// Nanoseconds that were counted and not taken.
    counted: u64,
}

impl CoreTime {
    /// Begins now, for who wants to know. (One by [`default`](Self::default) never looks.)
    pub fn start() -> Self {
        Self {
            last: Some(nanoseconds(ClockId::ThreadCPUTime)),
            counted: 0,
        }
    }

    /// Nanoseconds since the last look, which do not count.
    #[inline]
    pub fn skip(&mut self) -> Option<u64> {
        let last = self.last.as_mut()?;
        let now = nanoseconds(ClockId::ThreadCPUTime);
        let spent = now.saturating_sub(*last);
        *last = now;
        Some(spent)
    }

    /// Counts the nanoseconds since the last look, and says how many they are.
    #[inline]
    pub fn count(&mut self) -> Option<u64> {
        let spent = self.skip()?;
        self.counted += spent;
        Some(spent)
    }

    /// Counts, and takes the nanoseconds that were counted since this was called last.
    #[inline]
    pub fn take(&mut self) -> Option<u64> {
        let rest = self.skip()?;
        Some(core::mem::take(&mut self.counted) + rest)
    }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    // These clocks begin at boot, or with their thread, and are never negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_clock_that_begins_in_the_past_has_passed_that() {
        static TIME: AtomicU64 = AtomicU64::new(1_000);
        let clock = Clock::told(&TIME).again();
        TIME.store(1_500, Ordering::Relaxed);
        let at = clock.now();
        TIME.store(1_800, Ordering::Relaxed);
        assert_eq!(clock.since(at).now().as_nanos(), 300);
        let steps = Clock::told_in_steps(&TIME, 7).since(Instant::from_nanos(1_800));
        assert_eq!(TIME.load(Ordering::Relaxed), 1_800, "nobody has looked");
        assert_eq!(steps.now().as_nanos(), 0);
        assert_eq!(steps.now().as_nanos(), 7);
    }

    #[test]
    fn only_time_on_a_core_counts_and_only_if_it_is_wanted() {
        let (clock, mut wanted) = (Clock::start(), CoreTime::start());
        std::thread::sleep(Duration::from_millis(50));
        let asleep = wanted.take().expect("wanted");
        let passed = clock.now().as_nanos();
        assert!(asleep < passed - 40_000_000, "{asleep} ns of {passed}");
        let (mut skipped, mut taken) = (0, 0);
        while taken < 1_000_000 {
            for _ in 0..100 {
                wanted.count();
            }
            let counted = wanted.counted;
            skipped += wanted.skip().expect("wanted");
            assert_eq!(wanted.counted, counted);
            let all = wanted.take().expect("wanted");
            assert!(all >= counted && wanted.counted == 0);
            taken += all;
        }
        assert!(skipped > 0);
        let mut unwanted = CoreTime::default();
        unwanted.count();
        assert_eq!((unwanted.skip(), unwanted.take()), (None, None));
    }
}
