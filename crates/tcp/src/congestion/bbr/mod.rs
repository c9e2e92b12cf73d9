//! BBR, version 3: sends at the rate of the bottleneck and not by its queue (draft-ietf-ccwg-bbr).
//!
//! CUBIC and Reno fill a queue until it overflows and take each loss for congestion. BBR measures what
//! the path delivers (`rate`) and how long it takes when no queue is in the way, keeps a model of both
//! (`model`), and sends at that rate with about twice that much in flight (`control`). Every few seconds
//! it probes for more bandwidth, and drains what that left behind (`cycle`). Loss counts when there is much
//! of it: more than two in a hundred say that what is in flight is too much, a few say nothing.
//!
//! | draft | here |
//! | --- | --- |
//! | Delivery Rate Samples | `rate` |
//! | Updating Network Path Model Parameters | `model` |
//! | State Machine | `cycle` |
//! | Updating Control Parameters | `control` |
//!
//! Seven things differ. Losses count when an acknowledgement has told them, not packet by packet. What is
//! lost by chance does not count (`Losses`). What is sent again takes no sample of its own. Until the first
//! bandwidth probe the headroom takes nothing of what fills the pipe. And an echo of a mark (RFC 3168) counts as too
//! much loss, since the draft leaves ECN open and RFC 3168 §5 wants a response as to a loss. A round trip that
//! waited in no queue puts ProbeRTT off. And where round trips are below two milliseconds nothing is paced, the
//! window alone holds it, and three bursts come on top of it.

mod control;
mod cycle;
mod delivery;
mod losses;
mod model;
mod rate;
mod state;

pub(crate) use delivery::Delivery;

use wire::seq::SeqNumber;

use super::{Acked, CongestionControl, Window};
use crate::Instant;
use crate::time::Nanos;
use model::Model;
use rate::{Sample, Sampler};
use state::State;

/// The fastest path that is taken over from another stack, in bytes a second.
const MOST_BW: u64 = 1 << 40;
/// The longest.
const MOST_RTT: Nanos = Nanos::from_secs(120);

/// The state of BBR. Rates in bytes a second, amounts in bytes.
#[derive(Clone, Debug)]
pub struct Bbr {
    window: Window,
    sampler: Sampler,
    model: Model,
    state: State,
    cycle: cycle::Cycle,
    /// BBR.pacing_rate; 0 until there was a round trip.
    pacing_rate: u64,
    /// The window before a recovery or ProbeRTT.
    prior_cwnd: u32,
    /// Data leaves after a pause.
    idle_restart: bool,
}

impl Bbr {
    /// A connection's beginning.
    pub fn new(mss: u16) -> Self {
        Self {
            window: Window::new(mss),
            sampler: Sampler::new(),
            model: Model::new(),
            state: State::Startup,
            cycle: cycle::Cycle::new(),
            pacing_rate: 0,
            prior_cwnd: 0,
            idle_restart: false,
        }
    }

    /// Goes on from a window, on a path of such a rate in bytes a second and such a least round trip. The
    /// search for more starts over; so does all of it if the path is not known, and one is zero.
    pub(super) fn resume(now: Instant, window: Window, max_bw: u64, min_rtt: Nanos) -> Self {
        let mut bbr = Self::new(window.mss());
        bbr.window.set_cwnd(window.cwnd());
        if max_bw > 0 && min_rtt > Nanos::ZERO {
            bbr.model = Model::resume(now, max_bw.min(MOST_BW), min_rtt.min(MOST_RTT));
            bbr.start_down(now);
            bbr.set_pacing_rate();
        }
        bbr
    }

    /// The rate and the least round trip of the path, once Startup has found the rate.
    pub(super) fn path(&self) -> Option<(u64, Nanos)> {
        let model = &self.model;
        let known = model.full_bw_reached && model.max_bw() > 0 && model.min_rtt > Nanos::ZERO;
        known.then(|| (model.max_bw(), model.min_rtt))
    }

    fn mss(&self) -> u32 {
        self.window.mss().into()
    }

    /// Everything up to `end` has left for the first time, on top of `in_flight` bytes.
    pub(crate) fn on_sent(&mut self, end: SeqNumber, bytes: u32, in_flight: u32, now: Instant) {
        self.sampler.on_sent(end, bytes, in_flight, now);
    }

    /// There is nothing more to send, and room for it.
    pub(crate) fn on_app_limited(&mut self, in_flight: u32) {
        self.sampler.on_app_limited(in_flight);
    }

    /// Something was heard: the model, the state, and then what follows for the sender.
    pub(crate) fn on_delivery(&mut self, ack: &Delivery) {
        let sample = self.sampler.on_ack(ack, self.model.min_rtt);
        if let Some(rtt) = ack.rtt {
            self.model.note_rtt(rtt, ack.now);
        }
        self.update_model_and_state(ack, &sample);
        self.set_pacing_rate();
        self.set_window(ack, &sample);
    }

    /// A loss is to be repaired: what the window was is remembered, and stays as it is.
    pub(crate) fn on_recovery(&mut self) {
        self.prior_cwnd = self.prior_cwnd.max(self.window.cwnd());
        self.model.remember();
    }

    /// It is repaired.
    pub(crate) fn on_recovered(&mut self) {
        let prior = core::mem::take(&mut self.prior_cwnd);
        self.window.set_cwnd(self.window.cwnd().max(prior));
    }

    /// It was none: what was concluded from it is taken back.
    pub(super) fn undo(&mut self) {
        self.model.undo();
        self.on_recovered();
    }

    /// The retransmission timer has expired, and `in_flight` bytes are still thought to be on their way.
    pub(crate) fn on_timeout(&mut self, in_flight: u32) {
        self.on_recovery();
        self.window.set_cwnd(in_flight.saturating_add(self.mss()));
    }
}

impl CongestionControl for Bbr {
    fn state(&self) -> &Window {
        &self.window
    }

    fn state_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    /// Says too little: `on_delivery` is told everything.
    fn on_ack(&mut self, _: &Acked) {}

    fn on_restart(&mut self, now: Instant) {
        if !self.sampler.is_app_limited() {
            return;
        }
        self.idle_restart = true;
        self.model.restart_aggregation(now, &self.sampler);
        if self.is_probing_bw() {
            self.set_pacing_rate_with_gain(100);
        } else if self.state == State::ProbeRtt {
            self.end_probe_rtt_if_due(now);
        }
    }

    /// The model decides what loss means.
    fn on_congestion(&mut self, _: Instant, _: u32) {
        self.on_recovery();
    }

    fn on_rto(&mut self, _: Instant, in_flight: u32, _first: bool) {
        self.on_timeout(in_flight);
    }
}

#[cfg(test)]
mod tests;
