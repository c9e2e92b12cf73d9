//! How often a script is run on a real clock, and what follows.
//!
//! A run that holds proves that the script can hold. One that fails is repeated with more slack. It
//! counts only if the machine ran meanwhile; those during which it stood still have a limit of their
//! own.

use core::fmt;
use core::time::Duration;

use sim::script::Failure;

/// How far an event may be off its time, at each attempt, and at all after these.
const SLACKS: [Duration; 3] = [
    Duration::from_millis(25),
    Duration::from_millis(60),
    Duration::from_millis(100),
];
/// A machine that stood still for longer may be why a script failed.
const STALL: Duration = Duration::from_millis(10);
/// So many runs may fail on a machine that stood still.
const DISTURBED: usize = 20;

/// How a script is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// How far an event may be off its time.
    pub slack: Duration,
    /// Whether no other script may run meanwhile: it has failed beside others.
    pub alone: bool,
}

/// A run that failed.
#[derive(Debug)]
pub struct Failed {
    /// In what.
    pub failure: Failure,
    /// The longest time that the machine stood still meanwhile.
    pub stall: Duration,
}

/// What is known of a script that did not hold.
#[derive(Debug)]
pub enum Verdict {
    /// It failed on a machine that ran, or always in the same line.
    Fails(Failure),
    /// The machine stood still in every run, and the script failed in one line and another. This is
    /// the last failure.
    Unknown(Failure),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Fails(failure) => failure.fmt(f),
            Verdict::Unknown(failure) => {
                write!(f, "the machine stands still all the time: {failure}")
            }
        }
    }
}

/// Runs a script until it holds or there is a verdict.
///
/// # Errors
/// It did not hold.
pub fn attempt(mut run: impl FnMut(Attempt) -> Result<(), Failed>) -> Result<(), Verdict> {
    let mut undisturbed = 0;
    let mut disturbed: Vec<Failure> = Vec::new();
    loop {
        let failed = undisturbed + disturbed.len();
        let result = run(Attempt {
            slack: SLACKS[failed.min(SLACKS.len() - 1)],
            alone: undisturbed > 0,
        });
        let Err(Failed { failure, stall }) = result else {
            return Ok(());
        };
        if stall < STALL {
            undisturbed += 1;
            if undisturbed == SLACKS.len() {
                return Err(Verdict::Fails(failure));
            }
            continue;
        }
        disturbed.push(failure);
        if disturbed.len() == DISTURBED {
            let last = disturbed.swap_remove(DISTURBED - 1);
            // Stalls come at any time: they do not choose a line.
            return Err(if disturbed.iter().all(|one| one.line == last.line) {
                Verdict::Fails(last)
            } else {
                Verdict::Unknown(last)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(line: u32, stall: u64) -> Result<(), Failed> {
        Err(Failed {
            failure: Failure {
                line,
                message: String::new(),
                trace: Vec::new(),
            },
            stall: Duration::from_millis(stall),
        })
    }

    #[test]
    fn what_fails_on_a_machine_that_runs_fails() {
        let mut seen = Vec::new();
        let verdict = attempt(|how| {
            seen.push((how.slack.as_millis(), how.alone));
            failed(seen.len() as u32, 1)
        });
        assert!(matches!(verdict, Err(Verdict::Fails(failure)) if failure.line == 3));
        assert_eq!(seen, [(25, false), (60, true), (100, true)]);
    }

    #[test]
    fn stalls_excuse_some_failures_and_add_none() {
        let mut runs = 0;
        let outcome = attempt(|how| {
            runs += 1;
            assert_eq!(how.slack, SLACKS[(runs as usize - 1).min(2)]);
            assert!(!how.alone, "the others are not why");
            if runs == 19 { Ok(()) } else { failed(runs, 30) }
        });
        assert!(outcome.is_ok());
        // Those on a machine that ran count, whatever is between.
        let mut runs = 0;
        let verdict = attempt(|_| {
            runs += 1;
            failed(runs, if runs % 2 == 0 { 30 } else { 0 })
        });
        assert!(matches!(verdict, Err(Verdict::Fails(failure)) if failure.line == 5));
    }

    #[test]
    fn a_machine_that_always_stalls_leaves_it_open_unless_it_is_always_the_same() {
        let mut runs = 0;
        let verdict = attempt(|_| {
            runs += 1;
            failed(runs % 7, 900)
        });
        assert_eq!(runs as usize, DISTURBED);
        assert!(matches!(verdict, Err(Verdict::Unknown(_))));
        let verdict = attempt(|_| failed(12, 900));
        assert!(matches!(verdict, Err(Verdict::Fails(failure)) if failure.line == 12));
    }
}
