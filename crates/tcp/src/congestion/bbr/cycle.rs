//! The state machine (draft-ietf-ccwg-bbr, "State Machine").

use super::model::{BETA, NONE};
use super::{Bbr, Delivery, Sample, State};
use crate::Instant;
use crate::time::Nanos;

/// BBR.ProbeRTTDuration.
const PROBE_RTT_DURATION: Nanos = Nanos::from_millis(200);
/// The most rounds from one bandwidth probe to the next, so that BBR can share with Reno.
const MOST_ROUNDS: u32 = 63;

/// What the acknowledgements that come now tell of (BBR.ack_phase).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The place in the cycle of probing.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    ack_phase: AckPhase,
    /// When this phase began, and how long it may last.
    at: Instant,
    wait: Nanos,
    rounds_since_bw_probe: u32,
    /// There was a bandwidth probe since Startup: what is too much in flight has been looked for.
    pub(super) has_probed_bw: bool,
    /// What is lost now was sent by a bandwidth probe.
    bw_probe_samples: bool,
    /// Bytes to be acknowledged for each segment more in flight, and those acknowledged.
    up_count: u32,
    up_acks: u32,
    up_rounds: u32,
    /// When ProbeRTT may end; zero before it is that low.
    probe_rtt_done_at: Instant,
    probe_rtt_round_done: bool,
}

impl Cycle {
    pub(super) const fn new() -> Self {
        Self {
            ack_phase: AckPhase::Init,
            at: Instant::ZERO,
            wait: Nanos::ZERO,
            rounds_since_bw_probe: 0,
            has_probed_bw: false,
            bw_probe_samples: false,
            up_count: u32::MAX,
            up_acks: 0,
            up_rounds: 0,
            probe_rtt_done_at: Instant::ZERO,
            probe_rtt_round_done: false,
        }
    }
}

impl Bbr {
    pub(super) fn is_probing_bw(&self) -> bool {
        matches!(
            self.state,
            State::Down | State::Cruise | State::Refill | State::Up
        )
    }

    /// BBRUpdateModelAndState.
    pub(super) fn update_model_and_state(&mut self, ack: &Delivery, sample: &Sample) {
        // BBRIsProbingBW.
        let is_probing = matches!(self.state, State::Startup | State::Refill | State::Up);
        let cwnd = self.window.cwnd();
        let mss = self.mss();
        self.model
            .take(ack, sample, &self.sampler, (cwnd, mss), is_probing);
        if self.model.round_start {
            self.cycle.rounds_since_bw_probe += 1;
        }
        self.model.check_full_bw(sample);
        self.check_startup(ack);
        if self.state == State::Drain && ack.in_flight <= self.inflight(100) {
            self.start_down(ack.now);
        }
        self.update_cycle(ack, sample);
        self.check_probe_rtt(ack);
        self.model.advance(sample, &self.sampler);
    }

    fn check_startup(&mut self, ack: &Delivery) {
        if self.state != State::Startup {
            return;
        }
        if self.model.is_startup_lossy(ack, &self.sampler, self.mss()) {
            self.model.full_bw_reached = true;
            let bdp = self.model.bdp(self.model.max_bw()).unwrap_or(0);
            self.model.inflight_longterm = bdp.max(self.model.most_delivered());
        }
        if self.model.full_bw_reached {
            self.state = State::Drain;
            self.model.is_startups_round = true;
        }
    }

    fn start_round(&mut self) {
        self.model.start_round(self.sampler.delivered);
    }

    /// BBRStartProbeBW_DOWN.
    pub(super) fn start_down(&mut self, now: Instant) {
        self.model.reset_congestion_signals();
        self.cycle.up_count = u32::MAX;
        // BBRPickProbeWait: two to three seconds, so that those who share do not probe together. The low
        // bits of the clock and of what was delivered are as good as any draw.
        let draw = (now.as_nanos() ^ self.sampler.delivered).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.cycle.rounds_since_bw_probe = (draw >> 63) as u32;
        self.cycle.wait = Nanos::new(2_000_000_000 + (draw >> 8) % 1_000_000_000);
        self.cycle.at = now;
        self.cycle.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.state = State::Down;
    }

    /// BBRStartProbeBW_REFILL.
    fn start_refill(&mut self) {
        self.model.reset_short_term();
        self.cycle.up_rounds = 0;
        self.cycle.up_acks = 0;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::Refill;
    }

    /// BBRStartProbeBW_UP.
    fn start_up(&mut self, now: Instant, sample: &Sample) {
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.model.reset_full_bw(sample.rate);
        self.cycle.at = now;
        self.cycle.has_probed_bw = true;
        self.state = State::Up;
        self.raise_slope();
    }

    /// BBRRaiseInflightLongtermSlope: twice as many segments more each round.
    fn raise_slope(&mut self) {
        let growth = self.mss() << self.cycle.up_rounds.min(14);
        self.cycle.up_rounds += 1;
        self.cycle.up_count = (self.window.cwnd() / growth).max(1) * self.mss();
    }

