//! Sends that come back to the program, and when.

use std::collections::VecDeque;

use crate::memory::Memory;

/// Whether what is sent comes back as [`Sent`](crate::Kind::Sent), under which cookie, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Back {
    /// Not at all.
    #[default]
    Never,
    /// When the peer has acknowledged it.
    Acknowledged(u64),
    /// When all of it has left, once: it was handed to the wire, and may have to leave again.
    Left(u64),
}

impl From<Option<u64>> for Back {
    fn from(cookie: Option<u64>) -> Self {
        cookie.map_or(Self::Never, Self::Acknowledged)
    }
}

/// An asynchronous send that is under way.
pub(crate) struct Send {
    /// Where in the stream it ends.
    pub(crate) end: u64,
    pub(crate) cookie: u64,
    pub(crate) bytes: u64,
    /// The registered memory that it names.
    pub(crate) _memory: Vec<Memory>,
}

/// The asynchronous sends of a connection that are under way. Few connections have any: of one that
/// never had there is a word.
#[derive(Default)]
pub(crate) struct Sends(Option<Box<Both>>);

/// By what they wait for, in the order of the stream.
#[derive(Default)]
struct Both {
    acknowledged: VecDeque<Send>,
    left: VecDeque<Send>,
}

impl Sends {
    pub(crate) fn is_empty(&self) -> bool {
        let is_empty = |both: &Both| both.acknowledged.is_empty() && both.left.is_empty();
        self.0.as_ref().is_none_or(|both| is_empty(both))
    }

    /// One more. Returns whether there is none before it that waits for the same.
    pub(crate) fn push(&mut self, send: Send, is_to_leave: bool) -> bool {
        let both = self.0.get_or_insert_default();
        let queue = match is_to_leave {
            true => &mut both.left,
            false => &mut both.acknowledged,
        };
        queue.push_back(send);
        queue.len() == 1
    }

    /// The next that has come back, where so much is acknowledged and so much has left; or any, if what
    /// was not is lost. True stands beside one that did what it waits for.
    pub(crate) fn next_back(
        &mut self,
        acknowledged: u64,
        left: u64,
        is_over: bool,
    ) -> Option<(Send, bool)> {
        let both = self.0.as_mut()?;
        for (queue, reached) in [
            (&mut both.acknowledged, acknowledged),
            (&mut both.left, left),
        ] {
            if let Some(first) = queue.front() {
                let is_back = first.end <= reached;
                if is_back || is_over {
                    return queue.pop_front().map(|send| (send, is_back));
                }
            }
        }
        None
    }

    /// Where in the stream the first ends that waits for the acknowledgement.
    pub(crate) fn first_to_acknowledge(&self) -> Option<u64> {
        Some(self.0.as_ref()?.acknowledged.front()?.end)
    }

    /// Where in the stream the first ends that waits until it has left.
    pub(crate) fn first_to_leave(&self) -> Option<u64> {
        Some(self.0.as_ref()?.left.front()?.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_left_does_not_wait_for_what_is_to_be_acknowledged() {
        let mut sends = Sends::default();
        assert!(sends.is_empty() && sends.next_back(9, 9, true).is_none());
        let send = |end| Send {
            end,
            cookie: end,
            bytes: 10,
            _memory: Vec::new(),
        };
        assert!(sends.push(send(10), false));
        assert!(sends.push(send(20), true));
        assert!(!sends.push(send(30), false));
        assert!(!sends.push(send(40), true));
        assert_eq!(sends.first_to_acknowledge(), Some(10));
        assert_eq!(sends.first_to_leave(), Some(20));
        let mut next = |acknowledged, left, is_over| {
            let next = sends.next_back(acknowledged, left, is_over);
            next.map(|(send, is_back)| (send.cookie, is_back))
        };
        assert_eq!(next(9, 39, false), Some((20, true)));
        assert_eq!(next(9, 39, false), None);
        assert_eq!(next(29, 29, true), Some((10, true)));
        assert_eq!(next(29, 29, true), Some((30, false)));
        assert_eq!(next(29, 29, true), Some((40, false)));
        assert!(sends.is_empty());
    }
}
