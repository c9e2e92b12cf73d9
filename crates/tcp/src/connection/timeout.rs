//! What each timer does when it is due.

use core::time::Duration;

use super::{Connection, Context, Timer};
use crate::Instant;
use crate::congestion::CongestionControl;
use crate::event::Failure;
use crate::info::State;
use crate::recovery::rtt::MAX_RTO;
use crate::recovery::{Due, Phase};

impl Connection {
    /// Some timer of this connection may be due.
    pub(crate) fn on_timeout(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        if self.timers.take_due(Timer::DelayedAck, now) {
            cx.common.counters.delayed_acks += 1;
            self.ack_now = true;
            self.wants_transmit = true;
        }
        if self.timers.take_due(Timer::CorkOrFinWait2, now) {
            if self.state == State::FinWait2 {
                // The peer may hold its half open for as long as it likes, but not an orphan of ours.
                cx.common.counters.orphans_killed += 1;
                self.finish();
                return;
            }
            self.more = false;
            self.push();
        }
        if self.timers.take_due(Timer::Transmit, now) {
            if matches!(self.state, State::SynSent | State::SynReceived) {
                self.on_syn_timeout(cx);
            } else if self.in_flight() > 0 {
                self.on_flight_timeout(cx);
            } else {
                self.on_persist_timeout(cx);
            }
        }
        if self.timers.take_due(Timer::KeepAlive, now) {
            self.on_keep_alive_timeout(cx);
        }
    }

    /// Whether the peer has had its chances: by time if the user has said so (RFC 5482), else by
    /// count (R2 of RFC 9293 3.8.3).
    //= RFC 9293 MUST-20
    fn is_exhausted(&mut self, cx: &Context<'_>, retries: u8) -> bool {
        self.unanswered = self.unanswered.saturating_add(1);
        if self.user_timeout.get() > Duration::ZERO {
            return self.is_user_timeout_over(cx.now);
        }
        self.unanswered > retries
    }

    fn is_user_timeout_over(&self, now: Instant) -> bool {
        let stalled = now.saturating_duration_since(self.stalled_since);
        self.user_timeout.get() > Duration::ZERO && stalled >= self.user_timeout.get()
    }

    /// Whether it is our owner that keeps us from sending what the peer would have to answer: its payload
    /// is being fetched ([`FrameSink::awaits_payload`](crate::FrameSink::awaits_payload)). Then the peer's
    /// silence means nothing. A closed window is another matter: a zero-window probe needs no payload.
    fn awaits_payload(&self) -> bool {
        let kept = if self.in_flight() > 0 {
            // The last timeout's retransmission has not left.
            self.recovery.phase() == Phase::Loss && self.recovery.must_send()
        } else {
            self.snd.wnd > 0
        };
        self.payload_away && kept
    }

    /// Asks for the payload once more: should the word that it is there get lost, nothing hangs for ever.
    fn ask_for_payload(&mut self) {
        self.payload_away = false;
        self.wants_transmit = true;
    }

    fn retries(&self, cx: &Context<'_>) -> u8 {
        if self.orphan {
            cx.common.config.orphan_retries
        } else {
            cx.common.config.retries
        }
    }

    //= RFC 9293 MUST-12
    fn give_up(&mut self, cx: &mut Context<'_>) {
        let failure = self.soft_error.unwrap_or(Failure::TimedOut);
        self.fail(failure, &mut cx.common.counters);
    }

    //= RFC 9293 MUST-19
    fn back_off(&mut self, now: Instant) {
        self.backoff = self.backoff.saturating_add(1);
        let mut wait = self.rto();
        if self.user_timeout.get() > Duration::ZERO {
            // Not later than when the user's patience ends.
            wait = wait.min(
                self.user_timeout
                    .nanos()
                    .minus(now.since(self.stalled_since)),
            );
        }
        self.timers.set_after(Timer::Transmit, now, wait);
        self.recovery.restart_timer(now, wait);
        self.wants_transmit = true;
    }

    //= RFC 9293 MUST-22
    fn on_syn_timeout(&mut self, cx: &mut Context<'_>) {
        let config = &cx.common.config;
        let retries = if self.fast_open.is_pending() {
            config.syn_ack_retries
        } else {
            config.syn_retries
        };
        if self.is_exhausted(cx, retries) {
            self.give_up(cx);
            return;
        }
        cx.common.counters.timeouts += 1;
        cx.common.counters.retransmitted_segments += 1;
        self.retransmits += 1;
        self.give_fast_open_up(cx);
        self.syn_due = true;
        self.back_off(cx.now);
    }

    /// RFC 6298 5.4 to 5.6.
    //= RFC 6298 §5
    //= RFC 9293 §3.10.8
    fn on_retransmission_timeout(&mut self, cx: &mut Context<'_>) {
        if self.awaits_payload() && !self.is_user_timeout_over(cx.now) {
            // What was not sent again is not unanswered.
            self.ask_for_payload();
            self.back_off(cx.now);
            return;
        }
        let retries = self.retries(cx);
        if self.is_exhausted(cx, retries) {
            self.give_up(cx);
            return;
        }
        cx.common.counters.timeouts += 1;
        self.suspect_black_hole(cx);
        let (srtt, min_rtt) = self.round_trips();
        let first = self
            .recovery
            .on_rto(cx.now, srtt, min_rtt, &self.congestion);
        let in_flight = if self.is_bbr() {
            self.recovery.pipe(self.snd.mss)
        } else {
            self.in_flight()
        };
        self.congestion.on_rto(cx.now, in_flight, first);
        self.ecn.reduced = true;
        self.back_off(cx.now);
    }

