//! CUBIC: growth by the time since the last congestion (RFC 9438).
//!
//! After a reduction the window follows a cubic that starts steep, flattens where congestion was
//! last met (W_max) and then looks for more, at first carefully. Where Reno would have grown
//! further by then, Reno's estimate is followed.
//!
//! Everything is calculated in integers, in bytes and milliseconds, so that it is the same on every
//! machine. What integer division leaves over is carried to the next acknowledgement.

use core::time::Duration;

use super::hystart::{Growth, HyStart};
use super::{Acked, CongestionControl, Window};
use crate::time::Instant;

/// The time since the epoch began beyond which the cubic no longer grows, in milliseconds. It keeps
/// the arithmetic in range; the window has long been at its bound by then.
const MAX_ELAPSED: u64 = 1 << 20;

/// CUBIC's state.
#[derive(Clone, Copy, Debug)]
//= RFC 9438 §4.1
pub struct Cubic {
    window: Window,
    /// W_max in bytes: the window at the last congestion. 0 after a timeout and before the first
    /// congestion.
    w_max: u32,
    /// cwnd_prior in bytes: the window before the last reduction.
    prior: u32,
    /// Where growth stands.
    stage: Stage,
}

/// Where the growth of the window stands.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// In the first slow start.
    Start(HyStart),
    /// After congestion, before anything was acknowledged in congestion avoidance.
    Between,
    /// In congestion avoidance.
    Avoidance(Epoch),
}

/// An [`Instant`] that is aligned to four bytes like everything else in an epoch, which saves eight bytes in
/// each connection.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
struct Moment(Instant);

/// A stretch of congestion avoidance without congestion.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// t_epoch, moved on by the time in which the window was not the limit.
    start: Moment,
    /// When the last acknowledgement arrived.
    last_ack: Moment,
    /// K in milliseconds: when the cubic is back at `origin`.
    k: u32,
    /// W_max as the cubic uses it, in bytes.
    origin: u32,
    /// W_est in bytes: how far Reno would be.
    estimate: u32,
    /// The fraction of a byte that `estimate` has grown beyond its value, in 2^-16 bytes.
    estimate_rest: u16,
    /// The same of the window.
    window_rest: u16,
}

impl Cubic {
    /// A connection's beginning.
    pub fn new(mss: u16) -> Cubic {
        Cubic {
            window: Window::new(mss),
            w_max: 0,
            prior: 0,
            stage: Stage::Start(HyStart::new()),
        }
    }

    /// Resumes with a given window and W_max; growth after congestion begins a new epoch.
    pub(super) fn resume(window: Window, w_max: u32) -> Cubic {
        Cubic {
            w_max,
            prior: w_max.max(window.cwnd()),
            stage: if window.ssthresh() == u32::MAX {
                Stage::Start(HyStart::new())
            } else {
                Stage::Between
            },
            window,
        }
    }

    /// W_max in bytes; 0 if there is none.
    pub(super) fn w_max(&self) -> u32 {
        self.w_max
    }

    /// Reduces ssthresh by beta_cubic = 0.7 (RFC 9438 section 4.6).
    //= RFC 9438 §4.6
    fn reduce(&mut self, in_flight: u32) {
        self.prior = self.window.cwnd();
        let flight = u64::from(self.window.flight(in_flight));
        self.window.set_ssthresh((flight * 7 / 10) as u32);
        self.stage = Stage::Between;
    }

    /// Section 4.2: the window at the beginning of congestion avoidance decides K.
    fn begin_epoch(&self, now: Instant) -> Epoch {
        let cwnd = self.window.cwnd();
        // After a timeout, or where the window has got past W_max already, the cubic begins at its
        // turning point (section 4.8).
        let origin = self.w_max.max(cwnd);
        // K = cbrt((W_max - cwnd_epoch) / C) seconds, windows in segments and C = 0.4. In bytes
        // and milliseconds: K^3 = (W_max - cwnd_epoch) / mss * 2.5 * 10^9.
        let below = u64::from(origin - cwnd);
        let k = cube_root(below * 2_500_000_000 / u64::from(self.window.mss()));
        Epoch {
            start: Moment(now),
            last_ack: Moment(now),
            k,
            origin,
            estimate: cwnd,
            estimate_rest: 0,
            window_rest: 0,
        }
    }

