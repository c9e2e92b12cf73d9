//! The ledger: what has been counted of the connections that are outstanding.
//!
//! The exchange itself needs no memory. Counting everything exactly once does, when the network
//! loses and servers repeat: twelve bytes for each connection that may be outstanding, allocated
//! once, however many connections are made. Connections are numbered in the order of their start,
//! and the ledger is a ring of those from the oldest that is not over to the youngest.
//!
//! A hand goes round over the ring like that of a clock with second chances: whoever has not moved
//! since it last came by has lost something, and is due for another attempt.
//!
//! One connection that lost a frame stands still for as long as it takes to try again, and at a
//! high rate the ring has gone round by then. So that it does not keep all others waiting, it is
//! set aside, into a table of bounded size, and its place is passed over.

mod aside;

use wire::seq::SeqNumber;

use aside::Aside;

/// How far a connection is, as far as is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// A SYN was sent.
    Opening = 0,
    /// A request was sent.
    Asked = 1,
    /// It is waiting until its next request is due.
    Waiting = 2,
    /// All was answered; the server's FIN is still to come.
    Closing = 3,
    /// It is over.
    Over = 4,
}

impl Stage {
    const fn of(flags: u8) -> Stage {
        match flags & Slot::STAGE {
            0 => Stage::Opening,
            1 => Stage::Asked,
            2 => Stage::Waiting,
            3 => Stage::Closing,
            _ => Stage::Over,
        }
    }
}

/// What is noted of a connection.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// When what it waits for was due, in microseconds of the client's clock.
    due: u32,
    /// The server's sequence number behind what was counted.
    expected: u32,
    /// Responses counted, modulo 2^16.
    answered: u16,
    /// Stage (3 bits), whether it moved, whether it was tried again.
    flags: u8,
    /// Further attempts since it last moved.
    attempts: u8,
}

impl Slot {
    const STAGE: u8 = 0x07;
    const MOVED: u8 = 0x08;
    const RETRIED: u8 = 0x10;

    const OVER: Slot = Slot {
        due: 0,
        expected: 0,
        answered: 0,
        flags: Stage::Over as u8,
        attempts: 0,
    };
}

/// A connection that has not moved for a full turn of the hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalled {
    /// Its number.
    pub connection: u64,
    /// Where it stands.
    pub stage: Stage,
    /// Attempts since it last moved, before this one.
    pub attempts: u8,
    /// When what it waits for was due.
    pub due: u32,
}

/// The ring.
#[derive(Debug)]
pub struct Ledger {
    slots: Box<[Slot]>,
    mask: u64,
    /// Steps of the walk: connections so many numbers apart are at one place.
    places: u64,
    limit: u64,
    oldest: u64,
    next: u64,
    /// The step of the youngest connection.
    step: u64,
    outstanding: u64,
    hand: u64,
    aside: Aside,
    /// Where the hand is among those set aside, once it has come to the end of the ring.
    aside_hand: usize,
}

impl Ledger {
    /// A ring of `slots` connections, a power of two, over a walk of `places` steps. No more of
    /// either are in use at once.
    ///
    /// # Panics
    /// If it is no power of two.
    pub fn new(slots: usize, places: u64) -> Self {
        assert!(slots.is_power_of_two(), "{slots} slots");
        Self {
            slots: vec![Slot::OVER; slots].into_boxed_slice(),
            mask: slots as u64 - 1,
            places: places.max(1),
            limit: places.min(slots as u64),
            oldest: 0,
            next: 0,
            step: places.max(1) - 1,
            outstanding: 0,
            hand: 0,
            aside: Aside::new(),
            aside_hand: 0,
        }
    }

    /// The number that the next connection will have.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Connections that are not over.
    pub const fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Whether the ring has room for another connection.
    const fn has_room(&self) -> bool {
        self.next - self.oldest < self.limit
    }

    /// Connections that were set aside.
    pub fn set_aside(&self) -> usize {
        self.aside.len()
    }

    /// Bytes that it takes, from the beginning to the end.
    pub const fn memory(&self) -> usize {
        self.slots.len() * size_of::<Slot>() + Aside::MEMORY
    }

    /// Notes a new connection; `None` if there is no room.
    #[inline]
    pub fn open(&mut self, due: u32) -> Option<u64> {
        loop {
            if !self.has_room() && !self.make_room() {
                return None;
            }
            let connection = self.next;
            self.next += 1;
            self.step += 1;
            if self.step == self.places {
                self.step = 0;
            }
            if !self.aside.is_empty() && self.aside.find(self.step).is_some() {
                // Somebody is still there: this number is nobody's.
                self.slots[(connection & self.mask) as usize] = Slot::OVER;
                self.pass_over();
                continue;
            }
            self.outstanding += 1;
            *self.slot_mut(connection) = Slot {
                due,
                flags: Stage::Opening as u8 | Slot::MOVED,
                ..Slot::OVER
            };
            return Some(connection);
        }
    }

