//! The round-trip time, and the retransmission timeout that follows from it (RFC 6298).
//!
//! Which measurements are taken is the caller's business: of segments that were sent once only
//! (Karn's algorithm, RFC 6298 section 3), or from timestamps (RFC 7323 section 4), which say
//! themselves which transmission they answer.

use crate::Instant;
use crate::time::Nanos;

/// The timeout before anything was measured (RFC 6298 rule 2.1).
pub const INITIAL_RTO: Nanos = Nanos::from_secs(1);
/// The same after a handshake whose SYN had to be sent again (rule 5.7).
pub const AFTER_SYN_TIMEOUT: Nanos = Nanos::from_secs(3);
/// How long the least round trip is remembered, in seconds: as long as in Linux
/// (`tcp_min_rtt_wlen`).
pub const MIN_RTT_WINDOW_SECONDS: u32 = 300;
/// The least timeout. RFC 6298 rule 2.4 recommends one second, from a time of coarse clocks; what
/// matters is that it outlasts a delayed acknowledgement, and 200 ms is what the internet uses.
pub const MIN_RTO: Nanos = Nanos::from_millis(200);
/// The greatest timeout, backed off or not (rule 2.5 asks for at least 60 s).
pub const MAX_RTO: Nanos = Nanos::from_secs(120);

/// Smoothed estimates of one connection's round-trip time.
#[derive(Clone, Copy, Debug, Default)]
pub struct RttEstimator {
    /// SRTT in eighths of a microsecond; 0 until the first sample.
    srtt_x8: u32,
    /// RTTVAR in quarters of a microsecond.
    rttvar_x4: u32,
    /// The least sample of this half of [`MIN_RTT_WINDOW_SECONDS`], in microseconds.
    min: u32,
    /// That of the half before.
    min_before: u32,
    /// Which half this is, counted from the beginning of the clock.
    half: u16,
}

impl RttEstimator {
    /// An estimator that has seen nothing.
    pub const fn new() -> RttEstimator {
        RttEstimator {
            srtt_x8: 0,
            rttvar_x4: 0,
            min: 0,
            min_before: 0,
            half: 0,
        }
    }

    /// The estimates as they stand: SRTT, RTTVAR, and the least round trip. All are zero before there was
    /// anything to tell.
    pub(crate) fn estimates(&self) -> [Nanos; 3] {
        let [eighths, quarters] = [(self.srtt_x8, 125), (self.rttvar_x4, 250)]
            .map(|(count, nanos)| Nanos::new(u64::from(count) * nanos));
        [
            eighths,
            quarters,
            Nanos::from_micros(self.min.min(self.min_before)),
        ]
    }

    /// An estimator that goes on from such estimates.
    pub(crate) fn resume(now: Instant, [srtt, rttvar, min]: [Nanos; 3]) -> RttEstimator {
        let longest = MAX_RTO.as_micros() as u32;
        let count = |span: Nanos, nanos: u64, most: u32| {
            u32::try_from(span.get() / nanos).unwrap_or(most).min(most)
        };
        let min = count(min, 1_000, longest);
        RttEstimator {
            srtt_x8: count(srtt, 125, longest * 8),
            rttvar_x4: count(rttvar, 250, longest * 4),
            min,
            min_before: min,
            half: half(now),
        }
    }

    /// Our SYN or SYN-ACK had to be sent again: should there be no sample by the time data is sent,
    /// the timeout begins at three seconds (RFC 6298 rule 5.7).
    pub(crate) fn note_syn_timeout(&mut self) {
        if self.srtt_x8 == 0 {
            self.rttvar_x4 = 1;
        }
    }

