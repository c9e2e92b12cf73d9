//! The clock of a run, and what the machine did while something was measured.

use crate::sampler::cores::{Cores, Times};
use crate::sampler::others::Processes;
use crate::world::own_namespaces;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The clock, and the state of the machine. Tests have one of their own.
pub trait Surroundings {
    /// The time since the run began.
    fn elapsed(&self) -> Duration;
    /// A measurement begins.
    fn begin(&mut self);
    /// It has ended: what the machine did meanwhile.
    fn end(&mut self) -> Conditions;
}

/// What the machine did during a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The part of all cores' time that the hypervisor gave to others, from 0 to 1.
    pub stolen: f64,
    /// The part of all cores' time that programs of low priority used, from 0 to 1: builds and the
    /// like, none of it ours.
    #[serde(default)]
    pub niced: f64,
    /// The part of all cores' time that programs used that are neither ours nor the kernel's, at any priority,
    /// from 0 to 1. Runs of earlier versions have none.
    #[serde(default)]
    pub others: f64,
    /// The longest time that a thread which wanted to run every [`BEAT`] did not, in seconds.
    pub stood_still: f64,
    /// How long it was, in seconds: the whole of it, with what starts and ends.
    #[serde(default)]
    pub passed: f64,
    /// What each core did in that time, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<(usize, Times)>,
}

/// The share of time that went to others from which on the machine was not ours.
const OTHERS: f64 = 0.05;
/// The time from which on the machine stood still, in seconds. Less than this the scheduler does by
/// itself on a core that is in use.
const STOOD_STILL: f64 = 0.25;

impl Conditions {
    /// Whether a measurement under them can be trusted.
    pub fn are_fair(&self) -> bool {
        self.went_to_others() <= OTHERS && self.stood_still <= STOOD_STILL
    }

    /// The part of all cores' time that others had, from 0 to 1.
    pub fn went_to_others(&self) -> f64 {
        // Programs of low priority are among the others, unless they came and went unseen.
        self.stolen + self.niced.max(self.others)
    }
}

/// How often the watch looks at the clock.
pub const BEAT: Duration = Duration::from_millis(10);

/// This machine.
#[derive(Debug)]
pub struct Here {
    started: Instant,
    before: Option<(Instant, Cores, Processes)>,
    watch: Watch,
}

impl Here {
    /// Begins to watch the machine.
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            before: None,
            watch: Watch::start(),
        }
    }
}

impl Default for Here {
    fn default() -> Self {
        Self::new()
    }
}

impl Surroundings for Here {
    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn begin(&mut self) {
        self.watch.worst();
        let processes = Processes::now(&own_namespaces());
        let cores = Cores::now().ok();
        self.before = cores.map(|cores| (Instant::now(), cores, processes));
    }

    fn end(&mut self) -> Conditions {
        let now = Cores::now().ok();
        let both = self.before.take().zip(now);
        let found = both.map(|((at, before, processes), now)| {
            let passed = at.elapsed();
            let others = Processes::now(&own_namespaces()).others_since(&processes);
            (passed, now.since(&before), others)
        });
        let (passed, cores, others) = found.unwrap_or_default();
        let all = cores.all;
        let part = |seconds: f64| seconds / all.total().max(1e-9);
        Conditions {
            stolen: part(all.steal),
            niced: part(all.nice),
            others: part(others.as_secs_f64()),
            stood_still: self.watch.worst().as_secs_f64(),
            passed: passed.as_secs_f64(),
            cores: cores.each,
        }
    }
}

/// A thread that wants to run every [`BEAT`], and notes the longest time that it did not.
#[derive(Debug)]
struct Watch {
    worst: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start() -> Self {
        let (worst, stop) = (Arc::default(), Arc::default());
        let thread = std::thread::Builder::new()
            .name("watch".into())
            .spawn({
                let (worst, stop): (Arc<AtomicU64>, Arc<AtomicBool>) =
                    (Arc::clone(&worst), Arc::clone(&stop));
                move || {
                    let mut last = Instant::now();
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::sleep(BEAT);
                        let now = Instant::now();
                        let late = now.duration_since(last).saturating_sub(BEAT);
                        let late = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
                        worst.fetch_max(late, Ordering::Relaxed);
                        last = now;
                    }
                }
            })
            // Without it a run is as good as its steal time says.
            .ok();
        Self {
            worst,
            stop,
            thread,
        }
    }

    /// The longest time since this was asked before.
    fn worst(&self) -> Duration {
        Duration::from_nanos(self.worst.swap(0, Ordering::Relaxed))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It cannot panic, and nothing depends on it.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BEAT, Conditions, Here, Surroundings};
    use crate::sampler::run_time;
    use rustix::process::{Pid, Signal, kill_process};
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn conditions_have_limits() {
        let conditions = |stolen, niced, stood_still| Conditions {
            stolen,
            niced,
            stood_still,
            ..Conditions::default()
        };
        assert!(conditions(0.0, 0.04, 0.02).are_fair());
        assert!(!conditions(0.2, 0.0, 0.0).are_fair());
        assert!(!conditions(0.0, 0.2, 0.0).are_fair());
        assert!(!conditions(0.0, 0.0, 0.9).are_fair());
    }

    #[test]
    fn a_build_at_the_usual_priority_makes_a_machine_not_ours() {
        let conditions = |niced, others| Conditions {
            niced,
            others,
            ..Conditions::default()
        };
        assert!(!conditions(0.0, 0.2).are_fair());
        // What is of low priority is in both.
        assert!(conditions(0.03, 0.03).are_fair());
        assert_eq!(conditions(0.3, 0.1).went_to_others(), 0.3);
    }

    /// A shell that counts, and whose parent is no more: it is nothing of this process's any longer.
    #[test]
    fn what_somebody_else_runs_beside_a_measurement_is_seen() {
        let used = Duration::from_millis(300);
        // It ends by itself, too.
        let line = "(ulimit -t 30; exec sh -c 'while :; do :; done') >/dev/null 2>&1 & echo $!";
        let said = Command::new("sh").args(["-c", line]).output().unwrap();
        let number = String::from_utf8(said.stdout).unwrap();
        let number: u32 = number.trim().parse().unwrap();
        let mut here = Here::new();
        here.begin();
        let (before, began) = (run_time(number).unwrap(), Instant::now());
        while run_time(number).unwrap() < before + used {
            assert!(began.elapsed() < Duration::from_secs(60), "no time");
            std::thread::sleep(BEAT);
        }
        let found = here.end();
        kill_process(Pid::from_raw(number.cast_signed()).unwrap(), Signal::KILL).unwrap();
        let of_all: f64 = found.cores.iter().map(|(_, times)| times.total()).sum();
        // Programs and cores are told of in steps of ten milliseconds.
        let steps = 0.1;
        let others = found.others * of_all;
        assert!(others >= used.as_secs_f64() - steps, "{found:?}");
    }
}
