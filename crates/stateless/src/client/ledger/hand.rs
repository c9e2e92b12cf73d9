//! The hand that goes round and finds who has not moved.

use super::{Ledger, Slot, Stage};

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
    /// Whether the server has said that it has the request: then its answer is late, not lost.
    pub acknowledged: bool,
}

impl Ledger {
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
                acknowledged: slot.flags & Slot::ACKNOWLEDGED != 0,
            };
            if stalled.acknowledged {
                each(stalled);
                continue;
            }
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
}
