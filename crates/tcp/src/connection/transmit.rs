//! What may be sent now, in this order: RST, SYN, a zero-window or keep-alive probe, a TLP, what was lost,
//! what is new, FIN; and if none of it carried the acknowledgement that is owed, that by itself.

use wire::ip::Ecn;
use wire::seq::SeqNumber;
use wire::tcp::Flags;

use super::{Common, Connection, Timer};
use crate::congestion::CongestionControl;
use crate::info::State;
use crate::io::{FrameSink, Outgoing, SinkFull};
use crate::{ConnId, Instant};

/// Pieces of send memory that one emission may gather.
pub(super) const MAX_PARTS: usize = 64;

/// Emissions of one connection before others get their turn.
const TURN: usize = 16;

/// What transmission needs of the stack.
pub(crate) struct TransmitContext<'a> {
    pub(crate) now: Instant,
    pub(crate) id: ConnId,
    pub(crate) common: &'a mut Common,
    /// Emissions left.
    pub(crate) budget: usize,
}

/// A range of our sequence space that is to leave.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) seq: SeqNumber,
    pub(super) len: u32,
    pub(super) fin: bool,
}

impl Connection {
    /// Sends what there is, as far as windows, budget and sink allow. On return
    /// `wants_transmit` says whether there is more that only the budget or the sink held back.
    pub(crate) fn transmit<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
    ) -> Result<(), SinkFull> {
        self.wants_transmit = false;
        if self.limit_window(sink.window_limit(cx.id)) {
            cx.common.counters.windows_limited += 1;
        }
        if cx.budget > 0 && cx.common.config.one_segment_path && self.has_one_segment() {
            let result = self.send_one_segment(sink, cx);
            if result.is_err() {
                return self.held_back(sink, cx);
            }
            return result;
        }
        if self.transmit_all(sink, cx).is_err() {
            return self.held_back(sink, cx);
        }
        Ok(())
    }

    /// The sink has refused something: it has no room, or the payload is being fetched. Then what
    /// needs no payload leaves anyway.
    #[cold]
    fn held_back<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
    ) -> Result<(), SinkFull> {
        if !self.payload_away && sink.awaits_payload(cx.id) {
            self.payload_away = true;
            self.watch(cx.now);
            if self.send_acknowledgement(sink, cx).is_ok() {
                return Ok(());
            }
        }
        self.wants_transmit = true;
        Err(SinkFull)
    }

    /// What was awaited is there.
    pub(crate) fn payload_is_there(&mut self) {
        if core::mem::take(&mut self.payload_away) {
            self.wants_transmit |= self.has_pending() || self.tlp_due;
        }
    }

    fn transmit_all<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
    ) -> Result<(), SinkFull> {
        match self.state {
            State::Closed | State::TimeWait => {
                if self.reset_due {
                    self.send_reset(sink, cx)?;
                }
                return Ok(());
            }
            State::SynSent | State::SynReceived => {
                if self.syn_due {
                    self.send_syn(sink, cx)?;
                } else if self.ack_now {
                    self.send_bare(sink, cx, self.snd.nxt)?;
                }
                if !self.fast_open.is_pending() {
                    return Ok(());
                }
            }
            _ => {}
        }
        if self.window_or_keep_alive_probe_due {
            // One below what the peer expects: it must answer (RFC 9293 3.8.4, 3.8.6.1).
            self.send_bare(sink, cx, self.snd.una - 1)?;
            self.window_or_keep_alive_probe_due = false;
        }
        if self.payload_away {
            if self.has_pending() {
                self.watch(cx.now);
            }
            return self.send_acknowledgement(sink, cx);
        }
        if self.tlp_due {
            self.send_tlp(sink, cx)?;
        }
        if self.has_pending() {
            self.send_stream(sink, cx)?;
        }
        self.send_acknowledgement(sink, cx)
    }

    fn send_stream<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
    ) -> Result<(), SinkFull> {
        if self.in_flight() == 0 {
            //= RFC 5681 §4.1
            // RFC 7661 has another answer to idle times.
            if !self.is_bbr() {
                self.validation.on_restart(cx.now, &mut self.congestion);
            }
            self.congestion.on_restart(cx.now);
        }
        let burst = sink.burst_limit(cx.id, self.snd.mss);
        let burst = u32::try_from(burst)
            .unwrap_or(u32::MAX)
            .max(u32::from(self.snd.mss));
        for _ in 0..TURN {
            if cx.budget > 0
                && let Some(mtu_probe) = self.next_mtu_probe(cx)
            {
                self.send_mtu_probe(sink, cx, mtu_probe)?;
                continue;
            }
            let mss = u32::from(self.snd.mss);
            let pace = self.pacing_room(cx.now, &cx.common.config);
            let burst = burst.min(pace.max(mss));
            let next = if self.recovery.lost() == 0 {
                self.next_new(cx, burst).map(|span| (span, true))
            } else {
                self.next_in_loss(cx, burst)
            };
            if pace < mss && next.is_some() && !self.recovery.must_send() {
                self.wait_for_pace(cx.now, &cx.common.config);
                self.note_cwnd_use();
                self.watch(cx.now);
                return Ok(());
            }
            let Some((span, new)) = next else {
                self.recovery.keeps_pace();
                self.note_cwnd_use();
                self.watch(cx.now);
                return Ok(());
            };
            if cx.budget == 0 {
                break;
            }
            self.send_span(sink, cx, span, new)?;
            if !self.has_pending() {
                self.recovery.keeps_pace();
                self.note_cwnd_use();
                self.watch(cx.now);
                return Ok(());
            }
        }
        // There may be nothing more to send when the next turn comes.
        self.watch(cx.now);
        self.wants_transmit = true;
        Ok(())
    }

    /// Bytes that cwnd lets go. Limited transmit (RFC 3042 §2) follows from it: SACKs and duplicate
    /// acknowledgements tell of what has left the network, and new data takes its place before any
    /// loss is certain.
    //= RFC 3042 §2
    pub(super) fn congestion_room(&self) -> u32 {
        let pipe = self.recovery.pipe(self.snd.mss);
        let room = self.congestion.cwnd().saturating_sub(pipe);
        if pipe == 0 {
            room.max(u32::from(self.snd.mss))
        } else {
            room
        }
    }

    /// Notes how full the congestion window is, now that what may leave has left.
    fn note_cwnd_use(&mut self) {
        let filled = self.congestion_room() < u32::from(self.snd.mss);
        let range = (self.snd.una, self.snd.nxt);
        self.recovery.note_cwnd_use(range, filled);
        if !filled && self.is_bbr() {
            self.note_app_limited();
        }
    }

    /// The same while something is lost; and whether it is new.
    #[cold]
    fn next_in_loss(&mut self, cx: &TransmitContext<'_>, burst: u32) -> Option<(Span, bool)> {
        if self.recovery.prefers_new()
            && let Some(span) = self.next_new(cx, burst)
        {
            return Some((span, true));
        }
        let again = self.next_retransmission(burst).map(|span| (span, false));
        again.or_else(|| self.next_new(cx, burst).map(|span| (span, true)))
    }

    /// What is to be sent again, and may be now.
    fn next_retransmission(&mut self, burst: u32) -> Option<Span> {
        let (seq, hole) = self.recovery.next_lost()?;
        let mss = u32::from(self.snd.mss);
        //= RFC 9293 MUST-34
        // A window that has shrunk does not keep the first segment from being repaired.
        let usable = (self.snd.una + self.snd.wnd).distance_from(seq).max(0) as u32;
        let usable = if seq == self.snd.una {
            usable.max(mss)
        } else {
            usable
        };
        let len = if self.recovery.must_send() {
            hole.min(mss).min(usable)
        } else {
            let len = hole.min(self.congestion_room()).min(usable).min(burst);
            if len < hole { len - len % mss } else { len }
        };
        if len == 0 {
            return None;
        }
        // Our FIN takes the last number before SND.NXT.
        let fin = self.fin_in_flight() && (seq + len) == self.snd.nxt;
        Some(Span {
            seq,
            len: len - u32::from(fin),
            fin,
        })
    }

    /// What is new and may be sent now.
    fn next_new(&mut self, cx: &TransmitContext<'_>, burst: u32) -> Option<Span> {
        let mss = u32::from(self.snd.mss);
        let remaining = self.queue.end() - self.unsent();
        let fin = self.fin_is_unsent();
        if self.fin_sent || (remaining == 0 && !fin) {
            return None;
        }
        let usable = (self.snd.una + self.snd.wnd)
            .distance_from(self.snd.nxt)
            .max(0) as u32;
        let room = self.congestion_room();
        let remaining = u32::try_from(remaining).unwrap_or(u32::MAX);
        // What says that the window was reduced goes alone: a device that cuts a burst would say it in
        // every segment.
        let tells = self.ecn.enabled && self.ecn.reduced;
        let burst = if tells { mss } else { burst };
        let mut len = remaining.min(usable).min(room).min(burst);
        if len == remaining {
            // Everything goes, except a tail that Nagle's algorithm or a cork holds back.
            let tail = len % mss;
            if tail > 0 && !fin && self.holds_tail(tail, cx) {
                len -= tail;
            }
        } else if len >= mss {
            len -= len % mss;
        } else if room < mss && room < usable {
            len = 0;
        //= RFC 9293 MUST-38
        } else if !self.sws_override && len < self.snd.max_wnd / 2 {
            // SWS avoidance, the sender's (RFC 9293 3.8.6.2.1, RFC 1122 4.2.3.4): the peer's window
            // would make the segment too small.
            len = 0;
        }
        let fin = fin && len == remaining && len < usable;
        (len > 0 || fin).then_some(Span {
            seq: self.snd.nxt,
            len,
            fin,
        })
    }

    /// Whether a segment that is not full waits: for the cork to be pulled, or by Nagle's algorithm
    /// (RFC 9293 3.7.4) for the last one that was not full to be acknowledged (Minshall). `tail` is its
    /// length, up to the end of what there is to send.
    //= RFC 9293 MUST-60
    fn holds_tail(&mut self, tail: u32, cx: &TransmitContext<'_>) -> bool {
        if u64::from(self.pushed) + u64::from(tail) > self.queue.len() {
            return false;
        }
        if self.cork || self.more {
            if !self.timers.is_set(Timer::CorkOrFinWait2) {
                self.timers
                    .set(Timer::CorkOrFinWait2, cx.now, cx.common.config.cork_ceiling);
            }
            return true;
        }
        !self.no_delay && self.snd.sml.after(self.snd.una)
    }

    /// Makes sure that a timer runs while something is in flight or waits for the peer's window.
    fn watch(&mut self, now: Instant) {
        if self.in_flight() > 0 {
            self.watch_flight();
            return;
        }
        if self.timers.is_set(Timer::Transmit) {
            return;
        }
        //= RFC 9293 MUST-36
        let waits_for_window = (self.fin_is_unsent() || self.queue.len() > 0)
            && !self.timers.is_set(Timer::CorkOrFinWait2);
        if waits_for_window {
            self.stalled_since = now;
            self.timers.set_after(Timer::Transmit, now, self.rto());
        }
    }

    pub(super) fn send_span<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
        span: Span,
        new: bool,
    ) -> Result<(), SinkFull> {
        let Span {
            seq,
            mut len,
            mut fin,
        } = span;
        let mss = self.snd.mss;
        let is_mtu_probe = new && self.path.mtu_probe_size > 0 && seq == self.path.mtu_probe_at;
        let offset = self.send_offset(seq);
        cx.common.parts.clear();
        if len > 0 {
            let gathered = self
                .queue
                .slice(offset, len as usize, MAX_PARTS, &mut cx.common.parts)
                as u32;
            if gathered < len {
                // Too many pieces for one emission: the rest is for the next.
                fin = false;
                len = if gathered >= u32::from(mss) {
                    gathered - gathered % u32::from(mss)
                } else {
                    gathered
                };
                self.queue
                    .slice(offset, len as usize, MAX_PARTS, &mut cx.common.parts);
            }
        }
        let last = offset + u64::from(len) == self.queue.end();
        // Only the first new data after a reduction says so (RFC 3168 §6.1.2).
        let fresh = new && len > 0;
        let tells = fresh && self.ecn.enabled && self.ecn.reduced && len <= u32::from(self.snd.mss);
        let flags = Flags::ACK
            //= RFC 9293 MUST-61
            .with(Flags::PSH, last && len > 0)
            .with(Flags::FIN, fin)
            .with(Flags::CWR, tells);
        let spare = u32::from(mss).saturating_sub(len) as usize;
        let out = Outgoing {
            conn: Some(cx.id),
            answers: None,
            src: self.key.local,
            dst: self.key.remote,
            tcp: self.header(cx.now, seq, flags, spare),
            payload: &cx.common.parts,
            payload_len: len as usize,
            gso_size: if len > u32::from(mss) && !is_mtu_probe {
                mss
            } else {
                0
            },
            //= RFC 3168 §6.1.4, §6.1.5, §6.1.6
            ecn: if fresh {
                self.ecn.codepoint()
            } else {
                Ecn::NotCapable
            },
        };
        sink.emit(cx.now, &out)?;
        cx.budget -= 1;

        let segments = u64::from(len.div_ceil(u32::from(mss)).max(1));
        cx.common.counters.emissions += 1;
        cx.common.counters.segments_out += segments;
        self.segments_out = self.segments_out.wrapping_add(segments as u32);
        if len > 0 {
            self.data_segments_out = self.data_segments_out.wrapping_add(segments as u32);
        }
        cx.common.counters.bytes_out += u64::from(len);
        // What is out of order is told by an ACK of its own: a segment with payload is no duplicate,
        // and has rarely room for ranges.
        let tell = self.ack_now && (!self.reassembly.is_empty() || self.has_sack_blocks());
        self.note_acknowledged(!tell);
        self.ack_now = tell;
        self.ecn.reduced &= !tells;
        let end = seq + len + u32::from(fin);
        if new {
            if self.in_flight() == 0 {
                self.stalled_since = cx.now;
            }
            if let Some(bbr) = self.congestion.bbr() {
                let bytes = end.distance_from(seq) as u32;
                bbr.on_sent(end, bytes, self.recovery.pipe(mss), cx.now);
            }
            let srtt = self.rtt.srtt();
            let timeout = self.rto();
            self.recovery
                .on_sent((seq, end), cx.now, srtt, timeout, &mut cx.common.flights);
            self.recovery.restart_pto(cx.now, srtt, mss);
            self.snd.nxt = end;
            self.fin_sent |= fin;
            self.sws_override = false;
            if len % u32::from(mss) != 0 {
                self.snd.sml = end;
            }
            if last {
                self.more = false;
                self.timers.clear(Timer::CorkOrFinWait2);
            }
        } else {
            self.recovery.on_retransmitted(seq, end, cx.now);
            if self.path.mtu_probe_size > 0 && end.after(self.path.mtu_probe_at) {
                self.path.on_mtu_probe_lost(super::seconds(cx.now));
            }
            self.ts.retransmitted = self.timestamp(cx.now);
            self.retransmits = self.retransmits.saturating_add(segments as u32);
            self.bytes_retransmitted = self.bytes_retransmitted.saturating_add(len);
            cx.common.counters.retransmitted_segments += segments;
            cx.common.counters.retransmitted_bytes += u64::from(len);
        }
        self.note_paced(len, cx.now, &cx.common.config);
        self.last_sent_ms = super::milliseconds(cx.now);
        self.snd.sent_us = super::microseconds(cx.now);
        Ok(())
    }
}
