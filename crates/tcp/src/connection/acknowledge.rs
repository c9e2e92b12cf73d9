//! What an acceptable ACK means: the peer's window, progress, round trips, loss.

use core::time::Duration;

use wire::segment::Segment;
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Timestamps};

use super::{Connection, Context, Timer};
use crate::Instant;
use crate::congestion::{Acked, CongestionControl};
use crate::info::State;
use crate::recovery::rtt::MAX_RTO;
use crate::recovery::{Phase, Verdict};

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
            self.set_window(u32::from(tcp.window) << scale, tcp.seq, ack);
        }

        let blocks = tcp.options.sack.as_slice();
        let news = self
            .recovery
            .on_blocks(blocks, self.snd.una.max(ack), self.snd.nxt);
        if ack.after(self.snd.una) {
            self.on_progress(ack, tcp.options.timestamps, cx);
        } else {
            // RFC 5681 2: a duplicate carries nothing and changes nothing.
            let duplicate = ack == self.snd.una
                && segment.payload.is_empty()
                && !tcp.flags.contains(Flags::FIN)
                && self.snd.wnd == window_before
                && self.in_flight() > 0;
            if duplicate {
                self.recovery.on_duplicate();
            } else if !news {
                return;
            }
        }
        if self.in_flight() == 0 {
            return;
        }
        let verdict = self
            .recovery
            .detect(self.snd.una, self.snd.nxt, self.snd.mss);
        if verdict == Verdict::Entered {
            cx.counters.fast_recoveries += 1;
            self.probe = None;
            self.congestion.on_congestion(cx.now, self.in_flight());
        }
        self.wants_transmit |= self.has_pending();
    }

    /// The peer's window, already scaled.
    pub(super) fn set_window(&mut self, window: u32, seq: SeqNumber, ack: SeqNumber) {
        if window > self.snd.wnd && self.in_flight() == 0 {
            // Probing ends, or its back-off does.
            self.backoff = 0;
            self.timers.clear(Timer::Retransmit);
        }
        self.wants_transmit |= window > self.snd.wnd && self.has_pending();
        self.snd.wnd = window;
        self.snd.max_wnd = self.snd.max_wnd.max(window);
        self.snd.wl1 = seq;
        self.snd.wl2 = ack;
    }

    fn on_progress(
        &mut self,
        ack: SeqNumber,
        timestamps: Option<Timestamps>,
        cx: &mut Context<'_>,
    ) {
        let bytes = ack.distance_from(self.snd.una) as u32;
        let fin_acked = self.fin_in_flight() && ack == self.snd.nxt;
        let data = bytes - u32::from(fin_acked);

        self.take_round_trip(ack, timestamps, cx.now);
        let phase = self.recovery.phase();
        self.queue.acknowledge(self.queue.start() + u64::from(data));
        self.snd.una = ack;
        self.snd.small = self.snd.small.max(ack);
        self.unanswered = 0;
        self.stalled_since = cx.now;
        self.recovery.on_progress(ack, bytes, self.snd.mss);
        if phase != Phase::Fast {
            self.congestion.on_ack(&Acked {
                now: cx.now,
                bytes: data,
                smoothed_rtt: self.rtt.smoothed().unwrap_or(Duration::ZERO),
                latest_rtt: self.rtt.latest(),
                window_limited: self.window_limited,
            });
        }
        // RFC 6298 5.2 and 5.3.
        if self.in_flight() == 0 {
            self.timers.clear(Timer::Retransmit);
        } else {
            self.timers.set(Timer::Retransmit, cx.now, self.timeout());
        }
        self.changed |= data > 0;
        if fin_acked {
            self.state = self.state.after_fin_acked();
            if self.state == State::FinWait2 && self.orphan {
                self.timers
                    .set(Timer::FinWait2, cx.now, self.fin_wait_2_timeout);
            }
            if self.state == State::Closed {
                self.finish();
            }
        }
        self.wants_transmit |= self.has_pending();
    }

    /// Measures a round trip, if this acknowledgement allows it without doubt: by the segment that
    /// was timed, or after a retransmission by the timestamp (RFC 7323 4.1), which also ends the
    /// back-off (RFC 6298 5.7).
    ///
    /// The timestamp must be that of the retransmission. A peer that had the segment already, and
    /// whose acknowledgement was lost, answers the second one with the first one's timestamp: then
    /// what lies between is our own back-off, and as a round trip it would keep itself alive.
    pub(super) fn take_round_trip(
        &mut self,
        ack: SeqNumber,
        timestamps: Option<Timestamps>,
        now: Instant,
    ) {
        let sample = match (&self.probe, timestamps) {
            (Some(probe), _) if probe.end.at_or_before(ack) => {
                Some(now.saturating_duration_since(probe.sent_at))
            }
            (Some(_), _) => None,
            (None, Some(t))
                if self.ts.enabled
                    && self.retransmits > 0
                    && t.echo.wrapping_sub(self.ts.resent) as i32 >= 0 =>
            {
                let millis = self.timestamp(now).wrapping_sub(t.echo);
                let sample = Duration::from_millis(u64::from(millis.max(1)));
                (sample <= MAX_RTO).then_some(sample)
            }
            (None, _) => None,
        };
        if let Some(sample) = sample {
            self.rtt.on_sample(sample);
            self.backoff = 0;
            self.probe = None;
        }
    }

    /// Whether there is anything that transmission could send, if the windows let it.
    pub(super) fn has_pending(&self) -> bool {
        self.state.may_transmit()
            && (self.recovery.next_hole(self.snd.nxt).is_some()
                || self.unsent() < self.queue.end()
                || self.fin_is_unsent())
    }

    pub(super) fn fin_is_unsent(&self) -> bool {
        self.shutdown && !self.fin_sent
    }
}
