//! Whether the congestion window was what held the sender back.
//!
//! A window that was not filled has not been tested, and does not grow (RFC 9438 §5.8, RFC 7661 §4.3).
//! Whether it was filled cannot be asked at the moment in which an acknowledgement arrives: pacing
//! spreads what the window allows over the round trip, and may hold back a part of it just then. So
//! what counts is whether the flight reached the window at any time of the last round trip. That its
//! pace holds a sender back says nothing by itself.
//!
//! This is one of three notions of "application-limited"; [`congestion`](super) compares them.

use wire::seq::SeqNumber;

use super::Controller;

/// How full the window has been in a round trip. It exists only while something is in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CwndUse {
    /// The flight reached the window.
    filled: bool,
    /// The largest flight, in bytes, if it did not.
    most: u32,
    /// This round trip ends when this is acknowledged.
    end: SeqNumber,
}

impl CwndUse {
    /// Nothing is in flight; `start` is the next number to be sent.
    pub(crate) fn new(start: SeqNumber) -> CwndUse {
        CwndUse {
            end: start,
            ..CwndUse::default()
        }
    }

    /// What may leave now has left: `una .. nxt` is in flight, and has `filled` the window or not.
    #[inline]
    pub(crate) fn note(&mut self, (una, nxt): (SeqNumber, SeqNumber), filled: bool) {
        let flight = nxt.distance_from(una).max(0) as u32;
        let is_more = filled || (!self.filled && flight > self.most);
        if is_more || una.at_or_after(self.end) {
            *self = CwndUse {
                filled,
                most: flight,
                end: nxt,
            };
        }
    }

    /// Whether the window may grow. In slow start it is enough to have used more than half of it, or
    /// it would lag behind an owner whose sends grow: so it comes to twice what was in use.
    #[inline]
    pub(crate) fn is_limited(&self, congestion: &Controller) -> bool {
        self.filled || (congestion.in_slow_start() && congestion.cwnd() / 2 < self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::{Algorithm, CongestionControl};

    fn seq(at: u32) -> SeqNumber {
        SeqNumber(at)
    }

    /// A window of 20,000 bytes.
    fn avoiding() -> Controller {
        let mut congestion = Controller::new(Algorithm::Reno, 1_000);
        congestion.set_cwnd(20_000);
        congestion.state_mut().end_slow_start();
        congestion
    }

    //~ RFC 7661 §4.3
    #[test]
    fn a_window_that_was_filled_counts_as_filled_for_a_round_trip() {
        let mut usage = CwndUse::new(seq(0));
        assert!(!usage.is_limited(&avoiding()));
        usage.note((seq(0), seq(20_000)), true);
        assert!(usage.is_limited(&avoiding()));
        // Acknowledgements make room, and the pace leaves it unused for a while.
        usage.note((seq(5_000), seq(21_000)), false);
        usage.note((seq(19_999), seq(30_000)), false);
        assert!(usage.is_limited(&avoiding()));
        // Nobody filled it for a round trip.
        usage.note((seq(20_000), seq(30_000)), false);
        assert!(!usage.is_limited(&avoiding()));
        usage.note((seq(25_000), seq(45_000)), true);
        assert!(usage.is_limited(&avoiding()));
    }

    //~ RFC 7661 §4.3
    #[test]
    fn slow_start_comes_to_twice_what_was_in_use() {
        let mut congestion = Controller::new(Algorithm::Reno, 1_000);
        congestion.set_cwnd(20_000);
        let mut usage = CwndUse::new(seq(0));
        usage.note((seq(0), seq(10_000)), false);
        assert!(!usage.is_limited(&congestion));
        usage.note((seq(0), seq(11_000)), false);
        assert!(usage.is_limited(&congestion));
        // Less in flight later does not change that within the round trip.
        usage.note((seq(8_000), seq(11_000)), false);
        assert!(usage.is_limited(&congestion));
        congestion.set_cwnd(22_000);
        assert!(!usage.is_limited(&congestion));
    }
}
