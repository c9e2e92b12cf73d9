//! A program that gets a part of the time only, as if its core were slower: it is stopped and goes on in turn,
//! within a millisecond.

use anyhow::{Context, Result};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A turn: the program runs in a part of it.
const TURN: Duration = Duration::from_millis(1);

/// A program that is slowed until this is dropped.
pub struct Slowed {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Slowed {
    /// Leaves the process a part of the time, from 0 to 1. A thread of ours, on no core in particular, is woken twice
    /// a millisecond for it.
    ///
    /// # Errors
    /// There is no such process, or it is not ours to stop.
    pub fn to(process: u32, part: f64) -> Result<Self> {
        let pid = Pid::from_raw(process.cast_signed()).context("no process id")?;
        // By a descriptor: whoever has its number after it is not to be stopped.
        let program = pidfd_open(pid, PidfdFlags::empty()).context("no such process")?;
        pidfd_send_signal(&program, Signal::CONT).context("cannot signal the process")?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let thread = std::thread::spawn(move || turns(&program, part.clamp(0.0, 1.0), &seen));
        Ok(Self {
            over,
            thread: Some(thread),
        })
    }
}

impl Drop for Slowed {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Stops it and lets it go on, by what it has had: who wakes late does not take from it.
fn turns(program: &OwnedFd, part: f64, over: &AtomicBool) {
    let began = Instant::now();
    let mut had = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let runs = Instant::now();
        if pidfd_send_signal(program, Signal::CONT).is_err() {
            return;
        }
        std::thread::sleep(TURN.mul_f64(part));
        had += runs.elapsed();
        if pidfd_send_signal(program, Signal::STOP).is_err() {
            return;
        }
        // It has had its part of all the time until then.
        let until = had.div_f64(part.max(0.01));
        std::thread::sleep(until.saturating_sub(began.elapsed()));
    }
    // It may have ended meanwhile.
    let _ = pidfd_send_signal(program, Signal::CONT);
}

#[cfg(test)]
mod tests {
    use super::Slowed;
    use crate::sampler::run_time;
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// Of a program that counts: it gets no more than its part, and goes on afterwards.
    #[test]
    fn a_program_gets_its_part_of_the_time() {
        let counts = ["-c", "while :; do :; done"];
        let mut child = Command::new("sh").args(counts).spawn().unwrap();
        let slowed = Slowed::to(child.id(), 0.25).unwrap();
        let (began, before) = (Instant::now(), run_time(child.id()).unwrap());
        std::thread::sleep(Duration::from_secs(1));
        let used = run_time(child.id()).unwrap() - before;
        let part = used.as_secs_f64() / began.elapsed().as_secs_f64();
        assert!(part > 0.0 && part < 0.32, "{part}");
        drop(slowed);
        let before = run_time(child.id()).unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        while run_time(child.id()).unwrap() - before < Duration::from_millis(200) {
            assert!(Instant::now() < limit, "it stands still");
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Slowed::to(child.id(), 0.5).is_err());
    }
}
