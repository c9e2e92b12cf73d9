//! CPU time by core and by what it was spent on: the seven categories of `top`, and steal.
//!
//! The kernel samples all but idle time by its tick, 4 ms on most machines: what runs for less than
//! that between two ticks may be missed or counted whole. Over a window of W seconds a category that
//! has the share p of a core is known to about ±√(p(1−p)·0.004/W): 2 % in two seconds, half a
//! percent in thirty. Run times of processes ([`run_time`](super::run_time)) have no such error.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::Sub;

/// Ticks of `/proc/stat` in a second (USER_HZ).
const TICKS: f64 = 100.0;
/// Seconds between two looks of the kernel's at what a core does, on most machines.
const TICK: f64 = 0.004;

/// Seconds of one core, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// In programs.
    pub user: f64,
    /// In programs of low priority.
    pub nice: f64,
    /// In the kernel, for programs.
    pub system: f64,
    /// Nothing to do.
    pub idle: f64,
    /// Nothing to do but wait for storage.
    pub io: f64,
    /// In interrupts.
    pub irq: f64,
    /// In interrupts that the kernel deferred: mostly the network.
    pub softirq: f64,
    /// Taken by the hypervisor for others.
    pub steal: f64,
}

impl Times {
    /// From the numbers behind the name in a line of `/proc/stat`. Guests' time is in that of
    /// programs already.
    fn read(numbers: &str) -> Option<Self> {
        // All cores of a large server idle for more than 2^32 ticks within months.
        let ticks = numbers.split_whitespace().map(str::parse::<u64>);
        let ticks = ticks.collect::<Result<Vec<u64>, _>>().ok()?;
        let seconds: Vec<f64> = ticks.iter().map(|ticks| *ticks as f64 / TICKS).collect();
        let [user, nice, system, idle, io, irq, softirq, steal, ..] = seconds[..] else {
            return None;
        };
        Some(Self {
            user,
            nice,
            system,
            idle,
            io,
            irq,
            softirq,
            steal,
        })
    }

    /// All of it.
    pub fn total(&self) -> f64 {
        self.busy() + self.idle + self.io + self.steal
    }

    /// What was used: neither idle nor stolen.
    pub fn busy(&self) -> f64 {
        self.user + self.nice + self.system + self.irq + self.softirq
    }

    /// Of so many seconds of cores, those that were used: what is left if what they were idle and what was taken from
    /// them are not in it. The kernel measures those two, where its tick stops on idle cores (NO_HZ), while it samples
    /// by its tick for what cores were used.
    pub fn used(&self, passed: f64) -> f64 {
        (passed - self.idle - self.io - self.steal).max(0.0)
    }

    /// Parts of the seconds that have passed, in percent, by name, as the sources list them. What was
    /// [used](Self::used) is divided as the tick has found it.
    pub fn shares(&self, passed: f64) -> [(&'static str, f64); 8] {
        let passed = passed.max(f64::MIN_POSITIVE);
        let busy = self.busy();
        let found = match busy > 0.0 {
            true => self.used(passed) / busy,
            false => 0.0,
        };
        [
            ("usr", self.user * found),
            ("sys", self.system * found),
            ("nice", self.nice * found),
            ("idle", self.idle),
            ("io", self.io),
            ("irq", self.irq * found),
            ("softirq", self.softirq * found),
            ("steal", self.steal),
        ]
        .map(|(name, seconds)| (name, 100.0 * seconds / passed))
    }

    /// How far a [share](Self::shares) may be off because the kernel samples by its tick: a standard deviation, in
    /// percent of a core, of the share for which it is largest. What was idle and what was stolen is none.
    pub fn doubt(&self, passed: f64) -> f64 {
        let sampled = ["usr", "sys", "nice", "irq", "softirq"];
        let shares = self.shares(passed).into_iter();
        let each = shares.filter(|(name, _)| sampled.contains(name));
        let variances = each.map(|(_, share)| share / 100.0 * (1.0 - share / 100.0));
        let variance = variances.fold(0.0, f64::max);
        100.0 * (variance * TICK / passed.max(TICK)).sqrt()
    }
}

impl Sub for Times {
    type Output = Self;

    /// Not below nothing: the kernel's idle time has gone back now and then.
    fn sub(self, earlier: Self) -> Self {
        let since = |now: f64, then: f64| (now - then).max(0.0);
        Self {
            user: since(self.user, earlier.user),
            nice: since(self.nice, earlier.nice),
            system: since(self.system, earlier.system),
            idle: since(self.idle, earlier.idle),
            io: since(self.io, earlier.io),
            irq: since(self.irq, earlier.irq),
            softirq: since(self.softirq, earlier.softirq),
            steal: since(self.steal, earlier.steal),
        }
    }
}

impl Sum for Times {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, more| Self {
            user: sum.user + more.user,
            nice: sum.nice + more.nice,
            system: sum.system + more.system,
            idle: sum.idle + more.idle,
            io: sum.io + more.io,
            irq: sum.irq + more.irq,
            softirq: sum.softirq + more.softirq,
            steal: sum.steal + more.steal,
        })
    }
}

