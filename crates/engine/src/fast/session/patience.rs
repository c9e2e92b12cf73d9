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

    /// What it has submitted, now or long ago, has made one more notice, of so many now.
    pub(super) fn adds_one(&mut self, notices: usize) {
        let beyond = u32::from(notices > NOTICES);
        self.keeps(self.kept.saturating_add(beyond));
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

    /// Whether more is kept. Of so many connections it has something to hear, of so many that it has.
    pub(super) fn is_left(&self, ready: usize, connections: usize) -> bool {
        let of_all = self.most.saturating_mul(AT_ONCE);
        // What it had and has no more is in the list until it reads.
        let most_ready = connections.saturating_add(self.most as usize);
        self.kept < self.most && self.of_user.load(Ordering::Relaxed) < of_all && ready < most_ready
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

    /// It is told so much more of its own, beside what is kept for anybody.
    fn hears(one: &mut Patience, more: usize) {
        for _ in 0..more {
            one.adds_one(NOTICES + 1);
        }
    }

    fn is_left(one: &Patience) -> bool {
        one.is_left(0, 0)
    }

    #[test]
    fn the_sessions_of_a_user_have_no_more_together_than_a_few_of_them() {
        let first = Patience::with(RING);
        let mut all: Vec<Patience> = (0..=AT_ONCE).map(|_| Patience::with(RING)).collect();
        all.iter_mut().for_each(|it| it.is_shared_with(&first));
        let another = Patience::with(RING);
        for it in &mut all[..AT_ONCE as usize] {
            assert!(is_left(it));
            hears(it, MOST - 1);
            assert!(is_left(it));
            hears(it, 1);
            assert!(!is_left(it), "it has as much as one may have");
        }
        let last = all.pop().expect("one more");
        assert!(!is_left(&last), "together they have");
        assert!(is_left(&another), "another user's");
        // Who reads, or ends, makes room for the others.
        all[0].reads(1, NOTICES);
        assert!(is_left(&last) && is_left(&all[0]));
        hears(&mut all[0], 1);
        assert!(!is_left(&last));
        all.truncate(1);
        assert!(is_left(&last));
    }

    #[test]
    fn what_is_kept_for_anybody_does_not_count() {
        let mut one = Patience::with(RING);
        one.adds_one(NOTICES);
        assert_eq!(one.kept, 0);
        hears(&mut one, 3);
        assert_eq!(one.kept, 3);
        // Each that is read makes room for one, and the last for all.
        one.reads(2, MOST);
        assert_eq!(one.kept, 1);
        hears(&mut one, MOST - 2);
        one.reads(1, 0);
        assert_eq!(one.kept, 0);
    }

    #[test]
    fn what_it_is_to_hear_of_connections_that_it_has_no_more_is_bounded() {
        let one = Patience::with(RING);
        assert!(one.is_left(MOST - 1, 0));
        assert!(!one.is_left(MOST, 0));
        assert!(one.is_left(100 * MOST, 100 * MOST), "it has them all");
        assert!(!one.is_left(101 * MOST, 100 * MOST));
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
