//! What a thread does before it sleeps: it looks whether the engine has news, and leaves its core to
//! whoever else wants it meanwhile. To be woken costs some microseconds on the same core, and tens from
//! another. How long it looks is learnt from what past looks and sleeps were worth, or said by the
//! [`Profile`] that the process was given.

use std::sync::atomic::{AtomicBool, Ordering};

use queue_pair::{Crowd, Odds, Profile, Regularity};

use super::Attachment;
use super::connection::Connection;
use crate::clock::monotonic_ns;

/// How often a thread yields its core to an engine that is awake. On a core that both share, one yield
/// lets the engine do all that it has; on another one, each is a look.
const YIELDS: u32 = 4;
/// For how many nanoseconds it looks where news has come that soon nearly every time. A round trip of two
/// wake-ups across cores took 60 µs on two virtual cores.
const LONG_NS: u64 = 100_000;
/// The same where latency is all that counts.
const LONGEST_NS: u64 = 1_000_000;
/// For so many nanoseconds at a time where there is something beside the engine to look at.
const PIECE_NS: u64 = 20_000;
/// A yield that took so many nanoseconds let somebody else run.
const SHARED_NS: u64 = 1_000;

/// What is known of waiting for the engine.
pub(super) struct Hesitation {
    /// How this process was told to wait, if it was.
    pub(super) wanted: Option<Profile>,
    /// Who else is on the cores of its threads.
    crowd: Crowd,
    /// Whether there was news when it looked.
    answers: Odds,
    /// Whether news comes within a long look.
    soon: Regularity,
    /// It may not yield: a filter of system calls may not let that pass.
    pub(super) never: AtomicBool,
}

/// A wait, and the look that it began with.
pub(crate) struct Hesitated {
    /// Nanoseconds of the monotonic clock.
    begun: u64,
    /// There were news, of which it is not known yet whether they are of use.
    has_news: bool,
    /// Until when it may look on, nanoseconds of the monotonic clock.
    looks_until: Option<u64>,
}

impl Hesitation {
    pub(super) fn new() -> Self {
        Self {
            wanted: Profile::of_environment(),
            crowd: Crowd::default(),
            answers: Odds::default(),
            soon: Regularity::default(),
            never: AtomicBool::new(false),
        }
    }
}

impl<C: Connection<Attachment<C>>> Attachment<C> {
    /// Looks for news for a time that is worth it. Pump and look afterwards. What comes back, if anything does, is
    /// for [`has_looked`](Self::has_looked) and [`has_waited`](Self::has_waited).
    pub(crate) fn hesitate(&self) -> Option<Hesitated> {
        let mut looked = self.hesitate_beside()?;
        while !self.has_news() && self.looks_on(&mut looked) {}
        Some(looked)
    }

    /// The same for a thread that waits for something of the kernel's, too: of a look that is for longer than that may wait
    /// only the beginning. Others [follow](Self::looks_on), and between them it looks at the rest.
    pub(crate) fn hesitate_beside(&self) -> Option<Hesitated> {
        if self.is_parents() || self.has_news() {
            return None;
        }
        let begun = monotonic_ns();
        let mut has_news = false;
        let mut looks_until = None;
        let Hesitation {
            answers,
            soon,
            wanted,
            never,
            ..
        } = &self.hesitation;
        if never.load(Ordering::Relaxed) {
            return None;
        }
        match wanted {
            Some(Profile::Efficient) => return None,
            Some(Profile::Latency) => {
                let found = self.look(u32::MAX, PIECE_NS, u32::MAX);
                looks_until = found.map(|_| begun.saturating_add(LONGEST_NS));
            }
            None | Some(Profile::Balanced) => {
                let long = soon.is_expected();
                // An engine that sleeps has nothing to say soon, unless there always is something.
                let tries = (long || !self.engine.any_asleep()) && answers.are_good();
                let found = match (tries, long) {
                    (true, true) => self.look(u32::MAX, LONG_NS, YIELDS),
                    (true, false) => self.look(YIELDS, LONG_NS, YIELDS),
                    (false, _) => None,
                };
                has_news = found == Some(true);
                if found == Some(false) {
                    answers.failed();
                }
            }
        }
        Some(Hesitated {
            begun,
            has_news,
            looks_until,
        })
    }

    /// Looks on for a moment, if it is still worth it. Pump and look afterwards.
    pub(crate) fn looks_on(&self, looked: &mut Hesitated) -> bool {
        let Some(until) = looked.looks_until else {
            return false;
        };
        let left = until.saturating_sub(monotonic_ns());
        // Where strangers have the core nobody looks.
        if left == 0 || self.look(u32::MAX, PIECE_NS.min(left), u32::MAX).is_none() {
            looked.looks_until = None;
        }
        looked.looks_until.is_some()
    }

    /// What came of a look: whether the thread had something to do by what it found. News alone are not worth a
    /// look: of what was acknowledged, say, nobody is woken.
    pub(crate) fn has_looked(&self, looked: &mut Hesitated, is_of_use: bool) {
        let answers = &self.hesitation.answers;
        match (std::mem::take(&mut looked.has_news), is_of_use) {
            (true, true) => answers.paid(),
            (true, false) => answers.failed(),
            (false, _) => {}
        }
    }

    /// A thread that waited for news has had some, or does not wait any longer: how long that took is learnt from.
    pub(crate) fn has_waited(&self, Hesitated { begun, .. }: Hesitated) {
        let waited = monotonic_ns().saturating_sub(begun);
        self.hesitation.soon.came(waited <= LONG_NS);
    }

    /// Yields, at most so many times, for so many nanoseconds, and until somebody else was let run so
    /// many times. Whether there was news; `None`: it is not to yield here.
    fn look(&self, yields: u32, limit_ns: u64, shared: u32) -> Option<bool> {
        let begun = monotonic_ns();
        let mut before = begun;
        let mut left = shared;
        if self.hesitation.crowd.is_met(begun) {
            return None;
        }
        for _ in 0..yields {
            rustix::thread::sched_yield();
            let after = monotonic_ns();
            self.hesitation.crowd.yielded(before, after);
            // Whoever is never told to sleep may have been moved all the same.
            self.tell_core();
            if self.has_news() {
                return Some(true);
            }
            // What a stranger did with the core says nothing of the engine.
            if self.hesitation.crowd.is_met(after) {
                return None;
            }
            left -= u32::from(after.saturating_sub(before) >= SHARED_NS);
            let asleep = yields != u32::MAX && self.engine.any_asleep();
            if asleep || left == 0 || after.saturating_sub(begun) >= limit_ns {
                break;
            }
            before = after;
        }
        Some(false)
    }
}
