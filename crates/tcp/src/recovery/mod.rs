//! What was lost, and what to send again.
//!
//! One picture serves for duplicate acknowledgements (RFC 5681, RFC 6582), selective ones (RFC
//! 6675) and timeouts (RFC 6298):
//!
//! ```text
//!   una            next            lost             max
//!    |--- sent again --|--- to send again -|--- in flight ---|
//! ```
//!
//! Everything below `lost` that the peer has not reported is taken for lost; what lies below `next`
//! has been sent again and is in flight once more. Loss detection moves `lost`; transmission moves
//! `next`; acknowledgements move `una`. The pipe, RFC 6675's estimate of what the network holds,
//! follows from the three, and transmission needs no other rule than "pipe < window".
//!
//! - Without SACK, each duplicate acknowledgement tells of one segment that has left the network;
//!   three of them move `lost` past the first segment, and so does each partial acknowledgement
//!   during recovery.
//! - With SACK, `lost` is where more than two segments' worth above has been reported.
//! - A timeout moves `lost` to `max`.
//!
//! What was sent again and lost again lies below `next`; `resent` finds it.

mod resent;
pub mod rtt;
mod scoreboard;

use wire::seq::SeqNumber;
use wire::tcp::SackBlock;

use resent::Resent;
use scoreboard::Scoreboard;

/// Duplicate acknowledgements that tell loss from reordering (RFC 5681 3.2).
const DUPLICATE_THRESHOLD: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is known to be lost.
    Open,
    /// Loss was told by acknowledgements.
    Fast,
    /// Loss was told by a timeout.
    Loss,
}

/// What an acknowledgement means for recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing new.
    None,
    /// A recovery has begun: the congestion window is to be reduced, once.
    Entered,
}

/// What the peer's reports tell; it exists only while there are any.
#[derive(Default)]
struct Reports {
    scoreboard: Scoreboard,
    resent: Resent,
}

pub(crate) struct Recovery {
    phase: Phase,
    /// The segment to send again goes out whatever the pipe says: it is the first of a recovery
    /// (RFC 6675 5, step 4.3).
    must_send: bool,
    /// The peer reports ranges.
    selective: bool,
    /// Duplicate acknowledgements: without SACK, segments that have left the network.
    duplicates: u16,
    /// Recovery ends when this is acknowledged.
    recover: SeqNumber,
    next: SeqNumber,
    lost: SeqNumber,
    reports: Option<Box<Reports>>,
}

impl Recovery {
    pub(crate) fn new(start: SeqNumber) -> Self {
        Self {
            phase: Phase::Open,
            must_send: false,
            selective: false,
            duplicates: 0,
            recover: start,
            next: start,
            lost: start,
            reports: None,
        }
    }

