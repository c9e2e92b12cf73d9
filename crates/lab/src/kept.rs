//! What a benchmark keeps when a measurement fails or somebody interrupts: everything else.

use anyhow::{Result, bail};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a benchmark came to.
#[derive(Debug)]
pub struct Made<R> {
    /// All that was measured.
    pub report: R,
    /// A sentence about what could not be.
    pub failed: Option<String>,
}

/// Goes on where a measurement has failed, and notes why; ends where somebody wants it to.
pub struct Kept<'a> {
    stop: &'a AtomicBool,
    /// Is told what is being done.
    say: &'a mut dyn FnMut(&str),
    is_interrupted: bool,
    measured: usize,
    failed: usize,
    /// What failed, and whether it was interrupted.
    notes: Vec<String>,
}

impl<'a> Kept<'a> {
    /// Nothing yet. `stop` is set by whoever interrupts, and `say` is told of each measurement.
    pub fn new(stop: &'a AtomicBool, say: &'a mut dyn FnMut(&str)) -> Self {
        Self {
            stop,
            say,
            is_interrupted: false,
            measured: 0,
            failed: 0,
            notes: Vec::new(),
        }
    }

    /// What came of a measurement that is called so; nothing if it failed, or was not begun because
    /// somebody has interrupted.
    pub fn one<T>(&mut self, called: &str, measure: impl FnOnce() -> Result<T>) -> Option<T> {
        (self.say)(called);
        if self.is_over(called) {
            return None;
        }
        match measure() {
            Ok(value) => {
                self.measured += 1;
                Some(value)
            }
            // Whoever interrupts interrupts programs of the measurement as well.
            Err(_) if self.is_over(called) => None,
            Err(error) => {
                self.failed += 1;
                self.notes.push(format!("{called}: failed: {error:#}"));
                None
            }
        }
    }

    /// Whether somebody has interrupted.
    fn is_over(&mut self, called: &str) -> bool {
        if self.stop.load(Ordering::Relaxed) && !self.is_interrupted {
            self.is_interrupted = true;
            self.notes.push(format!("interrupted: {called}"));
        }
        self.is_interrupted
    }

    /// A report with what is noted, which `note` puts there.
    ///
    /// # Errors
    /// Nothing was measured.
    pub fn end<R>(self, mut report: R, note: impl FnOnce(&mut R, Vec<String>)) -> Result<Made<R>> {
        if self.measured == 0 {
            bail!("nothing was measured: {}", self.notes.join("; "));
        }
        let all = self.measured + self.failed;
        let failed = (self.failed > 0).then(|| some_failed(self.failed, all));
        note(&mut report, self.notes);
        Ok(Made { report, failed })
    }
}

/// A sentence about measurements that failed.
pub fn some_failed(failed: usize, all: usize) -> String {
    format!(
        "{failed} of {all} measurements failed; what the others found is kept, and the report says why"
    )
}

/// Keeps a value of a round, from 0, behind those of the rounds before: of one that failed there is none,
/// and the others stay beside those of their rounds.
pub fn keep(values: &mut Vec<f64>, round: usize, value: f64) {
    values.resize(round, f64::NAN);
    values.push(value);
}

#[cfg(test)]
mod tests {
    use super::{Kept, keep};
    use crate::experiment::analysis::paired_ratio;
    use crate::statistics::median;
    use anyhow::bail;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_failure_takes_nothing_else_with_it() {
        let stop = AtomicBool::new(false);
        let mut nobody = |_: &str| ();
        let mut kept = Kept::new(&stop, &mut nobody);
        assert_eq!(kept.one("round 1", || Ok(1)), Some(1));
        let failed: Option<u32> = kept.one("round 2", || bail!("no server"));
        assert_eq!(failed, None);
        assert_eq!(kept.one("round 3", || Ok(3)), Some(3));
        // It is interrupted in the fourth, of which nothing is left, and the fifth is not begun.
        let cut: Option<u32> = kept.one("round 4", || {
            stop.store(true, Ordering::Relaxed);
            bail!("wrk was interrupted")
        });
        assert_eq!(cut, None);
        assert_eq!(kept.one("round 5", || Ok(5)), None);
        let made = kept.end(Vec::new(), Vec::extend).unwrap();
        assert_eq!(
            made.report,
            ["round 2: failed: no server", "interrupted: round 4"]
        );
        // Who interrupts knows; what failed is to be told.
        let told = made.failed.unwrap();
        assert!(told.starts_with("1 of 3 measurements failed"), "{told}");
        let mut nothing = Kept::new(&stop, &mut nobody);
        assert_eq!(nothing.one("round 1", || Ok(1)), None);
        assert!(nothing.end(Vec::new(), Vec::extend).is_err());
    }

    #[test]
    fn rounds_stay_beside_each_other_where_one_has_failed() {
        let (mut kernel, mut engine) = (Vec::new(), Vec::new());
        for round in 0..4 {
            let rate = 10.0_f64.powi(round);
            if round != 1 {
                keep(&mut kernel, round as usize, rate);
            }
            if round != 2 {
                keep(&mut engine, round as usize, 2.0 * rate);
            }
        }
        let ratio = paired_ratio(&engine, &kernel).unwrap();
        assert_eq!((ratio.low, ratio.high, ratio.rounds), (2.0, 2.0, 2));
        assert_eq!(median(&kernel), Some(100.0));
    }
}
