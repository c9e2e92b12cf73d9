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
mod hand;
mod slot;

pub use hand::Stalled;
pub use slot::Stage;

use wire::seq::SeqNumber;

use aside::Aside;
use slot::Slot;

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

    /// The server has the request, and has not answered it yet: that is no loss.
    #[inline]
    pub fn acknowledge(&mut self, connection: u64) {
        self.slot_mut(connection).flags |= Slot::ACKNOWLEDGED;
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
mod tests;