    /// Congestion avoidance for `acked` bytes (sections 4.2 to 4.5).
    fn avoid_congestion(&mut self, now: Instant, acked: u32, rtt: Duration) {
        let mut epoch = match self.stage {
            Stage::Avoidance(epoch) => epoch,
            _ => self.begin_epoch(now),
        };
        epoch.last_ack = Moment(now);
        let (cwnd, mss) = (self.window.cwnd(), self.window.mss());

        //= RFC 9438 §4.3
        // Section 4.3: W_est grows by alpha_cubic segments a window, which at beta_cubic = 0.7 is
        // 3 * (1 - 0.7) / (1 + 0.7) = 9/17, and by one once it has reached cwnd_prior.
        let (numerator, denominator) = if epoch.estimate < self.prior {
            (9, 17)
        } else {
            (1, 1)
        };
        epoch.estimate = grow(
            epoch.estimate,
            &mut epoch.estimate_rest,
            u64::from(acked) * u64::from(mss) * numerator,
            u64::from(cwnd) * denominator,
        );

        let elapsed = now.saturating_duration_since(epoch.start.0);
        if epoch.at(elapsed, mss) < epoch.estimate {
            // The Reno-friendly region.
            self.window.set_cwnd(cwnd.max(epoch.estimate));
        } else {
            //= RFC 9438 §4.2, §4.4, §4.5
            // Section 4.2: no further than 1.5 windows in a round trip.
            let target = epoch
                .at(elapsed + rtt, mss)
                .clamp(cwnd, cwnd.saturating_add(cwnd / 2));
            let grown = grow(
                cwnd,
                &mut epoch.window_rest,
                u64::from(target - cwnd) * u64::from(acked),
                cwnd.into(),
            );
            self.window.set_cwnd(grown);
        }
        self.stage = Stage::Avoidance(epoch);
    }
}

impl Epoch {
    /// W_cubic so long after the epoch's start, in bytes.
    fn at(&self, elapsed: Duration, mss: u16) -> u32 {
        let elapsed = u64::try_from(elapsed.as_millis())
            .unwrap_or(MAX_ELAPSED)
            .min(MAX_ELAPSED);
        // C * (t - K)^3 + W_max, with C = 0.4 segments a cubic second. The distance is below 2^22
        // milliseconds (a K of W_max = 2^30 bytes is below 2^21), its cube below 2^66.
        let distance = elapsed as i128 - i128::from(self.k);
        let offset = distance * distance * distance * i128::from(mss) * 2 / 5_000_000_000;
        (i128::from(self.origin) + offset).clamp(0, u32::MAX.into()) as u32
    }
}

impl CongestionControl for Cubic {
    #[inline]
    fn state(&self) -> &Window {
        &self.window
    }

    #[inline]
    fn state_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    fn on_ack(&mut self, acked: &Acked) {
        if !acked.cwnd_limited {
            // Section 5.8: time in which the window was not the limit does not count. Otherwise cwnd would
            // jump once the sender has more to send again.
            self.on_restart(acked.now);
            return;
        }
        //= RFC 9438 §4.10
        let mut bytes = acked.bytes;
        if let Stage::Start(hystart) = &mut self.stage
            && self.window.in_slow_start()
        {
            match hystart.on_ack(bytes, acked.latest_rtt, acked.round) {
                Growth::By(growth) => bytes = growth,
                Growth::Over => {
                    self.window.end_slow_start();
                    self.stage = Stage::Between;
                }
            }
        }
        let left = self.window.slow_start(bytes);
        if left > 0 {
            self.avoid_congestion(acked.now, left, acked.srtt);
        }
    }