    /// Sets the oldest connection aside, if it is one of few that are left behind.
    #[cold]
    fn make_room(&mut self) -> bool {
        let in_ring = self.outstanding - self.aside.len() as u64;
        if in_ring > self.limit / 2 {
            return false;
        }
        let (oldest, step) = (self.oldest, self.oldest % self.places);
        let slot = *self.slot(oldest);
        if !self.aside.insert(step, oldest, slot) {
            return false;
        }
        self.oldest += 1;
        self.pass_over();
        true
    }

    /// Leaves those behind that are over.
    #[inline]
    fn pass_over(&mut self) {
        while self.oldest < self.next && self.stage(self.oldest) == Stage::Over {
            self.oldest += 1;
        }
    }

    /// The connection that was the last to be at this step of the walk; `false` with it if it is
    /// over. `None` if none has been there yet.
    #[inline]
    pub fn resolve(&self, step: u64) -> Option<(u64, bool)> {
        if !self.aside.is_empty()
            && let Some(connection) = self.aside.find(step)
        {
            return Some((connection, true));
        }
        let last = self.next.checked_sub(1)?;
        let back = if self.step >= step {
            self.step - step
        } else {
            self.step + self.places - step
        };
        let connection = last.checked_sub(back)?;
        let live = connection >= self.oldest && self.stage(connection) != Stage::Over;
        Some((connection, live))
    }

    /// Where a connection stands.
    #[inline]
    pub fn stage(&self, connection: u64) -> Stage {
        Stage::of(self.slot(connection).flags)
    }

    /// Responses counted, modulo 2^16.
    #[inline]
    pub fn answered(&self, connection: u64) -> u16 {
        self.slot(connection).answered
    }

    /// When what it waits for was due.
    #[inline]
    pub fn due(&self, connection: u64) -> u32 {
        self.slot(connection).due
    }

    /// Whether anything had to be tried again since the last response.
    #[inline]
    pub fn was_retried(&self, connection: u64) -> bool {
        self.slot(connection).flags & Slot::RETRIED != 0
    }

    /// It is alive, though nothing new came of it.
    #[inline]
    pub fn touch(&mut self, connection: u64) {
        let slot = self.slot_mut(connection);
        slot.flags |= Slot::MOVED;
        slot.attempts = 0;
    }

    /// It has come to a stage, where something is due since `due`.
    #[inline]
    pub fn advance(&mut self, connection: u64, stage: Stage, due: u32) {
        let slot = self.slot_mut(connection);
        slot.flags = slot.flags & Slot::RETRIED | stage as u8 | Slot::MOVED;
        slot.due = due;
        slot.attempts = 0;
    }

    /// The server's sequence number behind what was counted.
    #[inline]
    pub fn expected(&self, connection: u64) -> SeqNumber {
        SeqNumber(self.slot(connection).expected)
    }

    /// The server's first number is this.
    #[inline]
    pub fn expect(&mut self, connection: u64, number: SeqNumber) {
        self.slot_mut(connection).expected = number.0;
    }

    /// Counts a response that ends before this number of the server's.
    #[inline]
    pub fn answer(&mut self, connection: u64, end: SeqNumber) {
        let slot = self.slot_mut(connection);
        slot.expected = end.0;
        slot.answered = slot.answered.wrapping_add(1);
        slot.flags &= !Slot::RETRIED;
    }

    /// It is over.
    #[inline]
    pub fn close(&mut self, connection: u64) {
        let slot = self.slot_mut(connection);
        if Stage::of(slot.flags) == Stage::Over {
            return;
        }
        slot.flags = Stage::Over as u8;
        self.outstanding -= 1;
        if connection < self.oldest {
            self.aside.remove(connection % self.places);
        } else {
            self.pass_over();
        }
    }

    /// Moves the hand over `steps` connections, at most once round; `each` gets those that have
    /// not moved since it last passed (but not those that wait on purpose).
    pub fn sweep(&mut self, steps: u64, mut each: impl FnMut(Stalled)) {
        for _ in 0..steps.min(self.span()) {
            let connection = self.under_hand();
            let slot = self.slot_mut(connection);
            let stage = Stage::of(slot.flags);
            if matches!(stage, Stage::Over | Stage::Waiting) {
                continue;
            }
            if slot.flags & Slot::MOVED != 0 {
                slot.flags &= !Slot::MOVED;
                continue;
            }
            let stalled = Stalled {
                connection,
                stage,
                attempts: slot.attempts,
                due: slot.due,
            };
            slot.attempts = slot.attempts.saturating_add(1);
            slot.flags |= Slot::RETRIED;
            each(stalled);
        }
    }

    /// The connection under the hand, which is moved on: round the ring, then over those set
    /// aside. There is at least one.
    fn under_hand(&mut self) -> u64 {
        if self.hand < self.oldest {
            self.hand = self.oldest;
        }
        if self.hand >= self.next {
            if let Some(connection) = self.aside.at(self.aside_hand) {
                self.aside_hand += 1;
                return connection;
            }
            self.aside_hand = 0;
            self.hand = self.oldest;
            if self.hand == self.next {
                self.aside_hand = 1;
                return self.aside.at(0).unwrap_or(self.oldest);
            }
        }
        self.hand += 1;
        self.hand - 1
    }

