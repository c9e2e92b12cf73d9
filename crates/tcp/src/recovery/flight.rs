//! Everything that recovery knows of data in flight, and how an acknowledgement changes it.

use wire::seq::SeqNumber;
use wire::tcp::SackBlock;

use super::delivery::Measurement;
use super::outstanding::{Outstanding, Piece};
use super::prr::Prr;
use super::rack::Rack;
use super::tlp::{Said, Tlp};
use super::undo::Undo;
use super::{Arrival, DUP_THRESH, Loss, Outcome, Phase, Recovery};
use crate::Instant;
use crate::congestion::{Controller, CwndUse};

/// What a connection holds while it has data in flight.
#[derive(Default)]
pub(crate) struct Flight {
    pub(super) outstanding: Outstanding,
    pub(super) rack: Rack,
    pub(super) prr: Prr,
    pub(super) tlp: Option<Tlp>,
    /// How full the congestion window was.
    pub(super) cwnd_use: CwndUse,
    /// When the retransmission timer expires.
    pub(super) rto_at: Instant,
    /// PTO: when a TLP is due; [`Instant::MAX`] if none is.
    pub(super) pto_at: Instant,
    /// When what is late will be lost; [`Instant::MAX`] if nothing is late.
    pub(super) reorder_at: Instant,
    /// When what has been sent will have left at its pace.
    pub(super) paced_until: Instant,
    /// When more may leave at that pace; [`Instant::MAX`] if nothing waits for that.
    pub(super) pace_at: Instant,
    /// Something could leave but for that pace.
    pub(super) held_by_pace: bool,
    /// The round trip is measured once a window: when this is acknowledged.
    pub(super) round_end: SeqNumber,
    /// When the window was last reduced for a loss.
    pub(super) reduced_at: Instant,
    /// Of the delivery rate: what is being measured.
    pub(super) delivery: Measurement,
    /// SND.UNA before the acknowledgement that is being processed.
    pub(super) una_before: SeqNumber,
}

/// Records that are not in use, so that a connection that begins to send need not allocate.
#[derive(Default)]
#[expect(
    clippy::vec_box,
    reason = "connections hold them boxed: they change hands without a copy"
)]
pub(crate) struct Pool(Vec<Box<Flight>>);

/// Records kept.
const KEPT: usize = 64;

impl Pool {
    #[inline]
    pub(super) fn take(&mut self, start: SeqNumber, rto_at: Instant) -> Box<Flight> {
        let mut flight = self.0.pop().unwrap_or_default();
        flight.outstanding.restart(start);
        flight.rack = Rack::new(start);
        flight.tlp = None;
        flight.cwnd_use = CwndUse::new(start);
        flight.rto_at = rto_at;
        flight.pto_at = Instant::MAX;
        flight.reorder_at = Instant::MAX;
        flight.round_end = start;
        flight.paced_until = Instant::ZERO;
        flight.pace_at = Instant::MAX;
        flight.held_by_pace = false;
        flight.reduced_at = Instant::ZERO;
        flight.delivery = Measurement::default();
        flight
    }

    #[inline]
    pub(super) fn put(&mut self, flight: Box<Flight>) {
        if self.0.len() < KEPT {
            self.0.push(flight);
        }
    }
}

impl Recovery {
    /// Whether the round trip is to be measured by this acknowledgement; if so, the next time is a
    /// window later.
    pub(crate) fn begins_round(&mut self, ack: SeqNumber) -> bool {
        let Some(flight) = &mut self.flight else {
            return false;
        };
        let begins = ack.after(flight.round_end);
        if begins {
            flight.round_end = flight.outstanding.max() - 1;
        }
        begins
    }

