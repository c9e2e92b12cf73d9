//! The round-trip time, and the retransmission timeout that follows from it (RFC 6298).
//!
//! Which measurements are taken is the caller's business: of segments that were sent once only
//! (Karn's algorithm, RFC 6298 section 3), or from timestamps (RFC 7323 section 4), which say
//! themselves which transmission they answer.

use crate::time::Nanos;

/// The timeout before anything was measured (RFC 6298 rule 2.1).
pub const INITIAL_RTO: Nanos = Nanos::from_secs(1);
/// The least timeout. RFC 6298 rule 2.4 recommends one second, from a time of coarse clocks; what
/// matters is that it outlasts a delayed acknowledgement, and 200 ms is what the internet uses.
pub const MIN_RTO: Nanos = Nanos::from_millis(200);
/// The greatest timeout, backed off or not (rule 2.5 asks for at least 60 s).
pub const MAX_RTO: Nanos = Nanos::from_secs(120);

/// Smoothed estimates of one connection's round-trip time.
#[derive(Clone, Copy, Debug, Default)]
pub struct RttEstimator {
    /// SRTT in eighths of a microsecond; 0 until the first sample.
    smoothed_x8: u32,
    /// RTTVAR in quarters of a microsecond.
    variation_x4: u32,
    /// The least sample, in microseconds.
    min: u32,
}

impl RttEstimator {
    /// An estimator that has seen nothing.
    pub const fn new() -> RttEstimator {
        RttEstimator {
            smoothed_x8: 0,
            variation_x4: 0,
            min: 0,
        }
    }

    /// Takes a measurement into account. One above [`MAX_RTO`] counts as that, one below a
    /// microsecond as a microsecond.
    #[inline]
    //= RFC 6298 §2
    pub fn on_sample(&mut self, rtt: Nanos) {
        let sample = rtt.min(MAX_RTO).as_micros().max(1) as u32;
        if self.smoothed_x8 == 0 {
            // Rule 2.2: SRTT <- R, RTTVAR <- R/2.
            self.smoothed_x8 = sample * 8;
            self.variation_x4 = sample * 2;
            self.min = sample;
            return;
        }
        self.min = self.min.min(sample);
        // Rule 2.3, the variation first, with the old SRTT:
        // RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R'|; SRTT <- 7/8 SRTT + 1/8 R'.
        let error = (self.smoothed_x8 / 8).abs_diff(sample);
        self.variation_x4 = self.variation_x4 - self.variation_x4 / 4 + error;
        self.smoothed_x8 = self.smoothed_x8 - self.smoothed_x8 / 8 + sample;
    }

    /// Takes note of a measurement that is not to count for the timeout, being one of many in a round
    /// trip: it may be the least.
    #[inline]
    pub fn note(&mut self, rtt: Nanos) {
        let sample = rtt.min(MAX_RTO).as_micros().max(1) as u32;
        self.min = self.min.min(sample);
    }

    /// SRTT, once there was a sample.
    #[inline]
    pub fn smoothed(&self) -> Option<Nanos> {
        self.sampled(self.smoothed_x8 / 8)
    }

    /// RTTVAR, once there was a sample.
    #[inline]
    pub fn variation(&self) -> Option<Nanos> {
        self.sampled(self.variation_x4 / 4)
    }

    /// The least sample.
    #[inline]
    pub fn min(&self) -> Option<Nanos> {
        self.sampled(self.min)
    }

    #[inline]
    fn sampled(&self, micros: u32) -> Option<Nanos> {
        (self.smoothed_x8 != 0).then(|| Nanos::from_micros(micros))
    }

    /// The retransmission timeout, not backed off.
    ///
    /// This is SRTT + max(G, 4 RTTVAR) of rule 2.3, with [`MIN_RTO`] for the clock granularity G:
    /// on a steady path RTTVAR decays to nothing, and a timeout of SRTT alone would fire on the
    /// first acknowledgement that the peer delays.
    #[inline]
    pub fn rto(&self) -> Nanos {
        if self.smoothed_x8 == 0 {
            return INITIAL_RTO;
        }
        let smoothed = Nanos::from_micros(self.smoothed_x8 / 8);
        let margin = Nanos::from_micros(self.variation_x4).max(MIN_RTO);
        (smoothed + margin).min(MAX_RTO)
    }

    /// The retransmission timeout after `backoffs` expirations in a row (rule 5.5).
    #[inline]
    pub fn backed_off_rto(&self, backoffs: u32) -> Nanos {
        let factor = 1_u32.checked_shl(backoffs).unwrap_or(u32::MAX);
        self.rto().times(factor).min(MAX_RTO)
    }
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
            rtt.on_sample(ms(sample));
        }
        rtt
    }

    #[test]
    fn nothing_is_known_at_first() {
        let rtt = RttEstimator::new();
        assert_eq!(
            (rtt.smoothed(), rtt.min(), rtt.variation()),
            (None, None, None)
        );
        assert_eq!(rtt.rto(), INITIAL_RTO);
    }

    #[test]
    fn the_first_sample_is_taken_whole() {
        let rtt = after(&[300]);
        assert_eq!(rtt.smoothed(), Some(ms(300)));
        assert_eq!(rtt.variation(), Some(ms(150)));
        // 300 + 4 * 150.
        assert_eq!(rtt.rto(), ms(900));
    }

    //~ RFC 6298 §2
    #[test]
    fn later_samples_are_smoothed() {
        let rtt = after(&[300, 500]);
        // RTTVAR = 3/4 * 150 + 1/4 * 200 = 162.5; SRTT = 7/8 * 300 + 1/8 * 500 = 325.
        assert_eq!(rtt.smoothed(), Some(ms(325)));
        assert_eq!(rtt.variation(), Some(Nanos::from_micros(162_500)));
        assert_eq!(rtt.rto(), ms(975));
        assert_eq!(rtt.min(), Some(ms(300)));
    }

    #[test]
    fn a_steady_path_keeps_room_for_a_delayed_acknowledgement() {
        let rtt = after(&[50; 100]);
        assert_eq!(rtt.smoothed(), Some(ms(50)));
        assert_eq!(rtt.rto(), ms(250));
    }

    #[test]
    fn bounds_hold_for_any_sample() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(Nanos::ZERO);
        assert_eq!(rtt.smoothed(), Some(Nanos::from_micros(1)));
        assert_eq!(rtt.rto(), MIN_RTO + Nanos::from_micros(1));
        for _ in 0..1_000 {
            rtt.on_sample(Nanos::new(u64::MAX));
            assert!((MIN_RTO..=MAX_RTO).contains(&rtt.rto()));
        }
        assert!(rtt.smoothed().unwrap() <= MAX_RTO);
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
}
