//! By which doorbell a process hears of a connection, where it has several.
//!
//! A server with a thread for each epoll set has a doorbell for each, and all of them are armed while it
//! waits. The word of a connection names the bell of the set that it is in, and the engine rings no other
//! for its news. A word that names none means all that are armed: so it is wherever more than one wait. A
//! connection for which nobody has waited yet, because it lies in a listener's queue or on its way from one
//! thread to another, has [`NOBODY`].
//!
//! The host writes the word, and the engine reads it after it has published, behind the fence that stands
//! before [`parked::wake`](crate::parked::wake). Whoever begins to wait where another bell was named says so
//! first, and looks for news once more: that no wake-up is lost by this is the argument at [`crate::armed`].
//!
//! A hostile host that names a wrong bell does not hear of its own connection.

use core::sync::atomic::{AtomicU32, Ordering, fence};

/// All bells.
pub const ALL: u64 = u64::MAX;

/// In a word: nobody waits for news of the connection, and whoever begins to looks for them.
const NOBODY: u32 = u64::BITS + 1;

/// Nobody waits for the connection yet.
pub fn name_nobody(word: &AtomicU32) {
    word.store(NOBODY, Ordering::Relaxed);
}

/// From now on the bell with this number (below 64) is rung for the connection; all, if there is no number.
pub fn name(word: &AtomicU32, bell: Option<u32>) {
    word.store(bell.map_or(0, |bell| bell + 1), Ordering::Relaxed);
    // Partner: the fence before `parked::wake`.
    fence(Ordering::SeqCst);
}

/// The bells that are rung for the connection, one bit each.
pub fn of(word: &AtomicU32) -> u64 {
    match word.load(Ordering::Relaxed) {
        named @ 1..=u64::BITS => 1 << (named - 1),
        NOBODY => 0,
        _ => ALL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bell_is_rung_where_one_is_named_and_otherwise_all() {
        let word = AtomicU32::new(0);
        assert_eq!(of(&word), ALL);
        for bell in [0, 5, 63] {
            name(&word, Some(bell));
            assert_eq!(of(&word), 1 << bell);
        }
        name(&word, None);
        assert_eq!(of(&word), ALL);
    }

    #[test]
    fn where_nobody_waits_none_is_rung_until_somebody_does() {
        let word = AtomicU32::new(0);
        name_nobody(&word);
        assert_eq!(of(&word), 0);
        name(&word, None);
        assert_eq!(of(&word), ALL);
    }

    #[test]
    fn of_what_makes_no_sense_all_are_rung() {
        for word in [66, u32::MAX] {
            assert_eq!(of(&AtomicU32::new(word)), ALL);
        }
    }
}