    /// Takes note of what an acknowledgement says has arrived, and of what follows for the recovery
    /// under way.
    pub(super) fn take_news(&mut self, flight: &mut Flight, arrival: &Arrival<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let mut unlost = false;
        let (una, max) = (flight.outstanding.una(), flight.outstanding.max());
        flight.una_before = una;
        let progress = arrival.ack.after(una);

        let Flight {
            outstanding, rack, ..
        } = flight;
        let mut arrived = |piece: Piece| {
            outcome.delivered += piece.len;
            outcome.retransmitted |= piece.retransmitted;
            unlost |= piece.lost && !piece.retransmitted;
            if !piece.retransmitted && outcome.sent_at <= Some(piece.at) {
                outcome.sent_at = Some(piece.at);
                outcome.newest = Some(piece.right);
            }
            rack.on_arrived(&piece, arrival, &mut self.reordering);
        };
        if progress && outstanding.acknowledge(arrival.ack, &mut arrived) {
            //= RFC 2018 §8
            // The peer has let go of what it had SACKed.
            outstanding.on_reneging();
        }
        let mut dsack = None;
        if self.selective && !arrival.blocks.is_empty() {
            dsack = dsack_block(arrival.blocks, arrival.ack);
            let mut blocks = [SackBlock::default(); wire::tcp::SackBlocks::MAX];
            let blocks = &mut blocks[..arrival.blocks.len()];
            blocks.copy_from_slice(arrival.blocks);
            // In the order of the stream, or a lost acknowledgement would look like reordering.
            blocks.sort_unstable_by_key(|block| block.left.distance_from(arrival.ack));
            for block in blocks {
                let sound = block.left.before(block.right)
                    && block.left.after(arrival.ack.max(una))
                    && block.right.at_or_before(max);
                if sound {
                    outstanding.sack(*block, &mut arrived);
                }
            }
        }
        if !self.selective {
            self.count_duplicates(flight, arrival, progress, &mut outcome);
        }

        outcome.dsack = dsack.is_some();
        let explained = dsack.is_some_and(|block| self.on_dsack(flight, block));
        if let Some(tlp) = flight.tlp {
            let bare = arrival.duplicate && arrival.blocks.is_empty();
            let said = tlp.on_ack(arrival.ack, dsack.is_some(), bare);
            if said != Said::Nothing {
                flight.tlp = None;
            }
            if said == Said::Repaired && self.phase == Phase::Open {
                outcome.loss = Some(Loss::Tail);
            }
        }
        if let Some(undo) = &mut self.undo {
            let clear = flight.outstanding.lost() + flight.outstanding.retransmitted() == 0;
            let kind = (self.phase, self.selective);
            let told = progress && undo.on_progress(kind, arrival.ack, arrival.echo, unlost, clear);
            if !progress && arrival.duplicate {
                // The new segments fill the window; what is missing goes anyway.
                self.must_send |= undo.on_duplicate_ack(self.phase, self.selective);
            }
            if told || explained {
                outcome.spurious = Some(undo.congestion);
                self.undo = None;
                flight.outstanding.find_again();
                self.leave();
            } else if undo.is_stale(arrival.ack) {
                self.undo = None;
            }
        }
        if progress {
            self.on_progress(flight, arrival);
        }
        outcome
    }

    /// Without SACK, duplicate acknowledgements are all there is to go by: each stands for a
    /// segment that has arrived, and those that come with progress had been counted before
    /// (RFC 6937 §3 has it so for its DeliveredData).
    fn count_duplicates(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival<'_>,
        progress: bool,
        outcome: &mut Outcome,
    ) {
        let mss = u32::from(arrival.mss);
        if !progress {
            if arrival.duplicate && self.phase != Phase::Loss {
                self.duplicates = self.duplicates.saturating_add(1);
                outcome.delivered = mss;
            }
            return;
        }
        let counted = u32::from(self.duplicates) * mss;
        let bytes = arrival.ack.distance_from(flight.una_before) as u32;
        outcome.delivered = bytes.saturating_sub(counted).max(mss.min(bytes));
        if outcome.retransmitted {
            // When the rest of it arrived, nobody knows.
            outcome.sent_at = None;
            outcome.newest = None;
        }
    }

    fn on_dsack(&mut self, flight: &mut Flight, block: SackBlock) -> bool {
        let (una, max) = (flight.outstanding.una(), flight.outstanding.max());
        // A TLP that met its original says nothing of reordering.
        let tlp_met_original = flight
            .tlp
            .is_some_and(|tlp| tlp.again && block.right == tlp.end);
        if !tlp_met_original {
            flight.rack.on_dsack(una, max, &mut self.reordering);
        }
        let undo = self.undo.as_mut();
        undo.is_some_and(|undo| undo.on_dsack(block))
    }

