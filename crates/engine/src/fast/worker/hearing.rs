//! What the network says: its changes, and what they mean for what waits for a neighbour.

use std::net::IpAddr;

use netdev::Device;

use super::Worker;
use crate::network::{Network, NetworkChange, OnLink, Paths};
use crate::slow::kernel::neighbours::Knowledge;
use crate::stats::Drop;

impl<D: Device, N: Network> Worker<D, N> {
    /// Reads what has changed.
    pub(super) fn network_changed(&mut self) {
        let mut addresses = false;
        let mut links = Vec::new();
        let mut queues = Vec::new();
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
            NetworkChange::Neighbour(at, knowledge) => {
                if paths.neighbour_changed(at, knowledge) {
                    neighbours.push((at, knowledge));
                }
            }
            NetworkChange::Answer(at, knowledge, as_of) => {
                if paths.neighbour_answered(at, knowledge, as_of) {
                    neighbours.push((at, knowledge));
                }
            }
            NetworkChange::AllNeighbours => all = true,
            NetworkChange::Link(nic, state) => links.push((nic, state)),
            NetworkChange::Queues(nic, count) => queues.push((nic, count)),
        });
        for (nic, count) in queues {
            self.queues_changed(nic, count);
        }
        for (nic, state) in links {
            self.link_changed(nic, state);
        }
        if all {
            self.paths.neighbours_changed();
        }
        if addresses {
            self.addresses_changed();
            if self.network.take_up_moved() {
                self.addresses_changed();
            }
        }
        if !neighbours.is_empty() {
            self.drop_aged();
        }
        for (at, knowledge) in neighbours {
            self.neighbour_told(at, knowledge);
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
    pub(super) fn neighbour_told(&mut self, at: OnLink<IpAddr>, knowledge: Knowledge) {
        match knowledge {
            Knowledge::Resolved { mac, .. } => {
                self.held.release(at, mac);
                self.failing.answers(at);
            }
            Knowledge::Failed => {
                for _ in 0..self.held.discard(at) {
                    self.counters.drop(Drop::HeldUnresolved);
                }
                self.failing.fails(at, self.now);
            }
            Knowledge::Unresolved => {}
        }
    }
}
