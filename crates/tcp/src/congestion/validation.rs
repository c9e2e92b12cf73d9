//! Congestion window validation: what a window is worth that was not used (RFC 7661).
//!
//! A window says how much the network has carried. When the application, not the window, is what
//! limits the sender, it says less and less: then it does not grow, a loss is answered by what was
//! in use, and after five minutes without use it is halved. But for those five minutes it stays, idle
//! or not, since what was carried once is the best guess there is, and pacing spreads the first
//! burst. It takes the place of the restart window after each idle timeout (RFC 5681 §4.1,
//! RFC 2861).
//!
//! This is one of three notions of "application-limited"; [`congestion`](super) compares them.

use super::{CongestionControl, Controller};
use crate::Instant;
use crate::time::Nanos;

/// The non-validated period (RFC 7661 §4.3.2), in seconds.
const NVP: u16 = 300;
/// The least time over which use is measured (RFC 7661 §4.2): the greater of three round trips and
/// a second, in 64ths of a second.
const LEAST_PERIOD: u16 = 64;

/// How much of the window is in use. Times are the low bits of the clock: that they wrap after hours
/// makes a window that has been idle for so long count as idle for less.
//= RFC 7661 §4.2
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validation {
    /// pipeACK: the most that was acknowledged in a round trip, in bytes, of this period and of the
    /// one before; `u32::MAX` while that is not known.
    pipe_ack: u32,
    /// The most of this period alone.
    recent: u32,
    /// Of this round trip.
    round: u32,
    /// When the period began, in 64ths of a second.
    period_at: u16,
    /// When the window was last known to be in use, in seconds.
    valid_at: u16,
}

impl Validation {
    pub(crate) fn new(now: Instant) -> Validation {
        Validation {
            pipe_ack: u32::MAX,
            recent: 0,
            round: 0,
            period_at: ticks(now),
            valid_at: seconds(now),
        }
    }

    /// `bytes` were acknowledged; `round` says that with them a round trip begins.
    #[inline]
    pub(crate) fn on_ack(&mut self, now: Instant, bytes: u32, round: bool, rtt: Nanos, cwnd: u32) {
        if round {
            self.recent = self.recent.max(self.round);
            self.round = 0;
            let now = ticks(now);
            let elapsed = now.wrapping_sub(self.period_at);
            // What three round trips are is asked about once a second.
            if elapsed >= LEAST_PERIOD && elapsed >= three(rtt) {
                self.pipe_ack = self.recent;
                self.recent = 0;
                self.period_at = now;
            } else if self.pipe_ack != u32::MAX {
                self.pipe_ack = self.pipe_ack.max(self.recent);
            }
        }
        self.round = self.round.saturating_add(bytes);
        if self.pipe_ack.max(self.round) >= cwnd / 2 {
            self.valid_at = seconds(now);
        }
    }

    /// What a congestion signal is answered by: what was in flight, or if that is more, what the
    /// network has carried recently (RFC 7661 §4.4.1).
    //= RFC 7661 §4.4
    pub(crate) fn in_use(&self, in_flight: u32) -> u32 {
        if self.pipe_ack == u32::MAX {
            return in_flight;
        }
        in_flight.max(self.pipe_ack)
    }

    /// Something is to be sent after a pause: a window that was not in use for too long is halved,
    /// once for each such time (RFC 7661 §4.4.2).
    //= RFC 7661 §4.3, §4.4
    pub(crate) fn on_restart(&mut self, now: Instant, congestion: &mut Controller) {
        let now = seconds(now);
        let mut idle = now.wrapping_sub(self.valid_at);
        while idle >= NVP {
            idle -= NVP;
            self.valid_at = now.wrapping_sub(idle);
            if !congestion.state_mut().devalue() {
                self.valid_at = now;
                break;
            }
        }
    }
}

/// Three round trips, in 64ths of a second.
#[cold]
fn three(rtt: Nanos) -> u16 {
    let ticks = rtt.times(3).as_micros() * 64 / 1_000_000;
    u16::try_from(ticks).unwrap_or(u16::MAX)
}

fn seconds(now: Instant) -> u16 {
    now.seconds() as u16
}

fn ticks(now: Instant) -> u16 {
    (now.as_nanos() / 15_625_000) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Algorithm;

    const RTT: Nanos = Nanos::from_millis(100);

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(seconds)
    }

    //~ RFC 7661 §4.2, §4.3
    #[test]
    fn a_window_outlasts_pauses_of_minutes() {
        let mut congestion = Controller::new(Algorithm::Cubic, 1_000);
        congestion.set_cwnd(80_000);
        let mut v = Validation::new(at(0));
        v.on_ack(at(1), 50_000, true, RTT, 80_000);
        v.on_restart(at(290), &mut congestion);
        assert_eq!(congestion.cwnd(), 80_000);
        // Five minutes from the last use and not from the beginning.
        v.on_restart(at(300), &mut congestion);
        assert_eq!(congestion.cwnd(), 80_000);
        v.on_restart(at(302), &mut congestion);
        assert_eq!(congestion.cwnd(), 40_000);
        assert_eq!(congestion.ssthresh(), u32::MAX);
        // Half for every five minutes, but not below the initial window.
        v.on_restart(at(902), &mut congestion);
        assert_eq!(congestion.cwnd(), 10_000);
        v.on_restart(at(30_000), &mut congestion);
        assert_eq!(congestion.cwnd(), 10_000);
    }

    //~ RFC 7661 §4.2, §4.4
    #[test]
    fn a_loss_is_answered_by_what_was_carried_recently() {
        let mut v = Validation::new(at(0));
        assert_eq!(v.in_use(5_000), 5_000);
        for tenth in 1..=40 {
            let now = Instant::from_millis(tenth * 100);
            v.on_ack(now, 20_000, true, RTT, 80_000);
        }
        assert_eq!(v.in_use(5_000), 20_000);
        assert_eq!(v.in_use(30_000), 30_000);
        // Two periods of little use, and little is known to be carried.
        for tenth in 41..=80 {
            let now = Instant::from_millis(tenth * 100);
            v.on_ack(now, 1_000, true, RTT, 80_000);
        }
        assert_eq!(v.in_use(500), 1_000);
    }
}
