//! Retransmissions that were lost in turn.
//!
//! Segments arrive roughly in the order in which they were sent. So when the peer reports enough of
//! what was first sent *after* a retransmission, and still lacks what that carried, it is lost too,
//! and need not wait for the timeout. It is the reasoning of duplicate acknowledgements, once more,
//! for those segments that cumulative and selective acknowledgements pass over.

use std::collections::VecDeque;

use wire::seq::SeqNumber;
use wire::tcp::SackBlock;

use super::scoreboard::Scoreboard;

struct Resend {
    range: SackBlock,
    /// SND.NXT when it left: what lies beyond was sent later.
    mark: SeqNumber,
}

#[derive(Default)]
pub(super) struct Resent {
    /// In flight again, in the order of sending.
    flying: VecDeque<Resend>,
    /// Lost again, to be sent once more.
    lost: VecDeque<SackBlock>,
}

impl Resent {
    pub(super) fn clear(&mut self) {
        self.flying.clear();
        self.lost.clear();
    }

    /// `range` has been sent again.
    pub(super) fn push(&mut self, range: SackBlock, mark: SeqNumber) {
        // If it had been lost again it is not any more.
        if let Some(first) = self.lost.front_mut()
            && first.left.at_or_before(range.left)
            && range.left.before(first.right)
        {
            first.left = range.right;
            if !first.left.before(first.right) {
                self.lost.pop_front();
            }
        }
        self.flying.push_back(Resend { range, mark });
    }

    /// Looks which retransmissions are lost: more than `threshold` bytes sent after them have been
    /// reported.
    pub(super) fn detect(&mut self, una: SeqNumber, reports: &Scoreboard, threshold: u32) {
        while let Some(first) = self.flying.front() {
            if reports.bytes_beyond(first.mark) <= threshold {
                break;
            }
            let SackBlock { left, right } = first.range;
            self.lost.push_back(SackBlock {
                left: left.max(una),
                right,
            });
            self.flying.pop_front();
        }
        // What has arrived after all is not lost.
        while let Some(first) = self.lost.front_mut() {
            first.left = reports.hole(first.left.max(una)).0;
            if first.left.before(first.right) {
                break;
            }
            self.lost.pop_front();
        }
    }

    /// The first range to be sent once more.
    pub(super) fn first_lost(&self, reports: &Scoreboard) -> Option<SackBlock> {
        let first = self.lost.front()?;
        let (left, next) = reports.hole(first.left);
        let right = next.map_or(first.right, |next| next.min(first.right));
        left.before(right).then_some(SackBlock { left, right })
    }

    /// Bytes to be sent once more.
    pub(super) fn lost_bytes(&self, una: SeqNumber, reports: &Scoreboard) -> u32 {
        self.lost
            .iter()
            .map(|r| {
                let left = r.left.max(una);
                let len = r.right.distance_from(left).max(0) as u32;
                len - reports.bytes_within(left, left + len)
            })
            .sum()
    }
}
