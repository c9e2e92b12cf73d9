//! From a flow to whatever has been filed under it: a hash table with a keyed hash, which grows and shrinks
//! by [pieces](tables::Index), and counts the flows on each local port.
//!
//! Whoever sends packets cannot choose flows that collide, the key being secret.

use tables::{Hash, Index};
use wire::flow::{FlowHasher, FlowKey};

use crate::port_counts::PortCounts;

/// As much of a flow's hash as the table uses.
pub type FlowHash = Hash;

/// Values of 32 bits, by flow. How many there are its owner bounds.
#[derive(Clone, Debug)]
pub struct FlowTable {
    hasher: FlowHasher,
    index: Index<FlowKey>,
    ports: PortCounts,
    /// Which flows have begun to be in the table (true) and ceased to be, since somebody last asked; `None`
    /// while nobody does.
    changes: Option<Vec<(FlowKey, bool)>>,
}

impl FlowTable {
    /// An empty table with the given secret key.
    #[cfg(test)]
    pub fn new(key: [u8; 16]) -> FlowTable {
        FlowTable::with_capacity(key, 0)
    }

    /// An empty table that holds about `capacity` flows before it grows, and never shrinks below that.
    pub fn with_capacity(key: [u8; 16], capacity: usize) -> FlowTable {
        FlowTable {
            hasher: FlowHasher::new(key),
            index: Index::with_capacity(capacity, vacant_key()),
            ports: PortCounts::default(),
            changes: None,
        }
    }

    /// From now on it is kept which flows come and go, until [`take_changes`](Self::take_changes) is
    /// called.
    pub fn follow(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// Which flows came (true) and went since the last call, in their order.
    pub fn take_changes(&mut self) -> impl Iterator<Item = (FlowKey, bool)> + '_ {
        self.changes
            .iter_mut()
            .flat_map(|changes| changes.drain(..))
    }

    fn note(&mut self, flow: FlowKey, came: bool) {
        if let Some(changes) = &mut self.changes {
            changes.push((flow, came));
        }
    }

    /// How many flows are in the table.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// How many of them are on a local port.
    pub fn on_port(&self, port: u16) -> u32 {
        self.ports.get(port)
    }

    /// Whether there are none.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Flows that were moved to make room, or to give it back, since the table began.
    pub fn moved(&self) -> u64 {
        self.index.moved()
    }

    /// The hash of `flow` in this table.
    #[inline]
    pub fn hash(&self, flow: &FlowKey) -> FlowHash {
        Hash::new(self.hasher.hash(flow))
    }

    /// What is filed under `flow`.
    pub fn get(&self, flow: &FlowKey) -> Option<u32> {
        self.get_hashed(flow, self.hash(flow))
    }

    /// The same for a flow whose hash is known.
    #[inline]
    pub fn get_hashed(&self, flow: &FlowKey, hash: FlowHash) -> Option<u32> {
        self.index.get(flow, hash)
    }

    /// Files `value` under `flow`; returns what was filed there before.
    pub fn insert(&mut self, flow: FlowKey, value: u32) -> Option<u32> {
        self.insert_hashed(flow, self.hash(&flow), value)
    }

    /// The same for a flow whose hash is known.
    pub fn insert_hashed(&mut self, flow: FlowKey, hash: FlowHash, value: u32) -> Option<u32> {
        debug_assert_eq!(hash, self.hash(&flow));
        let before = self.index.insert(flow, hash, value);
        if before.is_none() {
            self.ports.add(flow.local_port);
            self.note(flow, true);
        }
        before
    }

    /// Takes out what is filed under `flow`, and returns it.
    pub fn remove(&mut self, flow: &FlowKey) -> Option<u32> {
        let value = self.index.remove(flow, self.hash(flow))?;
        self.ports.subtract(flow.local_port);
        self.note(*flow, false);
        Some(value)
    }
}

/// Any key: what stands where there is none.
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
    fn flows_are_found_until_they_are_removed() {
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
    fn who_follows_hears_what_came_and_went_once() {
        let mut table = FlowTable::new([3; 16]);
        table.insert(flow(1), 1);
        assert_eq!(table.take_changes().count(), 0, "nobody followed it");
        table.follow();
        table.insert(flow(2), 2);
        table.insert(flow(2), 3);
        table.remove(&flow(1));
        table.remove(&flow(1));
        let changes: Vec<_> = table.take_changes().collect();
        assert_eq!(changes, [(flow(2), true), (flow(1), false)]);
        assert_eq!(table.take_changes().count(), 0);
    }

    #[test]
    fn the_vacant_key_is_a_key_like_any_other() {
        let mut table = FlowTable::new([3; 16]);
        assert_eq!(table.get(&vacant_key()), None);
        table.insert(vacant_key(), 5);
        assert_eq!(table.remove(&vacant_key()), Some(5));
    }

    #[test]
    fn flows_are_counted_by_port() {
        let mut table = FlowTable::new([3; 16]);
        for n in 0..100 {
            table.insert(flow(n), n);
            table.insert(flow(n), n);
        }
        assert_eq!((table.on_port(80), table.on_port(81)), (100, 0));
        for n in 0..100 {
            table.remove(&flow(n));
            table.remove(&flow(n));
        }
        assert_eq!(table.on_port(80), 0);
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
