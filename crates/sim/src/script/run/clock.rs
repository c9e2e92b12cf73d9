//! The times of a script. A relative one counts from when the event before was meant to happen, so
//! that the inexactness of a real clock does not add up; after an event at any time, from when it
//! did happen.

use core::time::Duration;

use crate::script::ast::{Moment, Script, When};

/// When the event before happened, or was meant to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock(Duration);

impl Clock {
    pub(super) fn set(&mut self, at: Duration) {
        self.0 = at;
    }

    fn moment(self, moment: Moment) -> Duration {
        match moment {
            Moment::At(at) => at,
            Moment::After(span) => self.0.saturating_add(span),
        }
    }

    /// When an event begins, and ends.
    pub(super) fn times(self, when: When) -> (Duration, Duration) {
        match when {
            When::Moment(moment) => (self.moment(moment), self.moment(moment)),
            When::Between(first, second) | When::During(first, second) => {
                (self.moment(first), self.moment(second))
            }
            When::Any => (self.0, self.0),
        }
    }

    /// The earliest and latest times of an event, if it has any.
    pub(super) fn window(self, when: When) -> Option<(Duration, Duration)> {
        (when != When::Any).then(|| self.times(when))
    }
}

impl Script {
    /// How long it takes, if everything happens at the latest that the script allows.
    pub fn duration(&self) -> Duration {
        let mut clock = Clock::default();
        for event in &self.events {
            clock.set(clock.times(event.when).1);
        }
        clock.0
    }
}
