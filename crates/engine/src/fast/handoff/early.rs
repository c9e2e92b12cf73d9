//! Frames of connections that are on their way here: the directory says already whose they are, and the
//! connection comes in a moment, behind what was handed over before it.

use std::collections::VecDeque;
use std::time::Duration;

use tcp::Instant;

/// Frames that are kept at a time; what is beyond is lost, and sent again.
const ROOM: usize = 64;
/// How long one is kept: longer than a worker is kept off its core, as a rule, between two steps.
const PATIENCE: Duration = Duration::from_millis(100);

/// They, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Early {
    frames: VecDeque<(Instant, Vec<u8>)>,
}

impl Early {
    /// Keeps a copy; false if there is no room.
    pub(super) fn keep(&mut self, now: Instant, frame: &[u8]) -> bool {
        let room = self.frames.len() < ROOM;
        if room {
            self.frames.push_back((now, frame.to_vec()));
        }
        room
    }

    /// Keeps one again that was [taken](Self::take), unless it has been here for too long.
    pub(super) fn keep_again(&mut self, now: Instant, kept: (Instant, Vec<u8>)) -> bool {
        let young = now.saturating_duration_since(kept.0) < PATIENCE;
        if young {
            self.frames.push_back(kept);
        }
        young
    }

    /// The oldest.
    pub(super) fn take(&mut self) -> Option<(Instant, Vec<u8>)> {
        self.frames.pop_front()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_kept_for_a_while_and_not_without_end() {
        let begin = Instant::from_millis(5);
        let mut early = Early::default();
        let kept = (0..ROOM + 1).filter(|n| early.keep(begin, &[*n as u8]));
        assert_eq!(kept.count(), ROOM);
        let (since, frame) = early.take().expect("the oldest");
        assert_eq!((since, &frame[..]), (begin, &[0][..]));
        let almost = begin + (PATIENCE - Duration::from_millis(1));
        assert!(early.keep_again(almost, (since, frame)));
        assert_eq!(early.len(), ROOM);
        let next = early.take().expect("the next");
        assert_eq!(next.1, [1]);
        assert!(!early.keep_again(begin + PATIENCE, next));
        assert_eq!(early.len(), ROOM - 1);
    }
}
