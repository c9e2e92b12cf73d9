//! For how much room of a connection those wait who sleep on it, by whatever means.
//!
//! Room comes with every acknowledgement, and most of it is worth nobody's wake-up: a sender whose link is the limit
//! sleeps until a third of its buffer is free, and on a slow link that takes a hundred acknowledgements. What is worth
//! it only the host knows, which may have chosen a buffer of its own, or waits until one send has come back. So it says
//! up to which byte of its own is to be acknowledged, in the word by which threads [sleep](crate::parked) on the
//! connection:
//!
//! ```text
//! 0            whoever waits is told of everything
//! 1, 3         threads sleep by the word, and are woken for everything, or for what is urgent
//! 2            they were woken
//! 4            nobody waits for room
//! 5            threads sleep by the word, and nobody waits for room
//! bit 31 set   what is acknowledged concerns nobody until it reaches bits 0–30: a count of bytes modulo 2³¹
//! bit 30 set   and bit 31 not: threads sleep by the word, and it concerns nobody until it reaches bits 0–29
//! ```
//!
//! Everything else, data and ends, is told whatever is said here.
//!
//! Words that say both, 5 and those with bit 30, came with [a version](SLEEPERS_SAY_SINCE): an engine that does not know
//! them would ring, and wake nobody who sleeps by the word.
//!
//! # Why no wake-up is lost
//!
//! | host | engine |
//! | --- | --- |
//! | H1: [`say`]s for how much it waits | E1: publishes what is acknowledged |
//! | H2: `fence(SeqCst)` | E2: `fence(SeqCst)`, once for all that it has published |
//! | H3: looks for news once more, if that is more than it has said before | E3: wakes or rings, if that [concerns] anybody |
//!
//! If H2 comes before E2, E3 finds what H1 has said; otherwise H3 finds what E1 has published: the argument at
//! [`crate::armed`]. Where less is said than before, E3 wakes by either word for whatever reaches what is said now. The
//! engine looks at the word for each acknowledgement that it tells of, so it finds the one that reaches the position,
//! and what is told at once is less than what the word counts without [what is waited for](FURTHEST). The test `loom`
//! explores this code.
//!
//! Where so much was acknowledged, and the host has taken that in, it waits for less, or for what is further on, and E3
//! may find that already. So whoever takes in what others wait for tells them, whatever the engine does.
//!
//! A thread that goes to sleep by the word says first that it wants everything, or what is urgent if it does not wait for
//! room, looks once more, and says then for how much anybody waits. It says so under the lock under which whatever the
//! position follows from is changed, and so does whoever changes that; what others write into the word meanwhile,
//! without that lock, is never less than everything, but for what is urgent, which is noted as more when it is changed.
//! So the word is never behind the position, and where a change finds the word changed by another, whoever sleeps by it
//! is told of all, is awake, or says it anew himself.
//!
//! A count that is out of reach is taken for one that is reached: who says nonsense is rung. An engine that does not
//! know of counts takes any for 0.
//!
//! A hostile side can lose the other's wake-ups, or wake it for nothing: that hurts its own connection alone.

use crate::sync::{AtomicU32, Ordering, fence};

/// The version of the protocol with which came words that say for how much those wait who sleep by them.
pub const SLEEPERS_SAY_SINCE: u32 = 17;

pub(crate) const NOBODY: u32 = 0;
pub(crate) const PARKED: u32 = 1;
pub(crate) const WOKEN: u32 = 2;
pub(crate) const PARKED_FOR_URGENT: u32 = 3;
const CALM: u32 = 4;
const PARKED_CALM: u32 = 5;
const UNTIL: u32 = 1 << 31;
const PARKED_UNTIL: u32 = 1 << 30;

