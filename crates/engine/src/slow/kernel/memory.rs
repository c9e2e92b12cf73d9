//! How much memory there is for an engine: what the machine has, or the limit of its cgroup.

use std::path::Path;

/// Where cgroups are (cgroups(7)).
const CGROUPS: &str = "/sys/fs/cgroup";

/// Bytes that an engine and all else in its cgroup can have.
pub fn there_is() -> u64 {
    let machine = rustix::system::sysinfo();
    let machine = (machine.totalram as u64).saturating_mul(machine.mem_unit.into());
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = own_cgroup(&own).and_then(|path| limit(Path::new(CGROUPS), path));
    limit.map_or(machine, |limit| limit.min(machine))
}

/// The path of a process's cgroup in the one hierarchy of version 2, as /proc/PID/cgroup has it.
fn own_cgroup(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.strip_prefix("0::/"))
}

/// The tightest limit of a cgroup and of those that it is in.
fn limit(root: &Path, path: &str) -> Option<u64> {
    let own = root.join(path);
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
        let said = "9:memory:/old\n0::/system.slice/outboard@web.service\n";
        let path = own_cgroup(said).expect("it is there");
        assert_eq!(path, "system.slice/outboard@web.service");
        let root = std::env::temp_dir().join(format!("outboard-cgroups-{}", std::process::id()));
        let unit = root.join(path);
        std::fs::create_dir_all(&unit).expect("made");
        assert_eq!(limit(&root, path), None);
        let write = |at: &Path, text| std::fs::write(at.join("memory.max"), text).expect("written");
        write(&unit, "max\n");
        write(&root.join("system.slice"), "1048576\n");
        assert_eq!(limit(&root, path), Some(1 << 20));
        write(&unit, "4096\n");
        assert_eq!(limit(&root, path), Some(4096));
        std::fs::remove_dir_all(&root).expect("removed");
    }

    #[test]
    fn a_machine_has_memory() {
        assert!(there_is() > 1 << 20);
    }
}
