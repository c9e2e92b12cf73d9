//! The account of a measurement: what every core did, what the programs that matter used, and what
//! the engine says of itself.

use super::cores::Cores;
use super::listeners::Refused;
use super::{family_time, own_time, run_time};
use crate::outboard::{Counter, Outboard};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What is watched.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Processes, by what they are called. Several may have one name.
    pub processes: Vec<(&'static str, u32)>,
    /// Processes that count with their children, by the same names: a server may have one for each client.
    pub families: Vec<(&'static str, u32)>,
    /// The engine, if there is one.
    pub engine: Option<Outboard>,
}

impl Watched {
    /// What the engine says of itself, if there is one. A program asks it: before an account begins, and
    /// when it is over.
    ///
    /// # Errors
    /// It does not answer.
    pub fn engine(&self) -> Result<Vec<Counter>> {
        let engine = self.engine.as_ref().map(Outboard::stats).transpose()?;
        Ok(engine.unwrap_or_default())
    }

    /// Does `work`, and says what was used meanwhile, besides what it returned: until it says that its window is over,
    /// as it may wait for stragglers after that, or until it is done.
    ///
    /// # Errors
    /// It fails, or a process is no more.
    pub fn during<T>(
        &self,
        work: impl FnOnce(&mut (dyn FnMut() + Send)) -> Result<T>,
    ) -> Result<(T, Spent)> {
        // The engine is asked by a program, which is no part of what is measured.
        let engine = self.engine()?;
        let before = Account::now(self)?.with(engine);
        let mut at_end = None;
        let done = work(&mut || at_end = Some(Account::now(self)))?;
        let after = at_end.unwrap_or_else(|| Account::now(self))?;
        Ok((done, after.with(self.engine()?).since(&before)))
    }
}

/// The state at a time, of cores and processes.
#[derive(Clone, Debug)]
pub struct Account {
    at: Instant,
    cores: Cores,
    processes: BTreeMap<&'static str, Duration>,
    own: Duration,
    refused: Refused,
    engine: Vec<Counter>,
}

/// What passed between two accounts.
#[derive(Clone, Debug)]
pub struct Spent {
    /// How long it was.
    pub passed: Duration,
    /// What the cores did.
    pub cores: Cores,
    /// What the processes used, by their names.
    pub processes: BTreeMap<&'static str, Duration>,
    /// What this process used, and its children that have ended.
    pub own: Duration,
    /// What listeners had no room for: in the network namespaces of these processes, and of the engine.
    pub refused: Refused,
    /// What the engine did, if there is one.
    pub engine: Option<Engine>,
}

/// What an engine says of itself, all its workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    /// Seconds in turns that found something to do.
    pub busy: f64,
    /// Seconds in looking for work.
    pub looking: f64,
    /// Seconds asleep.
    pub asleep: f64,
    /// Turns of its workers.
    pub turns: f64,
    /// Those that found nothing.
    pub empty_turns: f64,
    /// Times that it received some frames at once.
    pub batches: f64,
    /// Frames that it received.
    pub frames: f64,
    /// Connections that came to it.
    pub accepted: f64,
    /// Cycles a second, if they are known: its seconds are by the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<f64>,
    /// Whether these are of the time stamp counter, and not of its core as /proc/cpuinfo has that.
    #[serde(default)]
    pub of_tsc: bool,
}

impl Engine {
    /// Seconds of its workers.
    pub fn all(&self) -> f64 {
        self.busy + self.looking + self.asleep
    }

    /// Frames received at once, on average; 0 if there was none.
    pub fn batch(&self) -> f64 {
        part(self.frames, self.batches)
    }

    /// The part of turns that found nothing, from 0 to 1.
    pub fn empty(&self) -> f64 {
        part(self.empty_turns, self.turns)
    }

    /// Of the time that it was awake, the part in which there was something to do, from 0 to 1.
    pub fn useful(&self) -> f64 {
        part(self.busy, self.busy + self.looking)
    }

    /// Adds what it did another time.
    pub fn add(&mut self, more: &Self) {
        self.busy += more.busy;
        self.looking += more.looking;
        self.asleep += more.asleep;
        self.turns += more.turns;
        self.empty_turns += more.empty_turns;
        self.batches += more.batches;
        self.frames += more.frames;
        self.accepted += more.accepted;
        if more.clock.is_some() {
            (self.clock, self.of_tsc) = (more.clock, more.of_tsc);
        }
    }
}

fn part(of: f64, all: f64) -> f64 {
    if all > 0.0 { of / all } else { 0.0 }
}

