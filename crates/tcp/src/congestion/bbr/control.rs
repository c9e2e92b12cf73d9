//! The pace and the window that follow from the model (draft-ietf-ccwg-bbr, "Updating Control
//! Parameters").

use super::model::NONE;
use super::{Bbr, Delivery, Sample, State};
use crate::info::BbrInfo;
use crate::time::Nanos;

/// BBR.MinPipeCwnd, in segments: as many as keep acknowledgements coming.
const MIN_PIPE: u32 = 4;
/// BBR.PacingMarginPercent: so much slower than the bottleneck, so that queues go.
const PACING_MARGIN: u64 = 1;
/// BBR.Headroom, in percent: what is left to others while nothing is probed for.
const HEADROOM: u64 = 15;
/// On round trips below this the window is a few bursts, which are a millisecond long each.
const SHORT_RTT: Nanos = Nanos::from_millis(2);
/// The largest burst at once (BBR.send_quantum).
const LARGEST_QUANTUM: u64 = 64 << 10;

impl State {
    /// BBR.pacing_gain, in percent.
    fn pacing_gain(self) -> u64 {
        match self {
            State::Startup => 277,
            State::Drain => 50,
            State::Down => 90,
            State::Cruise | State::Refill | State::ProbeRtt => 100,
            State::Up => 125,
        }
    }

    /// BBR.cwnd_gain, in percent.
    fn cwnd_gain(self) -> u64 {
        match self {
            State::ProbeRtt => 50,
            State::Up => 225,
            _ => 200,
        }
    }
}

impl Bbr {
    /// The model of the path and the gains, as `ConnInfo` tells them.
    pub(crate) fn info(&self) -> BbrInfo {
        BbrInfo {
            bandwidth: self.model.bw(),
            min_rtt: self.model.min_rtt.into(),
            // At most 277.
            pacing_gain: self.state.pacing_gain() as u16,
            cwnd_gain: self.state.cwnd_gain() as u16,
        }
    }

    /// The rate to send at, in bytes a second, with round trips of `srtt`.
    pub(crate) fn pacing_rate(&self, srtt: Nanos) -> u64 {
        if self.pacing_rate > 0 {
            return self.pacing_rate;
        }
        // BBRInitPacingRate.
        let window = u64::from(self.window.cwnd());
        window * State::Startup.pacing_gain() * 10_000 / srtt.as_micros().max(1)
    }

    /// BBRSetPacingRate.
    pub(super) fn set_pacing_rate(&mut self) {
        self.set_pacing_rate_with_gain(self.state.pacing_gain());
    }

    pub(super) fn set_pacing_rate_with_gain(&mut self, percent: u64) {
        let rate = self.model.bw() / 100 * percent / 100 * (100 - PACING_MARGIN);
        if rate > 0 && (self.model.full_bw_reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    fn min_pipe(&self) -> u32 {
        MIN_PIPE * self.mss()
    }

    /// Three bursts (BBR.offload_budget).
    fn budget(&self) -> u32 {
        let quantum = (self.pacing_rate / 1000).min(LARGEST_QUANTUM) as u32;
        3 * quantum.max(2 * self.mss())
    }

    /// BBRQuantizationBudget.
    fn with_quantum(&self, inflight: u32) -> u32 {
        let inflight = inflight.max(self.budget()).max(self.min_pipe());
        if self.state == State::Up {
            inflight.saturating_add(2 * self.mss())
        } else {
            inflight
        }
    }

    /// BBRInflight: the product of rate and delay, times a gain in percent.
    pub(super) fn inflight(&self, percent: u64) -> u32 {
        let bdp = self.model.bdp(self.model.bw() / 100 * percent);
        self.with_quantum(bdp.unwrap_or(self.window.cwnd()))
    }

    /// BBRInflightWithHeadroom.
    pub(super) fn inflight_with_headroom(&self) -> u32 {
        let limit = self.model.inflight_longterm;
        if limit == NONE {
            return NONE;
        }
        let headroom = (u64::from(limit) * HEADROOM / 100) as u32;
        let left = limit.saturating_sub(headroom.max(self.mss()));
        left.max(self.min_pipe())
    }

    /// BBRProbeRTTCwnd.
    pub(super) fn probe_rtt_cwnd(&self) -> u32 {
        let gain = State::ProbeRtt.cwnd_gain();
        let bdp = self.model.bdp(self.model.bw() / 100 * gain);
        bdp.unwrap_or(0).max(self.min_pipe())
    }

    /// What a window needs on top where it is a few bursts: what leaves in bursts is acknowledged in bursts, and
    /// a window that is one burst is lost as one. Version 1 has it on every path.
    fn for_bursts(&self) -> u32 {
        if self.model.min_rtt < SHORT_RTT {
            self.budget()
        } else {
            0
        }
    }

    /// BBRSetCwnd.
    pub(super) fn set_window(&mut self, ack: &Delivery, _: &Sample) {
        let gain = self.state.cwnd_gain();
        let bdp = self.model.bdp(self.model.bw() / 100 * gain);
        let extra = self.model.extra_acked().saturating_add(self.for_bursts());
        let cap = bdp.map(|bdp| self.with_quantum(bdp.saturating_add(extra)));
        let grown = self.window.cwnd().saturating_add(ack.bytes);
        let cwnd = match cap {
            Some(cap) if self.model.full_bw_reached => grown.min(cap),
            Some(cap) if self.window.cwnd() >= cap => self.window.cwnd(),
            // Startup, or nothing is measured.
            _ => grown,
        };
        let cwnd = cwnd.max(self.min_pipe());
        let cwnd = if self.state == State::ProbeRtt {
            cwnd.min(self.probe_rtt_cwnd())
        } else {
            cwnd
        };
        self.window.set_cwnd(self.bound_for_model(cwnd));
    }

    /// BBRBoundCwndForModel.
    fn bound_for_model(&self, cwnd: u32) -> u32 {
        let cap = match self.state {
            // What Startup has left is no more than was delivered while a queue overflowed, and less
            // than that would be less than the path carries, until the first bandwidth probe.
            State::Cruise if !self.cycle.has_probed_bw => {
                let bdp = self.model.bdp(self.model.bw()).unwrap_or(0);
                self.inflight_with_headroom().max(bdp)
            }
            State::ProbeRtt | State::Cruise => self.inflight_with_headroom(),
            State::Down | State::Refill | State::Up => self.model.inflight_longterm,
            State::Startup | State::Drain => NONE,
        };
        let cap = cap.min(self.model.inflight_shortterm).max(self.min_pipe());
        cwnd.min(cap)
    }
}
