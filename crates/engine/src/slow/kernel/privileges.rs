//! Privileges that the engine keeps after it has opened everything.
//!
//! * `CAP_NET_ADMIN`: ask the kernel to probe a neighbour and confirm it, and change the steering.
//! * `CAP_NET_BIND_SERVICE`: lease a port below 1024 for a program of root's (and for nobody else's).
//! * `CAP_IPC_LOCK`: lock the packet memory of receive queues that are added.
//! * `CAP_BPF`: update the steering's maps where unprivileged BPF is switched off.
//!
//! Everything else goes, for this thread and whatever it might execute.

use rustix::io::Result;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs};

/// What is kept.
const KEPT: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::BPF);

/// Drops every capability but those that the engine still needs; returns what is left.
pub fn drop_privileges() -> Result<CapabilitySet> {
    let mut sets = capabilities(None)?;
    sets.effective &= KEPT;
    sets.permitted &= KEPT;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)?;
    set_no_new_privs(true)?;
    Ok(sets.permitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_kept_ones_remains() {
        // Capabilities belong to the thread, so the rest of the test process keeps its own.
        std::thread::spawn(|| {
            let left = drop_privileges().expect("dropping is always allowed");
            assert!(KEPT.contains(left));
            assert_eq!(capabilities(None).expect("readable").permitted, left);
        })
        .join()
        .expect("no panic");
    }
}
