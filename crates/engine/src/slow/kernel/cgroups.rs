//! Cgroups: where a process is, and which programs of its cgroup see what the kernel's TCP would send
//! and receive for it. systemd's IPAddressDeny= is such a program, and so is much of what containers
//! use. What is offloaded passes none of them, so whoever runs the program has to be told.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use netdev::cgroup::Hook;

use super::opener::Opener;

/// Where the one hierarchy of version 2 is, by itself or beside those of version 1.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// The root of version 2's hierarchy.
pub fn root() -> Option<&'static Path> {
    let mut roots = ROOTS.iter().map(Path::new);
    roots.find(|root| root.join("cgroup.controllers").exists())
}

/// The directory of a process's cgroup; `pid` can be `self`.
pub fn of_process(root: &Path, pid: &str) -> Option<PathBuf> {
    let said = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    Some(root.join(path_in(&said)?))
}

/// A path as /proc/PID/cgroup has it, below the root.
fn path_in(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.strip_prefix("0::/"))
}

/// The hooks at which the cgroup of a process has programs that what is offloaded does not pass.
pub fn bypassed_hooks(opener: &Opener, pid: u32) -> Vec<Hook> {
    let cgroup = root().and_then(|root| of_process(root, &pid.to_string()));
    let cgroup = cgroup.and_then(|path| File::open(path).ok());
    // A kernel that does not say has none, or does not let us ask.
    cgroup
        .and_then(|cgroup| opener.hooks(cgroup.as_fd()).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_that_of_version_2() {
        let said = "9:memory:/old\n0::/system.slice/outboard@web.service\n";
        assert_eq!(path_in(said), Some("system.slice/outboard@web.service"));
        assert_eq!(path_in("0::/\n"), Some(""));
        assert_eq!(path_in("9:memory:/old\n"), None);
    }

    #[test]
    fn a_process_that_is_gone_is_in_none() {
        assert!(bypassed_hooks(&Opener::default(), u32::MAX).is_empty());
    }
}
