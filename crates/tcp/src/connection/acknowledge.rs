//! What an acceptable ACK means: the peer's window, progress, round trips, loss.

use core::time::Duration;

use wire::segment::Segment;
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Timestamps};

use super::{Connection, Context, Timer};
use crate::Instant;
use crate::congestion::{Acked, CongestionControl};
use crate::info::State;
use crate::recovery::delivery::Progress;
use crate::recovery::rtt::{INITIAL_RTO, MAX_RTO};
use crate::recovery::{Arrival, Loss, Outcome, Phase};
use crate::time::Nanos;

/// What an acknowledgement has measured.
struct Measured {
    /// Bytes of the stream that it covers for the first time.
    bytes: u32,
    /// Bytes that were in flight or, if that is more, that the network has carried recently.
    flight: u32,
    /// It begins a round trip.
    round: bool,
    /// The congestion window was what kept more from being in flight.
    cwnd_limited: bool,
    /// The round trip of what it covers.
    rtt: Option<Nanos>,
}

impl Connection {
    /// `ack` is not beyond what was sent and not absurdly old.
    pub(super) fn on_acknowledgement(
        &mut self,
        segment: &Segment<'_>,
        ack: SeqNumber,
        cx: &mut Context<'_>,
    ) {
        let tcp = &segment.tcp;
        let window_before = self.snd.wnd;
        let fresh = self.snd.wl1.before(tcp.seq)
            || (self.snd.wl1 == tcp.seq && self.snd.wl2.at_or_before(ack));
        if fresh {
            // The window in a SYN is not scaled (RFC 7323 2.2).
            let scale = if tcp.flags.contains(Flags::SYN) {
                0
            } else {
                self.snd.scale
            };
            //= RFC 9293 MUST-1
            //= RFC 7323 §2.2, §2.3
            self.set_window(u32::from(tcp.window) << scale, tcp.seq, ack);
        }

        let progress = ack.after(self.snd.una);
        let blocks = tcp.options.sack.as_slice();
        if progress
            && blocks.is_empty()
            && let Some(flight) = self.whole_flight(ack)
        {
            self.take_whole_flight(&flight, ack, cx);
            return;
        }
        // RFC 5681 2: a duplicate carries nothing and changes nothing.
        let duplicate = ack == self.snd.una
            && segment.payload.is_empty()
            && !tcp.flags.contains(Flags::FIN)
            && self.snd.wnd == window_before;
        let tells = progress || duplicate || !blocks.is_empty();
        if ack == self.snd.una && segment.payload.is_empty() {
            self.path.silent_timeouts = 0;
        }
        // One that was overtaken says nothing by its number any more, but its SACK blocks are true.
        let overtaken = ack.before(self.snd.una);
        let sacks = self.selective && !blocks.is_empty();
        if !tells || (overtaken && !sacks) || (self.in_flight() == 0 && blocks.is_empty()) {
            return;
        }
        let (srtt, min_rtt) = self.round_trips();
        let arrival = Arrival {
            now: cx.now,
            ack,
            blocks,
            echo: self.echoed(tcp.options.timestamps, cx.now),
            duplicate,
            min_rtt,
            srtt,
            mss: self.snd.mss,
        };
        let before = self.recovery.phase();
        let flight = self.in_flight();
        let echo = self.take_echo(tcp.flags, ack);
        let mut outcome = self.recovery.on_ack(&arrival, &self.congestion);
        let newly_lost = self.recovery.take_newly_lost();
        cx.common.counters.dsacks_in += u64::from(outcome.dsack);
        self.excuse_mtu_probe(&mut outcome, cx);
        let (mut bytes, mut round, mut rtt) = (0, false, None);
        let cwnd_limited = self.recovery.is_cwnd_limited(&self.congestion);
        if progress {
            round = self.recovery.begins_round(ack);
            rtt = self.take_round_trip(round, &outcome, tcp.options.timestamps, cx);
            bytes = self.on_progress(ack, cx);
            let cwnd = self.congestion.cwnd();
            self.validation.on_ack(cx.now, bytes, round, srtt, cwnd);
        }
        let measured = Measured {
            bytes,
            flight: self.validation.in_use(flight),
            round,
            cwnd_limited,
            rtt,
        };
        if self.state == State::Closed {
            return;
        }
        if self.is_bbr() {
            let echo = echo && outcome.loss.is_none();
            self.respond_by_bbr(before, &outcome, newly_lost, cwnd_limited, echo, cx);
        } else if echo && outcome.loss.is_none() && before == self.recovery.phase() {
            self.respond_to_mark(measured.flight, cx);
        } else {
            self.respond(before, &measured, &outcome, cx);
        }
        self.note_mtu_probe_arrived(cx);
        self.watch_flight();
        self.wants_transmit |= self.has_pending();
    }

