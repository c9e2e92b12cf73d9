//! How fast the peer acknowledges: what `TCP_INFO` calls the delivery rate.

use core::ops::Range;

use crate::Instant;
use crate::time::Nanos;

/// What is being measured, while something is in flight.
#[derive(Clone, Copy, Default)]
pub(crate) struct Measurement {
    /// When the present measurement began, in microseconds of the clock, or zero before the first.
    /// The low bits are enough, for a flight lasts minutes at most.
    since: u32,
    /// The low bits of the bytes acknowledged by then.
    from: u32,
}

/// The cumulative acknowledgement has moved.
pub(crate) struct Progress {
    /// From so many bytes of our stream to so many.
    pub(crate) acked: Range<u64>,
    /// When the oldest of what was acknowledged had begun to wait; what lies before that, when nothing
    /// was in flight, does not count.
    pub(crate) begun: Instant,
    pub(crate) now: Instant,
    pub(crate) srtt: Option<Nanos>,
    /// Nothing is in flight any more.
    pub(crate) at_rest: bool,
}

/// The rate over the latest round trip in which something was acknowledged, in bytes a millisecond.
#[derive(Clone, Copy, Default)]
pub(crate) struct DeliveryRate(u32);

impl DeliveryRate {
    /// A measurement takes a round trip. A whole flight took one, even where the mean of earlier ones
    /// is longer: it is measured if it was acknowledged at once, or if nothing has been before.
    #[inline]
    pub(crate) fn on_progress(&mut self, measurement: &mut Measurement, progress: &Progress) {
        let is_first = measurement.since == 0;
        if is_first {
            measurement.since = micros(progress.begun);
            measurement.from = progress.acked.start as u32;
        }
        let span = micros(progress.now).wrapping_sub(measurement.since);
        let is_due = if progress.at_rest {
            is_first || self.0 == 0
        } else {
            Nanos::from_micros(span) >= progress.srtt.unwrap_or_default()
        };
        if !is_due || span == 0 {
            return;
        }
        let acked = progress.acked.end as u32;
        // Far less than 2^32 bytes in a round trip: windows are below 2^30.
        let bytes = u64::from(acked.wrapping_sub(measurement.from));
        self.0 = u32::try_from(bytes * 1000 / u64::from(span)).unwrap_or(u32::MAX);
        measurement.since = micros(progress.now);
        measurement.from = acked;
    }

    /// Bytes a second; zero while nothing has been measured.
    pub(crate) fn bytes_per_second(self) -> u64 {
        u64::from(self.0) * 1000
    }
}

fn micros(at: Instant) -> u32 {
    (at.as_micros() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `acked` as it moves, and times in milliseconds.
    fn progress(acked: Range<u64>, begun: u64, now: u64) -> Progress {
        Progress {
            acked,
            begun: Instant::from_millis(begun),
            now: Instant::from_millis(now),
            srtt: Some(Nanos::from_millis(10)),
            at_rest: false,
        }
    }

    fn rest(acked: Range<u64>, begun: u64, now: u64) -> Progress {
        let at_rest = true;
        Progress {
            at_rest,
            ..progress(acked, begun, now)
        }
    }

    #[test]
    fn idle_time_does_not_count() {
        let (mut rate, mut flight) = (DeliveryRate::default(), Measurement::default());
        rate.on_progress(&mut flight, &progress(0..10_000, 100, 110));
        assert_eq!(rate.bytes_per_second(), 1_000_000);
        // Too early for another measurement; then it is one over all of it.
        rate.on_progress(&mut flight, &progress(10_000..15_000, 110, 115));
        assert_eq!(rate.bytes_per_second(), 1_000_000);
        rate.on_progress(&mut flight, &progress(15_000..30_000, 115, 120));
        assert_eq!(rate.bytes_per_second(), 2_000_000);
        // After a pause only the flight counts.
        let mut flight = Measurement::default();
        rate.on_progress(&mut flight, &progress(30_000..31_000, 5000, 5010));
        assert_eq!(rate.bytes_per_second(), 100_000);
    }

    #[test]
    fn a_flight_that_is_acknowledged_at_once_is_measured() {
        let mut rate = DeliveryRate::default();
        // Round trips were longer before, but this flight was one.
        rate.on_progress(&mut Measurement::default(), &rest(0..20_000, 100, 105));
        assert_eq!(rate.bytes_per_second(), 4_000_000);
        // So was the first one, though its acknowledgements came within less than that mean.
        let (mut first, mut flight) = (DeliveryRate::default(), Measurement::default());
        first.on_progress(&mut flight, &progress(0..10_000, 100, 104));
        assert_eq!(first.bytes_per_second(), 0);
        first.on_progress(&mut flight, &rest(10_000..20_000, 104, 105));
        assert_eq!(first.bytes_per_second(), 4_000_000);
        // Of one that was measured, what is left is not enough for another.
        let mut flight = Measurement::default();
        rate.on_progress(&mut flight, &progress(20_000..30_000, 200, 210));
        rate.on_progress(&mut flight, &rest(30_000..31_000, 210, 211));
        assert_eq!(rate.bytes_per_second(), 1_000_000);
    }
}
