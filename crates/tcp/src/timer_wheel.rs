//! Deadlines of many connections: a hierarchical timing wheel.
//!
//! Time is cut into ticks of 2^20 ns (1.05 ms), rounded up, so that nothing fires early. A deadline
//! is filed by the highest six-bit digit in which its tick differs from the present one: level 0
//! holds those within the same 64 ticks, level 1 those within the same 4,096, and so on; eight
//! levels cover all of time, so no deadline needs special treatment. When time reaches a slot of a
//! higher level, what is in it is filed again, lower; so each deadline moves at most seven times,
//! and setting or cancelling one costs the same however many there are. A bitmap a level says which
//! slots hold anything: time jumps from one to the next, over any number of empty ones.

use crate::time::Instant;

/// log2 of a tick in nanoseconds.
const TICK_BITS: u32 = 20;
/// log2 of the slots a level.
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// 8 * 6 bits hold every tick: 2^64 ns is 2^44 ticks.
const LEVELS: usize = 8;
/// The list of deadlines that have passed, after the lists of the slots.
const EXPIRED: u16 = (LEVELS * SLOTS) as u16;
const LISTS: usize = LEVELS * SLOTS + 1;
/// No list: the key has no deadline.
const UNSCHEDULED: u16 = u16::MAX;
/// No key: the end of a list.
const NONE: u32 = u32::MAX;

/// What the wheel keeps of one key. The entries of a list form a ring without a head: the first's
/// `previous` is the last, the last's `next` is `NONE`.
#[derive(Clone, Copy, Debug)]
struct Entry {
    deadline: Instant,
    next: u32,
    previous: u32,
    list: u16,
}

impl Entry {
    const UNSCHEDULED: Entry = Entry {
        deadline: Instant::ZERO,
        next: NONE,
        previous: NONE,
        list: UNSCHEDULED,
    };
}

/// One deadline for each of many keys, which are small numbers (the places of connections in their
/// slab).
#[derive(Clone, Debug)]
pub struct TimerWheel {
    /// Up to which tick deadlines have been looked at.
    elapsed: u64,
    /// By key.
    entries: Vec<Entry>,
    /// The first entry of each list.
    heads: Box<[u32; LISTS]>,
    /// Of each level, which slots hold anything.
    occupied: [u64; LEVELS],
    /// How many keys have a deadline.
    len: usize,
}

impl TimerWheel {
    /// A wheel without deadlines that begins at `now`.
    pub fn new(now: Instant) -> TimerWheel {
        TimerWheel {
            elapsed: now.as_nanos() >> TICK_BITS,
            entries: Vec::new(),
            heads: Box::new([NONE; LISTS]),
            occupied: [0; LEVELS],
            len: 0,
        }
    }

