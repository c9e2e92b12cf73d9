//! Pacing: a window is sent over a round trip, not all at once.
//!
//! After an idle time, or when one acknowledgement covers much, the window would let a burst go that
//! overruns the first queue on its way. So what leaves is held to a rate: the window a round trip,
//! times 2 in slow start and 1.2 afterwards, as Linux has it, so that the rate never keeps the window
//! from growing. RFC 7661 §4.3 wants it, too, where a window outlasts idle times.
//!
//! A burst of up to [`Config::pacing_burst`] segments is always free, or of what the rate sends in a quarter of the
//! least round trip, but no more than two milliseconds, if that is more (`MOST_FREE` says why it is a time). It is
//! what makes this cheap:
//!
//! - A sender that is clocked by acknowledgements stays within it, and then pacing is one comparison a send.
//! - Large segments leave whole: a connection that is held back waits until half of a burst may leave, and a rate
//!   at which large segments matter fills one within a millisecond (64 KB at 500 Mbit/s).
//! - Delays do not lower the rate: a connection that was held back and gets its turn late, since others had
//!   the core, sends what should have left meanwhile. Otherwise BBR would take the lower rate for the path's.
//! - Round trips below [`LEAST_PACED_RTT`], those of every local network, are not paced: half of the window would
//!   leave at once anyway, so there is little to spread and nothing is calculated.

use super::Connection;
use crate::Instant;
use crate::config::Config;
use crate::congestion::{Controller, LEAST_PACED_RTT};
use crate::time::Nanos;
use crate::timer_wheel::TICK;

/// Segments that are always free, whatever is configured: what is held back waits until half of a burst may
/// leave, and that has to be a segment.
const LEAST_BURST: u16 = 2;
/// How long at the rate a burst may always be, at most and at least; in between it is a quarter of the least round
/// trip, which tells how long the path is without what waits in its queues.
///
/// At least, since what is held back waits until half of it may leave, and the timer fires up to a tick of its
/// wheel late: less than two ticks would leave the sender to what it makes up for being late.
///
/// The burst is bounded by time and by the window, but by no number of bytes: at a rate of 10 Gbit/s it is
/// 2.5 MB on a path of 8 ms and more. What counts is for how long it stands in the path's queue: that is its time
/// times the gain (1.2, in slow start 2, in BBR's Startup 2.77), however fast the path is, since the rate is what
/// the path carries times that. Short paths have short queues, so it is shorter there
/// (`docs/decisions/a-burst-is-bounded-by-time.md`).
const MOST_FREE: Nanos = Nanos::from_millis(2);
const LEAST_FREE: Nanos = TICK.times(2);

/// How much of a delay is made up for, at most; and no more than a quarter of a round trip, unless that is
/// less than `LEAST_LATE`.
const MOST_LATE: Nanos = Nanos::from_millis(10);
/// How much of a delay is made up for on any path: who shares a core with others waits as long for his turn
/// however short his round trips are. On the shortest the window is the bound.
const LEAST_LATE: Nanos = Nanos::from_millis(2);

impl Connection {
    /// The rate in bytes a second, if there is one.
    #[inline]
    pub(super) fn pacing_rate(&self, config: &Config) -> Option<u64> {
        let rtt = self.rtt.srtt().filter(|&rtt| rtt >= LEAST_PACED_RTT)?;
        if let Controller::Bbr(bbr) = &self.congestion {
            return Some(bbr.pacing_rate(rtt).max(1));
        }
        if config.pacing_burst == 0 {
            return None;
        }
        // A recovery moves cwnd from one acknowledgement to the next; where it leads to is ssthresh.
        let ssthresh = self.congestion.ssthresh();
        let mut cwnd = u64::from(self.congestion.cwnd());
        if ssthresh != u32::MAX {
            cwnd = cwnd.max(ssthresh.into());
        }
        let percent = if self.congestion.in_slow_start() {
            200
        } else {
            120
        };
        let micros = rtt.as_micros();
        Some((cwnd * percent * 10_000 / micros).max(1))
    }

    /// How many bytes may always leave at once.
    fn free_burst(&self, rate: u64, config: &Config) -> u64 {
        let segments = config.pacing_burst.max(LEAST_BURST);
        let segments = u64::from(segments) * u64::from(self.snd.mss);
        let free = quarter(self.rtt.min_rtt()).clamp(LEAST_FREE, MOST_FREE);
        segments.max(rate * free.as_micros() / 1_000_000)
    }

    /// How many bytes may leave now.
    #[inline]
    pub(super) fn pacing_room(&self, now: Instant, config: &Config) -> u32 {
        let Some(rate) = self.pacing_rate(config) else {
            return u32::MAX;
        };
        let until = self.paced_until(now);
        let bytes_in = |span: Nanos| u128::from(span.get()) * u128::from(rate) / 1_000_000_000;
        let free = u128::from(self.free_burst(rate, config));
        let room = if until > now {
            free.saturating_sub(bytes_in(until.since(now)))
        } else {
            free + bytes_in(now.since(until))
        };
        u32::try_from(room).unwrap_or(u32::MAX)
    }

    fn paced_until(&self, now: Instant) -> Instant {
        let most = quarter(self.rtt.srtt()).clamp(LEAST_LATE, MOST_LATE);
        self.recovery.paced_until(now, most).unwrap_or(now)
    }

    /// So many bytes have left.
    #[inline]
    pub(super) fn note_paced(&mut self, bytes: u32, now: Instant, config: &Config) {
        if let Some(rate) = self.pacing_rate(config) {
            let nanos = u64::from(bytes) * 1_000_000_000 / rate;
            self.recovery
                .pace(self.paced_until(now) + Nanos::new(nanos));
        }
    }

    /// Something could leave but for its pace: it waits until half of what is always free may leave,
    /// so that bursts stay bursts.
    pub(super) fn wait_for_pace(&mut self, now: Instant, config: &Config) {
        let Some(rate) = self.pacing_rate(config) else {
            return;
        };
        let until = self.paced_until(now);
        let half = self.free_burst(rate, config) / 2;
        let nanos = half.saturating_mul(1_000_000_000) / rate;
        let wait = until.since(now).minus(Nanos::new(nanos));
        self.recovery.wait_for_pace(now + wait);
    }
}

fn quarter(rtt: Option<Nanos>) -> Nanos {
    Nanos::new(rtt.unwrap_or_default().get() / 4)
}