    fn on_restart(&mut self, now: Instant) {
        if let Stage::Avoidance(epoch) = &mut self.stage {
            let pause = now.saturating_duration_since(epoch.last_ack.0);
            epoch.start = Moment(epoch.start.0 + pause);
            epoch.last_ack = Moment(now);
        }
    }

    fn on_congestion(&mut self, _now: Instant, in_flight: u32) {
        let cwnd = self.window.cwnd();
        //= RFC 9438 §4.7
        // Fast convergence (section 4.7): a window that did not get back to W_max makes room for
        // others, by 1 - (1 + beta) / 2.
        self.w_max = if cwnd < self.w_max {
            (u64::from(cwnd) * 17 / 20) as u32
        } else {
            cwnd
        };
        self.reduce(in_flight);
        self.window.set_cwnd(self.window.ssthresh());
    }

    fn on_rto(&mut self, _now: Instant, in_flight: u32, first: bool) {
        if first {
            self.reduce(in_flight);
            //= RFC 9438 §4.8
            self.w_max = 0;
        }
        self.stage = Stage::Between;
        self.window.collapse();
    }
}

/// `value` + `numerator` / `denominator`, the fraction carried in `rest` (2^-16ths).
fn grow(value: u32, rest: &mut u16, numerator: u64, denominator: u64) -> u32 {
    let growth = (u128::from(numerator) << 16) / u128::from(denominator.max(1)) + u128::from(*rest);
    *rest = growth as u16;
    let whole = u32::try_from(growth >> 16).unwrap_or(u32::MAX);
    value.saturating_add(whole)
}

/// The greatest integer whose cube is at most `value`, bit by bit.
fn cube_root(value: u64) -> u32 {
    let mut root = 0_u64;
    for bit in (0..22).rev() {
        let candidate = root | 1 << bit;
        if u128::from(candidate).pow(3) <= u128::from(value) {
            root = candidate;
        }
    }
    root as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots() {
        for (value, root) in [
            (0, 0),
            (1, 1),
            (7, 1),
            (8, 2),
            (26, 2),
            (27, 3),
            (u64::MAX, 2_642_245),
        ] {
            assert_eq!(cube_root(value), root, "{value}");
        }
        for root in [10_u64, 999, 65_537, 2_642_245] {
            assert_eq!(u64::from(cube_root(root.pow(3))), root);
            assert_eq!(u64::from(cube_root(root.pow(3) - 1)), root - 1);
        }
    }

    /// RFC 9438 §5.8.
    #[test]
    fn a_pause_is_no_time_to_grow() {
        let grown = |pause: u64| {
            let mut cubic = Cubic::new(1_000);
            cubic.window.set_cwnd(100_000);
            cubic.on_congestion(Instant::from_secs(1), 100_000);
            for ack in 0..400 {
                let late = if ack < 200 { 0 } else { pause };
                let now = Instant::from_millis(2_000 + ack * 10 + late * 1_000);
                if ack == 200 {
                    // 10 ms after the last acknowledgement, the pause apart.
                    cubic.on_restart(now);
                }
                cubic.on_ack(&Acked {
                    now,
                    bytes: 7_000,
                    srtt: Duration::from_millis(100),
                    latest_rtt: None,
                    cwnd_limited: true,
                    round: ack % 10 == 0,
                });
            }
            cubic.window.cwnd()
        };
        assert_eq!(grown(60), grown(0));
        assert!(grown(0) > 75_000);
    }

    #[test]
    fn growth_carries_its_fractions() {
        let (mut value, mut rest) = (100, 0);
        for _ in 0..300 {
            value = grow(value, &mut rest, 1, 3);
        }
        // 300 thirds, less what 2^-16ths cannot express.
        assert_eq!(value, 199);
        assert_eq!(grow(u32::MAX, &mut rest, u64::MAX, 1), u32::MAX);
    }
}