impl Account {
    /// The state now.
    ///
    /// # Errors
    /// A process is no more.
    pub fn now(watched: &Watched) -> Result<Self> {
        let mut processes = BTreeMap::new();
        for &(name, pid) in &watched.processes {
            *processes.entry(name).or_default() += run_time(pid)?;
        }
        for &(name, pid) in &watched.families {
            *processes.entry(name).or_default() += family_time(pid)?;
        }
        let all = watched.processes.iter().chain(&watched.families);
        let refused = Refused::around(all.map(|(_, pid)| *pid));
        let cores = Cores::now()?;
        Ok(Self {
            at: Instant::now(),
            cores,
            processes,
            own: own_time()?,
            refused,
            engine: Vec::new(),
        })
    }

    /// The state of the machine alone.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of_machine() -> Result<Self> {
        Self::now(&Watched::default())
    }

    /// With what the engine says of itself.
    pub fn with(mut self, engine: Vec<Counter>) -> Self {
        self.engine = engine;
        self
    }

    /// What passed since `earlier`.
    pub fn since(&self, earlier: &Self) -> Spent {
        let processes = self.processes.iter().map(|(name, now)| {
            let then = earlier.processes.get(name).copied().unwrap_or_default();
            (*name, now.saturating_sub(then))
        });
        let [now, then] = [self, earlier].map(|account| Refused::by_engine(&account.engine));
        let by_engine = now.since(then);
        Spent {
            passed: self.at.saturating_duration_since(earlier.at),
            cores: self.cores.since(&earlier.cores),
            processes: processes.collect(),
            own: self.own.saturating_sub(earlier.own),
            refused: self.refused.since(earlier.refused).and(by_engine),
            engine: (!self.engine.is_empty()).then(|| engine(&self.engine, &earlier.engine)),
        }
    }
}

impl Spent {
    /// What a process, or all of a name, used; nothing, if there was none.
    pub fn of(&self, name: &str) -> Duration {
        self.processes.get(name).copied().unwrap_or_default()
    }

    /// What the whole machine used.
    pub fn machine(&self) -> Duration {
        Duration::from_secs_f64(self.cores.all.used(self.of_all_cores()))
    }

    /// Seconds of all cores together.
    fn of_all_cores(&self) -> f64 {
        self.passed.as_secs_f64() * self.cores.each.len() as f64
    }

    /// The part of all cores that was used, from 0 to 1.
    pub fn share_of_machine(&self) -> f64 {
        let all = self.of_all_cores();
        self.cores.all.used(all) / all.max(1e-9)
    }

    /// The part of a core that was used, from 0 to 1; `None` if there is no such core.
    pub fn share_of_core(&self, core: usize) -> Option<f64> {
        let passed = self.passed.as_secs_f64();
        let times = self.cores.core(core)?;
        (passed > 0.0).then(|| times.used(passed) / passed)
    }
}

