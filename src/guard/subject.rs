//! The server that is guarded: one that is started here, one that runs already, or a service of the system.

use super::family;
use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, set_child_subreaper, wait,
};
use std::cell::Cell;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

/// What shells call the end by a signal: the signal's number and this.
const ENDED_BY_SIGNAL: u8 = 128;

/// A server.
#[derive(Debug)]
pub enum Subject {
    /// Started here: it, and all that descends from it.
    Started {
        /// Its process, while that runs.
        first: Option<u32>,
        /// Of the first process that failed.
        status: u8,
    },
    /// A process that runs already; the descriptor tells its end, whoever has its number afterwards.
    Running { pid: u32, ends: OwnedFd },
    /// A unit of systemd's, and its main process as it was known last.
    Unit {
        name: String,
        main: Cell<Option<u32>>,
    },
}

impl Subject {
    /// Starts a program, which stays when the guard is gone.
    pub fn start(command: &[OsString]) -> Result<Self> {
        let (name, arguments) = command.split_first().context("no program was given")?;
        // What puts itself behind stays ours to count, and to wait for.
        set_child_subreaper(Some(rustix::process::getpid())).context("cannot adopt processes")?;
        let child = Command::new(name)
            .args(arguments)
            .spawn()
            .with_context(|| format!("cannot run {}", name.to_string_lossy()))?;
        Ok(Self::Started {
            first: Some(child.id()),
            status: 0,
        })
    }

    /// A process that runs already.
    pub fn running(pid: u32) -> Result<Self> {
        let known = Pid::from_raw(pid.cast_signed()).context("no process has that number")?;
        let ends = pidfd_open(known, PidfdFlags::empty())
            .with_context(|| format!("there is no process {pid} (pgrep -o NAME finds one)"))?;
        Ok(Self::Running { pid, ends })
    }

    /// A unit of systemd's, running or not.
    pub fn unit(name: &str) -> Self {
        let (name, main) = (name.to_owned(), Cell::new(None));
        Self::Unit { name, main }
    }

    /// Its processes now, the one that stands for it first; none if it does not run. `besides` is one of ours
    /// that is not the server's.
    pub fn processes(&self, proc: &Path, besides: Option<u32>) -> Vec<u32> {
        let mut roots = match self {
            Self::Started { .. } => family::children(proc, std::process::id()),
            Self::Running { pid, .. } => vec![*pid],
            Self::Unit { name, main } => {
                // Asking systemd is dear.
                if !main.get().is_some_and(|pid| is_there(proc, pid)) {
                    main.set(main_of(name));
                }
                main.get().into_iter().collect()
            }
        };
        roots.retain(|pid| Some(*pid) != besides && is_there(proc, *pid));
        family::below(proc, &roots)
    }

    /// Passes a signal on, if the server was started here; whether it was.
    pub fn pass(&self, proc: &Path, signal: Signal) -> bool {
        let Self::Started { first, .. } = self else {
            return false;
        };
        let to = match first {
            Some(pid) => vec![*pid],
            None => family::children(proc, std::process::id()),
        };
        for pid in to
            .into_iter()
            .filter_map(|pid| Pid::from_raw(pid.cast_signed()))
        {
            // It may have ended just now.
            let _ = kill_process(pid, signal);
        }
        true
    }

    /// Takes note of children that have ended; of `besides`, which is not the server's, `ended` is told with its
    /// status. `Some` with the guard's own status when the server is gone for good.
    pub fn reap(&mut self, besides: Option<u32>, mut ended: impl FnMut(u8)) -> Option<ExitCode> {
        let none_left = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, how))) => {
                    let signal = how
                        .terminating_signal()
                        .map(|number| ENDED_BY_SIGNAL + number as u8);
                    let code = how.exit_status().map(|code| code as u8);
                    let (pid, code) = (
                        pid.as_raw_nonzero().get() as u32,
                        code.or(signal).unwrap_or(0),
                    );
                    if Some(pid) == besides {
                        ended(code);
                    } else {
                        self.note(pid, code);
                    }
                }
                Ok(None) => break false,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break true,
            }
        };
        match self {
            Self::Started { status, .. } => none_left.then(|| ExitCode::from(*status)),
            Self::Running { ends, .. } => has_ended(ends).then_some(ExitCode::SUCCESS),
            // It may be started again.
            Self::Unit { .. } => None,
        }
    }

    fn note(&mut self, pid: u32, code: u8) {
        if let Self::Started { first, status } = self {
            if *first == Some(pid) {
                *first = None;
            }
            if *status == 0 {
                *status = code;
            }
        }
    }
}

fn is_there(proc: &Path, pid: u32) -> bool {
    proc.join(pid.to_string()).exists()
}

/// Whether the process of a descriptor has ended.
fn has_ended(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    matches!(poll(&mut polled, Some(&Timespec::default())), Ok(1..))
}

/// The main process of a unit, if it runs.
fn main_of(unit: &str) -> Option<u32> {
    let output = Command::new("systemctl")
        .args(["show", "--property=MainPID", "--value", "--", unit])
        .output();
    let pid = String::from_utf8(output.ok()?.stdout)
        .ok()?
        .trim()
        .parse()
        .ok()?;
    // systemd's word for none.
    (pid != 0).then_some(pid)
}

/// The command that reloads a unit.
///
/// # Errors
/// Its name is not one.
pub fn reload_of(unit: &str) -> Result<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "@:-_.".contains(c);
    if unit.is_empty() || unit.starts_with('-') || !unit.chars().all(fits) {
        bail!("{unit:?} is no name of a service, such as nginx");
    }
    Ok(format!("systemctl reload -- {unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_units_get_into_a_command() {
        assert_eq!(
            reload_of("nginx@1").expect("a name"),
            "systemctl reload -- nginx@1"
        );
        for wrong in ["", "-x", "a b", "a;b", "$(a)"] {
            assert!(reload_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_first_that_fails_gives_the_status() {
        let (first, status) = (Some(7), 0);
        let mut subject = Subject::Started { first, status };
        let seen = |subject: &Subject| match subject {
            Subject::Started { first, status } => (*first, *status),
            _ => (None, 0),
        };
        subject.note(8, 0);
        assert_eq!(seen(&subject), (Some(7), 0));
        subject.note(7, 3);
        subject.note(9, 5);
        assert_eq!(seen(&subject), (None, 3));
    }
}
