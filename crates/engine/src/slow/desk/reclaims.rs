//! Memory of sessions that goes back to the machine: carried away for a worker, and its answer back.

use std::time::Instant;

use super::Desk;
use crate::exchange::{Order, WorkerId};
use crate::fast::memory::Reclaim;
use crate::slow::errands::Errand;

/// What is to be given back, and the worker that says so.
pub(super) struct ReclaimOf(pub WorkerId, pub Reclaim);

impl Errand for ReclaimOf {
    fn uid(&self) -> u32 {
        self.1.uid()
    }

    fn run(&mut self) {
        self.1.give_back();
    }
}

impl Desk {
    /// Sends for what is to be given back, and tells the workers of what is.
    pub(super) fn see_to_reclaims(&mut self, now: Instant) {
        for ReclaimOf(worker, done) in self.reclaims.attend(now) {
            self.crew.order(worker, Order::Reclaimed(Box::new(done)));
        }
    }

    /// Gives everything back here, and waits for as long as that takes.
    pub(super) fn reclaim_here(&mut self) {
        while let Some(ReclaimOf(worker, done)) = self.reclaims.run_here() {
            self.crew.order(worker, Order::Reclaimed(Box::new(done)));
        }
    }
}
