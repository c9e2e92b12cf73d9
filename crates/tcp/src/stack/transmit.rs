//! From the control queue and the ready list to the sink.

use wire::ip::Ecn;

use super::Stack;
use super::control::Control;
use crate::connection::TransmitContext;
use crate::io::{FrameSink, Outgoing, SinkFull};
use crate::{ConnId, Instant};

impl Stack {
    /// Sends what is ready: at most `budget` emissions, each a segment or a burst. Returns how many
    /// there were. What the sink has no room for, and what exceeds the budget, stays ready.
    ///
    /// This is also where acknowledgements are decided on, so call it after a batch of segments
    /// even if nothing was asked to be sent.
    pub fn poll_transmit<F: FrameSink>(
        &mut self,
        now: Instant,
        sink: &mut F,
        budget: usize,
    ) -> usize {
        let mut left = budget;
        if self.control.front().is_some() && self.transmit_control(now, sink, &mut left).is_err() {
            return budget - left;
        }
        while left > 0 {
            let Some(index) = self.lists.ready.pop_front() else {
                break;
            };
            let Some((generation, c)) = self.connections.at_mut(index) else {
                continue;
            };
            c.in_ready = false;
            let id = ConnId { index, generation };
            let mut cx = TransmitContext {
                now,
                id,
                common: &mut self.common,
                budget: left,
            };
            let result = c.transmit(sink, &mut cx);
            left = cx.budget;
            if result.is_err() {
                // It keeps its place.
                c.in_ready = true;
                self.lists.ready.push_front(index);
            }
            if !self.lists.settle(id, c, &mut self.common) {
                self.settle_over(now, id);
            }
            if result.is_err() {
                break;
            }
        }
        budget - left
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) has anything to do.
    #[must_use]
    pub fn wants_transmit(&self) -> bool {
        !self.lists.ready.is_empty() || self.control.front().is_some()
    }

    #[inline(never)]
    fn transmit_control<F: FrameSink>(
        &mut self,
        now: Instant,
        sink: &mut F,
        left: &mut usize,
    ) -> Result<(), SinkFull> {
        while *left > 0 {
            let Some(&control) = self.control.front() else {
                break;
            };
            let segment = match control {
                Control::Segment {
                    link,
                    src,
                    dst,
                    tcp,
                } => Some((link, src, dst, tcp)),
                Control::SynAck(index) => self
                    .half_opens
                    .get_mut(index)
                    .filter(|half| half.queued)
                    .map(|half| {
                        let key = half.handshake.key;
                        (Some(half.link), key.local, key.remote, half.syn_ack(now))
                    }),
            };
            if let Some((answers, src, dst, tcp)) = segment {
                sink.emit(
                    now,
                    &Outgoing {
                        conn: None,
                        answers,
                        src,
                        dst,
                        tcp,
                        payload: &[],
                        payload_len: 0,
                        gso_size: 0,
                        ecn: Ecn::NotCapable,
                    },
                )?;
                self.common.counters.emissions += 1;
                self.common.counters.segments_out += 1;
                *left -= 1;
            }
            if let Control::SynAck(index) = control {
                self.note_syn_ack_sent(now, index);
            }
            self.control.pop();
        }
        Ok(())
    }

    fn note_syn_ack_sent(&mut self, now: Instant, index: u32) {
        if let Some(half) = self.half_opens.get_mut(index) {
            half.queued = false;
            // The round trip of the handshake counts if there was one SYN-ACK only.
            let h = &mut half.handshake;
            h.sent_at = (h.syn_acks == 0).then_some(now);
            h.syn_acks = h.syn_acks.saturating_add(1);
        }
    }
}
