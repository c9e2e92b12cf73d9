//! What came of one measurement.

use super::fetch;
use crate::faults;
use std::time::Duration;

/// What came of one measurement.
#[derive(Debug)]
pub(crate) struct Found {
    /// What each fetch got.
    pub(super) got: Vec<fetch::Got>,
    pub(super) wire: faults::Report,
}

/// A wire whose frames are later than this on average was not the one that was asked for.
const LATE: Duration = Duration::from_millis(2);

impl Found {
    /// Megabits a second that the clients got, all of them together.
    pub fn goodput(&self) -> f64 {
        self.got.iter().map(|got| got.all).sum()
    }

    /// The same of the second half of the time, when slow start is over.
    pub fn settled(&self) -> f64 {
        self.got.iter().map(|got| got.settled).sum()
    }

    /// Megabits a second that one of the clients got in the second half.
    pub fn settled_of(&self, index: usize) -> f64 {
        self.got.get(index).map_or(0.0, |got| got.settled)
    }

    /// Of all frames towards the clients, the share that was lost on purpose or for want of room.
    pub fn lost(&self) -> f64 {
        let passed = &self.wire.there;
        (passed.lost + passed.overflowed) as f64 / passed.received.max(1) as f64
    }

    /// What there is to say of a wire that was not the one that was asked for.
    pub fn late(&self) -> Vec<String> {
        let is_late = |passed: &&faults::Passed| {
            let late = passed.lateness.as_secs_f64() / passed.sent.max(1) as f64;
            passed.overrun > 0 || late > LATE.as_secs_f64()
        };
        let both = [&self.wire.there, &self.wire.back];
        both.into_iter()
            .filter(is_late)
            .map(ToString::to_string)
            .collect()
    }
}
