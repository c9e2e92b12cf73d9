//! What things cost: CPU time of processes and of the whole machine.

pub mod account;
pub mod cores;
pub mod perf;

use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};

/// The kernel's unit in `/proc/stat`, in milliseconds: USER_HZ is 100 on every architecture that we
/// run on.
const TICK_MS: u64 = 10;

const fn time(ticks: u64) -> Duration {
    Duration::from_millis(TICK_MS.saturating_mul(ticks))
}

/// The time that the threads of process `pid` have been running, in all, to the nanosecond
/// (`/proc/PID/task/*/schedstat`). Threads that have ended are not in it.
pub fn run_time(pid: u32) -> Result<Duration> {
    let directory = format!("/proc/{pid}/task");
    let mut nanoseconds = 0;
    for task in std::fs::read_dir(&directory).with_context(|| format!("no process {pid}"))? {
        // A thread can end between the listing and the look.
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        nanoseconds += text
            .split_whitespace()
            .next()
            .and_then(|field| field.parse::<u64>().ok())
            .unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// How often threads of process `pid` were switched away from, by their own will or not
/// (`/proc/PID/task/*/status`). Threads that have ended are not in it.
pub fn switches(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let of_task = |task: std::fs::DirEntry| -> u64 {
        let text = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        text.lines()
            .filter(|line| line.contains("ctxt_switches:"))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
            .sum()
    };
    tasks.into_iter().flatten().flatten().map(of_task).sum()
}

/// The CPU time of this process so far, and of its children that have ended, in steps of ten
/// milliseconds (`/proc/self/stat`).
pub fn own_time() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    // The second field is a name in parentheses, which may have blanks in it.
    let fields = text.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(4);
    let ticks = ticks.map(str::parse::<u64>).collect::<Result<Vec<_>, _>>();
    let ticks = ticks.context("/proc/self/stat is not what it was")?;
    Ok(time(ticks.iter().sum()))
}

/// The children of process `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// Memory of process `pid` that is in RAM and its own (not shared), in bytes: `VmRSS` less file
/// and shared pages.
pub fn private_memory(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    bytes_of(&text, "RssAnon").context("no RssAnon in /proc/PID/status")
}

/// Memory that programs of this machine can have before something else has to give way, in bytes
/// (`MemAvailable` in `/proc/meminfo`).
pub fn available_memory() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    bytes_of(&text, "MemAvailable").context("no MemAvailable in /proc/meminfo")
}

/// What a line of a file in `/proc` says in kilobytes, in bytes.
fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kilobytes: u64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// The number of descriptors that process `pid` has open.
pub fn descriptors(pid: u32) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))
        .with_context(|| format!("no process {pid}"))?
        .count())
}

/// CPU time of the machine since it started, all cores together, by what it was spent on.
///
/// User, system and softirq are sampled by the kernel at each tick (4 ms here), so they need long
/// windows; idle time is measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine {
    /// In programs.
    pub user: Duration,
    /// In the kernel, for programs.
    pub system: Duration,
    /// In interrupts that the kernel deferred: mostly the network.
    pub softirq: Duration,
    /// Nothing to do.
    pub idle: Duration,
    /// Taken by the hypervisor for others.
    pub stolen: Duration,
    at: Option<Instant>,
    cores: u32,
}

impl Machine {
    /// The state now.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read, or is not what it was.
    pub fn now() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Self::read(&text)
    }

    fn read(text: &str) -> Result<Self> {
        let cores = text
            .lines()
            .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
            .count();
        let all = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("cpu "));
        // All cores of a large server idle for more than 2^32 ticks within months.
        let ticks = all
            .context("/proc/stat does not begin with all cores")?
            .split_whitespace()
            .map(|word| {
                let ticks = word.parse::<u64>();
                ticks.with_context(|| format!("/proc/stat: {word} is no number"))
            })
            .collect::<Result<Vec<u64>>>()?;
        let [user, nice, system, idle, io, irq, softirq, steal, ..] = ticks[..] else {
            bail!("/proc/stat has {} numbers for all cores", ticks.len());
        };
        Ok(Self {
            user: time(user + nice),
            system: time(system + irq),
            softirq: time(softirq),
            idle: time(idle + io),
            stolen: time(steal),
            at: Some(Instant::now()),
            cores: u32::try_from(cores).unwrap_or(1),
        })
    }

    /// The time that the cores were busy since `earlier`, all of them together: what passed, less
    /// what they were idle, and what the hypervisor took for others.
    pub fn busy_since(&self, earlier: &Self) -> Duration {
        let passed = match (self.at, earlier.at) {
            (Some(now), Some(then)) => now.saturating_duration_since(then) * self.cores,
            _ => Duration::ZERO,
        };
        let since = |now: Duration, then| now.saturating_sub(then);
        passed
            .saturating_sub(since(self.idle, earlier.idle))
            .saturating_sub(since(self.stolen, earlier.stolen))
    }
}

