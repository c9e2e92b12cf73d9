//! Sending a tail loss probe (TLP, RFC 8985 §7.3). Where the rest of TLP is, `recovery/mod.rs`
//! says.

use super::transmit::Span;
use super::{Connection, TransmitContext};
use crate::io::{FrameSink, SinkFull};
use crate::recovery::Phase;

impl Connection {
    /// Sends a tail loss probe: what is new if the peer's window lets it, else the last segment
    /// again. The congestion window does not matter (RFC 8985 §7.3).
    //= RFC 8985 §7.3
    pub(super) fn send_tlp<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
    ) -> Result<(), SinkFull> {
        if self.in_flight() == 0 || self.recovery.phase() != Phase::Open {
            self.tlp_due = false;
            return Ok(());
        }
        let mss = u32::from(self.snd.mss);
        let usable = (self.snd.una + self.snd.wnd)
            .distance_from(self.snd.nxt)
            .max(0) as u32;
        let remaining = self.queue.end() - self.unsent();
        let len = u32::try_from(remaining).unwrap_or(u32::MAX).min(mss);
        let new = !self.fin_sent && len > 0 && len <= usable;
        let span = if new {
            Span {
                seq: self.snd.nxt,
                len,
                fin: false,
            }
        } else {
            // Our FIN takes the last number before SND.NXT.
            let fin = u32::from(self.fin_in_flight());
            let len = mss.min(self.in_flight() - fin);
            Span {
                seq: self.snd.nxt - fin - len,
                len,
                fin: fin > 0,
            }
        };
        self.send_span(sink, cx, span, new)?;
        self.tlp_due = false;
        self.recovery.on_tlp_sent(Some(!new), cx.now, self.rto());
        self.watch_flight();
        Ok(())
    }
}
