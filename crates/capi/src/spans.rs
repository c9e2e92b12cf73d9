//! What is lent to the program: views and rooms, by number.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use native::{Handle, Room, View};
use slotmap::SecondaryMap;

/// So many numbers a queue takes at once.
const BLOCK: u64 = 1 << 20;

/// The first number that no queue has taken. 0 is none.
static NEXT: AtomicU64 = AtomicU64::new(BLOCK);

/// Something that is lent.
pub(crate) enum Span {
    View(View),
    Room(Room),
    /// A room that is being committed.
    Void,
}

/// What a queue has lent. Its numbers are given once in the process: one of another queue's, or of what was given
/// back, is not found.
#[derive(Default)]
pub(crate) struct Spans {
    lent: HashMap<u64, Lent, BuildHasherDefault<ByNumber>>,
    /// The last that was lent of each connection that has some.
    of: SecondaryMap<Handle, u64>,
    numbers: Range<u64>,
}

struct Lent {
    owner: Handle,
    span: Span,
    /// Its neighbours among those of its connection; 0 is none.
    before: u64,
    after: u64,
}

/// Numbers that are given in turn need no better hash.
#[derive(Default)]
struct ByNumber(u64);

impl Hasher for ByNumber {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 by the golden ratio: what differs in few bits differs in the high ones, too.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Spans {
    /// Lends something of a connection; its number.
    pub(crate) fn insert(&mut self, owner: Handle, span: Span) -> u64 {
        let number = self.numbers.next().unwrap_or_else(|| {
            let first = NEXT.fetch_add(BLOCK, Ordering::Relaxed);
            self.numbers = first + 1..first + BLOCK;
            first
        });
        let before = self.of.insert(owner, number).unwrap_or(0);
        if let Some(before) = self.lent.get_mut(&before) {
            before.after = number;
        }
        let lent = Lent {
            owner,
            span,
            before,
            after: 0,
        };
        self.lent.insert(number, lent);
        number
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Span> {
        self.lent.get_mut(&number).map(|lent| &mut lent.span)
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Span> {
        let lent = self.lent.remove(&number)?;
        if let Some(before) = self.lent.get_mut(&lent.before) {
            before.after = lent.after;
        }
        match self.lent.get_mut(&lent.after) {
            Some(after) => after.before = lent.before,
            None if lent.before == 0 => drop(self.of.remove(lent.owner)),
            None => drop(self.of.insert(lent.owner, lent.before)),
        }
        Some(lent.span)
    }

    /// All of a connection that is closed.
    pub(crate) fn forget(&mut self, owner: Handle) {
        let mut next = self.of.remove(owner).unwrap_or(0);
        while let Some(lent) = self.lent.remove(&next) {
            next = lent.before;
        }
    }
}
