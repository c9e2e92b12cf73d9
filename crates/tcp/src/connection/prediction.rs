//! Header prediction: the segments that nearly all traffic consists of.
//!
//! While all goes well, what arrives is the next data in order, or an acknowledgement of everything
//! that is in flight, or both at once: the next request acknowledges the last response. All can be
//! told by a few comparisons, and then little of SEGMENT ARRIVES is left to do. What is done here is
//! exactly what the way through all checks would do; whatever is in doubt takes that way.

use core::time::Duration;

use wire::segment::Segment;
use wire::seq::SeqNumber;
use wire::tcp::Flags;

use super::{Connection, Context, Timer, milliseconds, seconds};
use crate::PayloadStore;
use crate::congestion::{Acked, CongestionControl};
use crate::counters::DropReason;
use crate::info::State;
use crate::recovery::WholeFlight;
use crate::recovery::delivery::Progress;

impl Connection {
    /// What an established connection expects next: data in order, all of it in the window, from a peer
    /// that has everything, or that acknowledges with it everything in flight; or this alone. `None`: it
    /// is something else, and nothing has changed.
    #[inline]
    pub(crate) fn take_predicted<S: PayloadStore>(
        &mut self,
        segment: &Segment<'_>,
        store: &mut S,
        cx: &mut Context<'_>,
    ) -> Option<Result<(), DropReason>> {
        let tcp = &segment.tcp;
        let flags = tcp.flags.with(Flags::PSH, false);
        let nxt = self.snd.nxt;
        let predicted = self.state == State::Established
            && flags == Flags::ACK
            && tcp.seq == self.rcv.nxt
            && tcp.ack == Some(nxt)
            && segment.payload.len() as i64 <= i64::from(self.rcv.adv.distance_from(tcp.seq))
            && tcp.options.sack.is_empty()
            && self.reassembly.is_empty()
            && !self.ecn.enabled
            && !self.orphan
            && self.rcv.fin_at == u64::MAX
            && self.snd.wl1.at_or_before(tcp.seq);
        if !predicted {
            return None;
        }
        if self.ts.enabled {
            let value = tcp.options.timestamps?.value;
            // PAWS.
            if (value.wrapping_sub(self.ts.recent) as i32) < 0 {
                return None;
            }
        }
        if nxt != self.snd.una {
            let flight = self.whole_flight(nxt)?;
            self.note_predicted(segment, cx);
            self.take_whole_flight(&flight, nxt, cx);
            if segment.payload.is_empty() {
                return Some(Ok(()));
            }
        } else if segment.payload.is_empty() {
            // It may be a window update or a duplicate ACK.
            return None;
        } else {
            self.note_predicted(segment, cx);
        }
        self.note_echo_of_data(segment, cx.now);
        let result = self.place_in_order(segment.payload, store, cx);
        // Delayed ACK: whether a batch is acknowledged at once is decided when it is over. Less than a full
        // segment never is, and that can be decided now.
        let owed = self.rcv.nxt.distance_from(self.rcv.acked) as u32;
        let waits = owed < u32::from(self.rcv.mss)
            && !self.ack_now
            && self.queue.len() == 0
            && self.rcv.limit >= self.rcv.buffer;
        if waits {
            self.delay_acknowledgement(cx.now, &cx.common.config);
        } else {
            self.wants_transmit = true;
        }
        Some(result)
    }

    /// Takes note of what an acceptable segment tells by its header alone.
    #[inline]
    fn note_predicted(&mut self, segment: &Segment<'_>, cx: &mut Context<'_>) {
        let tcp = &segment.tcp;
        self.count_segment(segment, cx.now, &mut cx.common.counters);
        // It begins at RCV.NXT, and nothing lies before what was acknowledged last.
        if tcp.seq == self.rcv.acked
            && self.ts.enabled
            && let Some(timestamps) = tcp.options.timestamps
        {
            self.ts.recent = timestamps.value;
            self.ts.recent_at = seconds(cx.now);
        }
        self.last_received_ms = milliseconds(cx.now);
        // All that was in flight is acknowledged, or nothing was.
        self.keep_alive_probes = 0;
        self.unanswered = 0;
        let window = u32::from(tcp.window) << self.snd.scale;
        if window == self.snd.wnd {
            self.snd.wl1 = tcp.seq;
            self.snd.wl2 = self.snd.nxt;
        } else {
            self.set_window(window, tcp.seq, self.snd.nxt);
        }
    }