    pub(crate) fn set_selective(&mut self, selective: bool) {
        self.selective = selective;
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// The peer's reports: blocks above `una` and at most up to `max`. Returns whether any of it
    /// is news. Anything else in a block is a duplicate report (RFC 2883) or nonsense.
    pub(crate) fn on_blocks(
        &mut self,
        blocks: &[SackBlock],
        una: SeqNumber,
        max: SeqNumber,
    ) -> bool {
        if !self.selective || blocks.is_empty() {
            return false;
        }
        let mut news = 0;
        for &block in blocks {
            let sound = block.left.before(block.right)
                && block.left.after(una)
                && block.right.at_or_before(max);
            if sound {
                let reports = self.reports.get_or_insert_with(Default::default);
                news += reports.scoreboard.insert(block);
            }
        }
        news > 0
    }

    /// The cumulative acknowledgement has moved by `bytes` to `una`.
    pub(crate) fn on_progress(&mut self, una: SeqNumber, bytes: u32, mss: u16) {
        if let Some(reports) = &mut self.reports {
            if reports.scoreboard.advance(una) {
                // The peer has let go of what it had reported (RFC 2018 8).
                reports.scoreboard.clear();
                self.next = una;
            }
            if reports.scoreboard.is_empty() {
                self.reports = None;
            }
        }
        self.next = self.next.max(una);
        self.lost = self.lost.max(una);
        match self.phase {
            Phase::Open => self.duplicates = 0,
            Phase::Fast | Phase::Loss if una.at_or_after(self.recover) => {
                self.phase = Phase::Open;
                self.duplicates = 0;
                self.must_send = false;
                self.next = una;
                self.lost = una;
                if let Some(reports) = &mut self.reports {
                    reports.resent.clear();
                }
            }
            Phase::Fast if !self.selective => {
                // A partial acknowledgement: the next hole is right here (RFC 6582 3.2, step 4).
                // Of what it covers one segment was the hole, the others had been counted by
                // their duplicate acknowledgements.
                let segments = bytes.div_ceil(u32::from(mss)).max(1) - 1;
                let segments = u16::try_from(segments).unwrap_or(u16::MAX);
                self.duplicates = self.duplicates.saturating_sub(segments);
                self.next = una;
                self.lost = una + u32::from(mss);
                self.must_send = true;
            }
            Phase::Fast | Phase::Loss => {}
        }
    }

    /// A duplicate acknowledgement: nothing new below `una`.
    pub(crate) fn on_duplicate(&mut self) {
        if !self.selective {
            self.duplicates = self.duplicates.saturating_add(1);
        }
    }

    /// Looks at what is known now and decides whether something is lost. To be called after the
    /// reports and progress of each acknowledgement.
    pub(crate) fn detect(&mut self, una: SeqNumber, max: SeqNumber, mss: u16) -> Verdict {
        let mss = u32::from(mss);
        let threshold = (DUPLICATE_THRESHOLD - 1) * mss;
        if let Some(reports) = &mut self.reports {
            let Reports { scoreboard, resent } = &mut **reports;
            resent.detect(una, scoreboard, threshold);
        }
        if self.phase == Phase::Loss {
            return Verdict::None;
        }
        let lost = match &self.reports {
            Some(reports) => reports.scoreboard.lost_below(threshold),
            None if self.phase == Phase::Open
                && u32::from(self.duplicates) >= DUPLICATE_THRESHOLD =>
            {
                // Duplicates that belong to an earlier recovery tell nothing (RFC 6582 3.2).
                una.after(self.recover).then_some(una + mss)
            }
            None => None,
        };
        let Some(lost) = lost else {
            return Verdict::None;
        };
        self.lost = self.lost.max(lost.min(max));
        if self.phase == Phase::Fast || !self.lost.after(una) {
            return Verdict::None;
        }
        self.phase = Phase::Fast;
        self.recover = max;
        self.next = una;
        self.must_send = true;
        Verdict::Entered
    }

    /// The retransmission timer has expired. Returns whether this begins a new loss episode.
    pub(crate) fn on_timeout(&mut self, una: SeqNumber, max: SeqNumber) -> bool {
        let first = self.phase != Phase::Loss;
        if !first {
            // Not even the retransmission came through; the reports may be void (RFC 2018 8).
            self.reports = None;
        } else if let Some(reports) = &mut self.reports {
            reports.resent.clear();
        }
        self.phase = Phase::Loss;
        self.recover = max;
        self.duplicates = 0;
        self.next = una;
        self.lost = max;
        self.must_send = true;
        first
    }

    /// The next bytes to send again: where they begin, and how many there are at most.
    pub(crate) fn next_hole(&self, max: SeqNumber) -> Option<(SeqNumber, u32)> {
        if let Some(reports) = &self.reports
            && let Some(lost) = reports.resent.first_lost(&reports.scoreboard)
        {
            return Some((lost.left, lost.right.distance_from(lost.left) as u32));
        }
        if !self.next.before(self.lost) {
            return None;
        }
        let (start, end) = match &self.reports {
            Some(reports) => reports.scoreboard.hole(self.next),
            None => (self.next, None),
        };
        let end = end.map_or(self.lost, |end| end.min(self.lost)).min(max);
        (start.before(end)).then(|| (start, end.distance_from(start) as u32))
    }

    /// Whether the next retransmission disregards the congestion window.
    pub(crate) fn must_send(&self) -> bool {
        self.must_send
    }

    /// Bytes from `start` up to `end` have been sent again; `max` is SND.NXT.
    pub(crate) fn on_retransmitted(&mut self, start: SeqNumber, end: SeqNumber, max: SeqNumber) {
        self.next = self.next.max(end);
        self.must_send = false;
        if let Some(reports) = &mut self.reports {
            let range = SackBlock {
                left: start,
                right: end,
            };
            reports.resent.push(range, max);
        }
    }

    /// Bytes that the network is thought to hold.
    pub(crate) fn pipe(&self, una: SeqNumber, max: SeqNumber, mss: u16) -> u32 {
        let flight = max.distance_from(una) as u32;
        // What lies between `next` and `lost` has left the network and not been replaced.
        let awaiting = self.lost.distance_from(self.next).max(0) as u32;
        match &self.reports {
            None => {
                let left = u32::from(self.duplicates) * u32::from(mss);
                // A segment that is taken for lost is not one that a duplicate tells of.
                flight.saturating_sub(awaiting).saturating_sub(left)
            }
            Some(reports) => {
                let Reports { scoreboard, resent } = &**reports;
                let reported_there = if awaiting > 0 {
                    scoreboard.bytes_within(self.next, self.lost)
                } else {
                    0
                };
                flight
                    .saturating_sub(scoreboard.bytes())
                    .saturating_sub(awaiting - reported_there)
                    .saturating_sub(resent.lost_bytes(una, scoreboard))
            }
        }
    }
}
