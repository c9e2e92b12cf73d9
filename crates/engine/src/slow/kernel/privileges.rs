//! Privileges that the engine keeps after it has opened everything.
//!
//! * `CAP_NET_ADMIN`: ask the kernel to probe a neighbour and confirm it, and change the steering.
//! * `CAP_NET_BIND_SERVICE`: lease a port below 1024 for a program of root's (and for nobody else's).
//! * `CAP_IPC_LOCK`: lock the packet memory of receive queues that are added.
//! * `CAP_BPF`: update the steering's maps where unprivileged BPF is switched off.
//!
//! Everything else goes, for this thread and whatever it might execute; and so do [system calls](calls)
//! that it does not make.

use rustix::io::Result;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs};

use super::calls;

/// What is kept.
const KEPT: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::BPF);

/// What an engine may do once it runs.
#[derive(Debug, Clone, Copy)]
pub struct Rights {
    /// Its capabilities.
    pub capabilities: CapabilitySet,
    /// It can make no system calls but those that it needs.
    pub confined: bool,
}

impl Rights {
    /// Those that there are now.
    pub fn kept() -> Result<Self> {
        Ok(Self {
            capabilities: capabilities(None)?.permitted,
            confined: false,
        })
    }

    /// The capabilities as capabilities(7) writes them.
    pub fn names(&self) -> Vec<String> {
        let names = self.capabilities.iter_names();
        names.map(|(name, _)| format!("CAP_{name}")).collect()
    }
}

/// Drops every capability but those that the engine still needs; returns what is left.
fn drop_capabilities() -> Result<CapabilitySet> {
    let mut sets = capabilities(None)?;
    sets.effective &= KEPT;
    sets.permitted &= KEPT;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)?;
    set_no_new_privs(true)?;
    Ok(sets.permitted)
}

/// Drops what an engine that runs does not need: capabilities, and, where the kernel can, all other
/// system calls.
pub fn drop_privileges() -> Result<Rights> {
    let capabilities = drop_capabilities()?;
    let confined = calls::confine().inspect_err(|error| {
        tracing::warn!(%error, "the engine goes on without a filter of its system calls");
    });
    Ok(Rights {
        capabilities,
        confined: confined.is_ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_named_as_people_do() {
        let rights = Rights {
            capabilities: CapabilitySet::NET_ADMIN | CapabilitySet::BPF,
            confined: true,
        };
        assert_eq!(rights.names(), ["CAP_NET_ADMIN", "CAP_BPF"]);
    }

    #[test]
    fn nothing_but_the_kept_ones_remains() {
        // Capabilities belong to the thread, so the rest of the test process keeps its own.
        std::thread::spawn(|| {
            let left = drop_capabilities().expect("dropping is always allowed");
            assert!(KEPT.contains(left));
            assert_eq!(capabilities(None).expect("readable").permitted, left);
        })
        .join()
        .expect("no panic");
    }
}
