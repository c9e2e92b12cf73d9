//! Whether what costs a little and may spare much is worth trying, learnt from how it went: to yield the
//! core to the other side before one sleeps, to look for work for a moment more.
//! [`Odds`] are for what is done often, [`Regularity`] for what may keep a core busy.

use crate::sync::{AtomicU32, Ordering};

/// The score of what always pays.
const MOST: u32 = 16;
/// It begins here: nothing is known.
const BEGIN: u32 = 8;
/// With less it is not tried.
const WORTH: u32 = 4;
/// What a success is worth, in failures: what pays once in three times is tried.
const SUCCESS: u32 = 2;
/// What is not worth trying is tried every so many times, since it may be by now.
const PROBE: u32 = 32;

/// How often something has paid lately. Threads may share it: what one of them sees late costs a
/// trial more or less.
#[derive(Debug)]
pub struct Odds {
    score: AtomicU32,
    /// How often it was not tried since it was last.
    passed_over: AtomicU32,
}

impl Default for Odds {
    fn default() -> Self {
        Self {
            score: AtomicU32::new(BEGIN),
            passed_over: AtomicU32::new(0),
        }
    }
}

impl Odds {
    /// Whether to try. Whoever does says how it went, by [`paid`](Self::paid) or
    /// [`failed`](Self::failed).
    pub fn are_good(&self) -> bool {
        // Relaxed, here and below: nothing else is said by these numbers.
        if self.score.load(Ordering::Relaxed) >= WORTH {
            return true;
        }
        let passed_over = self.passed_over.load(Ordering::Relaxed) + 1;
        let probes = passed_over >= PROBE;
        let left = if probes { 0 } else { passed_over };
        self.passed_over.store(left, Ordering::Relaxed);
        probes
    }

    /// It was worth it.
    pub fn paid(&self) {
        let score = self.score.load(Ordering::Relaxed);
        let better = score.saturating_add(SUCCESS).min(MOST);
        if better != score {
            self.score.store(better, Ordering::Relaxed);
        }
    }

    /// It was for nothing.
    pub fn failed(&self) {
        let score = self.score.load(Ordering::Relaxed);
        if score > 0 {
            self.score.store(score - 1, Ordering::Relaxed);
        }
    }
}

/// One that came late counts as so many that came soon.
const LATE: u32 = 16;
/// After so many that came soon the next is expected soon.
const EXPECTED: u32 = 16;
/// The most that is remembered.
const SURE: u32 = 32;

/// Whether what is waited for comes soon nearly every time, so that it is worth being awake for: as from
/// one client that waits for each answer, and not as from many who come by chance.
#[derive(Debug, Default)]
pub struct Regularity {
    score: AtomicU32,
}

impl Regularity {
    /// What was waited for came, soon or late.
    pub fn came(&self, soon: bool) {
        // Relaxed: nothing else is said by it, and what another thread writes at once is lost.
        let score = self.score.load(Ordering::Relaxed);
        let new = if soon {
            score.saturating_add(1).min(SURE)
        } else {
            score.saturating_sub(LATE)
        };
        if new != score {
            self.score.store(new, Ordering::Relaxed);
        }
    }

    /// Whether the next is expected soon.
    pub fn is_expected(&self) -> bool {
        self.score.load(Ordering::Relaxed) >= EXPECTED
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Tries `times`, of which each `pays_each`th pays; how often it was tried.
    fn trials(odds: &Odds, times: u32, pays_each: u32) -> u32 {
        let mut tried = 0;
        for _ in 0..times {
            if odds.are_good() {
                tried += 1;
                if tried % pays_each == 0 {
                    odds.paid();
                } else {
                    odds.failed();
                }
            }
        }
        tried
    }

    #[test]
    fn what_pays_is_tried_always_and_what_never_pays_now_and_then() {
        assert_eq!(trials(&Odds::default(), 1_000, 1), 1_000);
        assert_eq!(trials(&Odds::default(), 1_000, 2), 1_000);
        let tried = trials(&Odds::default(), 3_200, u32::MAX);
        let first = BEGIN - WORTH + 1;
        assert!((first + 99..=first + 100).contains(&tried), "{tried}");
    }

    #[test]
    fn what_comes_soon_nearly_every_time_is_expected() {
        let regularity = Regularity::default();
        for _ in 1..EXPECTED {
            regularity.came(true);
            assert!(!regularity.is_expected(), "not at once");
        }
        let mut expected = 0;
        for each in 0..10_000 {
            regularity.came(each % 40 != 39);
            expected += u32::from(regularity.is_expected());
        }
        assert!(expected > 9_000, "one of forty late: {expected}");
        let mut expected = 0;
        for each in 0..10_000 {
            regularity.came(each % 10 != 9);
            expected += u32::from(regularity.is_expected());
        }
        assert!(expected < 100, "one of ten late: {expected}");
    }

    #[test]
    fn what_pays_seldom_is_tried_seldom() {
        let tried = trials(&Odds::default(), 10_000, 6);
        assert!(tried < 1_000, "{tried}");
    }

    #[test]
    fn what_begins_to_pay_is_tried_again_soon() {
        let odds = Odds::default();
        trials(&odds, 1_000, u32::MAX);
        trials(&odds, 2 * PROBE, 1);
        assert_eq!(trials(&odds, 100, 1), 100);
        trials(&odds, 100, 1);
        let tried = trials(&odds, 100, u32::MAX);
        assert!(tried < MOST + 5, "and it ends as soon: {tried}");
    }
}
