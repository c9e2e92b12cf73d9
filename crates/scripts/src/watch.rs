//! Whether the machine stood still: a host may stop a virtual machine for longer than a script
//! allows an event to be off its time. What a script finds then is no fault of the stack's.
//!
//! On each core a thread sleeps for a few milliseconds at a time and looks how much longer it took.
//! It comes before every ordinary task, so what it notices is not that others are busy.

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

/// How long the threads sleep.
const NAP: Duration = Duration::from_millis(4);
/// How late a thread is that was not just woken late by a tick.
const LATE: Duration = Duration::from_millis(8);

/// The threads that watch the cores. They stay as long as the process.
#[derive(Debug)]
pub struct Watch {
    cores: Vec<Arc<Mutex<Core>>>,
}

/// What the thread of a core has seen.
#[derive(Debug)]
struct Core {
    /// When it looked last.
    looked: Instant,
    /// When the core went on, and how long it had stood still. The latest last.
    stalls: Vec<(Instant, Duration)>,
}

impl Watch {
    /// Begins to watch every core that this process may use.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start() -> std::io::Result<Watch> {
        let usable = sched_getaffinity(None)?;
        let cores = (0..CpuSet::MAX_CPU).filter(|core| usable.is_set(*core));
        let cores = cores.map(watch).collect::<std::io::Result<_>>()?;
        Ok(Watch { cores })
    }

    /// The longest time that a core has stood still, of the times that ended after `since`. Waits a
    /// few milliseconds until every thread has looked.
    pub fn longest_stall(&self, since: Instant) -> Duration {
        let asked = Instant::now();
        let mut longest = Duration::ZERO;
        for core in &self.cores {
            let core = loop {
                let core = lock(core);
                if core.looked > asked {
                    break core;
                }
                drop(core);
                std::thread::sleep(NAP);
            };
            let recent = core.stalls.iter().rev().take_while(|(end, _)| *end > since);
            longest = recent.fold(longest, |longest, (_, span)| longest.max(*span));
        }
        longest
    }
}

fn lock(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    core.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread of a core.
fn watch(number: usize) -> std::io::Result<Arc<Mutex<Core>>> {
    let core = Arc::new(Mutex::new(Core {
        looked: Instant::now(),
        stalls: Vec::new(),
    }));
    let seen = core.clone();
    let look = move || {
        // Without the right to, it sees less.
        let mut only = CpuSet::new();
        only.set(number);
        let _ = sched_setaffinity(None, &only);
        come_first();
        loop {
            let slept = Instant::now();
            std::thread::sleep(NAP);
            let now = Instant::now();
            let late = now.duration_since(slept).saturating_sub(NAP);
            let mut core = lock(&seen);
            core.looked = now;
            if late >= LATE {
                core.stalls.push((now, late));
            }
        }
    };
    std::thread::Builder::new()
        .name(format!("watch {number}"))
        .spawn(look)?;
    Ok(core)
}

/// Lets this thread run before all ordinary ones, and those that it starts; if that is not allowed,
/// it waits for its turn like they do.
pub(crate) fn come_first() {
    let _ = rustix::process::setpriority_process(Some(gettid()), -20);
}
