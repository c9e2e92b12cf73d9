//! What the engine does of a send, and when.

use serde::{Deserialize, Serialize};

/// What the engine does of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Its worker, which slept before it took the submission that follows, is awake.
    Awake,
    /// It has taken a submission.
    Taken,
    /// It has built a segment, which is in the device's ring.
    Built,
    /// The device has been told of all that was built: the call that makes it leave is over.
    Handed,
    /// It has taken in an acknowledgement.
    Acknowledged,
    /// It has posted how much has left, which ends a send that waits for the wire.
    ToldLeft,
    /// It has posted how much is acknowledged.
    ToldAcknowledged,
    /// It has rung a doorbell after that: the host slept.
    Rung,
}

impl Moment {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Awake => "the worker is awake",
            Self::Taken => "the submission is taken",
            Self::Built => "a segment is built",
            Self::Handed => "the device has it",
            Self::Acknowledged => "an acknowledgement is taken in",
            Self::ToldLeft => "the host is told what has left",
            Self::ToldAcknowledged => "the host is told what is acknowledged",
            Self::Rung => "the host is woken",
        }
    }
}

/// When the engine did something of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// What.
    pub moment: Moment,
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub at: u64,
    /// Bytes of all traced sends so far: taken, built, handed over, acknowledged or told of.
    pub bytes: u64,
}