    /// BBRUpdateProbeBWCyclePhase.
    fn update_cycle(&mut self, ack: &Delivery, sample: &Sample) {
        if !self.model.full_bw_reached {
            return;
        }
        self.adapt_long_term(ack, sample);
        let is_over = self.state == State::Up && self.is_time_to_go_down(ack, sample);
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe_bw(ack.now) => self.start_refill(),
            State::Down if self.is_time_to_cruise(ack.in_flight) => self.state = State::Cruise,
            State::Refill if self.model.round_start => {
                self.cycle.bw_probe_samples = true;
                self.start_up(ack.now, sample);
            }
            State::Up if is_over => self.start_down(ack.now),
            _ => {}
        }
    }

    fn is_time_to_probe_bw(&self, now: Instant) -> bool {
        // BBRIsRenoCoexistenceProbeTime: as often as Reno would fill the pipe again.
        let target = self.target_inflight() / self.mss();
        now.since(self.cycle.at) > self.cycle.wait
            || self.cycle.rounds_since_bw_probe >= target.clamp(1, MOST_ROUNDS)
    }

    fn is_time_to_cruise(&self, in_flight: u32) -> bool {
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight(100)
    }

    fn is_time_to_go_down(&mut self, ack: &Delivery, sample: &Sample) -> bool {
        if ack.cwnd_limited && self.window.cwnd() >= self.model.inflight_longterm {
            // The limit is what holds it, not the path.
            self.model.reset_full_bw(sample.rate);
            return false;
        }
        self.model.full_bw_now
    }

    /// BBR.target_inflight.
    fn target_inflight(&self) -> u32 {
        let bdp = self.model.bdp(self.model.bw());
        self.window.cwnd().min(bdp.unwrap_or(NONE))
    }

    /// BBRAdaptLongTermModel.
    fn adapt_long_term(&mut self, ack: &Delivery, sample: &Sample) {
        let round = self.model.round_start;
        match self.cycle.ack_phase {
            AckPhase::ProbeStarting if round => self.cycle.ack_phase = AckPhase::ProbeFeedback,
            AckPhase::ProbeStopping if round => {
                self.cycle.bw_probe_samples = false;
                self.cycle.ack_phase = AckPhase::Init;
                if self.is_probing_bw() && !sample.app_limited {
                    self.model.advance_max_bw();
                }
            }
            _ => {}
        }
        let too_much = ack.marked || sample.losses().are_too_much(self.mss());
        if too_much {
            if self.cycle.bw_probe_samples {
                self.on_too_much(ack, sample);
            }
            return;
        }
        if self.model.inflight_longterm == NONE || !sample.is_valid {
            return;
        }
        self.model.inflight_longterm = self.model.inflight_longterm.max(sample.in_flight);
        if self.state == State::Up {
            self.raise_inflight_longterm(ack);
        }
    }

    /// BBRHandleInflightTooHigh.
    fn on_too_much(&mut self, ack: &Delivery, sample: &Sample) {
        self.cycle.bw_probe_samples = false;
        if !sample.app_limited {
            let least = u64::from(self.target_inflight()) * BETA / 100;
            self.model.inflight_longterm = sample.in_flight.max(least as u32);
        }
        if self.state == State::Up {
            self.start_down(ack.now);
        }
    }

    /// BBRProbeInflightLongtermUpward.
    fn raise_inflight_longterm(&mut self, ack: &Delivery) {
        if !ack.cwnd_limited || self.window.cwnd() < self.model.inflight_longterm {
            return;
        }
        let acks = self.cycle.up_acks.saturating_add(ack.bytes);
        let segments = acks / self.cycle.up_count;
        self.cycle.up_acks = acks % self.cycle.up_count;
        let more = segments.saturating_mul(self.mss());
        // NONE itself stands for no limit.
        self.model.inflight_longterm = self
            .model
            .inflight_longterm
            .saturating_add(more)
            .min(NONE - 1);
        if self.model.round_start {
            self.raise_slope();
        }
    }

    /// BBRCheckProbeRTT.
    fn check_probe_rtt(&mut self, ack: &Delivery) {
        let is_due = self.model.probe_rtt_expired && !self.idle_restart;
        if self.state != State::ProbeRtt && is_due {
            self.prior_cwnd = self.prior_cwnd.max(self.window.cwnd());
            self.cycle.probe_rtt_done_at = Instant::ZERO;
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.state = State::ProbeRtt;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(ack);
        }
        if ack.bytes > 0 {
            self.idle_restart = false;
        }
    }

    /// BBRHandleProbeRTT.
    fn handle_probe_rtt(&mut self, ack: &Delivery) {
        // Its rates say little.
        self.sampler.on_app_limited(ack.in_flight);
        if self.cycle.probe_rtt_done_at == Instant::ZERO {
            if ack.in_flight <= self.probe_rtt_cwnd() {
                self.cycle.probe_rtt_done_at = ack.now + PROBE_RTT_DURATION;
                self.cycle.probe_rtt_round_done = false;
                self.start_round();
            }
            return;
        }
        self.cycle.probe_rtt_round_done |= self.model.round_start;
        if self.cycle.probe_rtt_round_done {
            self.end_probe_rtt_if_due(ack.now);
        }
    }

    /// BBRCheckProbeRTTDone.
    pub(super) fn end_probe_rtt_if_due(&mut self, now: Instant) {
        let done_at = self.cycle.probe_rtt_done_at;
        if done_at == Instant::ZERO || now <= done_at {
            return;
        }
        self.model.probe_rtt_min_at = now;
        self.model.probe_rtt_expired = false;
        self.on_recovered();
        self.model.reset_short_term();
        if self.model.full_bw_reached {
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }
}
