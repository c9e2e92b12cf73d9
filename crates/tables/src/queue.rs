//! First in, first out, in pieces.

use std::collections::VecDeque;

/// Items a piece: so many are copied at most when it grows.
const PIECE: usize = 1024;

/// A queue that grows by pieces of 1,024 items, and shrinks by them.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    /// Where items are taken from.
    first: VecDeque<T>,
    /// What follows it, each piece full but the last.
    more: VecDeque<VecDeque<T>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Queue<T> {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            first: VecDeque::new(),
            more: VecDeque::new(),
        }
    }

    /// Whether nothing waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // What follows the first piece does so only while there is something in that.
        self.first.is_empty()
    }

    /// How many items wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len() + self.more.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Puts something at the end.
    #[inline]
    pub fn push_back(&mut self, item: T) {
        if self.more.is_empty() && self.first.len() < PIECE {
            self.first.push_back(item);
        } else {
            self.push_to_others(item);
        }
    }

    #[cold]
    fn push_to_others(&mut self, item: T) {
        match self.more.back_mut() {
            Some(last) if last.len() < PIECE => last.push_back(item),
            _ => {
                let mut piece = VecDeque::with_capacity(PIECE);
                piece.push_back(item);
                self.more.push_back(piece);
            }
        }
    }

    /// Puts something before all others. What is put there without anything having been taken is moved,
    /// beyond a piece.
    #[inline]
    pub fn push_front(&mut self, item: T) {
        self.first.push_front(item);
    }

    /// Takes out what has waited longest.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let item = self.first.pop_front()?;
        if self.first.is_empty() && !self.more.is_empty() {
            self.next_piece();
        }
        Some(item)
    }

    #[cold]
    fn next_piece(&mut self) {
        if let Some(next) = self.more.pop_front() {
            self.first = next;
        }
    }

    /// What has waited longest.
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.first.front()
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.first.clear();
        self.more.clear();
    }

    /// All that wait, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.more.iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_piece_grows_beyond_its_size() {
        let mut queue = Queue::new();
        for n in 0..10_000 {
            queue.push_back(n);
        }
        assert!(queue.first.capacity() <= PIECE);
        assert!(queue.more.iter().all(|piece| piece.capacity() <= PIECE));
        assert!(core::iter::from_fn(|| queue.pop_front()).eq(0..10_000));
        assert!(queue.more.is_empty() && queue.is_empty());
    }

    proptest! {
        /// Runs of pushing and of taking, about as long as pieces, against a ring of the library.
        #[test]
        fn it_behaves_like_a_ring(steps in proptest::collection::vec((0..4_u8, 0..1500_u32), 0..30)) {
            let (mut queue, mut ring) = (Queue::new(), VecDeque::new());
            for (what, count) in steps {
                for n in 0..count {
                    match what {
                        0 | 1 => {
                            queue.push_back(n);
                            ring.push_back(n);
                        }
                        2 => prop_assert_eq!(queue.pop_front(), ring.pop_front()),
                        _ => {
                            // As who finds that it cannot go on.
                            prop_assert_eq!(queue.front(), ring.front());
                            if let Some(item) = queue.pop_front() {
                                queue.push_front(item);
                            }
                        }
                    }
                }
                prop_assert_eq!(queue.len(), ring.len());
                prop_assert_eq!(queue.is_empty(), ring.is_empty());
                prop_assert!(queue.iter().eq(ring.iter()));
            }
            queue.clear();
            prop_assert_eq!(queue.pop_front(), None);
        }
    }
}
