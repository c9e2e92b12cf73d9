//! Slots for things that only wait: half-open connections, pairs in TIME-WAIT.
//!
//! All things on one list wait equally long, so the list is in the order of their deadlines without
//! sorting: joining, leaving and expiring each cost a few stores, however many there are.

use core::time::Duration;

use crate::Instant;
use crate::slab::Slab;
use crate::time::Nanos;

const NONE: u32 = u32::MAX;

struct Node<T> {
    value: T,
    deadline: Instant,
    previous: u32,
    next: u32,
    list: u8,
}

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    wait: Duration,
}

pub(crate) struct Aging<T> {
    nodes: Slab<Node<T>>,
    lists: Vec<List>,
}

impl<T> Aging<T> {
    /// One list for each of these waiting times.
    pub(crate) fn new(waits: impl IntoIterator<Item = Duration>) -> Self {
        Self {
            nodes: Slab::new(),
            lists: waits
                .into_iter()
                .map(|wait| List {
                    head: NONE,
                    tail: NONE,
                    wait,
                })
                .collect(),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.nodes.len()
    }

    /// Puts something on a list, to expire after that list's time.
    pub(crate) fn insert(&mut self, now: Instant, list: u8, value: T) -> u32 {
        let deadline = now + self.lists[usize::from(list)].wait;
        self.insert_until(deadline, list, value)
    }

    /// Puts something on a list that has waited elsewhere and has so much time `left`: no more than that
    /// list's, and no less than what came there before it.
    pub(crate) fn insert_for(&mut self, now: Instant, list: u8, left: Nanos, value: T) -> u32 {
        let List { tail, wait, .. } = self.lists[usize::from(list)];
        let deadline = (now + left).min(now + wait);
        let before = self.nodes.at_mut(tail).map(|(_, node)| node.deadline);
        self.insert_until(before.map_or(deadline, |at| at.max(deadline)), list, value)
    }

    fn insert_until(&mut self, deadline: Instant, list: u8, value: T) -> u32 {
        let (index, _) = self.nodes.insert(Node {
            value,
            deadline,
            previous: NONE,
            next: NONE,
            list,
        });
        self.link(index, list);
        index
    }

    /// The list that something is on, and how much of its time is left.
    pub(crate) fn standing(&mut self, index: u32, now: Instant) -> Option<(u8, Nanos)> {
        let (_, node) = self.nodes.at_mut(index)?;
        Some((node.list, node.deadline.since(now)))
    }

    /// How many slots there are. Every index is below.
    pub(crate) fn slots(&self) -> u32 {
        self.nodes.slots()
    }

    /// What is in a slot, with its list, and how much of its time is left.
    pub(crate) fn at(&self, index: u32, now: Instant) -> Option<(&T, u8, Nanos)> {
        let (_, node) = self.nodes.at(index)?;
        Some((&node.value, node.list, node.deadline.since(now)))
    }

    /// Anything at all.
    pub(crate) fn first(&self) -> Option<u32> {
        (0..self.lists.len() as u8).find_map(|list| self.oldest(list))
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        self.nodes.at_mut(index)?;
        self.unlink(index);
        self.nodes.remove(index).map(|node| node.value)
    }

    /// Restarts the wait, on this list.
    pub(crate) fn restart(&mut self, now: Instant, index: u32, list: u8) {
        self.unlink(index);
        let wait = self.lists[usize::from(list)].wait;
        if let Some((_, node)) = self.nodes.at_mut(index) {
            node.deadline = now + wait;
            node.list = list;
            self.link(index, list);
        }
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.nodes.at_mut(index).map(|(_, node)| &mut node.value)
    }

    /// The one that has waited longest on a list.
    pub(crate) fn oldest(&self, list: u8) -> Option<u32> {
        let head = self.lists[usize::from(list)].head;
        (head != NONE).then_some(head)
    }

    /// Something whose time is up, with its list. It stays where it is.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<(u32, u8)> {
        (0..self.lists.len() as u8).find_map(|list| {
            let head = self.oldest(list)?;
            let (_, node) = self.nodes.at_mut(head)?;
            (node.deadline <= now).then_some((head, list))
        })
    }

