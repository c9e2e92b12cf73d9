//! What is looked at now and then, because nobody may tell of it: connections whose asynchronous sends come back, and
//! registered memory that becomes free.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::event::Handle;

/// How often each is looked at.
const EVERY: Duration = Duration::from_millis(50);

/// So many are looked at between two looks at what else has happened. The rest of a round follows at once.
const AT_ONCE: usize = 1024;

/// They, in the order in which they are looked at.
pub(crate) struct Awaiting<T = Handle> {
    list: VecDeque<T>,
    /// When the last round began, or the first was listed.
    since: Instant,
    /// How many are still to be looked at in this round: the first ones.
    left: usize,
}

impl<T> Awaiting<T> {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            list: VecDeque::new(),
            since: now,
            left: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// One more.
    pub(crate) fn list(&mut self, one: T, now: Instant) {
        if self.list.is_empty() {
            self.since = now;
        }
        self.list.push_back(one);
    }

    /// How long it is until the next look. `None`: there is nothing to look at.
    pub(crate) fn due(&self, now: Instant) -> Option<Duration> {
        match (self.list.is_empty(), self.left) {
            (true, _) => None,
            (false, 0) => Some(EVERY.saturating_sub(now.saturating_duration_since(self.since))),
            (false, _) => Some(Duration::ZERO),
        }
    }

    /// Looks at those whose turn it is. `look` says whether one stays here.
    pub(crate) fn look(&mut self, now: Instant, mut look: impl FnMut(&T) -> bool) {
        if self.due(now) != Some(Duration::ZERO) {
            return;
        }
        if self.left == 0 {
            self.since = now;
            self.left = self.list.len();
        }
        let turn = self.left.min(AT_ONCE);
        self.left -= turn;
        for _ in 0..turn {
            if let Some(one) = self.list.pop_front().filter(&mut look) {
                self.list.push_back(one);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use slotmap::KeyData;

    use super::*;

    fn handle(number: usize) -> Handle {
        KeyData::from_ffi((1 << 32) | number as u64).into()
    }

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Which were looked at.
    fn look(awaiting: &mut Awaiting, now: Instant, stays: bool) -> Vec<Handle> {
        let mut looked = Vec::new();
        awaiting.look(now, |handle| {
            looked.push(*handle);
            stays
        });
        looked
    }

    #[test]
    fn who_is_woken_in_between_sleeps_no_longer_than_what_is_left() {
        let start = Instant::now();
        let mut awaiting = Awaiting::new(start);
        assert_eq!(awaiting.due(start + millis(500)), None);
        // It counts from here, and the next does not begin anew.
        let start = start + millis(500);
        awaiting.list(handle(1), start);
        awaiting.list(handle(2), start + millis(30));
        for (at, left) in [(0, 50), (45, 5), (50, 0), (70, 0)] {
            assert_eq!(awaiting.due(start + millis(at)), Some(millis(left)));
        }
        assert_eq!(look(&mut awaiting, start + millis(49), true), []);
        let both = [handle(1), handle(2)];
        assert_eq!(look(&mut awaiting, start + millis(60), true), both);
        assert_eq!(awaiting.due(start + millis(105)), Some(millis(5)));
        assert_eq!(look(&mut awaiting, start + millis(110), false), both);
        assert_eq!(awaiting.due(start + millis(110)), None);
    }

    #[test]
    fn of_many_each_is_looked_at_once_in_a_round() {
        let start = Instant::now();
        let mut awaiting = Awaiting::new(start);
        let all: Vec<_> = (0..2 * AT_ONCE + 7).map(handle).collect();
        for handle in &all {
            awaiting.list(*handle, start);
        }
        for round in 1..3 {
            let now = start + round * EVERY;
            let mut looked = Vec::new();
            for turn in [AT_ONCE, AT_ONCE, 7] {
                assert_eq!(awaiting.due(now), Some(Duration::ZERO));
                let these = look(&mut awaiting, now, true);
                assert_eq!(these.len(), turn);
                looked.extend(these);
            }
            assert_eq!(awaiting.due(now), Some(EVERY));
            assert_eq!(looked, all);
        }
    }
}
