//! HyStart++: leaving slow start before it overruns the queue (RFC 9406).
//!
//! Slow start doubles the window each round trip until something is lost, and then a whole window
//! may be. But before a queue overflows it fills, and round trips grow. Where the least round trip of
//! a round has grown by an eighth over that of the round before, growth goes on at a quarter of the
//! pace (conservative slow start); if the delay goes away again, so does the caution, and if it has
//! stayed for five rounds, slow start is over.
//!
//! It is for the first slow start only, in which nothing is known of the path (RFC 9406 §4.3).
//! There is no limit to what one acknowledgement may add: L, as in appropriate byte counting (ABC, RFC 3465),
//! is infinite for a sender that paces.

use core::time::Duration;

/// MIN_RTT_THRESH, in microseconds.
const MIN_RTT_THRESH: u32 = 4_000;
/// MAX_RTT_THRESH, in microseconds.
const MAX_RTT_THRESH: u32 = 16_000;
/// MIN_RTT_DIVISOR: the share of a round trip that counts as growth.
const MIN_RTT_DIVISOR: u32 = 8;
/// N_RTT_SAMPLE: measurements of a round before it is judged.
const N_RTT_SAMPLE: u8 = 8;
/// CSS_GROWTH_DIVISOR: how much slower conservative slow start is.
const CSS_GROWTH_DIVISOR: u32 = 4;
/// CSS_ROUNDS: how long it lasts.
const CSS_ROUNDS: u8 = 5;
/// No round trip.
const NEVER: u32 = u32::MAX;

/// How slow start goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// By so many bytes.
    By(u32),
    /// Not at all: it is over.
    Over,
}

/// The state of the first slow start. Round trips in microseconds.
//= RFC 9406 §4.3
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// lastRoundMinRTT.
    last: u32,
    /// currentRoundMinRTT.
    current: u32,
    /// cssBaselineMinRtt, while slow start is conservative.
    baseline: u32,
    /// rttSampleCount.
    samples: u8,
    /// Rounds of conservative slow start; 0 while it is not.
    cautious: u8,
}

impl HyStart {
    pub(super) const fn new() -> HyStart {
        HyStart {
            last: NEVER,
            current: NEVER,
            baseline: NEVER,
            samples: 0,
            cautious: 0,
        }
    }

    /// `bytes` were acknowledged in slow start; `rtt` is what that measured, and `round` says that
    /// with it a round begins: what was in flight when the last one began is acknowledged.
    //= RFC 9406 §4.2
    #[inline]
    pub(super) fn on_ack(&mut self, bytes: u32, rtt: Option<Duration>, round: bool) -> Growth {
        if round {
            self.last = self.current;
            self.current = NEVER;
            self.samples = 0;
            if self.cautious > 0 {
                if self.cautious >= CSS_ROUNDS {
                    return Growth::Over;
                }
                self.cautious += 1;
            }
        }
        if let Some(rtt) = rtt {
            let micros = u32::try_from(rtt.as_micros()).unwrap_or(NEVER - 1);
            self.current = self.current.min(micros);
            self.samples = self.samples.saturating_add(1);
        }
        if self.samples >= N_RTT_SAMPLE {
            if self.cautious > 0 {
                if self.current < self.baseline {
                    // The delay has gone again.
                    self.baseline = NEVER;
                    self.cautious = 0;
                }
            } else if self.last != NEVER {
                let growth = (self.last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if self.current >= self.last.saturating_add(growth) {
                    self.baseline = self.current;
                    self.cautious = 1;
                }
            }
        }
        if self.cautious > 0 {
            Growth::By(bytes / CSS_GROWTH_DIVISOR)
        } else {
            Growth::By(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round of so many acknowledgements with these round trips, in milliseconds.
    fn round(hystart: &mut HyStart, millis: u64) -> Growth {
        let rtt = Some(Duration::from_millis(millis));
        let mut growth = hystart.on_ack(1000, rtt, true);
        for _ in 0..9 {
            if growth == Growth::Over {
                break;
            }
            growth = hystart.on_ack(1000, rtt, false);
        }
        growth
    }

    //~ RFC 9406 §4.2, §4.3
    #[test]
    fn growing_round_trips_slow_it_down_and_then_end_it() {
        let mut hystart = HyStart::new();
        assert_eq!(round(&mut hystart, 40), Growth::By(1000));
        // An eighth of 40 ms is 5 ms: less than that is noise.
        assert_eq!(round(&mut hystart, 44), Growth::By(1000));
        assert_eq!(round(&mut hystart, 50), Growth::By(250));
        for _ in 0..4 {
            assert_eq!(round(&mut hystart, 52), Growth::By(250));
        }
        assert_eq!(round(&mut hystart, 52), Growth::Over);
    }

    //~ RFC 9406 §4.2
    #[test]
    fn a_delay_that_goes_away_was_none() {
        let mut hystart = HyStart::new();
        round(&mut hystart, 40);
        assert_eq!(round(&mut hystart, 60), Growth::By(250));
        // One that stays has not gone.
        assert_eq!(round(&mut hystart, 60), Growth::By(250));
        assert_eq!(round(&mut hystart, 45), Growth::By(1000));
        // Few measurements say nothing.
        let mut hystart = HyStart::new();
        round(&mut hystart, 40);
        let slow = Some(Duration::from_millis(90));
        assert_eq!(hystart.on_ack(1000, slow, true), Growth::By(1000));
        for _ in 0..6 {
            assert_eq!(hystart.on_ack(1000, slow, false), Growth::By(1000));
        }
        assert_eq!(hystart.on_ack(1000, slow, false), Growth::By(250));
    }

    //~ RFC 9406 §4.3
    #[test]
    fn on_short_paths_milliseconds_do_not_count() {
        let mut hystart = HyStart::new();
        round(&mut hystart, 1);
        assert_eq!(round(&mut hystart, 4), Growth::By(1000));
        assert_eq!(round(&mut hystart, 8), Growth::By(250));
        // And on long ones, 16 ms always do.
        let mut hystart = HyStart::new();
        round(&mut hystart, 400);
        assert_eq!(round(&mut hystart, 417), Growth::By(250));
    }
}
