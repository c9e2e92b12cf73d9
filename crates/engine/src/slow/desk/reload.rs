//! The configuration read again, while connections go on.

use super::Desk;
use crate::config::{Changes, Config, Limits, Reload};

impl Desk {
    /// With a way to read the configuration again.
    #[must_use]
    pub fn reloading(mut self, reread: Reload) -> Self {
        self.reread = Some(reread);
        self
    }

    /// Reads the configuration again. One that is wrong changes nothing.
    pub(super) fn reread(&mut self) -> Result<Config, String> {
        let Some(reread) = &mut self.reread else {
            return Err("this engine was started without a file to read again".to_owned());
        };
        reread().inspect_err(|error| {
            tracing::warn!(
                error,
                "the configuration is wrong: everything stays as it was"
            );
        })
    }

    /// The fast half works by it.
    pub(super) fn reloaded(&mut self, changes: &Changes, limits: Limits) {
        self.control.set_limits(&limits);
        self.rates.set_rate(limits.requests_per_second);
        self.facts.limits = limits;
        let (changed, at_start) = (changes.live.join(" "), changes.at_start.join(" "));
        tracing::info!(changed, "configuration read again");
        if !at_start.is_empty() {
            tracing::warn!(
                settings = at_start,
                "changed in the file, and used after a new start only"
            );
        }
    }
}
