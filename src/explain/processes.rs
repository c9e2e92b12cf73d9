//! The processes of this machine, as far as /proc tells.

use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// The interposer's file, as it stands in a process's list of mappings.
const LIBRARY: &str = "liboutboard_preload.so";
/// What `outboard run` puts into the environment.
const VARIABLE: &[u8] = b"OUTBOARD_SOCKET=";

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    /// What it calls itself.
    pub name: String,
}

/// All of them.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes: Vec<Process> = entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            read(pid, &fs::read_to_string(entry.path().join("stat")).ok()?)
        })
        .collect();
    processes.sort_by_key(|process| process.pid);
    processes
}

/// A process from the text of its `stat` file: the name stands in parentheses, and may have any in it.
fn read(pid: u32, stat: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let parent = after.split_whitespace().nth(1)?.parse().ok()?;
    Some(Process {
        pid,
        parent,
        name: name.to_owned(),
    })
}

/// The processes that run a program of this name and whose parents do not.
pub fn named(processes: &[Process], name: &str) -> Vec<u32> {
    let own = std::process::id();
    let matching: Vec<&Process> = processes
        .iter()
        .filter(|process| process.pid != own)
        .filter(|process| process.name == name || program(process.pid).is_some_and(|it| it == name))
        .collect();
    let roots = matching
        .iter()
        .filter(|one| !matching.iter().any(|other| other.pid == one.parent));
    roots.map(|process| process.pid).collect()
}

/// These processes, each followed by its children and theirs.
pub fn families(processes: &[Process], roots: &[u32]) -> Vec<Process> {
    let mut left: Vec<u32> = roots.iter().rev().copied().collect();
    let mut found: Vec<Process> = Vec::new();
    while let Some(pid) = left.pop() {
        let known = found.iter().any(|process| process.pid == pid);
        let process = processes.iter().find(|process| process.pid == pid);
        if let (false, Some(process)) = (known, process) {
            found.push(process.clone());
            let children = processes.iter().rev().filter(|child| child.parent == pid);
            left.extend(children.map(|child| child.pid));
        }
    }
    found
}

/// The file that a process runs.
pub fn executable(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join("exe")
}

fn program(pid: u32) -> Option<String> {
    let target = fs::read_link(executable(pid)).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}

/// Whether the interposer is in a process.
pub fn is_interposed(pid: u32) -> bool {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.windows(LIBRARY.len())
        .any(|window| window == LIBRARY.as_bytes())
}

/// Whether a process was started with the environment of `outboard run`.
pub fn was_meant_for_an_engine(pid: u32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| variable.starts_with(VARIABLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, name: &str) -> Process {
        Process {
            pid,
            parent,
            name: name.into(),
        }
    }

    #[test]
    fn a_name_may_have_anything_in_it() {
        let stat = "7 (a (b) c) S 3 7 7 0";
        assert_eq!(read(7, stat), Some(process(7, 3, "a (b) c")));
        assert_eq!(read(7, "7 cut off"), None);
    }

    #[test]
    fn children_follow_their_parents_and_roots_are_the_eldest() {
        // No process of this machine has these numbers.
        let base = 1 << 30;
        let processes = [
            process(base, 1, "master"),
            process(base + 1, base, "master"),
            process(base + 2, 1, "other"),
            process(base + 3, base + 1, "helper"),
            process(base + 4, base, "master"),
        ];
        assert_eq!(named(&processes, "master"), [base]);
        let family = families(&processes, &[base]);
        let pids: Vec<u32> = family.iter().map(|process| process.pid - base).collect();
        assert_eq!(pids, [0, 1, 3, 4]);
    }
}
