//! Peers that wait for us: whoever sends data at once after he was sent some has waited for it, and would be
//! slowed down by any delay; whoever sends long after has not. An engine that gathers frames must know
//! which of the two it serves (receive moderation).

use wire::segment::Segment;

use super::{Connection, microseconds};
use crate::Instant;
use crate::counters::Counters;

/// Within how many microseconds data count as an answer to what was sent: a round trip of a machine nearby, and
/// less than two wake-ups that are gathered.
const PROMPT_US: u16 = 150;

/// The time of a connection on which nothing has been sent, or nobody knows when.
pub(super) fn long_ago(now: Instant) -> u16 {
    microseconds(now).wrapping_sub(u16::MAX / 2)
}

impl Connection {
    /// Counts a segment as what it is: one that its sender was able to send because of what we sent him before,
    /// or one that came anyway. One in 400 of these is taken for the other, as the clock goes round: too few for
    /// any verdict, and two bytes spared in every connection.
    #[inline]
    pub(super) fn count_segment(
        &mut self,
        segment: &Segment<'_>,
        now: Instant,
        counters: &mut Counters,
    ) {
        self.segments_in = self.segments_in.wrapping_add(1);
        if segment.payload.is_empty() {
            return;
        }
        self.data_segments_in = self.data_segments_in.wrapping_add(1);
        counters.data_segments_in += 1;
        let since = microseconds(now).wrapping_sub(self.snd.sent_us);
        counters.prompt_segments_in += u64::from(since <= PROMPT_US);
    }
}
