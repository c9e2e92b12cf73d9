//! Recovery as a value, and out of one.
//!
//! A recovery goes on where it stood: what was lost is sent again, what was sent again is waited for.
//! Proportional rate reduction counts again from what is in flight now.

use wire::seq::SeqNumber;

use super::flight::Pool;
use super::prr::Prr;
use super::rack::Reordering;
use super::{Phase, Recovery};
use crate::Instant;
use crate::snapshot::{RecoveryPhase, RecoveryState};
use crate::time::Nanos;

impl Recovery {
    /// What another needs to go on from here.
    pub(crate) fn export(&self, now: Instant) -> RecoveryState {
        let flight = self.flight.as_ref();
        RecoveryState {
            phase: match self.phase {
                Phase::Open => RecoveryPhase::Open,
                Phase::Fast => RecoveryPhase::Fast,
                Phase::Loss => RecoveryPhase::Loss,
            },
            recover: self.recover.0,
            duplicate_acks: self.duplicates,
            reordering_seen: self.reordering.seen,
            reo_wnd_mult: self.reordering.reo_wnd_mult,
            flight: flight.map_or(Vec::new(), |flight| flight.outstanding.pieces(now)),
        }
    }

    /// How long the retransmission timer has still to run, if something is in flight.
    pub(crate) fn rto_left(&self, now: Instant) -> Option<Nanos> {
        let flight = self.flight.as_ref()?;
        Some(flight.rto_at.since(now))
    }

    /// Takes over what another has left, of which `una .. nxt` is in flight; [`agree`](Self::agree)
    /// follows. `timeout` is what is left of the retransmission timer.
    ///
    /// # Errors
    /// The pieces in flight are not those from `una` to `nxt`, or too many.
    pub(crate) fn import(
        from: &RecoveryState,
        (una, nxt): (SeqNumber, SeqNumber),
        now: Instant,
        timeout: Nanos,
        pool: &mut Pool,
    ) -> Result<Recovery, &'static str> {
        let mut recovery = Recovery::new(SeqNumber(from.recover));
        recovery.reordering = Reordering::resume(from.reordering_seen, from.reo_wnd_mult);
        let lengths = from.flight.iter().map(|piece| u64::from(piece.len));
        if lengths.sum::<u64>() != u64::from(nxt.distance_from(una) as u32) {
            return Err("other data in flight than was sent");
        }
        if from.flight.is_empty() {
            return Ok(recovery);
        }
        recovery.duplicates = from.duplicate_acks;
        recovery.phase = match from.phase {
            RecoveryPhase::Open => Phase::Open,
            RecoveryPhase::Fast => Phase::Fast,
            RecoveryPhase::Loss => Phase::Loss,
        };
        let mut flight = pool.take(una, now + timeout);
        let resumed = flight.outstanding.resume(una, &from.flight, now);
        flight.prr = Prr::new(flight.outstanding.pipe());
        flight.reduced_at = now;
        recovery.must_send = flight.outstanding.lost() > 0;
        recovery.flight = Some(flight);
        resumed.map(|()| recovery)
    }
}
