//! The configuration read again, while connections go on.

use netdev::Device;

use super::{Moderation, Worker};
use crate::config::{Changes, Reload};
use crate::network::{Network, Steered};

impl<D: Device, N: Network> Worker<D, N> {
    /// With a way to read the configuration again.
    #[must_use]
    pub fn reloading(mut self, reread: Reload) -> Self {
        self.reread = Some(reread);
        self
    }

    /// Reads the configuration again, and changes what can change at no cost to connections. A
    /// configuration that is wrong changes nothing.
    pub(super) fn reload(&mut self) -> Result<Changes, String> {
        let Some(reread) = &mut self.reread else {
            return Err("this engine was started without a file to read again".to_owned());
        };
        let new = reread().inspect_err(|error| {
            tracing::warn!(
                error,
                "the configuration is wrong: everything stays as it was"
            );
        })?;
        let changes = self.config.changes(&new);
        let moderation = self.config.moderation();
        self.config.take_live(&new);
        if self.config.moderation() != moderation {
            self.moderation = Moderation::new(self.config.moderation());
        }
        self.control.set_limits(&self.config.limits);
        let tcp = &self.config.tcp;
        let orphans = self.config.limits.orphans;
        self.stack
            .retune(orphans, tcp.pacing_burst, tcp.syn_cookies);
        self.apply_access();
        let (changed, at_start) = (changes.live.join(" "), changes.at_start.join(" "));
        tracing::info!(changed, "configuration read again");
        if !at_start.is_empty() {
            tracing::warn!(
                settings = at_start,
                "changed in the file, and used after a new start only"
            );
        }
        Ok(changes)
    }

    /// Leaves the listeners that are no longer admitted to the kernel, and takes up again those that
    /// are: connections that are there go on either way.
    fn apply_access(&mut self) {
        if self.stopping {
            return;
        }
        let mut changed = Vec::new();
        for listener in self.listeners.iter_mut() {
            let admitted = self.config.access.admits_listener(listener.local.port());
            let how = match listener.how {
                Steered::Closing if admitted && !listener.proofs.is_empty() => Steered::Mixed,
                Steered::Engine | Steered::Mixed if !admitted => Steered::Closing,
                _ => continue,
            };
            listener.how = how;
            changed.push(listener.number);
        }
        for number in changed {
            self.steer_as_said(number);
        }
    }
}
