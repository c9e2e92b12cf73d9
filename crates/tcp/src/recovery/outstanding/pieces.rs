//! What is outstanding as a list of pieces, and out of one.

use wire::seq::SeqNumber;

use super::holes::{Hole, State};
use super::{MAX_SENDINGS, Outstanding, Sending, UNTIMED};
use crate::Instant;
use crate::snapshot::{Fate, FlightPiece};
use crate::time::Nanos;

impl Outstanding {
    /// Everything from SND.UNA to SND.NXT, in its order.
    pub(in crate::recovery) fn pieces(&self, now: Instant) -> Vec<FlightPiece> {
        let mut pieces = Vec::with_capacity(2 * self.holes.len() + self.sendings.len());
        let mut left = self.una;
        let mut put = |right: SeqNumber, at: Instant, fate: Fate| {
            if left.before(right) {
                // By whatever clock it goes on, this stays untimed.
                let is_timed = at != UNTIMED || fate == Fate::InFlight;
                pieces.push(FlightPiece {
                    len: right.distance_from(left) as u32,
                    age: if is_timed {
                        now.since(at).get()
                    } else {
                        u64::MAX
                    },
                    fate,
                });
                left = right;
            }
        };
        for hole in self.holes.iter() {
            put(hole.left, now, Fate::Sacked);
            put(hole.right, hole.at, hole.fate());
        }
        put(self.scoreboard_end, now, Fate::Sacked);
        for sending in &self.sendings {
            put(sending.end, sending.at, Fate::InFlight);
        }
        pieces
    }

    /// Starts over at `una` with a list of pieces.
    ///
    /// # Errors
    /// A piece has no length, or there are more than could be remembered.
    pub(in crate::recovery) fn resume(
        &mut self,
        una: SeqNumber,
        pieces: &[FlightPiece],
        now: Instant,
    ) -> Result<(), &'static str> {
        self.restart(una);
        self.first_flying = una;
        let known = |piece: &FlightPiece| piece.fate != Fate::InFlight;
        let on_scoreboard = pieces.iter().rposition(known).map_or(0, |last| last + 1);
        let (below, above) = pieces.split_at(on_scoreboard);
        for piece in below {
            let (left, right) = (self.scoreboard_end, self.scoreboard_end + piece.len);
            if piece.fate != Fate::Sacked {
                self.holes.insert(Hole::resume(left, right, piece, now));
            }
            self.scoreboard_end = right;
        }
        self.max = self.scoreboard_end;
        for piece in above {
            self.max += piece.len;
            self.sendings.push_back(Sending {
                end: self.max,
                at: sent_at(piece, now),
            });
        }
        // Where a hole is cut in pieces they may be some more than are remembered at first.
        if self.holes.len() > 2 * self.max_holes() || self.sendings.len() > MAX_SENDINGS {
            return Err("too many pieces in flight");
        }
        if pieces.iter().any(|piece| piece.len == 0) {
            return Err("an empty piece in flight");
        }
        self.order_retransmissions();
        Ok(())
    }
}

impl Hole {
    fn fate(&self) -> Fate {
        match self.state {
            State::Flying => Fate::InFlight,
            State::Lost => Fate::Lost,
            State::Retransmitted => Fate::Retransmitted,
        }
    }

    fn resume(left: SeqNumber, right: SeqNumber, piece: &FlightPiece, now: Instant) -> Hole {
        let state = match piece.fate {
            Fate::Lost => State::Lost,
            Fate::Retransmitted => State::Retransmitted,
            Fate::InFlight | Fate::Sacked => State::Flying,
        };
        Hole {
            left,
            right,
            at: sent_at(piece, now),
            // Whether what is lost had been sent again nobody knows any more: it is not to be timed.
            retransmissions: u8::from(state != State::Flying),
            state,
        }
    }
}

fn sent_at(piece: &FlightPiece, now: Instant) -> Instant {
    now.before(Nanos::new(piece.age))
}
