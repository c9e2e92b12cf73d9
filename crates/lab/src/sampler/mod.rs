//! What things cost: CPU time of processes and of the whole machine.

pub mod account;
pub mod cores;
pub mod listeners;
pub mod others;
pub mod perf;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The kernel's unit in `/proc/PID/stat`, in milliseconds: USER_HZ is 100 on every architecture that we
/// run on.
const TICK_MS: u64 = 10;

const fn time(ticks: u64) -> Duration {
    Duration::from_millis(TICK_MS.saturating_mul(ticks))
}

/// The time that the threads of process `pid` have been running, in all, those included that have ended: a server may
/// have one for each client. To the nanosecond while none has ended, and to two ticks then.
///
/// # Errors
/// It is no more.
pub fn run_time(pid: u32) -> Result<Duration> {
    // The process's own account is rounded down, and is the larger one only if there are threads that have ended.
    let alive = threads_time(pid)?;
    Ok(alive.max(time(ticks(pid)?[..2].iter().sum())))
}

/// The time of the threads that there are, to the nanosecond (`/proc/PID/task/*/schedstat`).
fn threads_time(pid: u32) -> Result<Duration> {
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

/// The time that process `pid` and its children have been running, those included that have ended, if it has waited for
/// them: of these in steps of ten milliseconds, in all. A server may have a process for each client.
///
/// # Errors
/// It is no more.
pub fn family_time(pid: u32) -> Result<Duration> {
    const TRIES: usize = 3;
    let ended = || -> Result<u64> { Ok(ticks(pid)?[2..].iter().sum()) };
    let mut before = ended()?;
    for _ in 0..TRIES {
        // One may end between the listing and the look; then it is among those that have ended.
        let alive: Duration = children(pid)
            .into_iter()
            .filter_map(|child| run_time(child).ok())
            .sum();
        let now = ended()?;
        if now == before {
            return Ok(run_time(pid)? + alive + time(now));
        }
        before = now;
    }
    anyhow::bail!("the children of process {pid} come and go too fast to be counted")
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
    Ok(time(ticks_in(&text)?.iter().sum()))
}

/// The CPU time of the calling thread so far.
pub fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Ticks of process `pid`, as [`ticks_in`] has them.
fn ticks(pid: u32) -> Result<[u64; 4]> {
    let file = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(file).with_context(|| format!("no process {pid}"))?;
    ticks_in(&text)
}

/// Ticks in a text of `/proc/PID/stat`: in programs and in the kernel, of the process, and then of its children that
/// have ended.
fn ticks_in(text: &str) -> Result<[u64; 4]> {
    // The second field is a name in parentheses, which may have blanks in it.
    let fields = text.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(4);
    let ticks = ticks.map(str::parse::<u64>).collect::<Result<Vec<_>, _>>();
    let ticks = ticks.ok().and_then(|ticks| ticks.try_into().ok());
    ticks.context("/proc/PID/stat is not what it was")
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

#[cfg(test)]
mod tests {
    use super::{family_time, own_time, run_time, switches};
    use crate::process::Program;
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

    /// iperf3 has a thread for each stream since 3.16.
    #[test]
    fn what_a_thread_did_counts_when_it_has_ended() {
        let pid = std::process::id();
        let before = run_time(pid).unwrap();
        let worked = std::thread::spawn(|| {
            let used = || {
                let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
                let first = text.split(' ').next().unwrap();
                Duration::from_nanos(first.parse().unwrap())
            };
            // More than all other tests of this process need.
            while used() < Duration::from_secs(1) {
                std::hint::spin_loop();
            }
            used()
        });
        let worked = worked.join().unwrap();
        let two_ticks = Duration::from_millis(20);
        let counted = run_time(pid).unwrap().saturating_sub(before);
        assert!(counted + two_ticks >= worked, "{counted:?} of {worked:?}");
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

    /// A shell whose children count: what they did stays when they have ended.
    #[test]
    fn what_children_did_counts_while_they_run_and_when_they_have_ended() {
        let count = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let parent = format!("while :; do sh -c '{count}'; done");
        // It ends with this test, however that ends.
        let shell = Program::new("sh").args(["-c", &parent]).start().unwrap();
        let id = shell.id();
        let started = Instant::now();
        let enough = Duration::from_millis(50);
        loop {
            // Its own time is next to nothing.
            let (own, all) = (run_time(id), family_time(id));
            if all.is_ok_and(|all| all > own.unwrap() + enough) {
                break;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "no time");
        }
        shell.kill().unwrap();
        assert!(family_time(id).is_err(), "it is no more");
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
}