    /// How many keys have a deadline.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no key has one.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the deadline of `key`, in place of the one that it had. `key` is below `u32::MAX`; the
    /// wheel takes 24 bytes for each key up to the greatest.
    pub fn schedule(&mut self, key: u32, deadline: Instant) {
        let index = key as usize;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, Entry::UNSCHEDULED);
        }
        self.cancel(key);
        self.entries[index].deadline = deadline;
        self.len += 1;
        self.file(key);
    }

    /// Takes the deadline of `key` away, if it has one.
    #[inline]
    pub fn cancel(&mut self, key: u32) {
        if self
            .entries
            .get(key as usize)
            .is_some_and(|entry| entry.list != UNSCHEDULED)
        {
            self.unlink(key);
            self.len -= 1;
        }
    }

    /// The deadline of `key`.
    #[cfg(test)]
    pub fn scheduled(&self, key: u32) -> Option<Instant> {
        let entry = self.entries.get(key as usize)?;
        (entry.list != UNSCHEDULED).then_some(entry.deadline)
    }

    /// When to look for expired deadlines next: never later than the tick of the earliest one, but
    /// possibly earlier, when a slot of a higher level is due to be filed again.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        if self.heads[usize::from(EXPIRED)] != NONE {
            return Some(start_of(self.elapsed));
        }
        self.next_slot().map(|(tick, _)| start_of(tick))
    }

    /// Takes out a key whose deadline has passed by `now`.
    #[inline]
    pub fn pop_expired(&mut self, now: Instant) -> Option<u32> {
        let now = now.as_nanos() >> TICK_BITS;
        loop {
            let key = self.heads[usize::from(EXPIRED)];
            if key != NONE {
                self.unlink(key);
                self.len -= 1;
                return Some(key);
            }
            match self.next_slot() {
                Some((tick, list)) if tick <= now => {
                    self.elapsed = tick;
                    self.file_again(list);
                }
                _ => {
                    self.elapsed = self.elapsed.max(now);
                    return None;
                }
            }
        }
    }

    /// The slot that time reaches next: its first tick, and its list.
    #[inline]
    fn next_slot(&self) -> Option<(u64, u16)> {
        // A lower level lies wholly before the next slot of a higher one. Within a level every
        // deadline differs from `elapsed` in this digit and no higher one, and is later: so all
        // occupied slots lie ahead, in order.
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        let slot = u64::from(self.occupied[level].trailing_zeros());
        let shift = SLOT_BITS * level as u32;
        let above = self.elapsed >> shift >> SLOT_BITS << SLOT_BITS;
        Some((
            (above | slot) << shift,
            (level * SLOTS) as u16 + slot as u16,
        ))
    }

    /// Files every entry of `list` where it belongs now.
    fn file_again(&mut self, list: u16) {
        let mut key = core::mem::replace(&mut self.heads[usize::from(list)], NONE);
        self.mark_free(list);
        while key != NONE {
            let next = self.entries[key as usize].next;
            self.file(key);
            key = next;
        }
    }

    /// Puts an entry that is in no list into that of its deadline.
    fn file(&mut self, key: u32) {
        let deadline = self.entries[key as usize].deadline;
        let list = self.list_of(deadline);
        let head = self.heads[usize::from(list)];
        let last = if head == NONE {
            self.heads[usize::from(list)] = key;
            key
        } else {
            let last = self.entries[head as usize].previous;
            self.entries[last as usize].next = key;
            self.entries[head as usize].previous = key;
            last
        };
        self.entries[key as usize] = Entry {
            deadline,
            next: NONE,
            previous: last,
            list,
        };
        if list < EXPIRED {
            self.occupied[usize::from(list) / SLOTS] |= 1 << (usize::from(list) % SLOTS);
        }
    }

    #[inline]
    fn list_of(&self, deadline: Instant) -> u16 {
        let tick = deadline.as_nanos().div_ceil(1 << TICK_BITS);
        if tick <= self.elapsed {
            return EXPIRED;
        }
        let level = (tick ^ self.elapsed).ilog2() / SLOT_BITS;
        let slot = (tick >> (SLOT_BITS * level)) as usize % SLOTS;
        (level as usize * SLOTS + slot) as u16
    }

    /// Takes an entry out of its list.
    fn unlink(&mut self, key: u32) {
        let Entry {
            next,
            previous,
            list,
            ..
        } = self.entries[key as usize];
        let head = self.heads[usize::from(list)];
        if head == key {
            self.heads[usize::from(list)] = next;
            if next == NONE {
                self.mark_free(list);
            } else {
                self.entries[next as usize].previous = previous;
            }
        } else {
            self.entries[previous as usize].next = next;
            let after = if next == NONE { head } else { next };
            self.entries[after as usize].previous = previous;
        }
        self.entries[key as usize].list = UNSCHEDULED;
    }

    #[inline]
    fn mark_free(&mut self, list: u16) {
        if list < EXPIRED {
            self.occupied[usize::from(list) / SLOTS] &= !(1 << (usize::from(list) % SLOTS));
        }
    }
}

