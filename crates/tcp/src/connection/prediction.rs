//! Header prediction: the two segments that nearly all traffic consists of.
//!
//! While all goes well, what arrives is the next data in order, from a peer that waits for nothing, or
//! an acknowledgement of everything that is in flight. Both can be told by a few comparisons, and then
//! little of SEGMENT ARRIVES is left to do. What is done here is exactly what the way through all
//! checks would do; whatever is in doubt takes that way.

use core::time::Duration;

use wire::segment::Segment;
use wire::seq::SeqNumber;
use wire::tcp::Flags;

use super::{Connection, Context, milliseconds};
use crate::PayloadStore;
use crate::congestion::{Acked, CongestionControl};
use crate::counters::DropReason;
use crate::info::State;

impl Connection {
    /// The next data in order, while nothing of ours is in flight. `None`: it is something else, and
    /// nothing has changed.
    #[inline]
    pub(super) fn take_predicted_data<S: PayloadStore>(
        &mut self,
        segment: &Segment<'_>,
        store: &mut S,
        cx: &mut Context<'_>,
    ) -> Option<Result<(), DropReason>> {
        let tcp = &segment.tcp;
        let flags = tcp.flags.with(Flags::PSH, false);
        let una = self.snd.una;
        let predicted = self.state == State::Established
            && flags == Flags::ACK
            && tcp.seq == self.rcv.nxt
            && tcp.ack == Some(una)
            && una == self.snd.nxt
            && u32::from(tcp.window) << self.snd.scale == self.snd.wnd
            && !segment.payload.is_empty()
            && segment.payload.len() <= self.receive_window() as usize
            && tcp.options.sack.as_slice().is_empty()
            && self.reassembly.is_empty()
            && !self.ecn.enabled
            && !self.orphan;
        if !predicted || self.rcv.fin_at != u64::MAX {
            return None;
        }
        if self.ts.enabled {
            let value = tcp.options.timestamps?.value;
            if (value.wrapping_sub(self.ts.recent) as i32) < 0 {
                return None;
            }
            if tcp.seq.at_or_before(self.rcv.acked) {
                self.ts.recent = value;
                self.ts.recent_at = super::seconds(cx.now);
            }
        }
        self.last_received_ms = milliseconds(cx.now);
        self.note_alive();
        self.snd.wl1 = tcp.seq;
        self.snd.wl2 = una;
        self.note_echo_of_data(segment, cx.now);
        self.wants_transmit = true;
        Some(self.place_in_order(segment.payload, store, cx))
    }

    /// Everything in flight is acknowledged at once, nothing of it having been reported, lost or sent
    /// again. False: it is something else, and nothing has changed.
    #[inline]
    pub(super) fn take_whole_flight(
        &mut self,
        segment: &Segment<'_>,
        ack: SeqNumber,
        cx: &mut Context<'_>,
    ) -> bool {
        let tcp = &segment.tcp;
        let predicted = ack == self.snd.nxt
            && self.backoff == 0
            && self.path.probe_size == 0
            && !self.fin_sent
            && !self.ecn.enabled
            && tcp.options.sack.as_slice().is_empty()
            && !self.is_bbr();
        if !predicted {
            return false;
        }
        let Some(flight) = self.recovery.whole_flight(ack, &self.congestion) else {
            return false;
        };
        let sample = cx.now.since(flight.sent_at);
        let srtt = self.round_trips().0;
        // One measurement a window counts for the timeout, as RFC 6298's gains suppose.
        if flight.round {
            self.rtt.on_sample(cx.now, sample);
            cx.common.counters.round_trips.record(sample.get());
        } else {
            self.rtt.note(cx.now, sample);
        }
        let bytes = self.on_progress(ack, cx);
        let window = self.congestion.cwnd();
        self.validation
            .on_ack(cx.now, bytes, flight.round, srtt, window);
        self.congestion.on_ack(&Acked {
            now: cx.now,
            bytes,
            srtt: self.rtt.srtt().unwrap_or_default().into(),
            latest_rtt: Some(Duration::from(sample)),
            cwnd_limited: flight.cwnd_limited,
            round: flight.round,
        });
        self.wants_transmit |= self.has_pending();
        true
    }
}
