//! The configuration read again, while connections go on.

use netdev::Device;

use super::{Moderation, Worker};
use crate::config::{Changes, Config};
use crate::network::{Network, Steered};

impl<D: Device, N: Network> Worker<D, N> {
    /// Changes what can change at no cost to connections.
    pub(super) fn reload(&mut self, new: &Config) -> Changes {
        let changes = self.config.changes(new);
        let moderation = self.config.moderation();
        let queues = self.config.queues.clone();
        self.config.take_live(new);
        self.serving = self.config.profile;
        if self.config.moderation() != moderation {
            self.moderation = Moderation::new(self.config.moderation());
        }
        let tcp = &self.config.tcp;
        let orphans = self.config.limits.orphans;
        self.orphans.set_limit(orphans);
        self.stack
            .retune(orphans, tcp.pacing_burst, tcp.syn_cookies);
        self.choose_anew();
        self.apply_access();
        if self.config.queues != queues {
            self.queues_wanted();
        }
        changes
    }

    /// Leaves the listeners that are no longer admitted to the kernel, and takes up again those that
    /// are: connections that are there go on either way.
    pub(super) fn apply_access(&mut self) {
        if self.stopping {
            return;
        }
        let mut changed = Vec::new();
        for listener in self.listeners.iter_mut() {
            let admitted = self.config.access.admits_listener(listener.local.port())
                && listener.is_admitted(&self.netfilter, &self.confined)
                && !self.sharing.users.is_beyond(listener.uid);
            let waits = listener.proofs.is_empty() || listener.left.is_some();
            let left = self.netfilter.leaves(listener.local);
            let before = core::mem::replace(&mut listener.family_left, left);
            let how = match listener.how {
                Steered::Closing if admitted && !waits => Steered::Mixed,
                Steered::Engine | Steered::Mixed | Steered::Shared(_) if !admitted => {
                    Steered::Closing
                }
                // The kernel may have got connections of a family that comes back.
                Steered::Engine | Steered::Mixed | Steered::Shared(_) if left != before => {
                    Steered::Mixed
                }
                _ => continue,
            };
            changed.push((listener.number, how));
        }
        for (number, how) in changed {
            if how == Steered::Mixed {
                self.mix(number);
                continue;
            }
            if let Some(listener) = self.listeners.get_mut(number) {
                listener.how = how;
            }
            self.steer_as_said(number);
        }
    }
}
