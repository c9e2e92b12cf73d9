//! The states of BBR.

/// Where BBR is in its life (BBR.state).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Doubles each round trip until the rate grows no further.
    Startup,
    /// Lets the queue go that Startup has left.
    Drain,
    /// ProbeBW: sends less, so that a queue goes.
    Down,
    /// ProbeBW: sends at the rate.
    Cruise,
    /// ProbeBW: fills the pipe before it asks for more.
    Refill,
    /// ProbeBW: sends more, to see whether there is more.
    Up,
    /// Sends little for a moment, to see how long the path is without a queue.
    ProbeRtt,
}