/// How many bytes beyond what is acknowledged a host waits for at most, since there are such words. Whoever waits for
/// more looks on the way: so a count that is reached can be told from one that is not, however long a stream is.
pub const FURTHEST: u64 = 1 << 28;

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
    /// The word where nobody sleeps by it.
    fn awake(self) -> u32 {
        match self {
            Self::Nothing => CALM,
            Self::Until(count) => UNTIL | count as u32,
            Self::Anything => NOBODY,
        }
    }

    /// The word where threads do.
    fn asleep(self) -> u32 {
        match self {
            Self::Nothing => PARKED_CALM,
            Self::Until(count) => PARKED_UNTIL | (count as u32 & (PARKED_UNTIL - 1)),
            Self::Anything => PARKED,
        }
    }
}

/// Whether threads sleep by a word that says this, or are about to.
pub(crate) fn is_asleep(word: u32) -> bool {
    matches!(word, PARKED | PARKED_FOR_URGENT | PARKED_CALM)
        || word & (UNTIL | PARKED_UNTIL) == PARKED_UNTIL
}

/// Says for how much somebody waits, whether or not threads sleep by the word: to an engine that has
/// [words](SLEEPERS_SAY_SINCE) for that. True: that may be more than was said before, and what was published before this
/// may have woken nobody. The caller looks for news once more, and has those look who sleep by the word.
pub fn say(word: &AtomicU32, awaits: Awaits) -> bool {
    let before = word.load(Ordering::Relaxed);
    match is_asleep(before) {
        true => change(word, before, awaits.asleep()),
        false => say_awake(word, before, awaits),
    }
}

/// The same to one that has not: if nobody sleeps by the word. Whoever does says by that what he waits for.
pub fn say_if_awake(word: &AtomicU32, awaits: Awaits) -> bool {
    match word.load(Ordering::Relaxed) {
        // Whoever sleeps for all news has taken in what came before, or does after it has said so, and is woken for the
        // rest; it tells the others.
        PARKED => false,
        // Who sleeps for urgent news is not woken for room.
        PARKED_FOR_URGENT => awaits != Awaits::Nothing,
        before => say_awake(word, before, awaits),
    }
}

fn say_awake(word: &AtomicU32, before: u32, awaits: Awaits) -> bool {
    match before {
        // Who was woken may have done with what came before.
        WOKEN => awaits != Awaits::Nothing,
        before => change(word, before, awaits.awake()),
    }
}

/// Whether that is more.
fn change(word: &AtomicU32, before: u32, now: u32) -> bool {
    if before == now {
        return false;
    }
    // Whoever has gone in between has left it at everything, whoever has come says this anew, and whoever was woken is
    // awake.
    let _ = word.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed);
    // Partner: the fence before `concerns`.
    fence(Ordering::SeqCst);
    match (before, now) {
        (CALM | PARKED_CALM, _) => true,
        (_, CALM | PARKED_CALM) => false,
        // Of what is not urgent it is woken for what the engine takes for much.
        (PARKED_FOR_URGENT, _) => true,
        (everything, _) if !says_count(everything) => false,
        (_, everything) if !says_count(everything) => true,
        // To a lower count.
        _ => is_reached(before, now),
    }
}

/// Whether it concerns anybody that so much is acknowledged, if the word says this; `None`: it is other news that can
/// wait. A `fence(SeqCst)` stands between the publication and the look at the word.
pub fn concerns(word: u32, acked: Option<u64>) -> bool {
    match word {
        CALM | PARKED_CALM => false,
        until if says_count(until) => acked.is_some_and(|acked| is_reached(acked as u32, until)),
        _ => true,
    }
}

/// Whether a word says a count.
fn says_count(word: u32) -> bool {
    word & (UNTIL | PARKED_UNTIL) != 0
}

