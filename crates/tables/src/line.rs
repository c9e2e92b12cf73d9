//! Numbers in the order in which they came.

use crate::Chunks;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
    stands: bool,
}

impl Link {
    const ALONE: Link = Link {
        previous: NONE,
        next: NONE,
        stands: false,
    };
}

/// Small numbers, each at most once, in the order in which they came; any of them leaves as quickly as
/// the first. It takes 12 bytes for each number up to the greatest.
#[derive(Clone, Debug)]
pub struct Line {
    links: Chunks<Link>,
    head: u32,
    tail: u32,
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Line {
    /// An empty line.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            links: Chunks::new(),
            head: NONE,
            tail: NONE,
        }
    }

    /// Who stands there longest.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// Whether nobody stands there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// `number`, below `u32::MAX`, stands at the end, unless it stands there already.
    pub fn join(&mut self, number: u32) {
        self.links.reach(number, |_| Link::ALONE);
        if self.links[number].stands {
            return;
        }
        self.links[number] = Link {
            previous: self.tail,
            next: NONE,
            stands: true,
        };
        match self.links.get_mut(self.tail) {
            Some(last) => last.next = number,
            None => self.head = number,
        }
        self.tail = number;
    }

    /// `number` does not stand there any more, if it did.
    pub fn leave(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(number).filter(|link| link.stands) else {
            return;
        };
        let Link { previous, next, .. } = core::mem::replace(link, Link::ALONE);
        match self.links.get_mut(previous) {
            Some(before) => before.next = next,
            None => self.head = next,
        }
        match self.links.get_mut(next) {
            Some(after) => after.previous = previous,
            None => self.tail = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_behaves_like_a_list(steps in proptest::collection::vec((0..2_u8, 0..200_u32), 0..300)) {
            let (mut line, mut list) = (Line::new(), Vec::new());
            for (what, number) in steps {
                if what == 0 {
                    line.join(number);
                    if !list.contains(&number) {
                        list.push(number);
                    }
                } else {
                    line.leave(number);
                    list.retain(|other| *other != number);
                }
                prop_assert_eq!(line.first(), list.first().copied());
                prop_assert_eq!(line.is_empty(), list.is_empty());
            }
            let rest: Vec<u32> = core::iter::from_fn(|| {
                let first = line.first()?;
                line.leave(first);
                Some(first)
            }).collect();
            prop_assert_eq!(rest, list);
        }
    }
}
