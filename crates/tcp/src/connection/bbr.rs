//! What BBR is told: everything that is delivered, lost and marked. It takes the place of the response
//! to loss that CUBIC and Reno have in common, proportional rate reduction included.

use super::{Connection, Context};
use crate::congestion::{Controller, Delivery};
use crate::recovery::{Outcome, Phase};

impl Connection {
    #[inline]
    pub(super) fn is_bbr(&self) -> bool {
        matches!(self.congestion, Controller::Bbr(_))
    }

    /// An acknowledgement has told something. `before` is the phase that recovery was in, `echo` that
    /// it echoes a mark that is to be responded to.
    pub(super) fn respond_by_bbr(
        &mut self,
        before: Phase,
        outcome: &Outcome,
        lost: u32,
        cwnd_limited: bool,
        echo: bool,
        cx: &mut Context<'_>,
    ) {
        let phase = self.recovery.phase();
        if let Some(congestion) = &outcome.spurious {
            cx.common.counters.spurious_recoveries += 1;
            self.congestion.undo(congestion);
            self.backoff = 0;
        }
        self.respond_to_loss(outcome.loss, 0, cx);
        if echo {
            self.note_mark(cx);
        }
        let in_flight = self.recovery.pipe(self.snd.mss);
        let ack = Delivery {
            now: cx.now,
            bytes: outcome.delivered,
            newest: outcome.newest,
            una: self.snd.una,
            lost,
            rtt: outcome.sent_at.map(|at| cx.now.since(at)),
            in_flight,
            cwnd_limited,
            marked: echo,
            recovering: phase == Phase::Fast,
        };
        let Some(bbr) = self.congestion.bbr() else {
            return;
        };
        if before != Phase::Open && phase == Phase::Open {
            bbr.on_recovered();
        }
        bbr.on_delivery(&ack);
    }

    /// Everything that may leave has left, and the window has room: if that is because there is no more,
    /// what is measured now says little of the path.
    pub(super) fn note_app_limited(&mut self) {
        let nothing_left = self.unsent() == self.queue.end() && self.recovery.lost() == 0;
        let in_flight = self.recovery.pipe(self.snd.mss);
        if nothing_left && let Some(bbr) = self.congestion.bbr() {
            bbr.on_app_limited(in_flight);
        }
    }
}
