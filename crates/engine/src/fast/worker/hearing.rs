//! What the network says: its changes, and what they mean for frames that wait for a neighbour.

use std::net::IpAddr;

use netdev::Device;
use tcp::Failure;

use super::Worker;
use crate::fast::connections::Conn;
use crate::network::{Network, NetworkChange, Paths};
use crate::slow::kernel::neighbours::Knowledge;
use crate::stats::Drop;

impl<D: Device, N: Network> Worker<D, N> {
    /// Reads what has changed.
    pub(super) fn network_changed(&mut self) {
        let mut addresses = false;
        let mut link = None;
        let mut queues = None;
        let mut resolved = Vec::new();
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
                let number = paths.neighbour_changed(address, knowledge);
                resolved.extend(number.map(|number| (number, address, knowledge)));
            }
            NetworkChange::Answer(address, knowledge, as_of) => {
                let number = paths.neighbour_answered(address, knowledge, as_of);
                resolved.extend(number.map(|number| (number, address, knowledge)));
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
        if !resolved.is_empty() {
            self.drop_aged();
        }
        for (number, address, knowledge) in resolved {
            self.release_held(number, address, knowledge);
        }
    }

    /// Drops frames that have waited for their neighbour for so long that what they say is over.
    pub(super) fn drop_aged(&mut self) {
        for _ in 0..self.held.drop_aged(self.now) {
            self.counters.drop(Drop::HeldTooLong);
        }
    }

    /// A neighbour of this number and address is known, or is not: what waits for it leaves, or never will. What has
    /// waited for too long is [dropped](Self::drop_aged) before.
    pub(super) fn release_held(&mut self, number: u32, address: IpAddr, knowledge: Knowledge) {
        match knowledge {
            Knowledge::Resolved { mac, .. } => {
                for bytes in self.held.release(address, mac) {
                    let Some(frame) = self.device.frame() else {
                        self.counters.drop(Drop::HeldUnresolved);
                        continue;
                    };
                    let Some(frame) = frame.get_mut(..bytes.len()) else {
                        continue;
                    };
                    frame.copy_from_slice(&bytes);
                    self.device.submit(bytes.len(), None);
                    self.counters.sent += 1;
                }
                self.device.flush();
            }
            Knowledge::Failed => {
                for _ in self.held.discard(address) {
                    self.counters.drop(Drop::HeldUnresolved);
                }
                self.fail_opens(number);
            }
            Knowledge::Unresolved => {}
        }
    }

    /// A neighbour does not answer: connections being opened through it fail, as in the kernel;
    /// established ones go on trying.
    fn fail_opens(&mut self, neighbour: u32) {
        let paths = &self.paths;
        let hopeless = |conn: &&Conn| {
            let through = |path| paths.goes_through(path, neighbour);
            conn.path.is_some_and(through)
        };
        let ids: Vec<_> = self
            .connections
            .opening()
            .filter(hopeless)
            .map(|c| c.id)
            .collect();
        for id in ids {
            self.stack
                .on_unreachable(self.now, id, Failure::HostUnreachable);
        }
    }
}
