//! Positions: how far a process has read a connection, where the engine can take reading away.
//!
//! After a fork several processes have one connection, and any of them may read at any time, sleep,
//! be stopped or die. So the engine pushes what arrives to one of them, the *reader*, under a
//! numbered *grant*, and can end the grant at any moment without an answer from anyone. What decides
//! which bytes the reader has read is one word for each connection, in the reader's own region:
//!
//! ```text
//! bits 0–47  where the next byte to be read is in the stream, modulo 2⁴⁸; of an offer, the generation
//!            of the connection
//! bits 48–61 the number of the grant
//! bit 62     offered: nobody has accepted the connection yet
//! bit 63     revoked: the grant is over
//! ```
//!
//! # Why no byte is read twice or by nobody
//!
//! | reader | engine |
//! | --- | --- |
//! | R1: copies the next bytes out | E1: sets *revoked*, and sees the word as it was |
//! | R2: moves the position on, if grant and position are as it knows them | E2: uses the memory of what lies behind the position again |
//!
//! R2 and E1 are read-modify-writes of one word, so one comes first. If it is R2, the engine sees the
//! new position and gives the bytes to nobody else; R1 was before R2 (release) and so before E2
//! (acquire). If it is E1, R2 fails, and what R1 has copied, which E2 may have overwritten by then, is
//! thrown away: the bytes go to the next reader. A reader that is stopped or killed between R1 and R2
//! has not read; one that is killed after R2 has, as in the kernel.
//!
//! Accepting a connection that the engine has *offered* works alike: the process clears the bit, or
//! finds that the engine has taken the offer back. An offer names the generation, since a process may
//! look at it long after: by then the connection can have been taken back, served by another process
//! and be over, and its place be that of a new one, which is offered under the same number of a grant.
//! Reading begins at 0: nobody has read what nobody has accepted.
//!
//! A hostile host can write what it likes: the engine believes a position only between what it knows
//! was read and what it has pushed, so the host can only claim to have read what it was given.

use crate::sync::{AtomicU64, Ordering};

const OFFSET_BITS: u32 = 48;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const OFFERED: u64 = 1 << 62;
const REVOKED: u64 = 1 << 63;

/// Grants are numbered modulo this.
pub const GRANTS: u16 = 1 << 14;

/// What a position word said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    word: u64,
}

impl Position {
    /// The word of a grant that begins at `offset` of the stream.
    fn begin(grant: u16, offset: u64) -> Self {
        Self {
            word: offset & OFFSET_MASK | u64::from(grant % GRANTS) << OFFSET_BITS,
        }
    }

    /// The word of an offer of the connection of this generation.
    fn offer(grant: u16, generation: u32) -> Self {
        Self {
            word: Self::begin(grant, generation.into()).word | OFFERED,
        }
    }

    /// Whether nobody has accepted the connection yet.
    pub fn is_offered(self) -> bool {
        self.word & OFFERED != 0
    }

    /// The number of the grant.
    pub fn grant(self) -> u16 {
        (self.word >> OFFSET_BITS) as u16 % GRANTS
    }

    /// The bytes read since the connection began, given that they are at least `least` and less than
    /// 2⁴⁸ more. Of what is offered nothing was read.
    pub fn offset(self, least: u64) -> u64 {
        if self.is_offered() {
            return least;
        }
        let ahead = self.word.wrapping_sub(least) & OFFSET_MASK;
        least.saturating_add(ahead)
    }
}

/// The engine begins a grant: the reader reads from `offset` on. What the reader needs to know of it
/// travels in a completion that is published afterwards.
pub fn grant(word: &AtomicU64, grant: u16, offset: u64) {
    // Relaxed: the completion is published by a release.
    word.store(Position::begin(grant, offset).word, Ordering::Relaxed);
}

/// The engine offers the connection of this generation, of which nothing was read, under a grant.
pub fn offer(word: &AtomicU64, grant: u16, generation: u32) {
    // Relaxed: as for a grant.
    word.store(Position::offer(grant, generation).word, Ordering::Relaxed);
}

/// The engine ends whatever grant there is and learns how far the reader has come (E1).
pub fn revoke(word: &AtomicU64) -> Position {
    // Acquire: what the reader copied before it moved the position on, it has copied. Release: the
    // engine's writes to the memory behind the position come after.
    Position {
        word: word.fetch_or(REVOKED, Ordering::AcqRel),
    }
}

