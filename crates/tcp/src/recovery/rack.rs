//! RACK: what is lost, told by time (RFC 8985 §6).
//!
//! Something has arrived that was sent later than something else of which nothing has been heard.
//! Then the latter is late; when it is later than a round trip and what reordering may take, it is
//! lost. The rule does not care whether it is an original or has been sent again, nor in which order
//! the numbers are; so it also finds lost retransmissions, and lost tails once a TLP
//! ([`tlp`](super::tlp)) has made the peer say something.

use wire::seq::SeqNumber;

use crate::time::Nanos;

use super::outstanding::{Piece, Sent};
use super::{Arrival, DUP_THRESH};

/// How often recoveries without a sign of needless retransmission must end before the reordering
/// window shrinks again (RFC 8985 §6.2, step 4).
const PERSISTENCE: u8 = 16;

/// What a connection knows of reordering on its path. It outlasts idle times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reordering {
    /// Something arrived after what was sent later (RACK.reordering_seen).
    pub(super) seen: bool,
    /// RACK.reo_wnd_mult: the reordering window in quarters of the least round trip.
    pub(super) reo_wnd_mult: u8,
    /// RACK.reo_wnd_persist: recoveries until that shrinks again.
    reo_wnd_persist: u8,
    /// The most segments that have overtaken one. It decides nothing; it is only shown to the owner.
    distance: u16,
}

impl Reordering {
    pub(super) const fn new() -> Reordering {
        Reordering {
            seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: PERSISTENCE,
            distance: 0,
        }
    }

    /// What was seen, and RACK.reo_wnd_mult, as they stood.
    pub(super) fn resume(seen: bool, reo_wnd_mult: u8) -> Reordering {
        Reordering {
            seen,
            reo_wnd_mult: reo_wnd_mult.max(1),
            ..Reordering::new()
        }
    }

    /// Something arrived that others had overtaken by so many bytes.
    fn note(&mut self, bytes: u32, mss: u16) {
        self.seen = true;
        let segments = bytes.div_ceil(mss.max(1).into());
        let segments = u16::try_from(segments).unwrap_or(u16::MAX);
        self.distance = self.distance.max(segments);
    }

    /// How many segments later one may come without being taken for lost, by what was seen.
    pub(super) fn segments(&self) -> u32 {
        DUP_THRESH.max(self.distance.into())
    }

    /// The peer has received something twice.
    pub(super) fn widen(&mut self) {
        self.reo_wnd_mult = self.reo_wnd_mult.saturating_add(1);
        self.reo_wnd_persist = PERSISTENCE;
    }

    /// A recovery has ended.
    pub(super) fn on_recovered(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }
}

/// The state of RACK while anything is in flight.
//= RFC 8985 §5
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rack {
    /// When the latest of what has arrived was sent, and where it ends (RACK.xmit_ts,
    /// RACK.end_seq).
    latest: Option<Sent>,
    /// Its round trip (RACK.rtt).
    rtt: Nanos,
    /// The end of what has arrived (RACK.fack).
    fack: SeqNumber,
    /// SND.NXT when the reordering window was last widened (RACK.dsack_round).
    widened: Option<SeqNumber>,
}

impl Rack {
    pub(super) fn new(start: SeqNumber) -> Rack {
        Rack {
            fack: start,
            ..Rack::default()
        }
    }

    pub(super) fn latest(&self) -> Option<Sent> {
        self.latest
    }

    pub(super) fn rtt(&self) -> Nanos {
        self.rtt
    }

