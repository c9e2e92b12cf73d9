//! Reading ahead: whoever sends one part of a file after the other has the next ones asked for before he
//! comes to them.
//!
//! The kernel would do it by itself, but on the time of whoever reads: of the worker, in pieces as large as
//! the disk's `read_ahead_kb` says. So the engine's files are opened such that the kernel does not
//! ([`Shown::open`](crate::slow::control::Shown::open)), and it is done here, as the kernel does it: for a few
//! readers of each file, whoever they are, by where in it they are.

use core::ops::Range;

/// Bytes that are fetched for who has found nothing in memory, and waits: what a disk gives in some
/// milliseconds.
pub const WINDOW: u64 = 1 << 20;
/// Of them, those after which he is thought to go on, and not to have wanted these alone.
const SETTLED: u64 = WINDOW / 4;
/// The most that is asked for at a time beyond what a reader has before him. Twice as much of a file is in
/// memory for his sake.
const MOST: u64 = 8 << 20;
/// Readers of a file that are known at a time.
const KNOWN: usize = 4;

/// One reader of a file.
#[derive(Debug, Clone, Copy, Default)]
struct Reader {
    /// When he reads from here on, the next part is to be asked for.
    mark: u64,
    /// All before it has been asked for.
    end: u64,
    /// Bytes of the next part. More for who has caught up with his disk once: he who reads slowly needs no
    /// more of his file in memory than he sends meanwhile.
    next: u64,
}

impl Reader {
    /// Whether he who reads from `offset` is this one, and has come so far that the next part is to be asked for.
    fn is_at_mark(&self, offset: u64) -> bool {
        self.mark <= offset && offset < self.end
    }

    /// The next part, for who is at `offset`; it is asked for.
    fn go_on(&mut self, offset: u64) -> Range<u64> {
        let from = self.end.max(offset);
        let to = from.saturating_add(self.next);
        (self.mark, self.end) = (from, to);
        from..to
    }
}

/// The readers of a file that have found something missing from memory.
#[derive(Debug, Default)]
pub struct Readers {
    known: [Reader; KNOWN],
    /// Whose place the next one takes.
    oldest: u8,
}

impl Readers {
    /// Whether he who reads from `offset` is to have more asked for.
    #[inline]
    pub fn is_at_mark(&self, offset: u64) -> bool {
        self.known.iter().any(|it| it.is_at_mark(offset))
    }

    /// What to ask for next for him, if anything.
    pub fn pass(&mut self, offset: u64) -> Option<Range<u64>> {
        let mut known = self.known.iter_mut();
        let reader = known.find(|it| it.is_at_mark(offset))?;
        Some(reader.go_on(offset))
    }

    /// Who reads from `offset` has to wait for the [window](WINDOW) from there on; what to ask for beyond it.
    pub fn wait(&mut self, offset: u64) -> Option<Range<u64>> {
        let after = offset.saturating_add(WINDOW);
        let caught_up = |it: &&mut Reader| it.mark <= offset && offset <= it.end && it.end != 0;
        if let Some(reader) = self.known.iter_mut().find(caught_up) {
            reader.next = (2 * reader.next).min(MOST);
            return Some(reader.go_on(after));
        }
        let place = usize::from(self.oldest) % KNOWN;
        self.oldest = self.oldest.wrapping_add(1);
        self.known[place] = Reader {
            mark: offset.saturating_add(SETTLED),
            end: after,
            next: WINDOW,
        };
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn who_goes_on_has_the_next_part_asked_for_once() {
        let mut readers = Readers::default();
        assert!(!readers.is_at_mark(0));
        assert_eq!(readers.pass(0), None);
        assert_eq!(readers.wait(4096), None);
        assert!(!readers.is_at_mark(4096), "it may be all that he wants");
        let on = 4096 + SETTLED;
        assert!(readers.is_at_mark(on));
        assert_eq!(readers.pass(on), Some(4096 + MIB..4096 + 2 * MIB));
        assert_eq!(readers.pass(on), None);
        // Not before he comes to that.
        assert!(!readers.is_at_mark(4096 + MIB - 1));
        let next = readers.pass(4096 + MIB + 5);
        assert_eq!(next, Some(4096 + 2 * MIB..4096 + 3 * MIB));
    }

    #[test]
    fn who_catches_up_has_more_asked_for() {
        let mut readers = Readers::default();
        assert_eq!(readers.wait(0), None);
        assert_eq!(readers.pass(SETTLED), Some(MIB..2 * MIB));
        // In what was asked for already, and in nothing that the next window has.
        assert_eq!(readers.wait(MIB), Some(2 * MIB..4 * MIB));
        assert_eq!(readers.pass(2 * MIB), Some(4 * MIB..6 * MIB));
        assert_eq!(readers.wait(5 * MIB), Some(6 * MIB..10 * MIB));
        assert_eq!(readers.wait(10 * MIB), Some(11 * MIB..19 * MIB));
        assert_eq!(readers.wait(19 * MIB), Some(20 * MIB..28 * MIB), "enough");
        // Elsewhere it begins anew.
        assert_eq!(readers.wait(100 * MIB), None);
        assert_eq!(
            readers.pass(100 * MIB + SETTLED),
            Some(101 * MIB..102 * MIB)
        );
    }

    #[test]
    fn some_readers_are_known_and_no_offset_is_too_large() {
        let mut readers = Readers::default();
        for reader in 0..=KNOWN as u64 {
            assert_eq!(readers.wait(reader * 100 * MIB), None);
        }
        assert_eq!(readers.pass(SETTLED), None, "the oldest is forgotten");
        for reader in 1..=KNOWN as u64 {
            let at = reader * 100 * MIB;
            assert_eq!(readers.pass(at + SETTLED), Some(at + MIB..at + 2 * MIB));
        }
        assert_eq!(readers.wait(u64::MAX - 1), None);
        assert_eq!(readers.pass(u64::MAX - 1), None);
        assert_eq!(readers.wait(u64::MAX), Some(u64::MAX..u64::MAX));
    }
}
