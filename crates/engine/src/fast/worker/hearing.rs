//! What the network says: its changes, and what they mean for what waits for a neighbour.

use std::net::IpAddr;

use netdev::Device;

use super::Worker;
use crate::network::{Network, NetworkChange, Paths};
use crate::slow::kernel::neighbours::Knowledge;
use crate::stats::Drop;

impl<D: Device, N: Network> Worker<D, N> {
    /// Reads what has changed.
    pub(super) fn network_changed(&mut self) {
        let mut addresses = false;
        let mut link = None;
        let mut queues = None;
        let mut neighbours = Vec::new();
        let mut all = false;
        let paths: &mut Paths = &mut self.paths;
        self.network.changes(&mut |change| match change {
            NetworkChange::Addresses => {
                addresses = true;
                // What was another's may be ours now.
                paths.routes_changed();
            }
            NetworkChange::Routes => paths.routes_changed(),
            NetworkChange::Neighbour(address, knowledge) => {
                if paths.neighbour_changed(address, knowledge) {
                    neighbours.push((address, knowledge));
                }
            }
            NetworkChange::Answer(address, knowledge, as_of) => {
                if paths.neighbour_answered(address, knowledge, as_of) {
                    neighbours.push((address, knowledge));
                }
            }
            NetworkChange::AllNeighbours => all = true,
            NetworkChange::Link(state) => link = Some(state),
            NetworkChange::Queues(count) => queues = Some(count),
        });
        if let Some(count) = queues {
            self.queues_changed(count);
        }
        if let Some(state) = link {
            self.link_changed(state);
        }
        if all {
            self.paths.neighbours_changed();
        }
        if addresses {
            self.addresses_changed();
        }
        if !neighbours.is_empty() {
            self.drop_aged();
        }
        for (address, knowledge) in neighbours {
            self.neighbour_told(address, knowledge);
        }
    }

    /// Drops frames that have waited for their neighbour for so long that what they say is over.
    pub(super) fn drop_aged(&mut self) {
        for _ in 0..self.held.drop_aged(self.now) {
            self.counters.drop(Drop::HeldTooLong);
        }
    }

    /// A neighbour is known, or is not: what waits for it leaves with what else is sent, or never will, and of what
    /// is being opened through it [some fails in each turn](Self::go_on_failing). What has waited for too long is
    /// [dropped](Self::drop_aged) before.
    pub(super) fn neighbour_told(&mut self, address: IpAddr, knowledge: Knowledge) {
        match knowledge {
            Knowledge::Resolved { mac, .. } => {
                self.held.release(address, mac);
                self.failing.answers(address);
            }
            Knowledge::Failed => {
                for _ in 0..self.held.discard(address) {
                    self.counters.drop(Drop::HeldUnresolved);
                }
                self.failing.fails(address, self.now);
            }
            Knowledge::Unresolved => {}
        }
    }
}
