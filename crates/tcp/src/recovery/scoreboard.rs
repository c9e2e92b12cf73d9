//! What the peer says it holds beyond the cumulative acknowledgement (RFC 2018): the sender's
//! scoreboard.
//!
//! Ranges are disjoint, in order and do not touch. A peer decides how many there are, so their
//! number is bounded; what does not fit is forgotten, which only costs a retransmission.

use wire::seq::SeqNumber;
use wire::tcp::SackBlock;

/// Ranges remembered. A window of 3,000 segments that loses one in a hundred has about thirty, but
/// one that overruns a queue may lose every other segment of its last part.
const MAX_RANGES: usize = 1024;

#[derive(Default)]
pub(crate) struct Scoreboard {
    ranges: Vec<SackBlock>,
    /// The sum of their lengths.
    bytes: u32,
}

impl Scoreboard {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.bytes = 0;
    }

    /// Notes a block; returns how many bytes of it are news.
    pub(crate) fn insert(&mut self, block: SackBlock) -> u32 {
        let (mut left, mut right) = (block.left, block.right);
        // The ranges that the block overlaps or touches: [first, last).
        let first = self.ranges.partition_point(|r| r.right.before(left));
        let last = self.ranges.partition_point(|r| r.left.at_or_before(right));
        let mut known = 0;
        if first < last {
            left = left.min(self.ranges[first].left);
            right = right.max(self.ranges[last - 1].right);
            known = self.ranges[first..last].iter().map(len).sum();
        } else if self.ranges.len() >= MAX_RANGES {
            return 0;
        }
        let merged = SackBlock { left, right };
        if last - first == 1 {
            self.ranges[first] = merged;
        } else {
            self.ranges.splice(first..last, [merged]);
        }
        let news = len(&merged) - known;
        self.bytes += news;
        news
    }

    /// The cumulative acknowledgement has come to `una`. Returns whether the peer has broken its
    /// word: it stops short inside a range that it had reported.
    pub(crate) fn advance(&mut self, una: SeqNumber) -> bool {
        let gone = self.ranges.partition_point(|r| r.right.at_or_before(una));
        let gone: u32 = self.ranges.drain(..gone).map(|r| len(&r)).sum();
        self.bytes -= gone;
        self.ranges
            .first()
            .is_some_and(|r| r.left.at_or_before(una))
    }

    /// Bytes reported.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Bytes reported in `from .. to`.
    pub(crate) fn bytes_within(&self, from: SeqNumber, to: SeqNumber) -> u32 {
        let first = self.ranges.partition_point(|r| r.right.at_or_before(from));
        self.ranges[first..]
            .iter()
            .take_while(|r| r.left.before(to))
            .map(|r| r.right.min(to).distance_from(r.left.max(from)) as u32)
            .sum()
    }

    /// Bytes reported beyond `from`.
    pub(crate) fn bytes_beyond(&self, from: SeqNumber) -> u32 {
        self.ranges
            .iter()
            .rev()
            .take_while(|r| r.right.after(from))
            .map(|r| r.right.distance_from(r.left.max(from)) as u32)
            .sum()
    }

    /// The sequence number below which everything that was not reported is lost: more than
    /// `threshold` bytes above it have been reported (IsLost of RFC 6675 4).
    pub(crate) fn lost_below(&self, threshold: u32) -> Option<SeqNumber> {
        let mut above = 0;
        self.ranges.iter().rev().find_map(|r| {
            above += len(r);
            (above > threshold).then_some(r.left)
        })
    }

    /// The first hole at or after `from`: where it begins, and where it ends if a range follows.
    pub(crate) fn hole(&self, from: SeqNumber) -> (SeqNumber, Option<SeqNumber>) {
        let i = self.ranges.partition_point(|r| r.right.at_or_before(from));
        match self.ranges.get(i) {
            Some(r) if r.left.at_or_before(from) => {
                (r.right, self.ranges.get(i + 1).map(|next| next.left))
            }
            Some(r) => (from, Some(r.left)),
            None => (from, None),
        }
    }
}

fn len(block: &SackBlock) -> u32 {
    block.right.distance_from(block.left) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn b(left: u32, right: u32) -> SackBlock {
        SackBlock {
            left: SeqNumber(left),
            right: SeqNumber(right),
        }
    }

    #[test]
    fn blocks_merge_and_only_news_count() {
        let mut s = Scoreboard::default();
        assert_eq!(s.insert(b(100, 200)), 100);
        assert_eq!(s.insert(b(300, 400)), 100);
        assert_eq!(s.insert(b(100, 200)), 0);
        assert_eq!(s.insert(b(150, 350)), 100);
        assert_eq!(s.ranges, [b(100, 400)]);
        assert_eq!(s.insert(b(400, 401)), 1);
        assert_eq!(s.bytes(), 301);
    }

    #[test]
    fn holes_and_what_is_lost() {
        let mut s = Scoreboard::default();
        s.insert(b(100, 200));
        s.insert(b(300, 400));
        s.insert(b(500, 600));
        assert_eq!(s.hole(SeqNumber(50)), (SeqNumber(50), Some(SeqNumber(100))));
        assert_eq!(
            s.hole(SeqNumber(100)),
            (SeqNumber(200), Some(SeqNumber(300)))
        );
        assert_eq!(s.hole(SeqNumber(550)), (SeqNumber(600), None));
        assert_eq!(s.lost_below(199), Some(SeqNumber(300)));
        assert_eq!(s.lost_below(200), Some(SeqNumber(100)));
        assert_eq!(s.lost_below(300), None);
        assert_eq!(s.bytes_within(SeqNumber(150), SeqNumber(510)), 160);
    }

    #[test]
    fn a_broken_promise_is_noticed() {
        let mut s = Scoreboard::default();
        s.insert(b(100, 200));
        assert!(!s.advance(SeqNumber(50)));
        assert!(s.advance(SeqNumber(100)));
        assert!(!s.advance(SeqNumber(200)));
        assert!(s.is_empty());
    }
}
