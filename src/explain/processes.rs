//! The processes of this machine, as far as /proc tells.

use crate::run::library::NAME;
use enterable::made::is_of_this_build;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::{fs, io};

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

/// Where the interposer is in a process's list of mappings (proc_pid_maps(5)).
#[derive(Debug, PartialEq, Eq)]
pub struct Mapped {
    /// From where to where, as it stands there.
    range: String,
    /// Its file, as the process sees it.
    path: String,
}

/// Where it is, if it is in this process.
pub fn interposer(pid: u32) -> Option<Mapped> {
    let maps = fs::read(format!("/proc/{pid}/maps")).ok()?;
    mapped(&String::from_utf8_lossy(&maps))
}

fn mapped(maps: &str) -> Option<Mapped> {
    let line = maps.lines().find(|line| line.contains(NAME))?;
    Some(Mapped {
        range: line.split(' ').next()?.to_owned(),
        path: line[line.find('/')?..].to_owned(),
    })
}

impl Mapped {
    /// Whether it is of another build than this program, as far as that can be told.
    pub fn is_of_another_build(&self, pid: u32) -> bool {
        let is_ours = self.file(pid).and_then(|file| is_of_this_build(&file));
        is_ours.is_ok_and(|is_ours| !is_ours)
    }

    /// A path to the file that is mapped, which may have been replaced since: there may be another of its name.
    fn file(&self, pid: u32) -> io::Result<PathBuf> {
        let process = Path::new("/proc").join(pid.to_string());
        let itself = process.join("map_files").join(&self.range);
        // Only root looks there.
        if fs::File::open(&itself).is_ok() {
            return Ok(itself);
        }
        match self.path.ends_with(" (deleted)") {
            true => Err(io::ErrorKind::NotFound.into()),
            false => Ok(process.join("root").join(self.path.trim_start_matches('/'))),
        }
    }
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
    fn the_interposer_is_found_among_mappings() {
        let maps = "55d0-55d1 r--p 0 fe:01 7 /usr/sbin/nginx\n\
            7f00a000-7f00b000 r--p 00000000 fe:01 9     /opt/my lib/liboutboard_preload.so (deleted)\n\
            7f00b000-7f00c000 r-xp 00001000 fe:01 9     /opt/my lib/liboutboard_preload.so (deleted)\n";
        let found = mapped(maps).expect("it is there");
        assert_eq!(found.range, "7f00a000-7f00b000");
        assert_eq!(found.path, "/opt/my lib/liboutboard_preload.so (deleted)");
        // No process has this number.
        assert!(found.file(1 << 30).is_err(), "what is gone is not told of");
        let gone = "7f00a000-7f00b000 r--p 00000000 fe:01 9 /usr/lib/liboutboard_preload.so\n";
        let file = mapped(gone).expect("it is there").file(1 << 30);
        let expected = format!("/proc/{}/root/usr/lib/{NAME}", 1 << 30);
        assert_eq!(file.expect("its path"), Path::new(&expected));
        assert_eq!(mapped("55d0-55d1 r--p 0 fe:01 7 /usr/sbin/nginx\n"), None);
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
