//! For how much room of a connection those wait who sleep by a doorbell, or by nothing yet.
//!
//! Room comes with every acknowledgement, and most of it is worth nobody's wake-up: a sender whose link is the limit
//! sleeps until a third of its buffer is free, and on a slow link that takes a hundred acknowledgements. What is worth
//! it only the host knows, which may have chosen a buffer of its own, or waits until one send has come back. So it says
//! up to which byte of its own is to be acknowledged, in the word by which threads [sleep](crate::parked) on the
//! connection, as long as none does:
//!
//! ```text
//! 0            whoever waits is told of everything
//! 1, 2, 3      threads sleep by the word, or were woken
//! 4            nobody waits for room
//! bit 31 set   what is acknowledged concerns nobody until it reaches bits 0–30: a count of bytes modulo 2³¹
//! ```
//!
//! Everything else, data and ends, is told whatever is said here.
//!
//! # Why no wake-up is lost
//!
//! | host | engine |
//! | --- | --- |
//! | H1: [`say`]s for how much it waits | E1: publishes what is acknowledged |
//! | H2: `fence(SeqCst)` | E2: `fence(SeqCst)`, once for all that it has published |
//! | H3: looks for news once more, if that is more than it has said before | E3: rings, if that [concerns] anybody |
//!
//! If H2 comes before E2, E3 finds what H1 has said; otherwise H3 finds what E1 has published: the argument at
//! [`crate::armed`]. Where less is said than before, E3 rings by either word for whatever reaches what is said now. The
//! engine looks at the word for each acknowledgement that it tells of, so it finds the one that reaches the position,
//! and what is told at once is less than half of what the word counts. The test `loom` explores this code.
//!
//! Where so much was acknowledged, and the host has taken that in, it waits for less, or for what is further on, and E3
//! may find that already. So whoever takes in what others wait for tells them, whatever the engine does.
//!
//! A count that is out of reach is taken for one that is reached: who says nonsense is rung. An engine that does not
//! know of counts takes any for 0.
//!
//! A hostile side can lose the other's wake-ups, or wake it for nothing: that hurts its own connection alone.

use crate::sync::{AtomicU32, Ordering, fence};

pub(crate) const NOBODY: u32 = 0;
pub(crate) const PARKED: u32 = 1;
pub(crate) const WOKEN: u32 = 2;
pub(crate) const PARKED_FOR_URGENT: u32 = 3;
const CALM: u32 = 4;
const UNTIL: u32 = 1 << 31;

/// For what room somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// For none.
    Nothing,
    /// Until so many of the process's bytes are acknowledged.
    Until(u64),
    /// For whatever comes.
    Anything,
}

impl Awaits {
    fn word(self) -> u32 {
        match self {
            Self::Nothing => CALM,
            Self::Until(count) => UNTIL | count as u32,
            Self::Anything => NOBODY,
        }
    }
}

/// Says for how much somebody waits, if nobody sleeps by the word: whoever does says by that what he waits for. True:
/// that may be more than was said before, and what was published before this may have woken nobody. The caller looks for
/// news once more.
pub fn say(word: &AtomicU32, awaits: Awaits) -> bool {
    let (before, now) = (word.load(Ordering::Relaxed), awaits.word());
    if before == now {
        return false;
    }
    match before {
        // Whoever sleeps for all news has taken in what came before, or does after it has said so, and is woken for the
        // rest; it tells the others.
        PARKED => return false,
        // Who was woken may have done with what came before, and who sleeps for urgent news is not woken for room.
        WOKEN | PARKED_FOR_URGENT => return awaits != Awaits::Nothing,
        _ => {}
    }
    // Who has come in between says what he waits for, and who has gone leaves it at everything.
    let _ = word.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed);
    // Partner: the fence before `concerns`.
    fence(Ordering::SeqCst);
    match (before, now) {
        (CALM, _) => true,
        (_, CALM) => false,
        (before, _) if before & UNTIL == 0 => false,
        (_, NOBODY) => true,
        // To a lower count.
        _ => is_reached(before, now),
    }
}

/// Whether it concerns anybody that so much is acknowledged, if the word says this and nobody sleeps by it; `None`:
/// it is other news that can wait. A `fence(SeqCst)` stands between the publication and the look at the word.
pub fn concerns(word: u32, acked: Option<u64>) -> bool {
    match word {
        CALM => false,
        until if until & UNTIL != 0 => acked.is_some_and(|acked| is_reached(acked as u32, until)),
        _ => true,
    }
}

/// Whether `count` is no less than `until`, as far as 31 bits say.
fn is_reached(count: u32, until: u32) -> bool {
    count.wrapping_sub(until) & !UNTIL < UNTIL / 2
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn concerns_at(word: &AtomicU32, acked: u64) -> bool {
        concerns(word.load(Ordering::Relaxed), Some(acked))
    }

    #[test]
    fn what_is_acknowledged_concerns_nobody_before_the_count_is_reached() {
        let word = AtomicU32::new(NOBODY);
        assert!(concerns_at(&word, 1));
        say(&word, Awaits::Until(1000));
        assert!(!concerns_at(&word, 1) && !concerns_at(&word, 999));
        assert!(concerns_at(&word, 1000) && concerns_at(&word, 5000));
        assert!(!concerns(word.load(Ordering::Relaxed), None), "other news");
        say(&word, Awaits::Nothing);
        assert!(!concerns_at(&word, 5000));
        say(&word, Awaits::Anything);
        assert!(concerns_at(&word, 0));
    }

    #[test]
    fn streams_may_be_longer_than_the_word_counts() {
        let word = AtomicU32::new(NOBODY);
        for count in [1 << 31, (5 << 31) + 7, u64::MAX] {
            say(&word, Awaits::Until(count));
            let past = count.wrapping_add(100_000);
            assert!(!concerns_at(&word, count - 1) && !concerns_at(&word, count - 100_000));
            assert!(concerns_at(&word, count) && concerns_at(&word, past));
        }
    }

    #[test]
    fn who_waits_for_more_than_before_looks_once_more() {
        use Awaits::{Anything, Nothing, Until};
        let word = AtomicU32::new(NOBODY);
        for (awaits, more) in [
            (Anything, false),
            (Until(1000), false),
            (Until(2000), false),
            (Until(2000), false),
            (Until(1999), true),
            (Nothing, false),
            (Until(5000), true),
            (Anything, true),
            (Nothing, false),
            (Anything, true),
        ] {
            assert_eq!(say(&word, awaits), more, "{awaits:?}");
        }
    }

    #[test]
    fn nobody_speaks_for_those_who_sleep_by_the_word() {
        for (asleep, tells) in [(PARKED, true), (WOKEN, false), (PARKED_FOR_URGENT, false)] {
            let word = AtomicU32::new(asleep);
            for awaits in [Awaits::Nothing, Awaits::Until(5), Awaits::Anything] {
                assert_eq!(say(&word, awaits), !tells && awaits != Awaits::Nothing);
                assert_eq!(word.load(Ordering::Relaxed), asleep);
            }
        }
    }

    #[test]
    fn who_says_nonsense_is_rung_and_can_say_better() {
        for nonsense in [5, 77, UNTIL - 1] {
            let word = AtomicU32::new(nonsense);
            assert!(concerns_at(&word, 0));
            assert!(!say(&word, Awaits::Until(10)));
            assert!(!concerns_at(&word, 9));
        }
        // So far ahead that no send buffer is that large.
        let word = AtomicU32::new(NOBODY);
        say(&word, Awaits::Until((1 << 30) + 1));
        assert!(concerns_at(&word, 0));
    }
}
