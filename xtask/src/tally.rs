//! How tests ended, counted from what their harness prints.

use std::fmt;
use std::ops::AddAssign;

/// How the tests of a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ran, and held.
    pub passed: usize,
    /// Ran, and did not hold.
    pub failed: usize,
    /// Ignored, or said `SKIPPED` because the machine lacks what they need.
    pub skipped: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} passed", self.passed)?;
        if self.failed > 0 {
            write!(out, ", {} FAILED", self.failed)?;
        }
        if self.skipped > 0 {
            write!(out, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

impl Tally {
    /// Counts what the tests of one command printed.
    pub fn of<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let mut tally = Self::default();
        let mut skipped_themselves = 0;
        for line in lines {
            if line.starts_with("SKIPPED") {
                skipped_themselves += 1;
            } else if let Some(result) = line.trim_start().strip_prefix("test result: ") {
                tally.read(result);
            }
        }
        // A test that finds itself without root says so and returns; its harness then counts it as
        // passed, which it did not.
        tally.skipped += skipped_themselves;
        tally.passed = tally.passed.saturating_sub(skipped_themselves);
        tally
    }

    /// Reads the closing line of a test harness.
    fn read(&mut self, result: &str) {
        for part in result.split(['.', ';']) {
            let mut words = part.split_whitespace();
            if let (Some(count), Some(kind)) = (words.next(), words.next())
                && let Ok(count) = count.parse::<usize>()
            {
                match kind {
                    "passed" => self.passed += count,
                    "failed" => self.failed += count,
                    "ignored" => self.skipped += count,
                    _ => {}
                }
            }
        }
    }
}

/// Whether a reader wants this line of a test run: lines of tests that passed are hundreds, and the
/// closing line counts them.
pub fn worth_showing(line: &str) -> bool {
    let line = line.trim();
    let noise = line.is_empty()
        || line.starts_with("test ") && line.ends_with("... ok")
        || line.starts_with("test result: ok")
        || line.starts_with("running ")
        || line.starts_with("Running ")
        || line.starts_with("Doc-tests ")
        || line.starts_with("Compiling ");
    !noise
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn results_of_several_binaries_add_up() {
        let tally = Tally::of([
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.00s",
        ]);
        let expected = Tally {
            passed: 15,
            failed: 2,
            skipped: 1,
        };
        assert_eq!(tally, expected);
    }

    /// It says so before the closing line that counts it as passed.
    #[test]
    fn a_test_that_skips_itself_is_not_counted_as_passed() {
        let tally = Tally::of([
            "SKIPPED (needs root): steering",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        ]);
        let expected = Tally {
            passed: 1,
            failed: 0,
            skipped: 1,
        };
        assert_eq!(tally, expected);
    }
}
