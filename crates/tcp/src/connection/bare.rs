//! Segments without payload: acknowledgements, probes, SYN, RST.

use wire::ip::Ecn;
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Repr};

use super::{Connection, RoundTripProbe, Timer, TransmitContext};
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
        cx.counters.pure_acks += 1;
        self.note_acknowledged();
        Ok(())
    }

    pub(super) fn send_reset<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
    ) -> Result<(), SinkFull> {
        let mut tcp = self.header(cx.now, self.snd.nxt, Flags::RST | Flags::ACK, 0);
        tcp.window = 0;
        self.emit_bare(sink, cx, tcp)?;
        cx.counters.resets_out += 1;
        self.reset_due = false;
        Ok(())
    }

    pub(super) fn send_syn<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
    ) -> Result<(), SinkFull> {
        let tcp = self.syn_header(cx.now, cx.config);
        self.emit_bare(sink, cx, tcp)?;
        if self.snd.nxt == self.snd.una {
            self.snd.nxt = self.snd.una + 1;
            self.stalled_since = cx.now;
            self.probe = Some(RoundTripProbe {
                end: self.snd.nxt,
                sent_at: cx.now,
            });
        }
        self.syn_due = false;
        self.ack_now = false;
        self.timers.set(Timer::Retransmit, cx.now, self.timeout());
        Ok(())
    }

    fn emit_bare<F: FrameSink>(
        &self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
        tcp: Repr,
    ) -> Result<(), SinkFull> {
        let out = Outgoing {
            conn: Some(cx.id),
            src: self.key.local,
            dst: self.key.remote,
            tcp,
            payload: &[],
            payload_len: 0,
            gso_size: 0,
            ecn: Ecn::NotCapable,
        };
        sink.emit(cx.now, &out)?;
        cx.budget = cx.budget.saturating_sub(1);
        cx.counters.emissions += 1;
        cx.counters.segments_out += 1;
        Ok(())
    }
}