fn start_of(tick: u64) -> Instant {
    Instant::from_nanos(tick.saturating_mul(1 << TICK_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const TICK: u64 = 1 << TICK_BITS;

    fn drain(wheel: &mut TimerWheel, now: Instant) -> Vec<u32> {
        std::iter::from_fn(|| wheel.pop_expired(now)).collect()
    }

    #[test]
    fn a_deadline_fires_at_its_tick_and_not_before() {
        let mut wheel = TimerWheel::new(Instant::ZERO);
        let deadline = Instant::from_nanos(3 * TICK - 1);
        wheel.schedule(5, deadline);
        assert_eq!(wheel.scheduled(5), Some(deadline));
        assert_eq!(wheel.next(), Some(Instant::from_nanos(3 * TICK)));
        assert_eq!(wheel.pop_expired(Instant::from_nanos(3 * TICK - 1)), None);
        assert_eq!(wheel.pop_expired(Instant::from_nanos(3 * TICK)), Some(5));
        assert_eq!(
            (wheel.scheduled(5), wheel.next(), wheel.len()),
            (None, None, 0)
        );
    }

    #[test]
    fn a_deadline_in_the_past_has_expired() {
        let mut wheel = TimerWheel::new(Instant::from_secs(9));
        wheel.schedule(0, Instant::from_secs(1));
        assert!(wheel.next() <= Some(Instant::from_secs(9)));
        assert_eq!(wheel.pop_expired(Instant::from_secs(9)), Some(0));
    }

    #[test]
    fn moved_and_cancelled_deadlines_do_not_fire() {
        let mut wheel = TimerWheel::new(Instant::ZERO);
        for key in 0..10 {
            wheel.schedule(key, Instant::from_millis(50));
        }
        wheel.schedule(3, Instant::from_secs(5));
        wheel.cancel(0);
        wheel.cancel(9);
        wheel.cancel(9);
        wheel.cancel(1_000);
        assert_eq!(wheel.len(), 8);
        assert_eq!(
            drain(&mut wheel, Instant::from_millis(60)),
            [1, 2, 4, 5, 6, 7, 8]
        );
        assert_eq!(drain(&mut wheel, Instant::from_secs(6)), [3]);
        assert!(wheel.is_empty());
    }

    #[test]
    fn an_expired_key_can_be_cancelled_or_moved_before_it_is_taken_out() {
        let mut wheel = TimerWheel::new(Instant::ZERO);
        for key in 0..4 {
            wheel.schedule(key, Instant::from_millis(1));
        }
        assert_eq!(wheel.pop_expired(Instant::from_millis(10)), Some(0));
        wheel.cancel(2);
        wheel.schedule(1, Instant::from_millis(100));
        assert_eq!(drain(&mut wheel, Instant::from_millis(10)), [3]);
    }

    #[test]
    fn time_jumps_over_years_of_nothing() {
        let mut wheel = TimerWheel::new(Instant::ZERO);
        let year = 365 * 86_400;
        wheel.schedule(0, Instant::from_secs(500 * year));
        wheel.schedule(1, Instant::MAX);
        let mut looks = 0;
        let mut fired = None;
        while fired.is_none() {
            looks += 1;
            fired = wheel.pop_expired(wheel.next().unwrap());
        }
        assert_eq!(fired, Some(0));
        assert!(looks <= LEVELS, "{looks}");
        // The end of time never comes.
        assert_eq!(wheel.scheduled(1), Some(Instant::MAX));
        assert_eq!(wheel.pop_expired(Instant::MAX), None);
        assert_eq!(wheel.next(), Some(Instant::MAX));
    }

    #[test]
    fn a_key_costs_24_bytes() {
        assert_eq!(size_of::<Entry>(), 24);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Schedule(u32, u64),
        Cancel(u32),
        Advance(u64),
        JumpToNext,
    }

    fn step() -> impl Strategy<Value = Step> {
        // Spans of all magnitudes, from below a tick to beyond a year.
        let span = (0..55_u32, any::<u64>()).prop_map(|(bits, n)| n & ((1 << bits) - 1));
        prop_oneof![
            4 => (0..30_u32, span.clone()).prop_map(|(key, span)| Step::Schedule(key, span)),
            1 => (0..30_u32).prop_map(Step::Cancel),
            1 => span.prop_map(Step::Advance),
            2 => Just(Step::JumpToNext),
        ]
    }

    proptest! {
        /// Against a map of ticks: the same keys expire at the same looks, `next` is never late, and
        /// following it always gets on.
        #[test]
        fn it_behaves_like_a_sorted_map(
            start in 0..1_u64 << 50,
            steps in proptest::collection::vec(step(), 0..300),
        ) {
            let mut now = Instant::from_nanos(start);
            let mut wheel = TimerWheel::new(now);
            let mut model = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Schedule(key, span) => {
                        let deadline = Instant::from_nanos(now.as_nanos().saturating_add(span));
                        wheel.schedule(key, deadline);
                        model.insert(key, deadline);
                    }
                    Step::Cancel(key) => {
                        wheel.cancel(key);
                        model.remove(&key);
                    }
                    Step::Advance(span) => {
                        now = Instant::from_nanos(now.as_nanos().saturating_add(span));
                    }
                    Step::JumpToNext => now = wheel.next().map_or(now, |next| next.max(now)),
                }
                let tick = now.as_nanos() >> TICK_BITS;
                let mut due: Vec<u32> = model
                    .iter()
                    .filter(|(_, deadline)| deadline.as_nanos().div_ceil(TICK) <= tick)
                    .map(|(&key, _)| key)
                    .collect();
                model.retain(|key, _| !due.contains(key));
                let mut fired = drain(&mut wheel, now);
                fired.sort_unstable();
                due.sort_unstable();
                prop_assert_eq!(fired, due);
                prop_assert_eq!(wheel.len(), model.len());
                let earliest = model.values().min().map(|at| start_of(at.as_nanos().div_ceil(TICK)));
                match (wheel.next(), earliest) {
                    (Some(next), Some(earliest)) => prop_assert!(next <= earliest && next > now),
                    (None, None) => {}
                    other => prop_assert!(false, "{other:?}"),
                }
                for key in 0..30 {
                    prop_assert_eq!(wheel.scheduled(key), model.get(&key).copied());
                }
            }
        }
    }
}
