//! The nature of a link.

use core::time::Duration;

use crate::rng::Chance;

/// Losses that come in bursts: the two states of Gilbert and Elliott. In the good one the link loses
/// frames at its ordinary rate, in the bad one at this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// How likely a frame of the good state is to be the last before the bad one.
    pub begin: Chance,
    /// How likely a frame of the bad state is to be the last before the good one.
    pub end: Chance,
    /// How likely a frame of the bad state is to be lost.
    pub loss: Chance,
    /// When the bad state ends however few frames there are: without such an end a sender that backs
    /// off would meet the same burst for ever.
    pub longest: Duration,
}

/// The nature of a link, in one direction.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// How long the way is. A change is a new route: what is sent from then on may overtake what
    /// went before.
    pub delay: Duration,
    /// How much longer it may take a frame, at random. Frames still arrive in order.
    pub jitter: Duration,
    /// Bits a second; without bound if `None`.
    pub bandwidth: Option<u64>,
    /// How many bytes may wait for bandwidth. What comes on top is lost.
    pub queue: usize,
    /// From how many waiting bytes on frames are marked, if their transport understands ECN.
    pub marking: Option<usize>,
    /// How likely a frame is to be lost.
    pub loss: Chance,
    /// Losses in bursts, beside those at random.
    pub bursts: Option<Burst>,
    /// How likely a frame is to arrive twice.
    pub duplication: Chance,
    /// How likely a frame is to be overtaken.
    pub reordering: Chance,
    /// By how much such a frame is late, at most.
    pub lateness: Duration,
    /// How likely a bit of a frame is to be turned over.
    pub corruption: Chance,
    /// The largest IP packet that gets through.
    pub mtu: usize,
    /// Whether the sender of a larger one is told so by ICMP; if not, it is lost without a word.
    pub icmp: bool,
}

impl Default for LinkConfig {
    /// Ten milliseconds, and no fault.
    fn default() -> LinkConfig {
        LinkConfig {
            delay: Duration::from_millis(10),
            jitter: Duration::ZERO,
            bandwidth: None,
            queue: 1 << 20,
            marking: None,
            loss: Chance::NEVER,
            bursts: None,
            duplication: Chance::NEVER,
            reordering: Chance::NEVER,
            lateness: Duration::from_millis(20),
            corruption: Chance::NEVER,
            mtu: 65_535,
            icmp: false,
        }
    }
}
