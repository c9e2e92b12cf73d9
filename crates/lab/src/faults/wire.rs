//! The nature of a wire, and what became of the frames on it.

use std::fmt;
use std::time::Duration;

use netdev::faults::Faults;

/// The nature of a wire in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wire {
    /// What it does to TCP segments.
    pub faults: Faults,
    /// How long the way is.
    pub delay: Duration,
    /// Bits a second, of whole Ethernet frames without preamble and checksum; without bound if
    /// `None`.
    pub bandwidth: Option<u64>,
    /// How many bytes may wait for bandwidth, with what is left of the frame that is being sent.
    /// While there are more, TCP segments that come are lost.
    pub queue: usize,
}

impl Wire {
    /// No faults, no delay, no bound.
    pub const PERFECT: Self = Self {
        faults: Faults::NONE,
        delay: Duration::ZERO,
        bandwidth: None,
        queue: usize::MAX,
    };
}

impl From<Faults> for Wire {
    fn from(faults: Faults) -> Self {
        Self {
            faults,
            ..Self::PERFECT
        }
    }
}

/// What became of the frames of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Frames that came.
    pub received: u64,
    /// Frames that went on, copies included.
    pub sent: u64,
    /// Frames lost on purpose.
    pub lost: u64,
    /// Frames repeated on purpose.
    pub duplicated: u64,
    /// Frames held back for others to overtake.
    pub held_back: u64,
    /// Frames with a bit turned over on purpose.
    pub damaged: u64,
    /// Frames lost because the queue for bandwidth was full.
    pub overflowed: u64,
    /// Frames lost because the forwarder could not keep up. If this is much, the faults are not
    /// the ones that were asked for.
    pub overrun: u64,
    /// By how much frames left later than they should have, all together: divided by `sent`, how
    /// true the delay was.
    pub lateness: Duration,
}

impl fmt::Display for Passed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} frames in, {} out; {} lost, {} repeated, {} held back, {} damaged, {} overflowed, \
             {} overrun; {} us late on average",
            self.received,
            self.sent,
            self.lost,
            self.duplicated,
            self.held_back,
            self.damaged,
            self.overflowed,
            self.overrun,
            self.lateness.as_micros() / u128::from(self.sent.max(1))
        )
    }
}

/// What became of the frames of both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// From the first interface to the second: from server to client.
    pub there: Passed,
    /// From the second to the first.
    pub back: Passed,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "there: {}\nback: {}", self.there, self.back)
    }
}
