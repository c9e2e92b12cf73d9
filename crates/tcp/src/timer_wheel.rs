//! Deadlines of many connections: a hierarchical timing wheel.
//!
//! Time is cut into ticks of 2^17 ns (0.13 ms), rounded up, so that nothing fires early. They are as
//! fine as pacing needs them (`connection/pacing.rs`); no other timer asks for so much. A deadline
//! is filed by the highest six-bit digit in which its tick differs from the present one: level 0
//! holds those within the same 64 ticks, level 1 those within the same 4,096, and so on; eight
//! levels cover all of time, so no deadline needs special treatment. When time reaches a slot of a
//! higher level, what is in it is filed again, lower; so each deadline moves at most seven times,
//! and setting or cancelling one costs the same however many there are. A bitmap a level says which
//! slots hold anything: time jumps from one to the next, over any number of empty ones.

use tables::Chunks;

use crate::time::{Instant, Nanos};

/// log2 of a tick in nanoseconds.
const TICK_BITS: u32 = 17;
/// How late a deadline may fire.
pub const TICK: Nanos = Nanos::new(1 << TICK_BITS);
/// log2 of the slots a level.
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// 8 * 6 bits hold every tick: 2^64 ns is 2^47 ticks.
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
    entries: Chunks<Entry>,
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
            entries: Chunks::new(),
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
        self.entries.reach(key, |_| Entry::UNSCHEDULED);
        self.cancel(key);
        self.entries[key].deadline = deadline;
        self.len += 1;
        self.file(key);
    }

    /// Takes the deadline of `key` away, if it has one.
    #[inline]
    pub fn cancel(&mut self, key: u32) {
        if self
            .entries
            .get(key)
            .is_some_and(|entry| entry.list != UNSCHEDULED)
        {
            self.unlink(key);
            self.len -= 1;
        }
    }

    /// The deadline of `key`.
    pub fn scheduled(&self, key: u32) -> Option<Instant> {
        let entry = self.entries.get(key)?;
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
            let next = self.entries[key].next;
            self.file(key);
            key = next;
        }
    }

    /// Puts an entry that is in no list into that of its deadline.
    fn file(&mut self, key: u32) {
        let deadline = self.entries[key].deadline;
        let list = self.list_of(deadline);
        let head = self.heads[usize::from(list)];
        let last = if head == NONE {
            self.heads[usize::from(list)] = key;
            key
        } else {
            let last = self.entries[head].previous;
            self.entries[last].next = key;
            self.entries[head].previous = key;
            last
        };
        self.entries[key] = Entry {
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
        } = self.entries[key];
        let head = self.heads[usize::from(list)];
        if head == key {
            self.heads[usize::from(list)] = next;
            if next == NONE {
                self.mark_free(list);
            } else {
                self.entries[next].previous = previous;
            }
        } else {
            self.entries[previous].next = next;
            let after = if next == NONE { head } else { next };
            self.entries[after].previous = previous;
        }
        self.entries[key].list = UNSCHEDULED;
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
mod tests;