/// All cores: together, and one by one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cores {
    /// Together.
    pub all: Times,
    /// By number; those that are offline are left out.
    pub each: Vec<(usize, Times)>,
}

impl Cores {
    /// The state now, since the machine started.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn now() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Self::read(&text).context("/proc/stat is not what it was")
    }

    fn read(text: &str) -> Option<Self> {
        let mut cores = Self::default();
        let mut found = false;
        for line in text.lines() {
            let Some((name, numbers)) = line.strip_prefix("cpu").and_then(|l| l.split_once(' '))
            else {
                break;
            };
            let times = Times::read(numbers)?;
            if name.is_empty() {
                cores.all = times;
                found = true;
            } else {
                cores.each.push((name.parse().ok()?, times));
            }
        }
        found.then_some(cores)
    }

    /// What passed since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let each = self.each.iter().filter_map(|(number, now)| {
            let then = earlier.core(*number)?;
            Some((*number, *now - then))
        });
        Self {
            all: self.all - earlier.all,
            each: each.collect(),
        }
    }

    /// One core.
    pub fn core(&self, number: usize) -> Option<Times> {
        let found = self.each.iter().find(|(known, _)| *known == number);
        found.map(|(_, times)| *times)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cores, Times};
    use rustix::thread::{CpuSet, sched_setaffinity};
    use std::time::{Duration, Instant};

    #[test]
    fn lines_are_read_by_their_columns() {
        let text = "cpu  100 200 300 400 500 600 700 800 0 0\n\
                    cpu0 10 20 30 40 50 60 70 80 0 0\nintr 1 2\ncpu9 1\n";
        let cores = Cores::read(text).unwrap();
        let expected = Times {
            user: 0.1,
            nice: 0.2,
            system: 0.3,
            idle: 0.4,
            io: 0.5,
            irq: 0.6,
            softirq: 0.7,
            steal: 0.8,
        };
        assert_eq!(cores.each, vec![(0, expected)]);
        assert_eq!(cores.all.steal, 8.0);
        assert_eq!(cores.all.total(), 36.0);
        assert_eq!(cores.all.busy(), 19.0);
        let (_, user) = cores.all.shares(36.0)[0];
        assert!((user - 100.0 / 36.0).abs() < 1e-9);
        // What cannot be read is no number of ours.
        for text in [
            "cpu  1 2 x\n",
            "cpu  10 20 30 -4 50 60 70 80 0 0\n",
            "cpu  10 20 30\n",
            "intr 1\n",
        ] {
            assert_eq!(Cores::read(text), None, "{text}");
        }
    }

    #[test]
    fn many_cores_that_idle_for_long_are_not_busy() {
        let ticks = 1_u64 << 33;
        let text =
            |idle: u64| format!("cpu  10 20 30 {idle} 50 60 70 80 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n");
        let before = Cores::read(&text(ticks)).unwrap();
        let after = Cores::read(&text(ticks + 1_000)).unwrap();
        let passed = after.since(&before).all;
        assert_eq!((passed.idle, passed.used(10.0)), (10.0, 0.0));
    }

    #[test]
    fn what_is_idle_is_exact_and_what_is_not_is_divided_as_the_tick_has_found_it() {
        let times = Times {
            user: 3.0,
            softirq: 1.0,
            idle: 0.5,
            io: 0.25,
            steal: 0.25,
            ..Times::default()
        };
        let shares = std::collections::HashMap::from(times.shares(2.0));
        let of = ["usr", "softirq", "idle", "io", "steal"].map(|name| shares[name]);
        assert_eq!(of, [37.5, 12.5, 25.0, 12.5, 12.5]);
        let idle = Times {
            idle: 1.0,
            ..Times::default()
        };
        assert!(idle.shares(2.0).iter().all(|(_, share)| share.is_finite()));
    }

    /// A thread that counts on one core: its seconds are that core's user time.
    #[test]
    fn a_known_load_shows_on_its_core_as_user_time() {
        let core = 0;
        let worked = std::thread::spawn(move || {
            let mut cores = CpuSet::new();
            cores.set(core);
            sched_setaffinity(None, &cores).unwrap();
            let before = Cores::now().unwrap();
            let start = own_time();
            let mut sum = 0_u64;
            let began = Instant::now();
            // A tick and more for each percent, of this thread's own time: others may be there.
            while own_time() - start < Duration::from_millis(500) {
                assert!(began.elapsed() < Duration::from_secs(120), "no time");
                for number in 0..100_000_u64 {
                    sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(number));
                }
            }
            let passed = Cores::now().unwrap().since(&before);
            (passed, began.elapsed())
        });
        let (passed, took) = worked.join().unwrap();
        let on_core = passed.core(core).unwrap();
        // Sampled by ticks: with a margin; and others that are nice or not may have been there too.
        assert!(on_core.user + on_core.nice > 0.3, "{on_core:?}");
        let most = took.as_secs_f64() + 0.1;
        assert!(on_core.total() < most * 1.2, "{on_core:?} in {most} s");
        assert!(passed.all.user >= on_core.user - 0.011);
    }

    fn own_time() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).unwrap()
    }
}