/// Whether `count` is no less than a word that says `until`, as far as its bits say.
fn is_reached(count: u32, until: u32) -> bool {
    let (modulus, furthest) = match until & UNTIL {
        0 => (PARKED_UNTIL, FURTHEST as u32),
        // Before there was such a bound, programs said whatever they waited for.
        _ => (UNTIL, UNTIL / 2),
    };
    let ahead = until.wrapping_sub(count) & (modulus - 1);
    !(1..=furthest).contains(&ahead)
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
    fn nobody_speaks_for_those_who_sleep_by_the_word_to_an_older_engine() {
        for (asleep, tells) in [(PARKED, true), (WOKEN, false), (PARKED_FOR_URGENT, false)] {
            let word = AtomicU32::new(asleep);
            for awaits in [Awaits::Nothing, Awaits::Until(5), Awaits::Anything] {
                assert_eq!(
                    say_if_awake(&word, awaits),
                    !tells && awaits != Awaits::Nothing
                );
                assert_eq!(word.load(Ordering::Relaxed), asleep);
            }
        }
    }

    #[test]
    fn who_sleeps_by_the_word_goes_on_to_whatever_is_said_of_room() {
        use Awaits::{Anything, Nothing, Until};
        let word = AtomicU32::new(PARKED);
        for (awaits, more, concerned) in [
            (Until(1000), false, [false, true, true]),
            (Until(2000), false, [false, false, true]),
            (Until(1000), true, [false, true, true]),
            (Nothing, false, [false; 3]),
            (Until(1000), true, [false, true, true]),
            (Anything, true, [true; 3]),
            (Nothing, false, [false; 3]),
            (Anything, true, [true; 3]),
        ] {
            assert_eq!(say(&word, awaits), more, "{awaits:?}");
            assert!(is_asleep(word.load(Ordering::Relaxed)), "{awaits:?}");
            let found = [999, 1000, 2000].map(|acked| concerns_at(&word, acked));
            assert_eq!(found, concerned, "{awaits:?}");
            let other = concerns(word.load(Ordering::Relaxed), None);
            assert_eq!(other, awaits == Anything, "other news");
        }
        word.store(PARKED_FOR_URGENT, Ordering::Relaxed);
        assert!(say(&word, Until(1000)), "it may have been published before");
        // Who was woken is awake, and looks.
        word.store(WOKEN, Ordering::Relaxed);
        assert!(say(&word, Until(1000)) && !say(&word, Nothing));
        assert_eq!(word.load(Ordering::Relaxed), WOKEN);
    }

    #[test]
    fn who_sleeps_by_the_word_may_send_more_than_it_counts() {
        let word = AtomicU32::new(PARKED);
        for count in [1 << 30, (5 << 30) + 7, 1 << 31, u64::MAX] {
            say(&word, Awaits::Until(count));
            assert!(is_asleep(word.load(Ordering::Relaxed)));
            for before in [1, 100_000, FURTHEST] {
                assert!(
                    !concerns_at(&word, count - before),
                    "{before} before {count}"
                );
            }
            // However much is told at once.
            for past in [0, 100_000, 1 << 29, (1 << 30) - FURTHEST - 1] {
                let acked = count.wrapping_add(past);
                assert!(concerns_at(&word, acked), "{past} past {count}");
            }
        }
        // And who is further ahead than a program may be looks too often, and not too seldom.
        say(&word, Awaits::Until((1 << 40) + FURTHEST + 1));
        assert!(concerns_at(&word, 1 << 40));
    }

    #[test]
    fn who_sleeps_by_the_word_and_lowers_it_by_as_much_as_may_be_looks_once_more() {
        let from = (7 << 30) + 5;
        for (before, now, more) in [
            (from + FURTHEST, from, true),
            (from + 1, from, true),
            (from, from + 1, false),
            (from, from + FURTHEST, false),
        ] {
            let word = AtomicU32::new(PARKED);
            say(&word, Awaits::Until(before));
            assert_eq!(say(&word, Awaits::Until(now)), more, "{before} to {now}");
        }
    }

    #[test]
    fn a_count_of_those_who_sleep_otherwise_is_never_one_of_those_who_sleep_by_the_word() {
        let word = AtomicU32::new(NOBODY);
        for count in [0, 1 << 30, (1 << 30) + 4, u64::MAX] {
            say(&word, Awaits::Until(count));
            assert!(!is_asleep(word.load(Ordering::Relaxed)), "{count}");
        }
    }

    #[test]
    fn who_says_nonsense_is_rung_and_can_say_better() {
        for nonsense in [6, 77, PARKED_UNTIL - 1] {
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