    /// New data is acknowledged: the recovery may be over, or without SACK the next hole is right here
    /// (RFC 6582 §3.2).
    //= RFC 6582 §3.2
    //= RFC 5681 §3.2
    fn on_progress(&mut self, flight: &mut Flight, arrival: &Arrival<'_>) {
        let ack = arrival.ack;
        match self.phase {
            Phase::Open => {
                self.duplicates = 0;
                if ack.after(self.recover) {
                    // So that it never lies half the sequence space behind.
                    self.recover = ack - 1;
                }
            }
            Phase::Fast | Phase::Loss if ack.at_or_after(self.recover) => {
                self.leave();
                self.reordering.on_recovered();
                if let Some(undo) = &mut self.undo {
                    undo.on_recovered(flight.outstanding.max());
                }
            }
            Phase::Fast if !self.selective => {
                // Of what a partial acknowledgement covers one segment was the hole, the others had
                // been counted by their duplicate acknowledgements.
                let bytes = ack.distance_from(flight.una_before) as u32;
                let segments = bytes.div_ceil(u32::from(arrival.mss)).max(1) - 1;
                let segments = u16::try_from(segments).unwrap_or(u16::MAX);
                self.duplicates = self.duplicates.saturating_sub(segments);
                self.lose_first(flight, arrival.mss);
            }
            Phase::Fast | Phase::Loss => {}
        }
    }

    fn leave(&mut self) {
        self.phase = Phase::Open;
        self.duplicates = 0;
        self.must_send = false;
    }

    /// The first segment is lost.
    fn lose_first(&mut self, flight: &mut Flight, mss: u16) {
        let outstanding = &mut flight.outstanding;
        let end = outstanding.una() + u32::from(mss);
        outstanding.lose_below(end.min(outstanding.max()));
        self.must_send = true;
    }

    /// Looks at what is known now and decides whether something is lost.
    pub(super) fn detect(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival<'_>,
        delivered: u32,
        congestion: &Controller,
    ) -> Option<Loss> {
        let again = if self.selective {
            self.detect_by_time(flight, arrival)
        } else {
            let una = flight.outstanding.una();
            // Fast retransmit (RFC 5681 §3.2). Duplicates that belong to an earlier recovery tell
            // nothing (RFC 6582 §3.2).
            if self.phase == Phase::Open
                && u32::from(self.duplicates) >= DUP_THRESH
                && una.after(self.recover)
            {
                self.lose_first(flight, arrival.mss);
            }
            None
        };
        let outstanding = &flight.outstanding;
        match self.phase {
            Phase::Open if outstanding.lost() > 0 => {
                let (una, max) = (outstanding.una(), outstanding.max());
                let flying = max.distance_from(una) as u32 - outstanding.sacked();
                flight.prr = Prr::new(flying + delivered);
                self.undo = Some(Box::new(Undo::new(congestion.before(), una, max)));
                flight.reduced_at = arrival.now;
                self.phase = Phase::Fast;
                self.recover = max;
                Some(Loss::Entered)
            }
            Phase::Fast if again.is_some_and(|sent_at| sent_at >= flight.reduced_at) => {
                flight.prr = Prr::new(outstanding.pipe() + delivered);
                flight.reduced_at = arrival.now;
                Some(Loss::Again)
            }
            _ => None,
        }
    }

    /// RACK, step 5. Returns when the latest of those retransmissions was sent that are lost again.
    fn detect_by_time(&mut self, flight: &mut Flight, arrival: &Arrival<'_>) -> Option<Instant> {
        flight.reorder_at = Instant::MAX;
        let latest = flight.rack.latest()?;
        let below_dup_thresh = (DUP_THRESH - 1) * u32::from(arrival.mss);
        let enough = self.phase != Phase::Open || flight.outstanding.sacked() > below_dup_thresh;
        let Arrival { min_rtt, srtt, .. } = *arrival;
        let reo_wnd = Rack::reo_wnd(&self.reordering, enough, min_rtt, srtt);
        let patience = flight.rack.rtt() + reo_wnd;
        let found = flight.outstanding.detect(latest, patience, arrival.now);
        flight.reorder_at = found.due.unwrap_or(Instant::MAX);
        found.again
    }
}

/// The range that the peer says it has received twice: the first block, if it lies below the
/// acknowledgement or inside the second block (RFC 2883 §4, RFC 2883 §5).
//= RFC 2883 §4, §5
pub(super) fn dsack_block(blocks: &[SackBlock], ack: SeqNumber) -> Option<SackBlock> {
    let first = *blocks.first()?;
    let below = first.right.at_or_before(ack);
    let inside = blocks.get(1).is_some_and(|second| {
        first.left.at_or_after(second.left) && first.right.at_or_before(second.right)
    });
    (first.left.before(first.right) && (below || inside)).then_some(first)
}
