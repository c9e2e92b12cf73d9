//! What is known of the path: its rate, its length, and how much in flight is too much
//! (draft-ietf-ccwg-bbr, "Updating Network Path Model Parameters").

use super::Delivery;
use super::losses::Losses;
use super::rate::{Sample, Sampler};
use crate::Instant;
use crate::time::Nanos;

/// BBR.MinRTTFilterLen: how long the least round trip is believed.
const MIN_RTT_FILTER: Nanos = Nanos::from_secs(10);
/// BBR.ProbeRTTInterval: after so long without a lower one it is looked for.
const PROBE_RTT_INTERVAL: Nanos = Nanos::from_secs(5);
/// BBR.ExtraAckedFilterLen is ten rounds: those of this bucket and of the one before.
const EXTRA_ACKED_ROUNDS: u32 = 5;
/// No limit.
pub(super) const NONE: u32 = u32::MAX;
/// A round trip that is longer than the least by less than this part of it has waited in no queue.
const WITHOUT_QUEUE: u64 = 16;
/// BBR.Beta, in percent.
pub(super) const BETA: u64 = 70;

#[derive(Clone, Debug)]
pub(super) struct Model {
    /// BBR.max_bw: the highest rate of this probing cycle, and of the one before.
    max_bw: [u64; 2],
    /// BBR.bw_shortterm: what loss has left of it; `u64::MAX` for all.
    bw_shortterm: u64,
    /// BBR.inflight_longterm and BBR.inflight_shortterm: what proved to be too much.
    pub(super) inflight_longterm: u32,
    pub(super) inflight_shortterm: u32,
    /// Of this round: the highest rate, and the most delivered.
    bw_latest: u64,
    inflight_latest: u64,
    /// BBR.min_rtt, and when it was measured; zero before.
    pub(super) min_rtt: Nanos,
    min_rtt_at: Instant,
    /// BBR.probe_rtt_min_delay: the least round trip since the last ProbeRTT; and BBR.probe_rtt_min_stamp:
    /// when a round trip last met as little queue.
    probe_rtt_min: Nanos,
    pub(super) probe_rtt_min_at: Instant,
    /// BBR.probe_rtt_expired: that is longer ago than ProbeRTTInterval.
    pub(super) probe_rtt_expired: bool,
    /// A round trip ends when so much is delivered.
    next_round_delivered: u64,
    /// One begins with this acknowledgement.
    pub(super) round_start: bool,
    pub(super) rounds: u32,
    /// The same for rounds in which loss is counted.
    loss_round_delivered: u64,
    loss_round_start: bool,
    /// What was delivered and lost when it began, and in how many places; and whether anything was marked
    /// since.
    loss_round_from: Losses,
    pub(super) marked_in_round: bool,
    /// What is lost in it was sent by Startup, whose end has answered for it.
    pub(super) is_startups_round: bool,
    /// The round trips of that round, in microseconds, and how many they are.
    round_trips: (u64, u32),
    /// The same when this round began.
    round_from: Losses,
    /// BBR.full_bw and what belongs to it: whether the rate has stopped growing.
    full_bw: u64,
    full_bw_count: u8,
    pub(super) full_bw_now: bool,
    pub(super) full_bw_reached: bool,
    /// BBR.extra_acked: how much more comes at once than the rate explains.
    extra_acked: [u32; 2],
    extra_acked_rounds: u32,
    aggregation_at: Instant,
    aggregation_from: u64,
    /// What stood before the last loss.
    before: Option<(u64, u32, u32)>,
}

impl Model {
    pub(super) const fn new() -> Self {
        Self {
            max_bw: [0; 2],
            bw_shortterm: u64::MAX,
            inflight_longterm: NONE,
            inflight_shortterm: NONE,
            bw_latest: 0,
            inflight_latest: 0,
            min_rtt: Nanos::ZERO,
            min_rtt_at: Instant::ZERO,
            probe_rtt_min: Nanos::ZERO,
            probe_rtt_min_at: Instant::ZERO,
            probe_rtt_expired: false,
            next_round_delivered: 0,
            round_start: false,
            rounds: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            loss_round_from: Losses::NONE,
            marked_in_round: false,
            is_startups_round: false,
            round_trips: (0, 0),
            round_from: Losses::NONE,
            full_bw: 0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            extra_acked: [0; 2],
            extra_acked_rounds: 0,
            aggregation_at: Instant::ZERO,
            aggregation_from: 0,
            before: None,
        }
    }

    /// A path whose rate and least round trip are known.
    pub(super) const fn resume(now: Instant, max_bw: u64, min_rtt: Nanos) -> Self {
        Self {
            max_bw: [max_bw; 2],
            min_rtt,
            min_rtt_at: now,
            probe_rtt_min: min_rtt,
            probe_rtt_min_at: now,
            full_bw_reached: true,
            ..Self::new()
        }
    }

