//! Waking who sleeps on what was posted: whom it concerns, and whether it can wait for more.

use core::cmp::Reverse;
use core::sync::atomic::{Ordering, fence};

use queue_pair::bells;
use queue_pair::parked::{self, Found, News};

use super::Session;

/// Acknowledged bytes that are worth waking a host for: enough room to send into. Less than that
/// waits for company, since a host that is woken for nothing else goes back to sleep.
const WORTH_WAKING: u64 = 16 << 10;

/// How much room an acknowledgement makes.
pub(super) struct Room {
    pub(super) sent: u64,
    pub(super) acked: u64,
    /// What the host knows of that.
    pub(super) told_acked: u64,
    pub(super) buffer: u32,
}

impl Room {
    /// What news it is, if there are others that are `urgent` or not. A host takes a third of its buffer for
    /// room, as Linux does. Before that it is not woken; a smaller one may have that long before.
    pub(super) fn news(&self, urgent: bool) -> News {
        let in_flight = self.sent.saturating_sub(self.acked);
        let is_room = |in_flight: u64| in_flight + in_flight / 2 <= self.buffer.into();
        let before = self.sent.saturating_sub(self.told_acked);
        let worth = self.acked - self.told_acked >= WORTH_WAKING || !is_room(before);
        match (urgent, is_room(in_flight) && worth) {
            (true, _) => News::Urgent,
            (false, true) => News::MuchRoom,
            (false, false) => News::Room,
        }
    }
}

/// Connections of which something was posted that can wait, at most: then nobody waits any longer.
const TOLD_AT_MOST: usize = 1024;

/// What was posted of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Posted {
    place: u32,
    news: News,
    /// If it is about that: how many of the process's bytes are acknowledged.
    acked: Option<u64>,
}

impl Session {
    /// Something was posted that concerns the connection at `place`, or nobody in particular.
    pub(super) fn wants_ring(&mut self, place: Option<u32>, news: News) {
        self.note(place, news, None);
    }

    /// So much of what it sends on the connection at `place` is acknowledged.
    pub(super) fn wants_ring_for_room(&mut self, place: u32, news: News, acked: u64) {
        self.note(Some(place), news, Some(acked));
    }

    fn note(&mut self, place: Option<u32>, news: News, acked: Option<u64>) {
        self.asked |= news != News::Room;
        let Some(place) = place else {
            return self.wants_bells(bells::ALL, news);
        };
        match self.told.last_mut() {
            // A sender that is alone is told of nothing else.
            Some(last) if (last.place, last.news) == (place, news) && acked.is_some() => {
                last.acked = acked;
            }
            _ => self.told.push(Posted { place, news, acked }),
        }
    }

    /// Somebody has begun to wait whom the bells that were rung until now may not reach.
    pub fn ring_all_once(&mut self) {
        self.wants_bells(bells::ALL, News::Urgent);
    }

    /// Something is posted in this turn of which whoever is woken by these bells is to hear some time.
    pub fn ring_those_later(&mut self, bells: u64) {
        self.wants_bells(bells, News::Room);
    }

    /// These are to be rung.
    pub(super) fn wants_bells(&mut self, bells: u64, news: News) {
        if news != News::Room {
            self.urgent |= bells;
        }
        self.unhurried |= bells;
    }

    /// Makes what was posted visible, and says whether anything was.
    pub fn publish(&mut self) -> bool {
        let anything = self.region.completions.has_unpublished();
        self.region.completions.publish();
        anything
    }

    /// Wakes the threads that sleep on the connections of which something was posted that they wait for,
    /// and rings the wakers that are armed if that concerns others; returns how many. To be called
    /// after [`publish`](Self::publish).
    pub fn ring(&mut self) -> u64 {
        let woken = self.wake_parked(true);
        woken + self.ring_bells(self.urgent)
    }

    /// As [`ring`](Self::ring), also for what can wait: memory that has become free. To be called
    /// now and then, and before the engine sleeps.
    pub fn ring_later(&mut self) -> u64 {
        self.wake_parked(false) + self.ring_bells(self.unhurried)
    }

    /// Wakes who sleeps on the connections that something was posted of. Of the others somebody may be
    /// told by the bell that the connection names.
    fn wake_parked(&mut self, urgent_alone: bool) -> u64 {
        let all = !urgent_alone || self.told.len() >= TOLD_AT_MOST;
        let hurries = |news: News| all || news != News::Room;
        if !self.told.iter().any(|posted| hurries(posted.news)) {
            return 0;
        }
        // Partners: the fences in `parked::set` and `room::say`.
        fence(Ordering::SeqCst);
        let mut told = core::mem::take(&mut self.told);
        // The urgent ones first, which concern whoever waits for anything. How much is acknowledged is of one connection,
        // and there may have been another one at its place.
        told.sort_unstable_by_key(|posted| Reverse(*posted));
        told.dedup_by(|next, first| {
            next.place == first.place && (first.news == News::Urgent || next == first)
        });
        let mut woken = 0;
        told.retain(|&Posted { place, news, acked }| {
            if !hurries(news) {
                return true;
            }
            let sleeper = self.region.positions.sleeper(place);
            match sleeper.map(|word| parked::wake(word, news, acked)) {
                Some(Found::Parked) => woken += 1,
                Some(Found::NothingToDo) => {}
                Some(Found::Nobody) | None => {
                    let bell = self.region.positions.bell(place);
                    let bells = bell.map_or(bells::ALL, bells::of);
                    self.wants_bells(bells, news);
                }
            }
            false
        });
        self.told = told;
        self.counters.doorbells += woken;
        woken
    }

    /// Rings those of the `bells` that are armed.
    fn ring_bells(&mut self, bells: u64) -> u64 {
        if bells == 0 {
            return 0;
        }
        self.urgent &= !bells;
        self.unhurried &= !bells;
        let mut rung = 0;
        let mut armed = self.region.sleepers.take(bells);
        while armed != 0 {
            let waker = armed.trailing_zeros() as usize;
            armed &= armed - 1;
            // A bit without a waker is the host's own mistake.
            if let Some(ringer) = self.wakers.get(waker) {
                ringer.ring();
                rung += 1;
            }
        }
        self.counters.doorbells += rung;
        rung
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: u32 = 90_000;

    /// What it is when of so many bytes under way so many are acknowledged.
    fn news(in_flight: u64, acked: u64) -> News {
        let room = Room {
            sent: in_flight,
            acked,
            told_acked: 0,
            buffer: BUFFER,
        };
        assert_eq!(room.news(true), News::Urgent);
        room.news(false)
    }

    #[test]
    fn a_third_of_the_buffer_is_room_and_less_is_not() {
        assert_eq!(news(90_000, 29_999), News::Room, "not yet a third");
        assert_eq!(news(90_000, 30_000), News::MuchRoom);
        assert_eq!(news(60_001, 1), News::MuchRoom, "it is now");
        assert_eq!(news(60_000, 1), News::Room, "it was before");
        assert_eq!(news(400_000, 300_000), News::Room, "of a file");
        assert_eq!(news(400_000, 340_000), News::MuchRoom);
    }

    #[test]
    fn where_there_was_room_much_more_of_it_is_worth_waking_for() {
        // The host may have chosen a smaller buffer.
        assert_eq!(news(60_000, WORTH_WAKING - 1), News::Room);
        assert_eq!(news(60_000, WORTH_WAKING), News::MuchRoom);
    }
}
