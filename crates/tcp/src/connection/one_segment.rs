//! What most requests and responses are: everything that there is to send fits one segment, and nothing
//! is in flight. Then neither windows nor pace can hold it back, there is nothing to repair, and the way
//! that all else takes (`transmit`) would only find that out again. What is done here is exactly what
//! that would do.

use wire::ip::Ecn;
use wire::tcp::Flags;

use super::transmit::MAX_PARTS;
use super::{Connection, Timer, TransmitContext, microseconds, milliseconds};
use crate::info::State;
use crate::io::{FrameSink, Outgoing, SinkFull};

impl Connection {
    /// Whether there is something to send, all of it goes in one segment, and it may leave now.
    #[inline]
    pub(super) fn has_one_segment(&self) -> bool {
        let len = self.queue.len();
        len.wrapping_sub(1) < self.snd.mss.into()
            && self.snd.nxt == self.snd.una
            && matches!(self.state, State::Established | State::CloseWait)
            && len <= self.snd.wnd.into()
            && self.queue.extents() <= MAX_PARTS
            // No cork holds it back, and no probe goes first. (In these states no FIN follows, and while
            // nothing is in flight no TLP is due and no path MTU probe is out.)
            && !(self.cork || self.more || self.window_or_keep_alive_probe_due || self.payload_away)
            && self.reassembly.is_empty()
            && !self.has_sack_blocks()
            && !self.ecn.enabled
            && !self.is_bbr()
    }

    /// Sends it.
    pub(super) fn send_one_segment<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
    ) -> Result<(), SinkFull> {
        self.validation.on_restart(cx.now, &mut self.congestion);
        // That growth by time heeds the pause (`on_restart`) can wait for the next flight: one segment fills
        // no window in congestion avoidance, so nothing grows by it.
        // No more than a segment.
        let len = self.queue.len() as u32;
        let seq = self.snd.nxt;
        self.queue.all(&mut cx.common.parts);
        let out = Outgoing {
            conn: Some(cx.id),
            answers: None,
            src: self.key.local,
            dst: self.key.remote,
            //= RFC 9293 MUST-61
            tcp: self.header(cx.now, seq, Flags::ACK | Flags::PSH, 0),
            payload: &cx.common.parts,
            payload_len: len as usize,
            gso_size: 0,
            ecn: Ecn::NotCapable,
        };
        sink.emit(cx.now, &out)?;
        cx.budget -= 1;
        cx.common.counters.emissions += 1;
        cx.common.counters.segments_out += 1;
        cx.common.counters.bytes_out += u64::from(len);
        self.segments_out = self.segments_out.wrapping_add(1);
        self.data_segments_out = self.data_segments_out.wrapping_add(1);
        self.last_sent_ms = milliseconds(cx.now);
        self.snd.sent_us = microseconds(cx.now);
        self.note_acknowledged(true);
        self.stalled_since = cx.now;
        self.sws_override = false;
        self.timers.clear(Timer::CorkOrFinWait2);

        let end = seq + len;
        self.snd.nxt = end;
        if len < self.snd.mss.into() {
            self.snd.sml = end;
        }
        let (srtt, timeout) = (self.rtt.srtt(), self.rto());
        self.recovery
            .on_sent((seq, end), cx.now, srtt, timeout, &mut cx.common.flights);
        self.recovery.restart_pto(cx.now, srtt, self.snd.mss);
        self.note_paced(len, cx.now, &cx.common.config);
        let room = self.congestion.cwnd().saturating_sub(len);
        let filled = room < u32::from(self.snd.mss);
        self.recovery.note_cwnd_use((seq, end), filled);
        self.watch_flight();
        Ok(())
    }
}
