//! How fast the peer acknowledges: what `TCP_INFO` calls the delivery rate.

use crate::Instant;
use crate::time::Nanos;

/// The rate over the latest round trip in which something was acknowledged.
#[derive(Clone, Copy, Default)]
pub(crate) struct DeliveryRate {
    /// When the present measurement began, in microseconds of the clock, or zero: it begins with
    /// what is sent next. The low bits are enough, for a flight lasts minutes at most.
    since: u32,
    /// The low bits of the bytes acknowledged by then.
    from: u32,
    /// The result of the last measurement.
    bytes_per_ms: u32,
}

impl DeliveryRate {
    /// So many bytes are acknowledged in total. `begun` is when the oldest of what was acknowledged
    /// had begun to wait; what lies before that, when nothing was in flight, does not count.
    pub(crate) fn on_progress(
        &mut self,
        acked: u64,
        begun: Instant,
        now: Instant,
        round_trip: Option<Nanos>,
    ) {
        if self.since == 0 {
            self.since = micros(begun);
        }
        let span = micros(now).wrapping_sub(self.since);
        if Nanos::from_micros(span) >= round_trip.unwrap_or_default() {
            self.measure(acked, now, span);
        }
    }

    /// Nothing is in flight any more, so many bytes being acknowledged; `begun` as above. A whole
    /// flight took a round trip, even where the mean of earlier ones is longer: it is measured if it
    /// was acknowledged at once, or if nothing has been before.
    pub(crate) fn on_rest(&mut self, acked: u64, begun: Instant, now: Instant) {
        let is_whole = self.since == 0;
        if is_whole {
            self.since = micros(begun);
        }
        if is_whole || self.bytes_per_ms == 0 {
            self.measure(acked, now, micros(now).wrapping_sub(self.since));
        }
        self.since = 0;
        self.from = acked as u32;
    }

    fn measure(&mut self, acked: u64, now: Instant, span: u32) {
        if span == 0 {
            return;
        }
        // Far less than 2^32 bytes in a round trip: windows are below 2^30.
        let bytes = u64::from((acked as u32).wrapping_sub(self.from));
        self.bytes_per_ms = u32::try_from(bytes * 1000 / u64::from(span)).unwrap_or(u32::MAX);
        self.since = micros(now);
        self.from = acked as u32;
    }

    /// Bytes a second; zero while nothing has been measured.
    pub(crate) fn bytes_per_second(self) -> u64 {
        u64::from(self.bytes_per_ms) * 1000
    }
}

fn micros(at: Instant) -> u32 {
    (at.as_micros() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_does_not_count() {
        let (mut rate, ms) = (DeliveryRate::default(), Instant::from_millis);
        let rtt = Some(Nanos::from_millis(10));
        rate.on_progress(10_000, ms(100), ms(110), rtt);
        assert_eq!(rate.bytes_per_second(), 1_000_000);
        // Too early for another measurement; then it is one over all of it.
        rate.on_progress(15_000, ms(110), ms(115), rtt);
        assert_eq!(rate.bytes_per_second(), 1_000_000);
        rate.on_progress(30_000, ms(115), ms(120), rtt);
        assert_eq!(rate.bytes_per_second(), 2_000_000);
        // After a pause only the flight counts.
        rate.on_rest(30_000, ms(120), ms(120));
        rate.on_progress(31_000, ms(5000), ms(5010), rtt);
        assert_eq!(rate.bytes_per_second(), 100_000);
    }

    #[test]
    fn a_flight_that_is_acknowledged_at_once_is_measured() {
        let (mut rate, ms) = (DeliveryRate::default(), Instant::from_millis);
        // Round trips were longer before, but this flight was one.
        rate.on_rest(20_000, ms(100), ms(105));
        assert_eq!(rate.bytes_per_second(), 4_000_000);
        // So was the first one, though its acknowledgements came within less than that mean.
        let (mut first, rtt) = (DeliveryRate::default(), Some(Nanos::from_millis(10)));
        first.on_progress(10_000, ms(100), ms(104), rtt);
        assert_eq!(first.bytes_per_second(), 0);
        first.on_rest(20_000, ms(100), ms(105));
        assert_eq!(first.bytes_per_second(), 4_000_000);
        // Of one that was measured, what is left is not enough for another.
        rate.on_progress(30_000, ms(200), ms(210), rtt);
        rate.on_rest(31_000, ms(200), ms(211));
        assert_eq!(rate.bytes_per_second(), 1_000_000);
    }
}
