//! From a flow to whatever has been filed under it: an open hash table with a keyed hash.
//!
//! Linear probing, in an array of eight-byte slots beside the keys: a lookup that fails (a SYN)
//! stays in a cache line or two of slots, one that succeeds touches one key. Removing moves later
//! entries of the run back instead of leaving tombstones, so the table is as fast after a million
//! connections as before the first. Whoever sends packets cannot choose flows that collide, the
//! key being secret.

use wire::flow::{FlowHasher, FlowKey};

use crate::port_counts::PortCounts;

/// The least number of slots; a power of two.
const MIN_SLOTS: usize = 16;

/// As much of a flow's hash as the table uses: who has looked a flow up can file something under it
/// without hashing again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowHash(u32);

impl FlowHash {
    /// Set in every hash, and never in what marks a free slot.
    const TAKEN: u32 = 1 << 31;
    /// No flow's.
    pub const NONE: FlowHash = FlowHash(0);
}

/// One place in the table.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The key's hash: its low bits say where it belongs, the others save looking at most of the other
    /// keys, and all of them hashing anew what the table moves.
    hash: FlowHash,
    value: u32,
}

impl Slot {
    const FREE: Slot = Slot {
        hash: FlowHash::NONE,
        value: 0,
    };

    #[inline]
    fn is_free(self) -> bool {
        self.hash == FlowHash::NONE
    }
}

/// Values of 32 bits, by flow.
///
/// It grows and shrinks with its content, which its owner bounds; by doubling and halving, each of
/// which moves every entry once.
#[derive(Clone, Debug)]
pub struct FlowTable {
    hasher: FlowHasher,
    /// A power of two of them, at most three quarters taken.
    slots: Vec<Slot>,
    /// The key of each slot that is taken; anything where it is free.
    keys: Vec<FlowKey>,
    len: usize,
    ports: PortCounts,
    /// It never shrinks below this many slots.
    min_slots: usize,
}

impl FlowTable {
    /// An empty table with the given secret key.
    #[cfg(test)]
    pub fn new(key: [u8; 16]) -> FlowTable {
        FlowTable::with_capacity(key, 0)
    }

    /// An empty table that holds `capacity` flows before it grows, and never shrinks below that.
    pub fn with_capacity(key: [u8; 16], capacity: usize) -> FlowTable {
        let min_slots = (capacity + capacity / 3 + 1)
            .next_power_of_two()
            .max(MIN_SLOTS);
        FlowTable {
            hasher: FlowHasher::new(key),
            slots: vec![Slot::FREE; min_slots],
            keys: vec![vacant_key(); min_slots],
            len: 0,
            ports: PortCounts::default(),
            min_slots,
        }
    }

    /// How many flows are in the table.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many of them are on a local port.
    pub fn on_port(&self, port: u16) -> u32 {
        self.ports.get(port)
    }

    /// Whether there are none.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The hash of `flow` in this table.
    #[inline]
    pub fn hash(&self, flow: &FlowKey) -> FlowHash {
        FlowHash(self.hasher.hash(flow) as u32 | FlowHash::TAKEN)
    }

    /// What is filed under `flow`.
    pub fn get(&self, flow: &FlowKey) -> Option<u32> {
        self.get_hashed(flow, self.hash(flow))
    }

    /// The same for a flow whose hash is known.
    #[inline]
    pub fn get_hashed(&self, flow: &FlowKey, hash: FlowHash) -> Option<u32> {
        match self.find(flow, hash) {
            Found::At(at) => Some(self.slots[at].value),
            Found::FreeAt(_) => None,
        }
    }

    /// Files `value` under `flow`; returns what was filed there before.
    pub fn insert(&mut self, flow: FlowKey, value: u32) -> Option<u32> {
        self.insert_hashed(flow, self.hash(&flow), value)
    }

