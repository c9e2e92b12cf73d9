//! Reno: slow start and additive increase, halving at a loss (RFC 5681).

use super::{Acked, CongestionControl, Window};
use crate::time::Instant;

/// Reno's state.
#[derive(Clone, Copy, Debug)]
pub struct Reno {
    window: Window,
    /// Bytes acknowledged since the window last grew, in congestion avoidance.
    acked: u32,
}

impl Reno {
    /// A connection's beginning.
    pub fn new(mss: u16) -> Reno {
        Reno {
            window: Window::new(mss),
            acked: 0,
        }
    }

    /// Goes on from a window.
    pub(super) fn resume(window: Window) -> Reno {
        Reno { window, acked: 0 }
    }

    fn reduce(&mut self, in_flight: u32) {
        // RFC 5681 equation 4.
        self.window.set_ssthresh(self.window.flight(in_flight) / 2);
        self.acked = 0;
    }
}

impl CongestionControl for Reno {
    #[inline]
    fn state(&self) -> &Window {
        &self.window
    }

    #[inline]
    fn state_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    #[inline]
    //= RFC 5681 §3.1
    fn on_ack(&mut self, acked: &Acked) {
        if !acked.cwnd_limited {
            return;
        }
        // Congestion avoidance by appropriate byte counting (ABC, RFC 3465 section 2.1; RFC 5681 section
        // 3.1): one segment for every window of bytes acknowledged.
        self.acked = self
            .acked
            .saturating_add(self.window.slow_start(acked.bytes));
        let cwnd = self.window.cwnd();
        if self.acked >= cwnd {
            self.acked = (self.acked - cwnd).min(cwnd);
            self.window.set_cwnd(cwnd + u32::from(self.window.mss()));
        }
    }

    fn on_congestion(&mut self, _now: Instant, in_flight: u32) {
        self.reduce(in_flight);
        self.window.set_cwnd(self.window.ssthresh());
    }

    fn on_rto(&mut self, _now: Instant, in_flight: u32, first: bool) {
        if first {
            self.reduce(in_flight);
        }
        self.window.collapse();
    }
}
