//! Privileges: what an engine keeps after it has opened everything, and what its [opener](super::opener) keeps.
//!
//! The engine keeps no capability, if it has an opener, and CAP_IPC_LOCK where it could not raise the limit on locked
//! memory: the packet memory of receive queues that are added is locked. The opener keeps:
//!
//! * `CAP_NET_ADMIN`: have the kernel probe a neighbour and confirm it, read the rules of nf_tables, count the policies
//!   of IPsec, see which programs a cgroup has, and have a device leave the tags of VLANs on.
//! * `CAP_NET_RAW`: make AF_XDP sockets for receive queues that are added.
//!
//! The steering's maps and its link are changed by whoever has their descriptors, since Linux 5.19. Everything else
//! goes, for this thread and whatever it might execute; and so do [system calls](calls) that it does not make.

use rustix::io::Result;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs};

use super::calls;

/// What an opener keeps.
const TO_OPEN: CapabilitySet = CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW);

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

    /// Whether an opener that has these can open whatever `engine`, with its own, could.
    pub fn can_open_as(&self, engine: &Self) -> bool {
        self.capabilities.contains(engine.capabilities & TO_OPEN)
    }

    /// The capabilities as capabilities(7) writes them.
    pub fn names(&self) -> Vec<String> {
        let names = self.capabilities.iter_names();
        names.map(|(name, _)| format!("CAP_{name}")).collect()
    }

    /// The same in one line.
    pub fn in_words(&self) -> String {
        match &self.names()[..] {
            [] => "none".to_owned(),
            names => names.join(" "),
        }
    }

    /// As an opener tells of its own.
    pub fn encode(&self) -> [u8; 9] {
        let mut bytes = [0; 9];
        bytes[..8].copy_from_slice(&self.capabilities.bits().to_ne_bytes());
        bytes[8] = self.confined.into();
        bytes
    }

    /// The same, read.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (bits, confined) = bytes.split_first_chunk()?;
        Some(Self {
            capabilities: CapabilitySet::from_bits_retain(u64::from_ne_bytes(*bits)),
            confined: *confined == [1],
        })
    }
}

/// Drops every capability but those that are to be kept; returns what is left.
fn keep(kept: CapabilitySet) -> Result<CapabilitySet> {
    let mut sets = capabilities(None)?;
    sets.effective &= kept;
    sets.permitted &= kept;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)?;
    set_no_new_privs(true)?;
    Ok(sets.permitted)
}

/// Has as much memory locked as there is, if that may be set; whether it may be locked.
fn lock_any_memory() -> bool {
    let any = Rlimit {
        current: None,
        maximum: None,
    };
    let _ = setrlimit(Resource::Memlock, any);
    getrlimit(Resource::Memlock).current.is_none()
}

/// Drops what an engine that runs does not need: capabilities, and, where the kernel can, all other
/// system calls. One without an opener keeps what that would.
pub fn drop_privileges(has_opener: bool) -> Result<Rights> {
    let mut kept = match has_opener {
        true => CapabilitySet::empty(),
        false => TO_OPEN,
    };
    if !lock_any_memory() {
        kept |= CapabilitySet::IPC_LOCK;
    }
    let kept = keep(kept)?;
    // Without capabilities it would be every process's of its user to look into.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rights(kept, calls::confine(!has_opener))
}

/// The same for an opener.
pub fn keep_to_open() -> Result<Rights> {
    rights(keep(TO_OPEN)?, calls::confine_to_opening())
}

fn rights(capabilities: CapabilitySet, confined: std::io::Result<()>) -> Result<Rights> {
    let confined = confined.inspect_err(|error| {
        tracing::warn!(%error, "this goes on without a filter of its system calls");
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
        let mut rights = Rights {
            capabilities: CapabilitySet::NET_ADMIN | CapabilitySet::BPF,
            confined: true,
        };
        assert_eq!(rights.names(), ["CAP_NET_ADMIN", "CAP_BPF"]);
        assert_eq!(rights.in_words(), "CAP_NET_ADMIN CAP_BPF");
        rights.capabilities = CapabilitySet::empty();
        assert_eq!(rights.in_words(), "none");
    }

    #[test]
    fn rights_are_read_as_they_were_written() {
        let rights = Rights {
            capabilities: TO_OPEN,
            confined: true,
        };
        let bytes = rights.encode();
        let read = Rights::decode(&bytes).expect("whole");
        assert_eq!((read.capabilities, read.confined), (TO_OPEN, true));
        assert!(Rights::decode(&bytes[..7]).is_none());
    }

    #[test]
    fn nothing_but_the_kept_ones_remains() {
        // Capabilities belong to the thread, so the rest of the test process keeps its own.
        std::thread::spawn(|| {
            for kept in [TO_OPEN, CapabilitySet::empty()] {
                let left = keep(kept).expect("dropping is always allowed");
                assert!(kept.contains(left));
                assert_eq!(capabilities(None).expect("readable").permitted, left);
            }
        })
        .join()
        .expect("no panic");
    }
}
