//! Queues that hardly any connection uses: of one that was never used there is a word, where a queue itself has
//! four, and there may be a million connections.

use std::collections::VecDeque;
use std::collections::vec_deque::IterMut;

/// A queue, whose memory begins with the first that is put in.
#[expect(
    clippy::box_collection,
    reason = "a box is a quarter as large as the queue itself"
)]
pub(crate) struct Seldom<T>(Option<Box<VecDeque<T>>>);

impl<T> Seldom<T> {
    pub const fn new() -> Self {
        Self(None)
    }

    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |queue| queue.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut()?.front_mut()
    }

    pub fn push_back(&mut self, item: T) {
        self.0.get_or_insert_default().push_back(item);
    }

    pub fn pop_front(&mut self) -> Option<T> {
        self.0.as_mut()?.pop_front()
    }

    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        match &mut self.0 {
            Some(queue) => queue.iter_mut(),
            None => Default::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_queue_from_the_first_on() {
        let mut queue = Seldom::new();
        assert!(queue.is_empty() && queue.pop_front().is_none());
        assert!(queue.front_mut().is_none());
        assert_eq!(queue.iter_mut().count(), 0);
        for item in 0..3 {
            queue.push_back(item);
        }
        queue.iter_mut().for_each(|item| *item += 1);
        assert_eq!((queue.len(), queue.front_mut()), (3, Some(&mut 1)));
        assert_eq!([(); 3].map(|()| queue.pop_front()), [1, 2, 3].map(Some));
        assert!(queue.is_empty());
    }
}