    /// When the next one's time will be up.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        if self.nodes.len() == 0 {
            return None;
        }
        (0..self.lists.len() as u8)
            .filter_map(|list| {
                let head = self.oldest(list)?;
                self.nodes.at_mut(head).map(|(_, node)| node.deadline)
            })
            .min()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.nodes
            .iter()
            .map(|(index, _, node)| (index, &node.value))
    }

    /// Whether each thing has its turn: the lists hold all of them, in the order of their deadlines.
    pub(crate) fn is_in_order(&self) -> bool {
        let mut found = 0;
        for list in &self.lists {
            let (mut index, mut last) = (list.head, None);
            while let Some((_, node)) = self.nodes.at(index) {
                if found == self.len() || last > Some(node.deadline) {
                    return false;
                }
                found += 1;
                (index, last) = (node.next, Some(node.deadline));
            }
        }
        found == self.len()
    }

    fn link(&mut self, index: u32, list: u8) {
        let l = &mut self.lists[usize::from(list)];
        let tail = core::mem::replace(&mut l.tail, index);
        if tail == NONE {
            l.head = index;
        } else if let Some((_, node)) = self.nodes.at_mut(tail) {
            node.next = index;
        }
        if let Some((_, node)) = self.nodes.at_mut(index) {
            node.previous = tail;
            node.next = NONE;
        }
    }

    fn unlink(&mut self, index: u32) {
        let Some((_, node)) = self.nodes.at_mut(index) else {
            return;
        };
        let (previous, next, list) = (node.previous, node.next, usize::from(node.list));
        match self.nodes.at_mut(previous) {
            Some((_, node)) => node.next = next,
            None => self.lists[list].head = next,
        }
        match self.nodes.at_mut(next) {
            Some((_, node)) => node.previous = previous,
            None => self.lists[list].tail = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    fn expire(a: &mut Aging<&'static str>, now: Instant) -> Vec<&'static str> {
        let mut out = Vec::new();
        while let Some((index, _)) = a.expired(now) {
            out.extend(a.remove(index));
        }
        out
    }

    #[test]
    fn things_expire_in_order_and_on_time() {
        let mut a = Aging::new([Duration::from_secs(1), Duration::from_secs(2)]);
        a.insert(at(0), 0, "a");
        let b = a.insert(at(0), 0, "b");
        a.insert(at(0), 1, "c");
        let d = a.insert(at(0), 0, "d");
        a.remove(b);
        a.restart(at(0), d, 1);
        assert_eq!(a.next_deadline(), Some(at(1)));
        assert_eq!(expire(&mut a, at(0)), [""; 0]);
        assert_eq!(expire(&mut a, at(1)), ["a"]);
        assert_eq!(expire(&mut a, at(2)), ["c", "d"]);
        assert_eq!((a.len(), a.next_deadline()), (0, None));
    }

    #[test]
    fn what_has_waited_elsewhere_keeps_the_order() {
        let seconds = |n: u32| Nanos::from_millis(n * 1000);
        let mut a = Aging::new([Duration::from_secs(10)]);
        let early = a.insert_for(at(0), 0, seconds(4), "early");
        a.insert_for(at(1), 0, seconds(2), "not before that");
        let last = a.insert_for(at(2), 0, seconds(60), "no longer than ten");
        assert_eq!(a.standing(early, at(1)), Some((0, seconds(3))));
        assert_eq!(a.standing(last, at(2)), Some((0, seconds(10))));
        assert_eq!(a.first(), Some(early));
        assert_eq!(
            a.at(last, at(2)),
            Some((&"no longer than ten", 0, seconds(10)))
        );
        assert_eq!((a.at(3, at(2)), a.at(a.slots(), at(2))), (None, None));
        assert_eq!(expire(&mut a, at(3)), [""; 0]);
        assert_eq!(expire(&mut a, at(4)), ["early", "not before that"]);
        assert_eq!(expire(&mut a, at(11)), [""; 0]);
        assert_eq!(expire(&mut a, at(12)), ["no longer than ten"]);
        assert_eq!(a.first(), None);
    }
}
