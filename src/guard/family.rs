//! The processes of a server, and how it is asked to reload.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Processes that are counted, at most: a limit for a tree that grows faster than it is read.
const MOST: usize = 100_000;

/// Servers that reload by a signal to the process that looks after their workers, and lose no request by it.
const SIGNALS: &[(&str, Signal)] = &[
    // nginx(8): new workers by the configuration as it is, the old ones end when they have no connection left.
    ("nginx", Signal::HUP),
    // apachectl(8), graceful: children end after the request that they are at.
    ("apache2", Signal::USR1),
    ("httpd", Signal::USR1),
    // HAProxy, management guide, 4: the master starts anew, and hands its sockets over.
    ("haproxy", Signal::USR2),
];

/// A process and those below it, in the order of a search by breadth.
pub fn below(proc: &Path, roots: &[u32]) -> Vec<u32> {
    let mut found: Vec<u32> = roots.to_vec();
    let mut known: HashSet<u32> = roots.iter().copied().collect();
    let mut at = 0;
    while at < found.len() && found.len() < MOST {
        let children = children(proc, found[at]).into_iter();
        found.extend(children.filter(|child| known.insert(*child)));
        at += 1;
    }
    found
}

/// The children of all threads of a process.
pub fn children(proc: &Path, pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(proc.join(format!("{pid}/task")));
    let texts = tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let numbers = |text: String| -> Vec<u32> {
        let words = text.split_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    };
    texts.flat_map(numbers).collect()
}

/// What a process calls itself, without what it changed of its arguments.
fn name(proc: &Path, pid: u32) -> Option<String> {
    let text = fs::read_to_string(proc.join(format!("{pid}/comm"))).ok()?;
    Some(text.trim_end().to_owned())
}

/// How a server is reloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the signal of its kind.
    Signal,
    /// By a command of the user's, for a shell.
    Command(String),
}

/// What was done to reload a server.
#[derive(Debug)]
pub enum Asked {
    /// A signal was sent.
    Signalled {
        program: &'static str,
        pid: u32,
        signal: Signal,
    },
    /// A command was started; its end is to be waited for.
    Started(Child),
}

impl Way {
    /// Whether it is known how these processes of a server that runs are asked.
    pub fn check(&self, proc: &Path, pids: &[u32]) -> Result<()> {
        match self {
            Self::Signal => master(proc, pids).map(drop),
            Self::Command(_) => Ok(()),
        }
    }

    /// Asks the server of these processes to reload.
    pub fn ask(&self, proc: &Path, pids: &[u32]) -> Result<Asked> {
        match self {
            Self::Signal => {
                let (program, pid, signal) = master(proc, pids)?;
                let to = Pid::from_raw(pid.cast_signed()).context("no process")?;
                kill_process(to, signal)
                    .with_context(|| format!("cannot signal {program}, process {pid}"))?;
                Ok(Asked::Signalled {
                    program,
                    pid,
                    signal,
                })
            }
            Self::Command(line) => {
                let first = pids.first().map_or_else(String::new, ToString::to_string);
                let child = Command::new("sh")
                    .args(["-c", line])
                    .env("OUTBOARD_GUARD_PID", first)
                    .stdin(Stdio::null())
                    .spawn()
                    .context("cannot run sh")?;
                Ok(Asked::Started(child))
            }
        }
    }
}

/// The process that reloads a server by a signal, and the signal. It has workers of its own name: without
/// them the signal may end the server.
fn master(proc: &Path, pids: &[u32]) -> Result<(&'static str, u32, Signal)> {
    let mut alone = None;
    for pid in pids {
        let own = name(proc, *pid);
        let known = SIGNALS
            .iter()
            .find(|(known, _)| own.as_deref() == Some(*known));
        let Some((program, signal)) = known else {
            continue;
        };
        let mut workers = children(proc, *pid).into_iter();
        if workers.any(|worker| name(proc, worker).as_deref() == Some(*program)) {
            return Ok((program, *pid, *signal));
        }
        alone = Some(program);
    }
    match alone {
        Some(&"haproxy") => bail!(
            "haproxy reloads by a signal if it has a master: start it with -W, or give --reload-command"
        ),
        Some(program) => bail!("{program} has no workers that could be replaced"),
        None => {
            let known: Vec<&str> = SIGNALS.iter().map(|(known, _)| *known).collect();
            bail!(
                "how this server reloads is not known (it is for {}): give --reload-command",
                known.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A /proc of processes: number, name, children.
    fn made(name: &str, processes: &[(u32, &str, &str)]) -> std::path::PathBuf {
        let proc = std::env::temp_dir();
        let proc = proc.join(format!("outboard-family-{}-{name}", std::process::id()));
        for (pid, comm, children) in processes {
            let task = proc.join(format!("{pid}/task/{pid}"));
            fs::create_dir_all(&task).expect("a directory");
            fs::write(task.join("children"), children).expect("a file");
            fs::write(proc.join(format!("{pid}/comm")), format!("{comm}\n")).expect("a file");
        }
        proc
    }

    #[test]
    fn a_master_is_found_below_what_started_it() {
        let proc = made(
            "nginx",
            &[
                (10, "sh", "11 20 "),
                (11, "tee", ""),
                (20, "nginx", "21 22 "),
                (21, "nginx", ""),
                (22, "nginx", ""),
            ],
        );
        // A loop, which can be read where numbers are used again meanwhile.
        fs::create_dir_all(proc.join("22/task/23")).expect("a directory");
        fs::write(proc.join("22/task/23/children"), "10 24 ").expect("a file");
        let pids = below(&proc, &[10]);
        assert_eq!(pids, [10, 11, 20, 21, 22, 24]);
        let found = master(&proc, &pids).expect("it is found");
        assert_eq!(found, ("nginx", 20, Signal::HUP));
        fs::remove_dir_all(proc).expect("it was made");
    }

    #[test]
    fn who_has_no_workers_is_not_signalled() {
        let proc = made(
            "alone",
            &[(1, "haproxy", "2 "), (2, "sh", ""), (3, "nginx", "")],
        );
        let said = |pids: &[u32]| master(&proc, pids).expect_err("refused").to_string();
        assert!(said(&[1, 2]).contains("-W"));
        assert!(said(&[3]).contains("no workers"));
        assert!(said(&[2]).contains("--reload-command"));
        assert!(said(&[]).contains("--reload-command"));
        fs::remove_dir_all(proc).expect("it was made");
    }
}