    /// Takes a measurement into account. One above [`MAX_RTO`] counts as that, one below a
    /// microsecond as a microsecond.
    #[inline]
    //= RFC 6298 §2
    pub fn on_sample(&mut self, now: Instant, rtt: Nanos) {
        let sample = self.note(now, rtt);
        if self.srtt_x8 == 0 {
            // Rule 2.2: SRTT <- R, RTTVAR <- R/2.
            self.srtt_x8 = sample * 8;
            self.rttvar_x4 = sample * 2;
            return;
        }
        // Rule 2.3, the variation first, with the old SRTT:
        // RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R'|; SRTT <- 7/8 SRTT + 1/8 R'.
        let error = (self.srtt_x8 / 8).abs_diff(sample);
        self.rttvar_x4 = self.rttvar_x4 - self.rttvar_x4 / 4 + error;
        self.srtt_x8 = self.srtt_x8 - self.srtt_x8 / 8 + sample;
    }

    /// Takes note of a measurement that is not to count for the timeout, being one of many in a round
    /// trip: it may be the least. Returns it in microseconds.
    #[inline]
    pub fn note(&mut self, now: Instant, rtt: Nanos) -> u32 {
        let sample = rtt.min(MAX_RTO).as_micros().max(1) as u32;
        let half = half(now);
        if half == self.half && self.min > 0 {
            self.min = self.min.min(sample);
        } else {
            let follows = self.min > 0 && half == self.half.wrapping_add(1);
            self.min_before = if follows { self.min } else { sample };
            self.min = sample;
            self.half = half;
        }
        sample
    }

    /// SRTT, once there was a sample.
    #[inline]
    pub fn srtt(&self) -> Option<Nanos> {
        self.sampled(self.srtt_x8 / 8)
    }

    /// RTTVAR, once there was a sample.
    #[inline]
    pub fn rttvar(&self) -> Option<Nanos> {
        self.sampled(self.rttvar_x4 / 4)
    }

    /// The least sample of the last [`MIN_RTT_WINDOW_SECONDS`], or of half of them: a path that has
    /// become longer is not held against what it was for ever (RFC 8985 §6.2, step 1).
    //= RFC 8985 §6.2
    #[inline]
    pub fn min_rtt(&self) -> Option<Nanos> {
        self.sampled(self.min.min(self.min_before))
    }

    #[inline]
    fn sampled(&self, micros: u32) -> Option<Nanos> {
        (self.srtt_x8 != 0).then(|| Nanos::from_micros(micros))
    }

    /// The retransmission timeout, not backed off.
    ///
    /// This is SRTT + max(G, 4 RTTVAR) of rule 2.3, with [`MIN_RTO`] for the clock granularity G:
    /// on a steady path RTTVAR decays to nothing, and a timeout of SRTT alone would fire on the
    /// first acknowledgement that the peer delays.
    #[inline]
    pub fn rto(&self) -> Nanos {
        if self.srtt_x8 == 0 {
            return if self.rttvar_x4 == 0 {
                INITIAL_RTO
            } else {
                AFTER_SYN_TIMEOUT
            };
        }
        let smoothed = Nanos::from_micros(self.srtt_x8 / 8);
        let margin = Nanos::from_micros(self.rttvar_x4).max(MIN_RTO);
        (smoothed + margin).min(MAX_RTO)
    }

    /// The retransmission timeout after `backoffs` expirations in a row (rule 5.5).
    #[inline]
    pub fn backed_off_rto(&self, backoffs: u32) -> Nanos {
        let factor = 1_u32.checked_shl(backoffs).unwrap_or(u32::MAX);
        self.rto().times(factor).min(MAX_RTO)
    }
}

