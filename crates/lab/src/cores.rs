//! Cores that threads of this process stay on.

use crate::tool;
use anyhow::{Context, Result};
use rustix::thread::{CpuSet, gettid, sched_setaffinity};

/// Keeps the calling thread, and those that it starts, on one core.
///
/// # Errors
/// This machine has no such core, or we may not use it.
pub fn stay_on(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).context("cannot choose a core")
}

/// Has the calling thread run where nobody else wants to, and give way at once when somebody does (SCHED_IDLE). What
/// `nice` makes low does not give way at once; and its time is what a report takes for that of others.
///
/// # Errors
/// There is no `chrt`.
pub fn give_way() -> Result<()> {
    let thread = gettid().as_raw_nonzero();
    tool::run(&format!("chrt --idle --pid 0 {thread}")).map(drop)
}

/// Cycles a second of a core, as the kernel tells of it now: on a virtual machine, and where the clock of cores is
/// not changed, those of the time stamp counter. `None` where it does not tell.
pub fn rate(core: usize) -> Option<f64> {
    rate_in(&std::fs::read_to_string("/proc/cpuinfo").ok()?, core)
}

fn rate_in(cpuinfo: &str, core: usize) -> Option<f64> {
    let value = |line: &str, name: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    };
    let mut of_core = cpuinfo.lines().skip_while(|line| {
        let number = value(line, "processor");
        number.is_none_or(|number| number != core.to_string())
    });
    // The next core's is not its own.
    of_core.next()?;
    let mut of_core = of_core.take_while(|line| value(line, "processor").is_none());
    let megahertz = of_core.find_map(|line| value(line, "cpu MHz"))?;
    megahertz.parse::<f64>().ok().map(|it| it * 1e6)
}

#[cfg(test)]
mod tests {
    use super::{give_way, rate_in};
    use crate::{skip, tool};

    #[test]
    fn a_thread_that_gives_way_is_the_only_one_that_does() {
        let test = "a_thread_that_gives_way_is_the_only_one_that_does";
        if tool::find("chrt").is_none() && skip(test, "chrt") {
            return;
        }
        // The 41st field, behind the name, which may have blanks.
        let policy = || {
            let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let (_, rest) = text.rsplit_once(')').unwrap();
            let field = rest.split_whitespace().nth(41 - 3);
            field.unwrap().to_owned()
        };
        let before = policy();
        let other = std::thread::spawn(move || {
            give_way().unwrap();
            policy()
        });
        assert_eq!(other.join().unwrap(), "5", "SCHED_IDLE");
        assert_eq!(policy(), before);
    }

    #[test]
    fn the_rate_of_a_core_is_its_own() {
        let text = "processor\t: 0\ncpu MHz\t\t: 2600.000\ncache size\t: 4 MB\n\n\
            processor\t: 10\nmodel\t: 7\n\nprocessor\t: 1\nmodel\t: 7\ncpu MHz\t\t: 1300.5\n";
        assert_eq!(rate_in(text, 0), Some(2.6e9));
        assert_eq!(rate_in(text, 1), Some(1.3005e9));
        assert_eq!(rate_in(text, 10), None, "it does not say");
        assert_eq!(rate_in(text, 2), None);
    }
}