    /// The same for a flow whose hash is known.
    pub fn insert_hashed(&mut self, flow: FlowKey, hash: FlowHash, value: u32) -> Option<u32> {
        debug_assert_eq!(hash, self.hash(&flow));
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.resize(self.slots.len() * 2);
        }
        match self.find(&flow, hash) {
            Found::At(at) => Some(core::mem::replace(&mut self.slots[at].value, value)),
            Found::FreeAt(at) => {
                self.slots[at] = Slot { hash, value };
                self.keys[at] = flow;
                self.len += 1;
                self.ports.add(flow.local_port);
                None
            }
        }
    }

    /// Takes out what is filed under `flow`, and returns it.
    pub fn remove(&mut self, flow: &FlowKey) -> Option<u32> {
        let Found::At(at) = self.find(flow, self.hash(flow)) else {
            return None;
        };
        let value = self.slots[at].value;
        self.close_gap(at);
        self.len -= 1;
        self.ports.subtract(flow.local_port);
        if self.slots.len() > self.min_slots && self.len * 8 < self.slots.len() {
            self.resize(self.slots.len() / 2);
        }
        Some(value)
    }

    /// Where `flow` is, or would go. There is always a free slot, so the search ends.
    #[inline]
    fn find(&self, flow: &FlowKey, hash: FlowHash) -> Found {
        let mask = self.slots.len() - 1;
        let mut at = hash.0 as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.is_free() {
                return Found::FreeAt(at);
            }
            if slot.hash == hash && self.keys[at] == *flow {
                return Found::At(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Frees the slot `gap`, and moves into it the next entry of the run that may stand there; and
    /// so on with the gap that this one leaves.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.slots.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            if self.slots[at].is_free() {
                break;
            }
            let home = self.slots[at].hash.0 as usize & mask;
            // An entry may go no further back than to its home.
            let (from_home, from_gap) = (at.wrapping_sub(home) & mask, at.wrapping_sub(gap) & mask);
            if from_home >= from_gap {
                self.slots[gap] = self.slots[at];
                self.keys[gap] = self.keys[at];
                gap = at;
            }
        }
        self.slots[gap] = Slot::FREE;
    }

    fn resize(&mut self, slots: usize) {
        let old_slots = core::mem::replace(&mut self.slots, vec![Slot::FREE; slots]);
        let old_keys = core::mem::replace(&mut self.keys, vec![vacant_key(); slots]);
        for (slot, flow) in old_slots.into_iter().zip(old_keys) {
            if !slot.is_free()
                && let Found::FreeAt(at) = self.find(&flow, slot.hash)
            {
                self.slots[at] = slot;
                self.keys[at] = flow;
            }
        }
    }
}

/// The outcome of a search: an index into the slots.
enum Found {
    At(usize),
    FreeAt(usize),
}

/// What stands in `keys` where a slot is free.
fn vacant_key() -> FlowKey {
    let unspecified = core::net::IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);
    FlowKey {
        local: unspecified,
        remote: unspecified,
        local_port: 0,
        remote_port: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn flow(n: u32) -> FlowKey {
        let [a, b, c, d] = n.to_be_bytes();
        FlowKey {
            local: [10, 0, 0, 1].into(),
            remote: [10, a, b, 1].into(),
            local_port: 80,
            remote_port: u16::from_be_bytes([c, d]),
        }
    }

    #[test]
    fn what_is_filed_is_found_until_it_is_taken_out() {
        let mut table = FlowTable::new([3; 16]);
        assert_eq!(table.get(&flow(1)), None);
        assert_eq!(table.insert(flow(1), 7), None);
        assert_eq!(table.insert(flow(1), 8), Some(7));
        assert_eq!((table.get(&flow(1)), table.len()), (Some(8), 1));
        assert_eq!(table.remove(&flow(1)), Some(8));
        assert_eq!(table.remove(&flow(1)), None);
        assert!(table.is_empty());
    }

    #[test]
    fn the_vacant_key_is_a_key_like_any_other() {
        let mut table = FlowTable::new([3; 16]);
        assert_eq!(table.get(&vacant_key()), None);
        table.insert(vacant_key(), 5);
        assert_eq!(table.remove(&vacant_key()), Some(5));
    }

    #[test]
    fn it_grows_and_shrinks_but_not_below_its_capacity() {
        let mut table = FlowTable::with_capacity([3; 16], 1_000);
        let slots = table.slots.len();
        for n in 0..1_000 {
            table.insert(flow(n), n);
        }
        assert_eq!(table.slots.len(), slots);
        for n in 1_000..100_000 {
            table.insert(flow(n), n);
        }
        assert!(table.slots.len() > slots);
        for n in 0..100_000 {
            assert_eq!(table.remove(&flow(n)), Some(n));
        }
        assert_eq!((table.slots.len(), table.len()), (slots, 0));
    }

    #[test]
    fn turnover_leaves_no_traces() {
        let mut table = FlowTable::with_capacity([3; 16], 100);
        for n in 0..100_000 {
            table.insert(flow(n), n);
            if n >= 100 {
                assert_eq!(table.remove(&flow(n - 100)), Some(n - 100));
            }
        }
        assert_eq!(table.len(), 100);
        assert_eq!(
            table.slots.iter().filter(|slot| !slot.is_free()).count(),
            100
        );
        assert_eq!(table.slots.len(), 256);
    }

    proptest! {
        /// Few flows and a table that is small, so that runs meet, wrap around and are torn apart.
        #[test]
        fn it_behaves_like_a_map(
            key: [u8; 16],
            steps in proptest::collection::vec((0..3_u8, 0..40_u32), 0..400),
        ) {
            let mut table = FlowTable::new(key);
            let mut map = HashMap::new();
            for (step, (what, n)) in steps.into_iter().enumerate() {
                let value = step as u32;
                match what {
                    0 => prop_assert_eq!(table.insert(flow(n), value), map.insert(n, value)),
                    1 => prop_assert_eq!(table.remove(&flow(n)), map.remove(&n)),
                    _ => prop_assert_eq!(table.get(&flow(n)), map.get(&n).copied()),
                }
                prop_assert_eq!(table.len(), map.len());
            }
            for n in 0..40 {
                prop_assert_eq!(table.get(&flow(n)), map.get(&n).copied());
            }
        }
    }
}
