//! A listener, and where its new connections go.

use netdev::steering::SHARE_ALL;
use policy::Band;

use super::loads::ReadLoads;
use crate::config::Placement;
use crate::exchange::Shared;
use crate::placement::{Decider, Decision, Lately, Place};

/// A listener.
pub(super) struct Listening {
    /// The workers that have it, a bit for each.
    pub workers: u64,
    pub configured: Placement,
    /// A program that has it serves nothing that comes by the kernel.
    pub pinned: bool,
    /// Where its load is counted, if it is shared.
    pub slot: Option<u16>,
    pub place: Place,
    pub decider: Decider,
    /// Nothing while what comes to it cannot be read, either.
    pub decided: Option<Decision>,
    /// The last reading succeeded.
    pub is_read: bool,
}

impl Listening {
    /// One that is the engine's.
    pub fn new(decider: Decider) -> Self {
        Self {
            workers: 0,
            configured: Placement::Engine,
            pinned: false,
            slot: None,
            place: Place::Engine,
            decider,
            decided: None,
            is_read: false,
        }
    }

    pub fn shared(&self) -> Option<Shared> {
        let share = match self.place {
            Place::Engine => SHARE_ALL,
            Place::Kernel => 0,
        };
        self.slot.map(|slot| Shared { share, slot })
    }

    pub fn is_adaptive(&self) -> bool {
        self.configured == Placement::Adaptive
    }

    /// Reads what has come to it. What cannot be read now says nothing of now.
    pub fn read(&mut self, now: u64, loads: &mut dyn ReadLoads) {
        let load = self.slot.and_then(|slot| loads.of_slot(slot));
        self.is_read = load.is_some();
        match load {
            Some(load) => self.decider.read(now, load),
            None => self.decided = None,
        }
    }

    /// What came to it in the last second; one look is enough to know that.
    pub fn rate(&self) -> Option<f64> {
        let lately = self.decider.lately().filter(|_| self.is_read)?;
        Some(lately.rate)
    }

    /// Decides, where it is adaptive by the rates that are given; whether another place follows.
    pub fn decide(
        &mut self,
        now: u64,
        band: &Band,
        by: impl FnOnce(&Self) -> Option<Lately>,
    ) -> bool {
        if !self.is_read {
            return false;
        }
        let by = match self.is_adaptive() {
            true => by(&*self),
            false => self.decider.lately(),
        };
        let decision = self.decider.decide(now, band, by);
        self.decided = Some(decision);
        let place = match self.configured {
            Placement::Adaptive => decision.place,
            Placement::Engine => Place::Engine,
            Placement::Kernel => Place::Kernel,
        };
        std::mem::replace(&mut self.place, place) != place
    }
}
