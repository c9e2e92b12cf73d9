//! A listener, and where its new connections go.

use core::net::SocketAddr;

use netdev::steering::SHARE_ALL;
use policy::Band;

use super::loads::ReadLoads;
use super::together::Came;
use crate::config::Placement;
use crate::exchange::Shared;
use crate::placement::{Decider, Decision, Lately, Place};

/// What became of the last reading of what has come to a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// There was none: it is new, or has no number.
    None,
    /// It succeeded.
    Done,
    /// It failed.
    Failed,
}

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
    /// The rates that decided, which may be of more than this one.
    pub by: Option<Lately>,
    pub reading: Reading,
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
            by: None,
            reading: Reading::None,
        }
    }

    /// It is placed so from now on, and nothing is known yet of what comes to it. Without a number it is the engine's.
    pub fn begin(&mut self, configured: Placement, decider: Decider) {
        self.configured = configured;
        self.decider = decider;
        self.decided = None;
        self.by = None;
        self.reading = Reading::None;
        self.place = match (configured, self.slot) {
            (Placement::Kernel, Some(_)) => Place::Kernel,
            // What was decided before is not known to hold.
            _ => Place::Engine,
        };
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

    /// Whether it is to be shared, and there was no number for it.
    pub fn waits(&self) -> bool {
        self.configured != Placement::Engine && self.slot.is_none()
    }

    /// Reads what has come to it, which listens at `local`. What cannot be read now says nothing of now.
    pub fn read(&mut self, local: SocketAddr, now: u64, loads: &mut dyn ReadLoads) {
        let Some(slot) = self.slot else {
            self.reading = Reading::None;
            return;
        };
        match loads.of_slot(slot, local) {
            Some(load) => {
                self.reading = Reading::Done;
                self.decider.read(now, load);
            }
            None => {
                self.reading = Reading::Failed;
                self.decided = None;
            }
        }
    }

    /// What came to it in the last second: that takes two readings.
    pub fn came(&self) -> Came {
        match (self.reading, self.decider.lately()) {
            (Reading::Failed, _) => Came::Unread,
            (Reading::Done, Some(lately)) => Came::Rate(lately.rate),
            (Reading::Done | Reading::None, _) => Came::Uncounted,
        }
    }

    /// Decides, where it is adaptive by the rates that are given; whether another place follows.
    pub fn decide(&mut self, now: u64, band: &Band, by: Option<Lately>) -> bool {
        if self.reading != Reading::Done {
            return false;
        }
        let by = match self.is_adaptive() {
            true => by,
            false => self.decider.lately(),
        };
        let decision = self.decider.decide(now, band, by);
        self.decided = Some(decision);
        self.by = by;
        let place = match self.configured {
            Placement::Adaptive => decision.place,
            Placement::Engine => Place::Engine,
            Placement::Kernel => Place::Kernel,
        };
        std::mem::replace(&mut self.place, place) != place
    }
}