    /// What there is to know of the flight if `ack` acknowledges everything in flight at once, nothing of
    /// it having been SACKed, lost or sent again. `None`: it is something else.
    #[inline]
    pub(super) fn whole_flight(&mut self, ack: SeqNumber) -> Option<WholeFlight> {
        let predicted = ack == self.snd.nxt
            && self.backoff == 0
            && self.path.mtu_probe_size == 0
            && !self.ecn.enabled
            && !self.is_bbr();
        if !predicted {
            return None;
        }
        self.recovery.whole_flight(ack, &self.congestion)
    }

    /// Everything in flight is acknowledged, up to `ack`.
    pub(super) fn take_whole_flight(
        &mut self,
        flight: &WholeFlight,
        ack: SeqNumber,
        cx: &mut Context<'_>,
    ) {
        let sample = cx.now.since(flight.sent_at);
        let srtt = self.round_trips().0;
        // One measurement a window counts for the timeout, as RFC 6298's gains suppose.
        if flight.round {
            self.rtt.on_sample(cx.now, sample);
            cx.common.counters.round_trips.record(sample.get());
        } else {
            self.rtt.note(cx.now, sample);
        }
        let bytes = self.come_to_rest(ack, cx);
        if self.state == State::Closed {
            return;
        }
        let cwnd = self.congestion.cwnd();
        self.validation
            .on_ack(cx.now, bytes, flight.round, srtt, cwnd);
        if bytes == 0 {
            // A FIN alone says nothing of the window.
        } else if flight.cwnd_limited {
            self.congestion.on_ack(&Acked {
                now: cx.now,
                bytes,
                srtt: self.rtt.srtt().unwrap_or_default().into(),
                latest_rtt: Some(Duration::from(sample)),
                cwnd_limited: true,
                round: flight.round,
            });
        } else {
            // The time in which the window is not the limit is a pause to congestion control.
            self.congestion.on_restart(cx.now);
        }
        // Nothing is in flight, and nothing is lost.
        self.wants_transmit |=
            self.may_transmit() && (self.queue.len() > 0 || self.fin_is_unsent());
    }

    /// What [`on_progress`](Self::on_progress) does, where nothing is in flight any more. Returns how many
    /// bytes of the stream were acknowledged.
    #[inline]
    fn come_to_rest(&mut self, ack: SeqNumber, cx: &mut Context<'_>) -> u32 {
        // FIN is the last thing ever sent.
        let fin_acked = self.fin_sent;
        let bytes = ack.distance_from(self.snd.una) as u32 - u32::from(fin_acked);
        self.confirm_black_hole(cx);
        let before = self.queue.start();
        let after = before + u64::from(bytes);
        self.queue.acknowledge(after);
        if bytes > 0
            && let Some(measurement) = self.recovery.delivery()
        {
            let progress = Progress {
                acked: before..after,
                begun: self.stalled_since,
                now: cx.now,
                srtt: None,
                at_rest: true,
            };
            self.delivery_rate.on_progress(measurement, &progress);
        }
        self.pushed = self.pushed.saturating_sub(bytes);
        self.snd.una = ack;
        self.snd.sml = self.snd.sml.max(ack);
        self.has_arrived();
        self.stalled_since = cx.now;
        self.timers.clear(Timer::Transmit);
        self.tlp_due = false;
        self.recovery.release(&mut cx.common.flights);
        self.changed |= bytes > 0;
        if fin_acked {
            self.note_fin_acked(cx.now);
        }
        bytes
    }
}
