//! Segments without payload: acknowledgements (delayed ACKs among them), zero-window and keep-alive probes,
//! SYN, RST.

use wire::ip::Ecn;
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Repr};

use super::transmit::MAX_PARTS;
use super::{Connection, Timer, TransmitContext};
use crate::Instant;
use crate::config::Config;
use crate::io::{FrameSink, Outgoing, SinkFull};

impl Connection {
    /// A segment without payload.
    pub(super) fn send_bare<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
        seq: SeqNumber,
    ) -> Result<(), SinkFull> {
        let tcp = self.header(cx.now, seq, Flags::ACK, usize::from(self.snd.mss));
        self.emit_bare(sink, cx, tcp)?;
        cx.common.counters.pure_acks += 1;
        self.note_acknowledged(true);
        Ok(())
    }

    /// Acknowledges now, or starts the timer of a delayed ACK (RFC 9293 3.8.6.3): one decision for
    /// everything that has arrived since the last. Only a peer that counts duplicates gets as many ACKs
    /// as it would without batches.
    //= RFC 9293 MUST-58, MUST-59
    //= RFC 5681 §4.2
    pub(super) fn send_acknowledgement<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
    ) -> Result<(), SinkFull> {
        let owed = self.rcv.nxt.distance_from(self.rcv.acked).max(0) as u32;
        let full = u32::from(self.rcv.mss);
        let quick = self.rcv.quick > 0;
        if self.ack_now || owed >= 2 * full || (quick && owed >= full) {
            if quick && owed > 0 {
                self.rcv.quick -= 1;
            }
            let seq = self.acceptable_seq();
            while self.duplicates_owed > 1 {
                self.send_bare(sink, cx, seq)?;
                self.duplicates_owed -= 1;
            }
            self.send_bare(sink, cx, seq)?;
            self.duplicates_owed = 0;
            return Ok(());
        }
        if owed > 0 {
            self.delay_acknowledgement(cx.now, &cx.common.config);
        }
        Ok(())
    }

    /// The number of a segment that carries nothing: SND.NXT, or the end of the peer's window where that
    /// has shrunk since. Beyond it the peer would not take the acknowledgement (RFC 9293 3.10.7.4), and what
    /// it answers to say so looks like news from the path.
    ///
    /// What the scale cannot express may be missing from the window without its having shrunk (RFC 7323 2.4).
    /// A peer that has received everything expects SND.NXT then, and takes nothing below it: two that both
    /// stayed at the end of the other's window would never believe each other again.
    pub(super) fn acceptable_seq(&self) -> SeqNumber {
        let end = self.snd.una + self.snd.wnd;
        let beyond = self.snd.nxt.distance_from(end) >= 1 << self.snd.scale;
        if beyond { end } else { self.snd.nxt }
    }

    /// Delayed ACK: what is owed may wait for data that carries it, until this timer expires.
    #[inline]
    pub(super) fn delay_acknowledgement(&mut self, now: Instant, config: &Config) {
        if !self.timers.is_set(Timer::DelayedAck) {
            let wait = if self.rcv.quick > 0 {
                config.early_delayed_ack
            } else {
                config.delayed_ack
            };
            self.timers.set(Timer::DelayedAck, now, wait);
        }
    }

    pub(super) fn send_reset<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
    ) -> Result<(), SinkFull> {
        let mut tcp = self.header(cx.now, self.snd.nxt, Flags::RST | Flags::ACK, 0);
        tcp.window = 0;
        tcp.flags = Flags::RST | Flags::ACK;
        self.emit_bare(sink, cx, tcp)?;
        cx.common.counters.resets_out += 1;
        self.reset_due = false;
        Ok(())
    }

    pub(super) fn send_syn<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
    ) -> Result<(), SinkFull> {
        let mut tcp = self.syn_header(cx.now, &cx.common.config);
        let data = self.fast_open_syn(&mut tcp, cx);
        let data = self.emit(sink, cx, tcp, data)?;
        if tcp.options.fast_open.is_some() {
            self.note_fast_open_syn(data, cx.common);
        }
        if self.fast_open.is_pending() {
            self.rcv.acked = self.rcv.nxt;
        } else {
            // Before the peer's number is known, RCV.NXT stands for it.
            let edge = self.rcv.nxt + u32::from(tcp.window);
            self.rcv.adv = self.rcv.adv.max(edge);
            if self.snd.nxt == self.snd.una {
                self.snd.nxt = self.snd.una + 1;
                self.stalled_since = cx.now;
            }
        }
        self.syn_due = false;
        self.ack_now = false;
        self.timers.set_after(Timer::Transmit, cx.now, self.rto());
        Ok(())
    }

    fn emit_bare<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
        tcp: Repr,
    ) -> Result<(), SinkFull> {
        self.emit(sink, cx, tcp, 0).map(|_| ())
    }

    /// A segment with up to `data` bytes from the front of the send queue. Returns how many those were.
    fn emit<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
        tcp: Repr,
        mut data: u32,
    ) -> Result<u32, SinkFull> {
        let parts = &mut cx.common.parts;
        parts.clear();
        if data > 0 {
            let start = self.queue.start();
            data = self.queue.slice(start, data as usize, MAX_PARTS, parts) as u32;
        }
        let out = Outgoing {
            conn: Some(cx.id),
            answers: None,
            src: self.key.local,
            dst: self.key.remote,
            tcp,
            payload: parts,
            payload_len: data as usize,
            gso_size: 0,
            ecn: Ecn::NotCapable,
        };
        sink.emit(cx.now, &out)?;
        cx.budget = cx.budget.saturating_sub(1);
        cx.common.counters.emissions += 1;
        cx.common.counters.segments_out += 1;
        self.segments_out = self.segments_out.wrapping_add(1);
        Ok(data)
    }
}