/// Which half of a [`MIN_RTT_WINDOW_SECONDS`] it is.
fn half(now: Instant) -> u16 {
    (now.seconds() / (MIN_RTT_WINDOW_SECONDS / 2)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u32) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn after(samples: &[u32]) -> RttEstimator {
        let mut rtt = RttEstimator::new();
        for &sample in samples {
            rtt.on_sample(Instant::ZERO, ms(sample));
        }
        rtt
    }

    #[test]
    fn nothing_is_known_at_first() {
        let rtt = RttEstimator::new();
        assert_eq!(
            (rtt.srtt(), rtt.min_rtt(), rtt.rttvar()),
            (None, None, None)
        );
        assert_eq!(rtt.rto(), INITIAL_RTO);
    }

    #[test]
    fn the_first_sample_is_taken_whole() {
        let rtt = after(&[300]);
        assert_eq!(rtt.srtt(), Some(ms(300)));
        assert_eq!(rtt.rttvar(), Some(ms(150)));
        // 300 + 4 * 150.
        assert_eq!(rtt.rto(), ms(900));
    }

    //~ RFC 6298 §2
    #[test]
    fn later_samples_are_smoothed() {
        let rtt = after(&[300, 500]);
        // RTTVAR = 3/4 * 150 + 1/4 * 200 = 162.5; SRTT = 7/8 * 300 + 1/8 * 500 = 325.
        assert_eq!(rtt.srtt(), Some(ms(325)));
        assert_eq!(rtt.rttvar(), Some(Nanos::from_micros(162_500)));
        assert_eq!(rtt.rto(), ms(975));
        assert_eq!(rtt.min_rtt(), Some(ms(300)));
    }

    #[test]
    fn a_steady_path_keeps_room_for_a_delayed_acknowledgement() {
        let rtt = after(&[50; 100]);
        assert_eq!(rtt.srtt(), Some(ms(50)));
        assert_eq!(rtt.rto(), ms(250));
    }

    #[test]
    fn bounds_hold_for_any_sample() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(Instant::ZERO, Nanos::ZERO);
        assert_eq!(rtt.srtt(), Some(Nanos::from_micros(1)));
        assert_eq!(rtt.rto(), MIN_RTO + Nanos::from_micros(1));
        for _ in 0..1_000 {
            rtt.on_sample(Instant::ZERO, Nanos::new(u64::MAX));
            assert!((MIN_RTO..=MAX_RTO).contains(&rtt.rto()));
        }
        assert!(rtt.srtt().unwrap() <= MAX_RTO);
    }

    #[test]
    fn backing_off_doubles_up_to_the_limit() {
        let rtt = after(&[50; 100]);
        assert_eq!(rtt.backed_off_rto(0), ms(250));
        assert_eq!(rtt.backed_off_rto(1), ms(500));
        assert_eq!(rtt.backed_off_rto(8), ms(64_000));
        assert_eq!(rtt.backed_off_rto(9), MAX_RTO);
        assert_eq!(rtt.backed_off_rto(u32::MAX), MAX_RTO);
    }

    //~ RFC 8985 §6.2
    #[test]
    fn the_least_round_trip_is_forgotten_after_five_minutes() {
        let mut rtt = RttEstimator::new();
        let at = |seconds: u64| Instant::from_secs(10_000 + seconds);
        rtt.on_sample(at(0), ms(10));
        // Half of the time and more it is remembered in any case.
        for seconds in (10..150).step_by(10) {
            rtt.note(at(seconds), ms(80));
            assert_eq!(rtt.min_rtt(), Some(ms(10)), "{seconds}");
        }
        rtt.note(at(310), ms(80));
        assert_eq!(rtt.min_rtt(), Some(ms(80)));
        // A shorter path counts at once, and one of before a pause no more.
        rtt.note(at(311), ms(20));
        assert_eq!(rtt.min_rtt(), Some(ms(20)));
        rtt.note(at(3_000), ms(50));
        assert_eq!(rtt.min_rtt(), Some(ms(50)));
    }

    //~ RFC 6298 §5.7
    #[test]
    fn a_lost_syn_makes_the_first_timeout_longer() {
        let mut rtt = RttEstimator::new();
        rtt.note_syn_timeout();
        assert_eq!((rtt.rto(), rtt.srtt()), (AFTER_SYN_TIMEOUT, None));
        rtt.on_sample(Instant::ZERO, ms(50));
        assert_eq!(rtt.rttvar(), Some(ms(25)));
        rtt.note_syn_timeout();
        assert_eq!(rtt.rttvar(), Some(ms(25)));
    }
}
