//! A process that a program has put in its own place: no child of ours, and known by a number in a file.

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::path::Path;

/// Such a process, held by a descriptor: numbers come again soon, and whoever has got this one's when it is gone is
/// not meant.
pub struct Successor {
    id: u32,
    process: OwnedFd,
}

impl Successor {
    /// The one whose number is in this file, if it is there and runs `program`: a file may be old, and its number
    /// somebody else's.
    pub fn in_file(file: &Path, program: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(file).ok()?;
        let id: u32 = text.trim().parse().ok()?;
        let pid = Pid::from_raw(id.cast_signed())?;
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let successor = Self { id, process };
        let runs = std::fs::read_link(format!("/proc/{id}/exe")).ok()?;
        // If it is there now, the number was its own while it was looked at.
        let is_it = runs == program.canonicalize().ok()? && !successor.has_ended();
        is_it.then_some(successor)
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// It has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        pidfd_send_signal(&self.process, signal).context("it has ended")
    }

    /// Whether it has.
    pub fn has_ended(&self) -> bool {
        let mut looked_at = [PollFd::new(&self.process, PollFlags::IN)];
        // What cannot be asked is taken to be there: who waits has a limit.
        poll(&mut looked_at, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::Successor;
    use crate::process::Program;
    use crate::tool;
    use rustix::process::Signal;
    use std::time::Duration;

    #[test]
    fn a_number_in_a_file_is_believed_of_the_program_only_and_as_long_as_that_is_there() {
        let [sleep, other] = ["sleep", "sh"].map(|name| tool::find(name).unwrap());
        let mut process = Program::new(&sleep).arg("120").start().unwrap();
        let file = std::env::temp_dir().join(format!("lab-successor-{}", std::process::id()));
        std::fs::write(&file, format!("{}\n", process.id())).unwrap();
        // It is something else for a moment yet.
        let mut found = None;
        let limit = Duration::from_secs(60);
        process
            .wait_until(limit, || {
                found = Successor::in_file(&file, &sleep);
                found.is_some()
            })
            .unwrap();
        let found = found.unwrap();
        assert_eq!(found.id(), process.id());
        assert!(Successor::in_file(&file, &other).is_none());
        assert!(!found.has_ended());
        found.signal(Signal::TERM).unwrap();
        process.wait(limit).unwrap();
        assert!(found.has_ended());
        assert!(Successor::in_file(&file, &sleep).is_none());
        // The number is free from here on, and whoever gets it does not get this.
        drop(process);
        assert!(found.signal(Signal::TERM).is_err());
        std::fs::remove_file(&file).unwrap();
        assert!(Successor::in_file(&file, &sleep).is_none());
    }
}