    /// Tells congestion control what an acknowledgement means to it. `before` is the phase that
    /// recovery was in.
    fn respond(
        &mut self,
        before: Phase,
        measured: &Measured,
        outcome: &Outcome,
        cx: &mut Context<'_>,
    ) {
        let Measured { bytes, flight, .. } = *measured;
        let after = self.recovery.phase();
        if let Some(congestion) = &outcome.spurious {
            cx.common.counters.spurious_recoveries += 1;
            self.congestion.undo(congestion);
            self.backoff = 0;
        } else if before == Phase::Fast && after == Phase::Open {
            let ssthresh = self.congestion.ssthresh();
            self.congestion.set_cwnd(ssthresh);
        }
        if outcome.loss.is_none() && before != Phase::Fast && after != Phase::Fast && bytes > 0 {
            self.congestion.on_ack(&Acked {
                now: cx.now,
                bytes,
                srtt: self.rtt.srtt().unwrap_or_default().into(),
                latest_rtt: measured.rtt.map(Duration::from),
                cwnd_limited: measured.cwnd_limited,
                round: measured.round,
            });
        }
        self.respond_to_loss(outcome.loss, flight, cx);
        if after == Phase::Fast && outcome.delivered > 0 {
            let ssthresh = self.congestion.ssthresh();
            let mss = self.snd.mss;
            let cwnd = self
                .recovery
                .prr_cwnd(outcome.delivered, ssthresh, mss, outcome.safe);
            self.congestion.set_cwnd(cwnd);
        }
    }

    /// Something is lost: congestion control hears of it once a window, and of what was lost twice
    /// again.
    //= RFC 5681 §4.3
    pub(super) fn respond_to_loss(
        &mut self,
        loss: Option<Loss>,
        flight: u32,
        cx: &mut Context<'_>,
    ) {
        match loss {
            None => return,
            Some(_) if self.is_bbr() => {
                // What it means, the model says.
                cx.common.counters.fast_recoveries += u64::from(loss == Some(Loss::Entered));
            }
            Some(Loss::Entered) => {
                cx.common.counters.fast_recoveries += 1;
                if self.is_reduced_for_mark() {
                    return;
                }
            }
            Some(Loss::Tail) => {}
            Some(Loss::Again) => {
                // cwnd is what the recovery just lets go; the reduction is from where it was
                // to end.
                let ssthresh = self.congestion.ssthresh();
                self.congestion.set_cwnd(ssthresh);
            }
        }
        self.ecn.reduced = true;
        self.congestion.on_congestion(cx.now, flight);
    }

    /// Lets the timer of data in flight run for what is due next.
    #[inline]
    pub(super) fn watch_flight(&mut self) {
        // Until its handshake is complete, the SYN-ACK alone is sent again.
        if let Some(at) = self.recovery.deadline()
            && !self.fast_open.is_pending()
        {
            self.timers.set_at(Timer::Transmit, at);
        }
    }

    /// The smoothed round trip and the least, or what stands for them before anything was measured.
    pub(super) fn round_trips(&self) -> (Nanos, Nanos) {
        let smoothed = self.rtt.srtt().unwrap_or(INITIAL_RTO);
        (smoothed, self.rtt.min_rtt().unwrap_or_default())
    }

    /// The time that a segment's TSecr echoes, in whole milliseconds of the stack's clock.
    fn echoed(&self, timestamps: Option<Timestamps>, now: Instant) -> Option<u64> {
        let echo = timestamps.filter(|_| self.ts.enabled)?.echo;
        let age = self.timestamp(now).wrapping_sub(echo);
        let possible = Nanos::from_millis(age) <= MAX_RTO;
        possible.then(|| now.as_millis().saturating_sub(age.into()))
    }

    /// A window update (RFC 9293 3.10.7.4): SND.WND, already scaled, SND.WL1 and SND.WL2.
    pub(super) fn set_window(&mut self, window: u32, seq: SeqNumber, ack: SeqNumber) {
        if window > self.snd.wnd && self.in_flight() == 0 {
            // Zero-window probing ends, or its back-off does.
            self.backoff = 0;
            self.timers.clear(Timer::Transmit);
        }
        self.wants_transmit |= window > self.snd.wnd && self.has_pending();
        self.snd.wnd = window;
        self.snd.max_wnd = self.snd.max_wnd.max(window);
        self.snd.wl1 = seq;
        self.snd.wl2 = ack;
    }

