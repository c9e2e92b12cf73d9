//! Where the engine's threads ran, as /proc tells it.

use std::collections::BTreeMap;
use std::path::Path;

/// The threads of a process, and what the cores of the machine have done, at a moment.
#[derive(Debug, Clone, Default)]
pub struct Threads {
    threads: BTreeMap<u32, Thread>,
    /// Of each core: ticks that it was busy, and all ticks.
    cores: BTreeMap<usize, [u64; 2]>,
}

#[derive(Debug, Clone)]
struct Thread {
    name: String,
    /// The core that it ran on last.
    core: usize,
    /// Nanoseconds that it had a core.
    ran: u64,
}

/// What a core did between two moments.
#[derive(Debug, Clone, PartialEq)]
pub struct Core {
    /// Its number.
    pub number: usize,
    /// The share of its time that the engine had. A thread that moved is counted where it was last.
    pub engine: f64,
    /// The engine's threads that were there last, by name.
    pub threads: String,
    /// The share of its time that anybody had; nothing if that is not known.
    pub all: Option<f64>,
}

impl Threads {
    /// Of a process on this machine; without threads if that is not told (another container's).
    pub fn read(pid: u32) -> Self {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        let threads = tasks.into_iter().flatten().flatten().filter_map(|task| {
            let number = task.file_name().to_str()?.parse().ok()?;
            Some((number, Thread::read(&task.path())?))
        });
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        Self {
            threads: threads.collect(),
            cores: stat.lines().filter_map(core_ticks).collect(),
        }
    }

    #[cfg(test)]
    pub fn of<const N: usize>(threads: [(u32, &str, usize, u64); N]) -> Self {
        let thread = |(number, name, core, ran): (u32, &str, usize, u64)| {
            let name = name.to_owned();
            (number, Thread { name, core, ran })
        };
        Self {
            threads: threads.map(thread).into(),
            cores: BTreeMap::new(),
        }
    }
}

impl Thread {
    fn read(task: &Path) -> Option<Self> {
        let stat = std::fs::read_to_string(task.join("stat")).ok()?;
        let schedstat = std::fs::read_to_string(task.join("schedstat")).ok()?;
        Self::parse(&stat, &schedstat)
    }

    /// From proc(5): the name stands in parentheses and may hold some, the core is field 39.
    fn parse(stat: &str, schedstat: &str) -> Option<Self> {
        let (before, after) = stat.rsplit_once(')')?;
        Some(Self {
            name: before.split_once('(')?.1.to_owned(),
            core: after.split_whitespace().nth(36)?.parse().ok()?,
            ran: schedstat.split_whitespace().next()?.parse().ok()?,
        })
    }
}

/// A line of /proc/stat such as `cpu0 user nice system idle iowait …`.
fn core_ticks(line: &str) -> Option<(usize, [u64; 2])> {
    let mut words = line.split_whitespace();
    let number = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    // Guests' time is in that of users.
    let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((number, [all.saturating_sub(idle), all]))
}

impl Core {
    /// Of the cores that a thread of the engine was on last.
    pub fn between(before: &Threads, after: &Threads, seconds: f64) -> Vec<Core> {
        let mut cores: BTreeMap<usize, Core> = BTreeMap::new();
        for (number, thread) in &after.threads {
            let was = before.threads.get(number).map_or(0, |was| was.ran);
            let core = cores.entry(thread.core).or_insert_with(|| Core {
                number: thread.core,
                engine: 0.0,
                threads: String::new(),
                all: busy(before, after, thread.core),
            });
            core.engine += thread.ran.saturating_sub(was) as f64 / 1e9 / seconds;
            if !core.threads.is_empty() {
                core.threads.push_str(", ");
            }
            core.threads.push_str(&thread.name);
        }
        cores.into_values().collect()
    }
}

fn busy(before: &Threads, after: &Threads, core: usize) -> Option<f64> {
    let [busy, all] = after.cores.get(&core)?;
    let [busy_before, all_before] = before.cores.get(&core)?;
    let all = all.checked_sub(*all_before).filter(|all| *all > 0)?;
    Some(busy.checked_sub(*busy_before)? as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 \
                    26 27 28 29 30 31 32 33 34 35 3 99 98";
        let thread = Thread::parse(stat, "1500 20 3\n").unwrap();
        assert_eq!(
            (thread.name.as_str(), thread.core, thread.ran),
            ("a) b", 3, 1500)
        );
        assert!(Thread::parse("", "").is_none());
        assert_eq!(core_ticks("cpu 1 1 1 1 1"), None);
        assert_eq!(core_ticks("cpu12 1 2 3 4 5 6 7 8 9"), Some((12, [27, 36])));
        let own = Threads::read(std::process::id());
        assert!(!own.threads.is_empty() && !own.cores.is_empty());
    }

    #[test]
    fn the_engine_is_one_of_those_who_have_a_core() {
        let with = |busy, all, ran| Threads {
            cores: [(1, [busy, all])].into(),
            ..Threads::of([(11, "worker", 1, ran), (12, "slow", 1, 0)])
        };
        let cores = Core::between(&with(10, 100, 0), &with(85, 200, 1_000_000_000), 2.0);
        let expected = Core {
            number: 1,
            engine: 0.5,
            threads: "worker, slow".into(),
            all: Some(0.75),
        };
        assert_eq!(cores, [expected]);
    }
}
