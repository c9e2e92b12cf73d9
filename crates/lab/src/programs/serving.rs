//! The process that serves now: a program may put another one in its place.

use super::exchange::LIMIT;
use super::place::Place;
use super::successor::Successor;
use crate::process::{ENDING, Process};
use anyhow::{Result, bail, ensure};
use rustix::process::Signal;
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
    /// Those that were put in its place and are not known to have ended: the last one serves.
    successors: Vec<Successor>,
}

impl Serving {
    /// As it was started.
    pub fn new(process: Process) -> Self {
        Self {
            process,
            successors: Vec::new(),
        }
    }

    /// A daemon: the one that was started has ended, and another serves, whose number is in this file of its place.
    ///
    /// # Errors
    /// The one that was started does not end, or fails.
    pub fn daemon(mut process: Process, place: &Place, file: &str) -> Result<Self> {
        let status = process.wait(LIMIT)?;
        ensure!(
            status.success(),
            "it ended ({status}): {}",
            process.printed()
        );
        let mut serving = Self::new(process);
        serving.follow(place, file)?;
        Ok(serving)
    }

    /// Waits for another one to have written its number.
    fn follow(&mut self, place: &Place, file: &str) -> Result<()> {
        let path = place.directory.join(file);
        let (before, mut found) = (self.id(), None);
        let is_there = || {
            let written = Successor::in_file(&path, &place.program);
            found = written.filter(|successor| successor.id() != before);
            found.is_some()
        };
        ensure!(
            within(LIMIT, is_there),
            "no successor in {} within {LIMIT:?}",
            path.display()
        );
        self.successors.extend(found);
        Ok(())
    }

    /// The process that serves.
    pub fn id(&self) -> u32 {
        let last = self.successors.last();
        last.map_or(self.process.id(), Successor::id)
    }

    /// Reloads it.
    ///
    /// # Errors
    /// It has ended, or a successor does not come, or the one before it does not go.
    pub fn reload(&mut self, reload: Reload, place: &Place) -> Result<()> {
        match reload {
            Reload::Signal(signal) => self.signal(signal),
            Reload::Upgrade(file) => {
                self.signal(Signal::USR2)?;
                self.follow(place, file)?;
                // Its workers are being started.
                std::thread::sleep(Duration::from_millis(300));
                let [.., before, _] = &self.successors[..] else {
                    bail!("only a daemon puts another in its place");
                };
                before.signal(Signal::QUIT)?;
                ensure!(
                    within(LIMIT, || before.has_ended()),
                    "the one before does not go within {LIMIT:?}"
                );
                self.successors.retain(|successor| !successor.has_ended());
                Ok(())
            }
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// It does not end.
    pub fn stop(&mut self) -> Result<()> {
        let Some(successor) = self.successors.last() else {
            return self.process.end(LIMIT).map(drop);
        };
        successor.signal(Signal::TERM)?;
        ensure!(
            within(LIMIT, || successor.has_ended()),
            "it did not end within {LIMIT:?}"
        );
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        match self.successors.last() {
            None => self.process.signal(signal),
            Some(successor) => successor.signal(signal),
        }
    }
}

impl Drop for Serving {
    /// Successors are no children of ours: they are ended as what we have started is.
    fn drop(&mut self) {
        for successor in &self.successors {
            // Whoever has ended by now cannot be asked.
            let is_asked = successor.signal(Signal::TERM).is_ok();
            if is_asked && !within(ENDING, || successor.has_ended()) {
                let _ = successor.signal(Signal::KILL);
            }
        }
    }
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