/// What the word says now.
pub fn look(word: &AtomicU64) -> Position {
    Position {
        word: word.load(Ordering::Acquire),
    }
}

/// A process accepts the connection of this generation, which it was offered under `grant`. False: the
/// engine has taken it back.
pub fn accept(word: &AtomicU64, grant: u16, generation: u32) -> bool {
    let offered = Position::offer(grant, generation).word;
    let accepted = Position::begin(grant, 0).word;
    word.compare_exchange(offered, accepted, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

/// The engine takes an offer back under `grant`. False: the process has accepted it.
pub fn retract(word: &AtomicU64, grant: u16, generation: u32) -> bool {
    let offered = Position::offer(grant, generation).word;
    word.compare_exchange(
        offered,
        offered | REVOKED,
        Ordering::AcqRel,
        Ordering::Relaxed,
    )
    .is_ok()
}

/// The reader, at `offset` under `grant`, has copied `count` bytes (R2). False: it is not the reader
/// any more, and what it has copied is not its.
pub fn advance(word: &AtomicU64, grant: u16, offset: u64, count: u64) -> bool {
    let before = Position::begin(grant, offset).word;
    let after = Position::begin(grant, offset.wrapping_add(count)).word;
    word.compare_exchange(before, after, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

/// Whether the grant is still the reader's, at `offset`.
pub fn holds(word: &AtomicU64, grant: u16, offset: u64) -> bool {
    word.load(Ordering::Acquire) == Position::begin(grant, offset).word
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_position_moves_only_under_its_own_grant() {
        let word = AtomicU64::new(0);
        grant(&word, 5, 100);
        assert!(!advance(&word, 4, 100, 1), "another grant");
        assert!(!advance(&word, 5, 99, 1), "another position");
        assert!(advance(&word, 5, 100, 7));
        assert!(holds(&word, 5, 107) && !holds(&word, 5, 100));
        let last = revoke(&word);
        assert_eq!((last.grant(), last.offset(100)), (5, 107));
        assert!(!advance(&word, 5, 107, 1), "revoked");
        assert!(!holds(&word, 5, 107));
        grant(&word, 6, 107);
        assert!(!advance(&word, 5, 107, 1), "the grant before");
        assert!(advance(&word, 6, 107, 1));
    }

    #[test]
    fn an_offer_is_accepted_or_taken_back_but_not_both() {
        let word = AtomicU64::new(0);
        offer(&word, 1, 7);
        assert!(!advance(&word, 1, 0, 1), "nobody has accepted it");
        assert_eq!(look(&word).offset(3), 3, "nor read");
        assert!(accept(&word, 1, 7));
        assert!(!accept(&word, 1, 7), "twice");
        assert!(advance(&word, 1, 0, 1), "it is read from its beginning");
        assert!(!revoke(&word).is_offered());
        assert!(!retract(&word, 1, 7), "it was accepted");
        offer(&word, 2, 7);
        assert!(!retract(&word, 1, 7), "another grant");
        assert!(retract(&word, 2, 7));
        assert!(!accept(&word, 2, 7));
    }

    #[test]
    fn an_offer_is_not_accepted_in_the_name_of_one_that_is_over() {
        let word = AtomicU64::new(0);
        offer(&word, 1, u32::MAX - 1);
        assert!(retract(&word, 1, u32::MAX - 1));
        // Its place is another's, and its owner has not looked since.
        offer(&word, 1, u32::MAX);
        assert!(!accept(&word, 1, u32::MAX - 1));
        assert!(!retract(&word, 1, u32::MAX - 1));
        assert!(accept(&word, 1, u32::MAX));
    }

    #[test]
    fn streams_may_be_longer_than_the_word_counts() {
        let word = AtomicU64::new(0);
        let long = (3 << 48) + (1 << 48) - 5;
        grant(&word, GRANTS + 3, long);
        assert!(advance(&word, 3, long, 10), "numbers of grants wrap");
        assert_eq!(look(&word).offset(long), long + 10);
        assert_eq!(look(&word).grant(), 3);
    }
}