    /// Something that was in flight has arrived. The path is there, and takes segments of that size: what was said
    /// against it before is over (as tcp_ack of Linux clears sk_err_soft and icsk_retransmits).
    pub(super) fn has_arrived(&mut self) {
        self.unanswered = 0;
        self.path.silent_timeouts = 0;
        self.soft_error = None;
    }

    /// The cumulative acknowledgement has moved to `ack`. Returns how many bytes of the stream that
    /// were.
    pub(super) fn on_progress(&mut self, ack: SeqNumber, cx: &mut Context<'_>) -> u32 {
        let bytes = ack.distance_from(self.snd.una) as u32;
        let fin_acked = self.fin_in_flight() && ack == self.snd.nxt;
        let data = bytes - u32::from(fin_acked);

        self.confirm_black_hole(cx);
        let before = self.queue.start();
        self.queue.acknowledge(before + u64::from(data));
        let begun = self.stalled_since;
        self.pushed = self.pushed.saturating_sub(data);
        self.snd.una = ack;
        self.snd.sml = self.snd.sml.max(ack);
        self.has_arrived();
        self.stalled_since = cx.now;
        let at_rest = self.in_flight() == 0;
        if data > 0
            && let Some(measurement) = self.recovery.delivery()
        {
            let progress = Progress {
                acked: before..before + u64::from(data),
                begun,
                now: cx.now,
                srtt: self.rtt.srtt(),
                at_rest,
            };
            self.delivery_rate.on_progress(measurement, &progress);
        }
        //= RFC 6298 §5
        // RFC 6298 5.2 and 5.3.
        if at_rest {
            self.timers.clear(Timer::Transmit);
            self.tlp_due = false;
            self.recovery.release(&mut cx.common.flights);
        } else {
            self.recovery.restart_timer(cx.now, self.rto());
            self.recovery
                .restart_pto(cx.now, self.rtt.srtt(), self.snd.mss);
        }
        self.changed |= data > 0;
        if fin_acked {
            self.note_fin_acked(cx.now);
        }
        data
    }

    /// Our FIN has been acknowledged.
    pub(super) fn note_fin_acked(&mut self, now: Instant) {
        self.state = self.state.after_fin_acked();
        if self.state == State::FinWait2 && self.orphan {
            self.timers
                .set(Timer::CorkOrFinWait2, now, self.fin_wait_2_timeout.get());
        }
        if self.state == State::Closed {
            self.finish();
        }
    }

    /// Measures a round trip, if this acknowledgement allows it without doubt: by what was sent once
    /// (Karn's rule, RFC 6298 §3), or after a retransmission by the timestamp (RFC 7323 §4.1). Either
    /// ends the back-off (RFC 6298 §5.7).
    ///
    /// The timestamp must be that of the retransmission. A peer that had the segment already, and
    /// whose acknowledgement was lost, answers the second one with the first one's timestamp: then
    /// what lies between is our own back-off, and as a round trip it would keep itself alive.
    //= RFC 9293 MUST-18
    //= RFC 6298 §3
    //= RFC 7323 §4.1
    fn take_round_trip(
        &mut self,
        round: bool,
        outcome: &Outcome,
        timestamps: Option<Timestamps>,
        cx: &mut Context<'_>,
    ) -> Option<Nanos> {
        let now = cx.now;
        let sample = match (outcome.sent_at, timestamps) {
            (Some(sent_at), _) => Some(now.since(sent_at)),
            (None, Some(t))
                if self.ts.enabled && t.echo.wrapping_sub(self.ts.retransmitted) as i32 >= 0 =>
            {
                let millis = self.timestamp(now).wrapping_sub(t.echo);
                let sample = Nanos::from_millis(millis.max(1));
                (sample <= MAX_RTO).then_some(sample)
            }
            (None, _) => None,
        };
        let sample = sample?;
        // One measurement a window counts for the timeout, as RFC 6298's gains suppose.
        if round || self.backoff > 0 {
            self.rtt.on_sample(now, sample);
            cx.common.counters.round_trips.record(sample.get());
            self.backoff = 0;
        } else {
            self.rtt.note(now, sample);
        }
        Some(sample)
    }

    /// Whether there is anything that transmission could send, if the windows let it.
    pub(super) fn has_pending(&self) -> bool {
        self.may_transmit()
            && (self.recovery.lost() > 0
                || self.unsent() < self.queue.end()
                || self.fin_is_unsent())
    }

    pub(super) fn fin_is_unsent(&self) -> bool {
        self.shutdown && !self.fin_sent && !self.fast_open.is_pending()
    }
}