    /// Something has arrived (RFC 8985 §6.2, steps 2 and 3).
    //= RFC 8985 §6.2
    #[inline]
    pub(super) fn on_arrived(
        &mut self,
        piece: &Piece,
        arrival: &Arrival<'_>,
        reordering: &mut Reordering,
    ) {
        if piece.right.after(self.fack) {
            self.fack = piece.right;
        } else if !piece.retransmitted && piece.right.before(self.fack) {
            let ahead = self.fack.distance_from(piece.right) as u32;
            reordering.note(ahead.saturating_add(piece.len), arrival.mss);
        }
        if !piece.is_timed() {
            return;
        }
        let rtt = arrival.now.since(piece.at);
        if piece.retransmitted {
            // It may have been the original that arrived, and then nothing is known of when what
            // arrived was sent.
            let older = |echo: u64| echo < piece.at.as_millis();
            if arrival.echo.is_some_and(older) || rtt < arrival.min_rtt {
                return;
            }
        }
        self.rtt = rtt;
        let sent = Sent {
            at: piece.at,
            retransmitted: piece.retransmitted,
            end: piece.right,
        };
        if self.latest.is_none_or(|latest| latest.is_before(&sent)) {
            self.latest = Some(sent);
        }
    }

    /// The peer has received something twice (RFC 8985 §6.2, step 4): the reordering window was
    /// too narrow.
    pub(super) fn on_dsack(&mut self, una: SeqNumber, max: SeqNumber, reordering: &mut Reordering) {
        if self.widened.is_some_and(|round| una.before(round)) {
            return;
        }
        self.widened = Some(max);
        reordering.widen();
    }

    /// The reordering window, RACK.reo_wnd (RFC 8985 §6.2, step 4). `enough` says that three segments
    /// have been SACKed, or that a recovery is under way: then, on a path that has shown no
    /// reordering, there is nothing to wait for.
    pub(super) fn reo_wnd(
        reordering: &Reordering,
        enough: bool,
        min_rtt: Nanos,
        srtt: Nanos,
    ) -> Nanos {
        if !reordering.seen && enough {
            return Nanos::ZERO;
        }
        Nanos::new(min_rtt.times(reordering.reo_wnd_mult.into()).get() / 4).min(srtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instant;
    use crate::recovery::outstanding::Outstanding;

    //~ RFC 8985 §6.2
    #[test]
    fn the_reordering_window_narrows_after_sixteen_quiet_recoveries() {
        let mut reordering = Reordering::new();
        reordering.widen();
        reordering.widen();
        for _ in 0..15 {
            reordering.on_recovered();
        }
        assert_eq!(reordering.reo_wnd_mult, 3);
        reordering.on_recovered();
        assert_eq!(reordering.reo_wnd_mult, 1);
        // Another sign of needless retransmission restarts the count.
        reordering.widen();
        reordering.on_recovered();
        assert_eq!(reordering.reo_wnd_mult, 2);
    }

    /// Nobody knows when it was last sent. The time since the clock began is not its round trip, be that before or
    /// after the connection has moved to where the clock is another.
    #[test]
    fn what_the_peer_has_let_go_of_is_not_timed() {
        let (sent, now) = (Instant::from_secs(86_400), Instant::from_secs(86_401));
        for moves in [false, true] {
            let [start, end] = [1, 3_001].map(SeqNumber);
            let mut outstanding = Outstanding::default();
            outstanding.restart(start);
            outstanding.push(end, sent, Nanos::ZERO);
            outstanding.lose_below(end);
            outstanding.on_reneging();
            if moves {
                let pieces = outstanding.pieces(Instant::from_secs(7_000));
                let resumed = outstanding.resume(start, &pieces, now);
                assert_eq!(resumed, Ok(()));
            }
            let arrival = Arrival {
                now,
                ack: end,
                blocks: &[],
                echo: None,
                duplicate: false,
                min_rtt: Nanos::from_millis(10),
                srtt: Nanos::from_millis(10),
                mss: 1_000,
            };
            let (mut rack, mut reordering) = (Rack::new(start), Reordering::new());
            let mut arrived = 0;
            outstanding.acknowledge(end, |piece| {
                arrived += piece.len;
                rack.on_arrived(&piece, &arrival, &mut reordering);
            });
            assert_eq!(arrived, 3_000);
            assert_eq!((rack.rtt(), rack.latest()), (Nanos::ZERO, None), "{moves}");
            assert_eq!(rack.fack, end);
        }
    }
}
