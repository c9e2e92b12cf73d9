//! Cycles a second, for times that are told in cycles.

use crate::{cores, tool};
use std::process::Command;
use std::sync::OnceLock;

/// How long the time stamp counter is counted, in seconds.
const WINDOW: &str = "0.2";

/// Of what there are so many a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// Cycles a second.
    pub rate: f64,
    /// Whether they are of the time stamp counter: as many a second on every core, whatever its frequency. Otherwise they
    /// are those of the core's own clock as /proc/cpuinfo has it now.
    pub of_tsc: bool,
}

/// That of the time stamp counter, where it is invariant and perf can count it; otherwise that of a core now, as the
/// kernel tells of it. `None` where it does not tell.
pub fn of(core: usize) -> Option<Clock> {
    static TSC: OnceLock<Option<f64>> = OnceLock::new();
    let tsc = TSC
        .get_or_init(tsc)
        .map(|rate| Clock { rate, of_tsc: true });
    tsc.or_else(|| {
        let rate = cores::rate(core)?;
        Some(Clock {
            rate,
            of_tsc: false,
        })
    })
}

/// What the time stamp counter makes in a second, counted.
fn tsc() -> Option<f64> {
    let told = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    if !is_invariant(&told) {
        return None;
    }
    let mut perf = Command::new("perf");
    // By the separator, so that no language of the user's is in the way.
    perf.args(["stat", "-x", ";", "-e", "msr/tsc/", "-C", "0"])
        .args(["--log-fd", "1", "--", "sleep", WINDOW]);
    counted(&tool::output(&mut perf, "perf stat").ok()?)
}

/// Whether it goes on at the same rate at every frequency, and while its core sleeps.
fn is_invariant(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags"));
    let has = |wanted: &str| {
        let mut flags = flags.into_iter().flat_map(str::split_whitespace);
        flags.any(|flag| flag == wanted)
    };
    has("constant_tsc") && has("nonstop_tsc")
}

/// From `530244676;;msr/tsc/;204243343;100.00;;`: how many there were, and in how many nanoseconds.
fn counted(printed: &str) -> Option<f64> {
    let line = printed.lines().find(|line| line.contains("msr/tsc/"))?;
    let mut fields = line.split(';');
    let count: f64 = fields.next()?.parse().ok()?;
    let nanoseconds: f64 = fields.nth(2)?.parse().ok()?;
    (count > 0.0 && nanoseconds > 0.0).then(|| 1e9 * count / nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::{counted, is_invariant, of};

    #[test]
    fn a_counter_that_is_counted_has_a_rate() {
        let rate = counted("\n530244676;;msr/tsc/;204243343;100.00;;\n").unwrap();
        assert!((rate - 2.596e9).abs() < 1e6, "{rate}");
        for nothing in [
            "",
            "<not supported>;;msr/tsc/;0;100.00;;",
            "0;;msr/tsc/;5;1;;",
        ] {
            assert_eq!(counted(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_counter_that_stands_still_or_changes_is_no_clock() {
        let flags =
            |these: &str| format!("processor\t: 0\nflags\t\t: fpu {these} msr\nbugs\t\t:\n");
        assert!(is_invariant(&flags("constant_tsc nonstop_tsc")));
        assert!(!is_invariant(&flags("constant_tsc")));
        assert!(!is_invariant(&flags("constant_tsc_too nonstop_tsc")));
        assert!(!is_invariant("processor : 0\n"));
    }

    /// On a machine that tells of both they are of the same order: a unit that is wrong would be beyond that.
    #[test]
    fn this_machine_makes_some_billions_of_them_a_second_or_does_not_tell() {
        if let Some(clock) = of(0) {
            assert!((1e8..1e11).contains(&clock.rate), "{clock:?}");
        }
    }
}
