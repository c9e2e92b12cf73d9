//! Path MTU probes (PLPMTUD, RFC 4821): one segment larger than the others.

use super::transmit::Span;
use super::{Connection, Context, TransmitContext, seconds};
use crate::io::{FrameSink, SinkFull};
use crate::recovery::{Loss, Outcome, Phase};

/// The least number of segments that follow a path MTU probe, so that its loss is told by
/// acknowledgements and not by the timer (RFC 4821 §7.4).
const FOLLOWERS: u32 = 3;

impl Connection {
    /// The largest packet that both ends could exchange.
    fn mtu_ceiling(&self) -> u16 {
        let mss = self.snd.peer_mss.min(self.local_mss);
        mss.saturating_add(self.fixed_headers())
    }

    /// A path MTU probe, if it is time for one and there is enough to send behind it.
    //= RFC 4821 §7.4, §10.1
    pub(super) fn next_mtu_probe(&mut self, cx: &TransmitContext<'_>) -> Option<(u16, Span)> {
        if self.path.mtu >= self.mtu_ceiling() || self.fin_sent {
            return None;
        }
        let calm = self.recovery.phase() == Phase::Open && self.recovery.lost() == 0;
        let ceiling = self.mtu_ceiling();
        let size = self
            .path
            .size_to_try(ceiling, seconds(cx.now))
            .filter(|_| calm)?;
        let options = if self.ts.enabled { 12 } else { 0 };
        let len = u32::from(size.saturating_sub(self.fixed_headers() + options));
        let wanted = len + FOLLOWERS * u32::from(self.snd.mss);
        let usable = (self.snd.una + self.snd.wnd).distance_from(self.snd.nxt);
        let enough = self.queue.end() - self.unsent() >= u64::from(wanted)
            && usable >= wanted as i32
            && self.congestion_room() >= wanted;
        enough.then_some((
            size,
            Span {
                seq: self.snd.nxt,
                len,
                fin: false,
            },
        ))
    }

    //= RFC 4821 §7.5
    pub(super) fn send_mtu_probe<F: FrameSink>(
        &mut self,
        sink: &mut F,
        cx: &mut TransmitContext<'_>,
        (size, span): (u16, Span),
    ) -> Result<(), SinkFull> {
        (self.path.mtu_probe_size, self.path.mtu_probe_at) = (size, span.seq);
        let result = self.send_span(sink, cx, span, true);
        if self.snd.nxt == span.seq + span.len {
            cx.common.counters.path_mtu_probes += 1;
        } else {
            // There was no room for it, or it lies in too many pieces: it was none.
            self.path.mtu_probe_size = 0;
            if result.is_ok() {
                self.path.on_mtu_probe_lost(seconds(cx.now));
            }
        }
        result
    }

    /// The length of the path MTU probe in flight.
    fn mtu_probe_len(&self) -> u32 {
        let options = if self.ts.enabled { 12 } else { 0 };
        u32::from(
            self.path
                .mtu_probe_size
                .saturating_sub(self.fixed_headers() + options),
        )
    }

    /// The peer has acknowledged something: perhaps the path MTU probe, never sent a second time.
    pub(super) fn note_mtu_probe_arrived(&mut self, cx: &mut Context<'_>) {
        if self.path.mtu_probe_size > 0
            && self
                .snd
                .una
                .at_or_after(self.path.mtu_probe_at + self.mtu_probe_len())
        {
            self.path.on_mtu_probe_arrived(seconds(cx.now));
            self.update_mss();
        }
    }

    /// If nothing but the path MTU probe is lost, that says something of its size and nothing of congestion.
    //= RFC 4821 §7.6.2
    pub(super) fn excuse_mtu_probe(&mut self, outcome: &mut Outcome, cx: &mut Context<'_>) {
        if self.path.mtu_probe_size == 0 || !matches!(outcome.loss, Some(Loss::Entered)) {
            return;
        }
        let lost = self.recovery.next_lost();
        let alone = lost.is_some_and(|(seq, len)| {
            seq == self.path.mtu_probe_at
                && len == self.recovery.lost()
                && len <= self.mtu_probe_len()
        });
        if alone {
            outcome.loss = None;
            self.recovery
                .forgive(self.path.mtu_probe_at + self.mtu_probe_len());
            cx.common.counters.path_mtu_probes_lost += 1;
        }
    }
}
