//! Cores that threads of this process stay on.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps the calling thread, and those that it starts, on one core.
///
/// # Errors
/// This machine has no such core, or we may not use it.
pub fn stay_on(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).context("cannot choose a core")
}
