//! Memory of sessions that goes back to the machine: carried away for the fast half, and its answer back.

use std::time::Instant;

use super::Desk;
use crate::exchange::Order;
use crate::fast::memory::Reclaim;
use crate::slow::errands::Errand;

impl Errand for Reclaim {
    fn uid(&self) -> u32 {
        self.uid()
    }

    fn run(&mut self) {
        self.give_back();
    }
}

impl Desk {
    /// Sends for what is to be given back, and tells the fast half of what is.
    pub(super) fn see_to_reclaims(&mut self, now: Instant) {
        for done in self.reclaims.attend(now) {
            self.order(Order::Reclaimed(Box::new(done)));
        }
    }

    /// Gives everything back here, and waits for as long as that takes.
    pub(super) fn reclaim_here(&mut self) {
        while let Some(done) = self.reclaims.run_here() {
            self.order(Order::Reclaimed(Box::new(done)));
        }
    }
}