fn engine(now: &[Counter], then: &[Counter]) -> Engine {
    let sum = |counters: &[Counter], name: &str, label: Option<&str>| -> f64 {
        let meant = counters.iter().filter(|counter| {
            counter.name == name
                && label.is_none_or(|label| counter.labels.iter().any(|known| known == label))
        });
        meant.map(|counter| counter.value).sum()
    };
    let since = |name: &str, label: Option<&str>| -> f64 {
        (sum(now, name, label) - sum(then, name, label)).max(0.0)
    };
    Engine {
        busy: since("worker_seconds", Some("busy")),
        looking: since("worker_seconds", Some("spin")),
        asleep: since("worker_seconds", Some("sleep")),
        turns: since("turns", None),
        empty_turns: since("empty_turns", None),
        batches: since("rx_batches", None),
        frames: since("rx_frames", None),
        accepted: since("tcp_passive_opens", None),
        clock: None,
        of_tsc: false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Account, Refused, Spent, Watched, engine};
    use crate::outboard::Counter;
    use crate::sampler::cores::{Cores, Times};
    use crate::sampler::thread_time;
    use anyhow::{Result, bail};
    use rustix::process::{Pid, Signal, kill_process_group};
    use std::collections::BTreeMap;
    use std::os::unix::process::CommandExt;
    use std::time::{Duration, Instant};

    fn counter(name: &str, label: &str, value: f64) -> Counter {
        Counter {
            name: name.into(),
            labels: vec![label.into()],
            value,
            spread: None,
        }
    }

    #[test]
    fn the_engine_is_told_by_differences() {
        let at = |scale: f64| {
            vec![
                counter("worker_seconds", "busy", 1.0 * scale),
                counter("worker_seconds", "spin", 2.0 * scale),
                counter("worker_seconds", "sleep", 3.0 * scale),
                counter("turns", "", 100.0 * scale),
                counter("tcp_passive_opens", "", 7.0 * scale),
                counter("empty_turns", "", 25.0 * scale),
                counter("rx_batches", "", 50.0 * scale),
                counter("rx_frames", "0", 150.0 * scale),
                counter("rx_frames", "1", 50.0 * scale),
            ]
        };
        let found = engine(&at(3.0), &at(1.0));
        assert_eq!((found.busy, found.looking, found.asleep), (2.0, 4.0, 6.0));
        assert_eq!((found.batch(), found.empty()), (4.0, 0.25));
        assert_eq!((found.all(), found.useful()), (12.0, 2.0 / 6.0));
        assert_eq!(found.accepted, 14.0);
        let idle = engine(&at(1.0), &at(1.0));
        assert_eq!((idle.batch(), idle.empty(), idle.useful()), (0.0, 0.0, 0.0));
        let mut both = found;
        both.add(&engine(&at(2.0), &at(1.0)));
        assert_eq!((both.busy, both.frames, both.turns), (3.0, 600.0, 300.0));
        assert_eq!((both.batch(), both.empty()), (4.0, 0.25));
    }

    /// The tick sees what it sees; what cores were idle is measured.
    #[test]
    fn what_was_used_is_what_was_not_idle() {
        let core = Times {
            idle: 0.5,
            io: 0.25,
            steal: 0.25,
            // Requests in step with the tick.
            softirq: 2.0,
            ..Times::default()
        };
        let spent = Spent {
            passed: Duration::from_secs(2),
            cores: Cores {
                all: Times { idle: 2.5, ..core },
                each: vec![
                    (0, core),
                    (
                        1,
                        Times {
                            idle: 2.0,
                            ..Times::default()
                        },
                    ),
                ],
            },
            processes: BTreeMap::default(),
            own: Duration::ZERO,
            refused: Refused::default(),
            engine: None,
        };
        assert_eq!(spent.machine(), Duration::from_secs(1));
        assert_eq!(spent.share_of_machine(), 0.25);
        assert_eq!(spent.share_of_core(0), Some(0.5));
        assert_eq!(spent.share_of_core(1), Some(0.0));
        assert_eq!(spent.share_of_core(2), None);
    }

    /// A shell that counts uses a core; what it used is what the kernel gives its parent to read.
    #[test]
    fn a_process_is_charged_what_it_used() {
        let count = "while :; do :; done";
        let mut child = std::process::Command::new("sh")
            .args(["-c", count])
            .spawn()
            .unwrap();
        let watched = Watched {
            processes: vec![("shell", child.id())],
            ..Watched::default()
        };
        let before = Account::now(&watched).unwrap();
        let began = Instant::now();
        let spent = loop {
            let spent = Account::now(&watched).unwrap().since(&before);
            if spent.of("shell") >= Duration::from_millis(100) {
                break spent;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{spent:?}");
        };
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(spent.of("shell") <= began.elapsed() + Duration::from_millis(20));
        assert_eq!(spent.of("nobody"), Duration::ZERO);
        assert!(spent.engine.is_none());
        assert!(Account::now(&watched).is_err(), "it is no more");
    }

    /// What comes after the window is in no account; and what this process does is told apart.
    #[test]
    fn an_account_ends_where_its_work_says_so() {
        let busy = |time: Duration| {
            let began = thread_time();
            while thread_time().saturating_sub(began) < time {}
        };
        let (nobody, began) = (Watched::default(), Instant::now());
        let work = |closed: &mut (dyn FnMut() + Send)| {
            busy(Duration::from_millis(60));
            closed();
            let window = began.elapsed();
            busy(Duration::from_millis(10));
            Ok(window)
        };
        let (window, spent) = nobody.during(work).unwrap();
        assert!(spent.passed <= window, "{spent:?}");
        // In steps of ten milliseconds, of programs and of the kernel.
        assert!(spent.own >= Duration::from_millis(30), "{spent:?}");
        assert!(spent.processes.is_empty() && spent.engine.is_none());
        let whole = |_: &mut (dyn FnMut() + Send)| {
            busy(Duration::from_millis(60));
            Ok(())
        };
        let ((), spent) = nobody.during(whole).unwrap();
        assert!(spent.passed >= Duration::from_millis(60), "{spent:?}");
        let failed: Result<((), Spent)> = nobody.during(|_| bail!("no window"));
        assert_eq!(failed.unwrap_err().to_string(), "no window");
    }

    /// As a database has a process for each of its clients: also one that comes while it is measured.
    #[test]
    fn a_family_is_charged_what_its_children_used() {
        let count = "(while :; do :; done) & wait";
        let mut child = std::process::Command::new("sh")
            .args(["-c", count])
            .process_group(0)
            .spawn()
            .unwrap();
        let watched = Watched {
            processes: vec![("parent", child.id())],
            families: vec![("family", child.id())],
            engine: None,
        };
        let before = Account::now(&watched).unwrap();
        let began = Instant::now();
        let spent = loop {
            let spent = Account::now(&watched).unwrap().since(&before);
            if spent.of("family") >= Duration::from_millis(200) {
                break spent;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{spent:?}");
        };
        let group = Pid::from_child(&child);
        kill_process_group(group, Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!(spent.of("parent") < spent.of("family") / 2, "{spent:?}");
    }
}
