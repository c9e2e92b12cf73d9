//! What is to be done.

use std::io::Read;

use anyhow::Result;

use super::options::Args;
use super::target::Target;
use super::url::Url;

/// A load, ready to be run as often as it takes.
pub(super) struct Job<'a> {
    pub(super) args: &'a Args,
    pub(super) url: Url,
    pub(super) target: Target,
}

impl Job<'_> {
    /// What choices are drawn from: as it was said, or by chance.
    pub(super) fn seed(&self) -> Result<u64> {
        let by_chance = || {
            let mut bytes = [0; 8];
            std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
            Ok(u64::from_ne_bytes(bytes))
        };
        self.args.seed.map_or_else(by_chance, Ok)
    }
}
