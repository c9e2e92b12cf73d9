//! The process that serves now: a program may put another one in its place.

use super::exchange::LIMIT;
use super::place::Place;
use crate::process::{ENDING, Process};
use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::time::{Duration, Instant};

/// How a program takes a new configuration, or a new version of itself, while it serves.
#[derive(Clone, Copy, Debug)]
pub enum Reload {
    /// By a signal.
    Signal(Signal),
    /// As nginx does, if it is a daemon: by USR2 the program is started once more, and writes its number into
    /// this file; QUIT then lets the first one serve its clients and end.
    Upgrade(&'static str),
}

/// A program that serves.
pub struct Serving {
    /// As it was started.
    process: Process,
    /// The one that serves now, if it is another.
    successor: Option<u32>,
}

impl Serving {
    /// As it was started.
    pub fn new(process: Process) -> Self {
        Self {
            process,
            successor: None,
        }
    }

    /// A daemon: the one that was started has ended, and another serves, whose number is in this file.
    ///
    /// # Errors
    /// The one that was started does not end, or fails.
    pub fn daemon(mut process: Process, file: &Path) -> Result<Self> {
        let status = process.wait(LIMIT)?;
        ensure!(
            status.success(),
            "it ended ({status}): {}",
            process.printed()
        );
        ensure!(
            within(LIMIT, || written(file).is_some()),
            "no {} within {LIMIT:?}",
            file.display()
        );
        Ok(Self {
            process,
            successor: written(file),
        })
    }

    /// The process that serves.
    pub fn id(&self) -> u32 {
        self.successor.unwrap_or(self.process.id())
    }

    /// Reloads it.
    ///
    /// # Errors
    /// It has ended, or a successor does not come, or the one before it does not go.
    pub fn reload(&mut self, reload: Reload, place: &Place) -> Result<()> {
        match reload {
            Reload::Signal(signal) => self.signal(signal),
            Reload::Upgrade(file) => {
                let file = place.directory.join(file);
                let before = self.id();
                self.signal(Signal::USR2)?;
                let is_there = || written(&file).is_some_and(|now| now != before);
                ensure!(within(LIMIT, is_there), "no successor within {LIMIT:?}");
                // Its workers are being started.
                std::thread::sleep(Duration::from_millis(300));
                self.signal(Signal::QUIT)?;
                ensure!(
                    within(LIMIT, || Self::has_ended(before)),
                    "the one before does not go within {LIMIT:?}"
                );
                self.successor = written(&file);
                Ok(())
            }
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// It does not end.
    pub fn stop(&mut self) -> Result<()> {
        let Some(id) = self.successor else {
            return self.process.end(LIMIT).map(drop);
        };
        self.signal(Signal::TERM)?;
        ensure!(
            within(LIMIT, || Self::has_ended(id)),
            "it did not end within {LIMIT:?}"
        );
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = Pid::from_raw(self.id().cast_signed()).context("no process id")?;
        kill_process(id, signal).context("it has ended")
    }

    /// Whether a process is no more that is no child of ours.
    fn has_ended(id: u32) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{id}/stat"));
        state.map_or(true, |state| state.contains(") Z "))
    }
}

impl Drop for Serving {
    /// A successor is no child of ours: it is ended as what we have started is.
    fn drop(&mut self) {
        let Some(id) = self.successor.filter(|id| !Self::has_ended(*id)) else {
            return;
        };
        let is_asked = self.signal(Signal::TERM).is_ok();
        if !is_asked || !within(ENDING, || Self::has_ended(id)) {
            let _ = self.signal(Signal::KILL);
        }
    }
}

/// The number of a process, in its file.
fn written(file: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(file).ok()?;
    text.trim().parse().ok()
}

/// Waits until it is so; whether it came to be.
fn within(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
