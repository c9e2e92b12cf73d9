//! How much is kept for a session that reads nothing of what it is told, so that what its process has written comes
//! in its place all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Notices that wait for room in the ring before a session is not heard any more.
pub(super) const NOTICES: usize = 256;

/// Rings full of notices that are kept beyond that while others wait for what a session has submitted: what waits in
/// its ring, and what a host submits at most before it reads.
const RINGS: u32 = 2;

/// Sessions of one user that may have as much at a time. Beyond that the user's own programs lose their order.
const AT_ONCE: u32 = 4;

/// What is kept for a session because others wait for what it has submitted, and for all of its user together. What
/// others have it be told is none of it.
#[derive(Debug)]
pub struct Patience {
    kept: u32,
    most: u32,
    /// The same of all sessions of the user, at this worker.
    of_user: Arc<AtomicU32>,
    /// It was passed over since it last read.
    passed_over: bool,
}

impl Patience {
    /// With a session whose ring has so many entries.
    pub(super) fn with(ring: u32) -> Self {
        Self {
            kept: 0,
            most: RINGS.saturating_mul(ring),
            of_user: Arc::default(),
            passed_over: false,
        }
    }

    /// The other session is the same user's.
    pub fn is_shared_with(&mut self, other: &Self) {
        self.keeps(0);
        self.of_user = Arc::clone(&other.of_user);
    }

    /// What it had submitted has made so many notices of `before`.
    pub fn adds(&mut self, before: usize, notices: usize) {
        let more = notices.saturating_sub(before.max(NOTICES));
        self.keeps(self.kept.saturating_add(count(more)));
    }

    /// So many were read, and so many are left.
    pub(super) fn reads(&mut self, read: usize, left: usize) {
        let kept = match left {
            0 => 0,
            _ => self.kept.saturating_sub(count(read)),
        };
        self.keeps(kept);
        self.passed_over &= read == 0;
    }

    fn keeps(&mut self, kept: u32) {
        if kept != self.kept {
            // Nobody else counts: it is atomic because a session is freed by another thread.
            let change = kept.wrapping_sub(self.kept);
            self.of_user.fetch_add(change, Ordering::Relaxed);
            self.kept = kept;
        }
    }

    /// Whether more is kept.
    pub(super) fn is_left(&self) -> bool {
        let of_all = self.most.saturating_mul(AT_ONCE);
        self.kept < self.most && self.of_user.load(Ordering::Relaxed) < of_all
    }

    /// It is passed over: true if it was not since it last read.
    pub(super) fn ends(&mut self) -> bool {
        !core::mem::replace(&mut self.passed_over, true)
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        self.keeps(0);
    }
}

fn count(notices: usize) -> u32 {
    u32::try_from(notices).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: u32 = 64;
    const MOST: usize = (RINGS * RING) as usize;

    #[test]
    fn the_sessions_of_a_user_have_no_more_together_than_a_few_of_them() {
        let first = Patience::with(RING);
        let mut all: Vec<Patience> = (0..=AT_ONCE).map(|_| Patience::with(RING)).collect();
        all.iter_mut().for_each(|it| it.is_shared_with(&first));
        let another = Patience::with(RING);
        for it in &mut all[..AT_ONCE as usize] {
            assert!(it.is_left());
            it.adds(NOTICES, NOTICES + MOST - 1);
            assert!(it.is_left());
            it.adds(NOTICES + MOST, NOTICES + MOST + 1);
            assert!(!it.is_left(), "it has as much as one may have");
        }
        let last = all.pop().expect("one more");
        assert!(!last.is_left(), "together they have");
        assert!(another.is_left(), "another user's");
        // Who reads, or ends, makes room for the others.
        all[0].reads(1, NOTICES);
        assert!(last.is_left() && all[0].is_left());
        all[0].adds(NOTICES, NOTICES + 1);
        assert!(!last.is_left());
        all.truncate(1);
        assert!(last.is_left());
    }

    #[test]
    fn what_others_have_it_be_told_does_not_count() {
        let mut one = Patience::with(RING);
        // What is kept for anybody.
        one.adds(0, NOTICES);
        one.adds(100 * MOST, 100 * MOST + 1);
        assert_eq!(one.kept, 1);
        one.adds(0, NOTICES + 2);
        assert_eq!(one.kept, 3);
        // Each that is read makes room for one, and the last for all.
        one.reads(2, MOST);
        assert_eq!(one.kept, 1);
        one.adds(MOST, 2 * MOST - 2);
        one.reads(1, 0);
        assert_eq!(one.kept, 0);
    }

    #[test]
    fn who_is_passed_over_is_counted_once_until_it_reads() {
        let mut one = Patience::with(RING);
        assert!(one.ends() && !one.ends());
        one.reads(0, NOTICES);
        assert!(!one.ends());
        one.reads(1, NOTICES);
        assert!(one.ends());
    }
}