#[cfg(test)]
mod tests {
    use super::{Machine, own_time, run_time, switches};
    use std::time::{Duration, Instant};

    #[test]
    fn work_shows_in_the_run_time_of_the_process() {
        let pid = std::process::id();
        let before = run_time(pid).unwrap();
        let started = Instant::now();
        while run_time(pid).unwrap() < before + Duration::from_millis(20) {
            assert!(started.elapsed() < Duration::from_secs(60), "no run time");
        }
    }

    #[test]
    fn what_a_child_did_counts_once_it_has_ended() {
        let before = own_time().unwrap();
        let started = Instant::now();
        while own_time().unwrap() <= before {
            let count = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
            let child = std::process::Command::new("sh")
                .args(["-c", count])
                .status();
            assert!(child.unwrap().success());
            assert!(started.elapsed() < Duration::from_secs(60), "no time");
        }
    }

    /// A process of one thread: where threads come and go, what they did goes with them.
    #[test]
    fn waiting_for_input_is_a_switch() {
        use std::io::{BufRead, BufReader, Write};
        use std::process::{Command, Stdio};
        let mut cat = Command::new("cat");
        let mut cat = cat
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = cat.stdin.take().unwrap();
        let mut output = BufReader::new(cat.stdout.take().unwrap());
        let before = switches(cat.id());
        let started = Instant::now();
        while switches(cat.id()) <= before {
            input.write_all(b"x\n").unwrap();
            output.read_line(&mut String::new()).unwrap();
            assert!(started.elapsed() < Duration::from_secs(60), "no switch");
        }
        drop(input);
        cat.wait().unwrap();
    }

    #[test]
    fn many_cores_idle_for_long_are_not_busy() {
        let ticks = 1_u64 << 33;
        let text = |idle: u64| format!("cpu  10 20 30 {idle} 50 60 70 80 0 0\ncpu0 1 2 3 4\n");
        let before = Machine::read(&text(ticks)).unwrap();
        let mut after = Machine::read(&text(ticks + 1_000)).unwrap();
        assert_eq!(after.idle - before.idle, Duration::from_secs(10));
        assert_eq!(after.system, Duration::from_millis(900));
        after.at = before.at.map(|at| at + Duration::from_secs(10));
        assert_eq!(after.busy_since(&before), Duration::ZERO);
        // What cannot be read is no number of ours.
        assert!(Machine::read("cpu  10 20 30 -4 50 60 70 80 0 0\n").is_err());
        assert!(Machine::read("cpu  10 20 30\n").is_err());
        assert!(Machine::read("intr 1\n").is_err());
    }

    #[test]
    fn busy_is_what_was_neither_idle_nor_stolen() {
        let text = |idle, io, steal| {
            format!("cpu  1 0 1 {idle} {io} 0 0 {steal} 0 0\ncpu0 1 0 1 9 9\ncpu1 0 0 0 9 9\n")
        };
        let before = Machine::read(&text(100, 10, 5)).unwrap();
        let mut after = Machine::read(&text(220, 20, 45)).unwrap();
        after.at = before.at.map(|at| at + Duration::from_secs(1));
        // Of two seconds of two cores 1.2 were idle, 0.1 waited, and 0.4 were stolen.
        assert_eq!(after.busy_since(&before), Duration::from_millis(300));
        after.at = before.at;
        assert_eq!(after.busy_since(&before), Duration::ZERO);
    }
}