    /// The one timer of data in flight has expired.
    fn on_flight_timeout(&mut self, cx: &mut Context<'_>) {
        match self.recovery.due(cx.now) {
            Some(Due::Timeout) => return self.on_retransmission_timeout(cx),
            Some(Due::Pace) => {
                self.recovery.on_pace();
                self.wants_transmit = true;
            }
            Some(Due::Tlp) => {
                cx.common.counters.tail_loss_probes += 1;
                self.tlp_due = true;
                self.wants_transmit = true;
                // What is sent sets the timer again; if nothing can be, the timeout follows.
                self.recovery.on_tlp_sent(None, cx.now, self.rto());
            }
            Some(Due::Reordering) => {
                let (srtt, min_rtt) = self.round_trips();
                let mss = self.snd.mss;
                let room = self.congestion_room();
                let loss = self.recovery.on_reordering_timeout(
                    cx.now,
                    srtt,
                    min_rtt,
                    mss,
                    &self.congestion,
                );
                self.respond_to_loss(loss, self.in_flight(), cx);
                if self.recovery.phase() == Phase::Fast && !self.is_bbr() {
                    // Nothing has arrived that would let anything go but the first segment.
                    let ssthresh = self.congestion.ssthresh();
                    let cwnd = self.recovery.prr_cwnd(0, ssthresh, mss, false);
                    let kept = self.recovery.pipe(mss).saturating_add(room);
                    let cwnd = if loss.is_none() { kept } else { cwnd };
                    self.congestion.set_cwnd(cwnd);
                }
                self.wants_transmit = true;
            }
            None => {}
        }
        self.watch_flight();
    }

    /// The peer's window keeps something from being sent (RFC 9293 3.8.6.1). As long as the peer
    /// answers the zero-window probes, the connection of a living owner is kept for ever.
    //= RFC 9293 MUST-35, MUST-37
    fn on_persist_timeout(&mut self, cx: &mut Context<'_>) {
        if !self.has_pending() {
            return;
        }
        if self.awaits_payload() {
            // Nothing is in flight and the window is open: nothing was sent that could be unanswered, and
            // there is nothing to back off from. It waits as long again as it has waited.
            self.ask_for_payload();
            let waited = cx.now.since(self.stalled_since);
            let wait = waited.max(self.rto()).min(MAX_RTO);
            self.timers.set_after(Timer::Transmit, cx.now, wait);
            return;
        }
        let retries = self.retries(cx);
        let waited_enough = self.orphan && self.backoff >= retries;
        if self.is_exhausted(cx, retries) || waited_enough {
            self.give_up(cx);
            return;
        }
        if self.snd.wnd == 0 {
            self.window_or_keep_alive_probe_due = true;
            cx.common.counters.window_probes += 1;
        } else {
            // There is some room: a small segment is better than none now.
            self.sws_override = true;
        }
        self.back_off(cx.now);
    }

    /// Keep-alive (RFC 9293 3.8.4): probes an idle peer, and gives up on one that does not answer.
    fn on_keep_alive_timeout(&mut self, cx: &mut Context<'_>) {
        if !self.keep_alive.enabled || !self.state.is_synchronized() {
            return;
        }
        let idle = self.keep_alive_idle();
        let silent = self.silence(cx.now);
        if (self.in_flight() > 0 || self.has_pending()) && !self.awaits_payload() {
            // Retransmissions and zero-window probes find out as well.
            self.timers.set(Timer::KeepAlive, cx.now, idle);
        //= RFC 9293 MUST-26
        } else if silent < idle {
            self.timers.set(Timer::KeepAlive, cx.now, idle - silent);
        } else if self.is_given_up_for_dead(silent) {
            self.reset(&mut cx.common.counters);
            self.failed = Some(self.soft_error.unwrap_or(Failure::TimedOut));
        } else {
            self.keep_alive_probes += 1;
            cx.common.counters.keep_alive_probes += 1;
            self.window_or_keep_alive_probe_due = true;
            self.wants_transmit = true;
            let interval = Duration::from_secs(self.keep_alive.interval.into());
            self.timers.set(Timer::KeepAlive, cx.now, interval);
        }
    }

    //= RFC 9293 MUST-29
    fn is_given_up_for_dead(&self, silent: Duration) -> bool {
        if self.user_timeout.get() > Duration::ZERO {
            return self.keep_alive_probes > 0 && silent >= self.user_timeout.get();
        }
        self.keep_alive_probes >= self.keep_alive.count
    }

    fn keep_alive_idle(&self) -> Duration {
        Duration::from_secs(self.keep_alive.idle.into())
    }

    /// Starts, restarts or stops keepalive after its settings.
    pub(super) fn restart_keep_alive(&mut self, now: Instant) {
        self.keep_alive_probes = 0;
        if self.keep_alive.enabled && self.state.is_synchronized() {
            self.timers
                .set(Timer::KeepAlive, now, self.keep_alive_idle());
        } else {
            self.timers.clear(Timer::KeepAlive);
        }
    }

    /// The peer has sent something acceptable.
    pub(super) fn note_alive(&mut self) {
        self.keep_alive_probes = 0;
        if self.in_flight() == 0 || self.snd.wnd == 0 {
            self.unanswered = 0;
        }
    }
}