    /// BBR.max_bw.
    pub(super) fn max_bw(&self) -> u64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    /// BBR.bw: the rate to send at.
    pub(super) fn bw(&self) -> u64 {
        self.max_bw().min(self.bw_shortterm)
    }

    /// BBR.extra_acked.
    pub(super) fn extra_acked(&self) -> u32 {
        self.extra_acked[0].max(self.extra_acked[1])
    }

    /// A rate times the least round trip, in bytes; `None` while there is no round trip.
    pub(super) fn bdp(&self, bw: u64) -> Option<u32> {
        let micros = self.min_rtt.as_micros();
        let bytes = bw.saturating_mul(micros) / 1_000_000;
        (micros > 0).then(|| u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// BBRUpdateMinRTT. A round trip that has waited in no queue need not be looked for: it begins the
    /// interval again, also where it is not the very least.
    pub(super) fn note_rtt(&mut self, rtt: Nanos, now: Instant) {
        let old = |at: Instant, span: Nanos| now.since(at) > span;
        let is_first = self.probe_rtt_min == Nanos::ZERO;
        if is_first || rtt <= longest_without_queue(self.probe_rtt_min) {
            self.probe_rtt_min_at = now;
        }
        self.probe_rtt_expired = old(self.probe_rtt_min_at, PROBE_RTT_INTERVAL);
        if is_first || rtt < self.probe_rtt_min || self.probe_rtt_expired {
            self.probe_rtt_min = rtt;
            self.probe_rtt_min_at = now;
        }
        if self.min_rtt == Nanos::ZERO
            || self.probe_rtt_min < self.min_rtt
            || old(self.min_rtt_at, MIN_RTT_FILTER)
        {
            self.min_rtt = self.probe_rtt_min;
            self.min_rtt_at = self.probe_rtt_min_at;
        }
    }

    /// BBRStartRound.
    pub(super) fn start_round(&mut self, delivered: u64) {
        self.next_round_delivered = delivered;
    }

    /// BBRUpdateLatestDeliverySignals and BBRUpdateCongestionSignals. `is_probing`: what is lost now is
    /// looked for, and does not bind the model.
    pub(super) fn take(
        &mut self,
        ack: &Delivery,
        sample: &Sample,
        sampler: &Sampler,
        (cwnd, mss): (u32, u32),
        is_probing: bool,
    ) {
        self.loss_round_start = false;
        self.round_start = false;
        if sample.is_valid {
            self.bw_latest = self.bw_latest.max(sample.rate);
            self.inflight_latest = self.inflight_latest.max(sample.delivered);
            if sample.prior_delivered >= self.loss_round_delivered {
                self.loss_round_delivered = sampler.delivered;
                self.loss_round_start = true;
            }
            if sample.prior_delivered >= self.next_round_delivered {
                self.start_round(sampler.delivered);
                self.rounds = self.rounds.wrapping_add(1);
                self.round_start = true;
            }
            if sample.rate >= self.max_bw() || !sample.app_limited {
                self.max_bw[0] = self.max_bw[0].max(sample.rate);
            }
        }
        self.marked_in_round |= ack.marked;
        if let Some(rtt) = ack.rtt {
            self.round_trips.0 += rtt.as_micros();
            self.round_trips.1 += 1;
        }
        if self.loss_round_start {
            let is_startups = core::mem::take(&mut self.is_startups_round);
            if self.is_round_too_lossy(sampler, mss) && !is_probing && !is_startups {
                self.lower_bounds(cwnd);
            }
            self.begin_loss_round(sampler);
        }
        self.note_aggregation(ack, sampler, cwnd);
    }

    /// Whether too much was lost in the round that ends, or anything was marked. In the draft any loss
    /// counts; but then a path that loses one in a hundred at random has a loss in each round, and from
    /// each round to the next the bounds follow the little that this and the pacing margin have taken,
    /// until a third of the rate is gone before the next bandwidth probe. Losses in runs count for less while
    /// nothing waits in a queue.
    fn is_round_too_lossy(&self, sampler: &Sampler, mss: u32) -> bool {
        let losses = sampler.losses().since(&self.loss_round_from);
        let too_much = if self.had_queue() {
            losses.are_too_much(mss)
        } else {
            losses.are_too_much_in_runs(mss)
        };
        self.marked_in_round || too_much
    }

    /// Whether something waited in a queue in the round that ends, by the mean of its round trips. A sender that
    /// loses because a queue is full has waited in it first.
    fn had_queue(&self) -> bool {
        let (sum, count) = self.round_trips;
        sum > u64::from(count) * longest_without_queue(self.min_rtt).as_micros()
    }

    fn begin_loss_round(&mut self, sampler: &Sampler) {
        self.loss_round_from = sampler.losses();
        self.round_trips = (0, 0);
        self.marked_in_round = false;
    }

    /// BBRAdaptLowerBoundsFromCongestion.
    fn lower_bounds(&mut self, cwnd: u32) {
        let bw = self.bw();
        self.bw_shortterm = self.bw_latest.max(bw / 100 * BETA);
        let inflight = u64::from(self.inflight_shortterm.min(cwnd));
        let inflight = self.inflight_latest.max(inflight * BETA / 100);
        self.inflight_shortterm = u32::try_from(inflight).unwrap_or(NONE);
    }

    /// BBRAdvanceLatestDeliverySignals; the counts of a round start over.
    pub(super) fn advance(&mut self, sample: &Sample, sampler: &Sampler) {
        if self.loss_round_start {
            self.bw_latest = sample.rate;
            self.inflight_latest = sample.delivered;
        }
        if self.round_start {
            self.round_from = sampler.losses();
        }
    }

    /// BBRResetCongestionSignals.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.marked_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    /// BBRResetShortTermModel.
    pub(super) fn reset_short_term(&mut self) {
        self.bw_shortterm = u64::MAX;
        self.inflight_shortterm = NONE;
    }

    /// BBRAdvanceMaxBwFilter: another probing cycle.
    pub(super) fn advance_max_bw(&mut self) {
        // A cycle that has measured nothing leaves what is known.
        if self.max_bw[0] > 0 {
            self.max_bw = [0, self.max_bw[0]];
        }
    }

    /// BBRResetFullBW: growth is looked for from `bw` on.
    pub(super) fn reset_full_bw(&mut self, bw: u64) {
        self.full_bw = bw;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// BBRCheckFullBWReached: three rounds in which the rate has not grown by a quarter.
    pub(super) fn check_full_bw(&mut self, sample: &Sample) {
        if self.full_bw_now || !sample.is_valid || sample.app_limited {
            return;
        }
        if sample.rate >= self.full_bw + self.full_bw / 4 && sample.rate > 0 {
            self.reset_full_bw(sample.rate);
            return;
        }
        if self.round_start {
            self.full_bw_count += 1;
            self.full_bw_now = self.full_bw_count >= 3;
            self.full_bw_reached |= self.full_bw_now;
        }
    }

    /// BBRCheckStartupHighLoss: a round of repair in which more than two in a hundred were lost, in six
    /// places at least; or it was marked.
    pub(super) fn is_startup_lossy(&self, ack: &Delivery, sampler: &Sampler, mss: u32) -> bool {
        let losses = sampler.losses().since(&self.round_from);
        let lossy = ack.recovering && losses.places >= 6 && losses.are_too_much(mss);
        ack.marked || (self.round_start && lossy)
    }

    /// The most in flight that a round has delivered.
    pub(super) fn most_delivered(&self) -> u32 {
        u32::try_from(self.inflight_latest).unwrap_or(NONE)
    }

    /// What comes from now on is compared with the rate afresh.
    pub(super) fn restart_aggregation(&mut self, now: Instant, sampler: &Sampler) {
        self.aggregation_at = now;
        self.aggregation_from = sampler.delivered;
    }

    /// BBRUpdateACKAggregation.
    fn note_aggregation(&mut self, ack: &Delivery, sampler: &Sampler, cwnd: u32) {
        let micros = ack.now.since(self.aggregation_at).as_micros();
        let expected = self.bw().saturating_mul(micros) / 1_000_000;
        let before = sampler.delivered - u64::from(ack.bytes);
        let mut extra = (sampler.delivered - self.aggregation_from).saturating_sub(expected);
        if before.saturating_sub(self.aggregation_from) <= expected {
            self.aggregation_at = ack.now;
            self.aggregation_from = before;
            extra = ack.bytes.into();
        }
        if self.round_start {
            self.extra_acked_rounds += 1;
            let rounds = if self.full_bw_reached {
                EXTRA_ACKED_ROUNDS
            } else {
                1
            };
            if self.extra_acked_rounds >= rounds {
                self.extra_acked = [0, self.extra_acked[0]];
                self.extra_acked_rounds = 0;
            }
        }
        let extra = u32::try_from(extra).unwrap_or(u32::MAX).min(cwnd);
        self.extra_acked[0] = self.extra_acked[0].max(extra);
    }

    /// BBRSaveStateUponLoss.
    pub(super) fn remember(&mut self) {
        self.before = Some((
            self.bw_shortterm,
            self.inflight_shortterm,
            self.inflight_longterm,
        ));
    }

    /// BBRHandleSpuriousLossDetection.
    pub(super) fn undo(&mut self) {
        let Some((bw, short, long)) = self.before.take() else {
            return;
        };
        self.marked_in_round = false;
        self.reset_full_bw(0);
        self.bw_shortterm = self.bw_shortterm.max(bw);
        self.inflight_shortterm = self.inflight_shortterm.max(short);
        self.inflight_longterm = self.inflight_longterm.max(long);
    }
}

/// The longest round trip that has waited in no queue, where the least is that.
const fn longest_without_queue(least: Nanos) -> Nanos {
    Nanos::new(least.get() + least.get() / WITHOUT_QUEUE)
}
