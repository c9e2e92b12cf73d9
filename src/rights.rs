//! What it takes to make a private network with an engine in it, and what is said to who lacks it.
//!
//! Loading an XDP program and making an XSKMAP are granted by CAP_BPF of the initial user namespace
//! (capabilities(7); the kernel asks `capable`, not `ns_capable`). So a user namespace, which would
//! give an ordinary user networks of their own, does not help: only root of the machine can.

use anyhow::{Result, bail};
use rustix::thread::{CapabilitySet, capabilities};

/// Without these, even root cannot; the first of them implies CAP_BPF and CAP_PERFMON.
const NEEDED: [(CapabilitySet, &str); 3] = [
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
];

/// Refuses, in one line, if a private network with an engine cannot be made. `command` is that of
/// the program which was called.
pub fn check(command: &str) -> Result<()> {
    let has = capabilities(None)?.effective;
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let program = std::env::current_exe();
    let program = program.map_or("outboard".into(), |path| path.display().to_string());
    match missing(::lab::is_root(), &map, has) {
        Some(what) => bail!(
            "`outboard {command}` needs root of the machine, since the kernel lets nobody else load \
             the engine's XDP program, not even in a user namespace; {}",
            what.replace("PROGRAM", &format!("{program} {command}"))
        ),
        None => Ok(()),
    }
}

/// What is missing, and what to do; `uid_map` is /proc/self/uid_map.
fn missing(is_root: bool, uid_map: &str, has: CapabilitySet) -> Option<String> {
    // The whole range onto itself: the initial user namespace, or one that is as good as none.
    let is_initial = uid_map.split_whitespace().eq(["0", "0", "4294967295"]);
    let lacks: Vec<&str> = NEEDED
        .iter()
        .filter(|(capability, _)| !has.contains(*capability))
        .map(|(_, name)| *name)
        .collect();
    if !is_initial {
        Some("you are in a user namespace: run it outside, with sudo".into())
    } else if !is_root {
        Some("run: sudo PROGRAM".into())
    } else if !lacks.is_empty() {
        let names = lacks.join(", ");
        Some(format!(
            "this root lacks {names}: in a container, use --privileged"
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_of_the_machine_will_do() {
        let (initial, mapped) = ("         0          0 4294967295\n", "0 1000 1\n");
        let all = CapabilitySet::all();
        assert_eq!(missing(true, initial, all), None);
        let told = |is_root, map, has| missing(is_root, map, has).expect("something is missing");
        assert!(told(true, mapped, all).contains("user namespace"));
        assert!(told(false, initial, CapabilitySet::empty()).starts_with("run: sudo"));
        let few = all.difference(CapabilitySet::NET_RAW);
        assert!(told(true, initial, few).contains("lacks CAP_NET_RAW:"));
    }
}
