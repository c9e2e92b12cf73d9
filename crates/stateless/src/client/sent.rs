//! Which SYNs were sent: computed again, to be held against those that arrived.

use std::collections::HashMap;
use std::net::IpAddr;

use super::Client;
use super::sources::Sources;
use super::walk::{Walk, mix};

/// Between the initial sequence numbers of two connections from one place: more than
/// [`MAX_STREAM`](super::MAX_STREAM), and odd, so that the low bits change as well.
const STRIDE: u32 = (1 << 27) + 1;

/// Connections that are looked through, from the last one back.
const MANY: u64 = 1 << 20;

/// All that is needed to compute them.
#[derive(Debug, Clone)]
pub struct Sent {
    sources: Sources,
    walk: Walk,
    key: u64,
    connections: u64,
}

impl Client {
    /// Which SYNs were sent.
    pub fn sent(&self) -> Sent {
        Sent::of(self)
    }
}

impl Sent {
    pub(super) fn of(client: &Client) -> Self {
        Self {
            sources: client.config.sources.clone(),
            walk: client.walk.clone(),
            key: client.config.key,
            connections: client.ledger.next(),
        }
    }

    /// Where each of the last connections came from, by its initial sequence number.
    pub fn by_sequence(&self) -> HashMap<u32, (IpAddr, u16)> {
        (self.connections.saturating_sub(MANY)..self.connections)
            .map(|connection| {
                let place = self.walk.place(connection);
                let number = initial(self.key, connection / self.walk.places(), place);
                (number, self.sources.at(place))
            })
            .collect()
    }

    /// The initial sequence number of the last connection from there, if there was one.
    pub fn last_from(&self, address: IpAddr, port: u16) -> Option<u32> {
        let place = self.sources.place_of(address, port)?;
        let (step, places) = (self.walk.step(place)?, self.walk.places());
        let epoch = self.connections.checked_sub(step + 1)? / places;
        Some(initial(self.key, epoch, place))
    }
}

/// The initial sequence number of a connection: `epoch` connections came from its place before.
#[inline]
pub(super) fn initial(key: u64, epoch: u64, place: u64) -> u32 {
    (mix(key ^ place) as u32).wrapping_add((epoch as u32).wrapping_mul(STRIDE))
}