    /// Connections from the oldest to the youngest, and those set aside: how far the hand has to go
    /// for one turn.
    pub fn span(&self) -> u64 {
        self.next - self.oldest + self.aside.len() as u64
    }

    /// The connections that are not over.
    pub fn live(&self) -> impl Iterator<Item = (u64, Stage)> + '_ {
        self.aside
            .connections()
            .chain(self.oldest..self.next)
            .map(|connection| (connection, self.stage(connection)))
            .filter(|(_, stage)| *stage != Stage::Over)
    }

    #[inline]
    fn slot(&self, connection: u64) -> &Slot {
        if connection < self.oldest
            && let Some(slot) = self.aside.slot(connection % self.places)
        {
            return slot;
        }
        &self.slots[(connection & self.mask) as usize]
    }

    #[inline]
    fn slot_mut(&mut self, connection: u64) -> &mut Slot {
        if connection < self.oldest
            && let Some(slot) = self.aside.slot_mut(connection % self.places)
        {
            return slot;
        }
        &mut self.slots[(connection & self.mask) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_is_for_what_is_outstanding_only() {
        let mut ledger = Ledger::new(8, 8);
        let memory = ledger.memory();
        for round in 0..1000 {
            while let Some(connection) = ledger.open(round) {
                assert_eq!(ledger.due(connection), round);
            }
            assert_eq!(ledger.outstanding(), 8);
            for connection in ledger.next() - 8..ledger.next() {
                ledger.close(connection);
                ledger.close(connection);
            }
            assert_eq!(ledger.outstanding(), 0);
        }
        assert_eq!((ledger.next(), ledger.memory()), (8000, memory));
    }

    #[test]
    fn the_hand_finds_who_has_not_moved() {
        let mut ledger = Ledger::new(8, 8);
        for _ in 0..4 {
            ledger.open(5);
        }
        let mut stalled = Vec::new();
        ledger.sweep(4, |one| stalled.push(one.connection));
        assert!(stalled.is_empty(), "all have just begun");
        ledger.touch(1);
        ledger.advance(2, Stage::Waiting, 6);
        ledger.close(3);
        ledger.sweep(100, |one| stalled.push(one.connection));
        assert_eq!(stalled, [0]);
        assert!(ledger.was_retried(0) && !ledger.was_retried(1));
        let mut again = Vec::new();
        ledger.sweep(100, |one| again.push((one.connection, one.attempts)));
        assert_eq!(again, [(0, 1), (1, 0)]);
    }

    #[test]
    fn who_stands_still_keeps_nobody_waiting() {
        let mut ledger = Ledger::new(8, 8);
        let lost = ledger.open(7).unwrap();
        for _ in 0..100 {
            let connection = ledger.open(1).expect("room");
            assert_ne!(connection % 8, lost % 8, "its place is still in use");
            assert_eq!(ledger.resolve(connection % 8), Some((connection, true)));
            ledger.close(connection);
        }
        assert_eq!((ledger.set_aside(), ledger.outstanding()), (1, 1));
        assert_eq!(ledger.resolve(0), Some((lost, true)));
        assert_eq!((ledger.stage(lost), ledger.due(lost)), (Stage::Opening, 7));
        let mut stalled = Vec::new();
        for _ in 0..2 {
            ledger.sweep(ledger.span(), |one| stalled.push(one.connection));
        }
        assert_eq!(stalled, [lost]);
        ledger.advance(lost, Stage::Asked, 9);
        assert_eq!(ledger.due(lost), 9);
        assert_eq!(ledger.live().count(), 1);
        ledger.close(lost);
        assert_eq!((ledger.set_aside(), ledger.outstanding()), (0, 0));
        let places: Vec<_> = (0..8).map(|_| ledger.open(0).unwrap() % 8).collect();
        assert!(places.contains(&(lost % 8)), "{places:?}");
        assert_eq!(ledger.open(0), None, "as many as there are places");
    }

    #[test]
    fn what_is_set_aside_is_bounded() {
        let mut ledger = Ledger::new(1 << 16, 1 << 16);
        let mut opened = 0;
        // Every other connection stands still.
        while let Some(connection) = ledger.open(0) {
            opened += 1;
            if connection % 2 == 0 {
                ledger.close(connection);
            }
            assert!(opened < 1 << 20);
        }
        assert!(ledger.set_aside() <= aside::MOST);
        assert!(ledger.outstanding() <= (1 << 16) as u64);
    }

    proptest! {
        #[test]
        fn a_step_names_the_last_connection_there(
            opened in 1..500_u64, places in 16..64_u64, closed in 0..500_u64,
        ) {
            let mut ledger = Ledger::new(16, places);
            for connection in 0..opened {
                ledger.open(0);
                if connection + 1 < opened || closed % 2 == 0 {
                    ledger.close(connection);
                }
            }
            for step in 0..places {
                let expected = (0..opened).rev().find(|connection| connection % places == step);
                let found = ledger.resolve(step);
                prop_assert_eq!(found.map(|(connection, _)| connection), expected);
                if let Some((connection, live)) = found {
                    prop_assert_eq!(live, connection + 1 == opened && closed % 2 == 1);
                }
            }
        }
    }
}
