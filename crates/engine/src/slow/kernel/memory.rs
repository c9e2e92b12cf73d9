//! How much memory there is for an engine: what the machine has, or the limit of its cgroup.

use std::path::Path;

use super::cgroups;

/// Bytes that an engine and all else in its cgroup can have.
pub fn there_is() -> u64 {
    let machine = rustix::system::sysinfo();
    let machine = (machine.totalram as u64).saturating_mul(machine.mem_unit.into());
    let limit = cgroups::root().and_then(|root| {
        let own = cgroups::of_process(root, "self")?;
        limit(root, &own)
    });
    limit.map_or(machine, |limit| limit.min(machine))
}

/// The tightest limit of a cgroup and of those that it is in.
fn limit(root: &Path, own: &Path) -> Option<u64> {
    let above = own.ancestors().take_while(|path| path.starts_with(root));
    let said = above.filter_map(|path| std::fs::read_to_string(path.join("memory.max")).ok());
    // Without a limit it says "max".
    said.filter_map(|said| said.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_holds() {
        let root = std::env::temp_dir().join(format!("outboard-cgroups-{}", std::process::id()));
        let unit = root.join("system.slice/outboard@web.service");
        std::fs::create_dir_all(&unit).expect("made");
        assert_eq!(limit(&root, &unit), None);
        let write = |at: &Path, text| std::fs::write(at.join("memory.max"), text).expect("written");
        write(&unit, "max\n");
        write(&root.join("system.slice"), "1048576\n");
        assert_eq!(limit(&root, &unit), Some(1 << 20));
        write(&unit, "4096\n");
        assert_eq!(limit(&root, &unit), Some(4096));
        std::fs::remove_dir_all(&root).expect("removed");
    }

    #[test]
    fn a_machine_has_memory() {
        assert!(there_is() > 1 << 20);
    }
}
