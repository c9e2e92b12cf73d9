//! An experiment of the catalogue, and what it is given.

use crate::experiment::{Bench, Experiment, Rules, order};
use crate::tool;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::time::Duration;

/// What every experiment is given.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The outboard that is measured.
    pub binary: PathBuf,
    /// The access log that is replayed; without one, a small one of our own.
    pub log: Option<PathBuf>,
    /// The directory of the run, for what is measured once and is to be the same when it goes on.
    pub kept: PathBuf,
    /// What is compared in this run: of all that the experiment declares, those that were not left out.
    pub subjects: Vec<String>,
}

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Full,
    /// A first impression: fewer levels, rounds and seconds.
    Quick,
}

/// An experiment that there is.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What commands call it.
    pub name: &'static str,
    /// The document whose figures it repeats; empty if it is ours.
    pub source: &'static str,
    /// What it asks, in a line.
    pub about: &'static str,
    /// Programs that it needs, and files, by whole paths.
    pub needs: &'static [&'static str],
    /// How long a measurement is, in seconds: in full, and quick.
    pub seconds: (u64, u64),
    /// How many such measurements one after another make a sample.
    pub windows: u32,
    pub(super) declare: fn(Extent) -> Experiment,
    pub(super) open: fn(&Setup) -> Result<Box<dyn Bench>>,
}

/// What a sample takes around its measurements: programs that start and end, accounts that are made up.
const AROUND: Duration = Duration::from_millis(1_500);
/// What a first impression takes, as a rule.
const IMPRESSION: Duration = Duration::from_secs(60);
/// When no measurement begins any more, of those that take less.
const LIMIT: Duration = Duration::from_secs(4 * 3_600);
const QUICK_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Rounds of one, or fewer where so many take longer.
const ROUNDS: u32 = 3;
/// But not fewer than this: of one there is no interval.
const LEAST_ROUNDS: u32 = 2;

impl Entry {
    /// What it says of itself.
    pub fn declare(&self, extent: Extent) -> Experiment {
        (self.declare)(extent)
    }

    /// What measures it.
    ///
    /// # Errors
    /// A program is missing, the machine has too few cores, or what it needs cannot be started.
    pub fn open(&self, setup: &Setup) -> Result<Box<dyn Bench>> {
        if let Some(missing) = self.missing() {
            bail!("{missing} is not installed: run make install-deps");
        }
        if std::thread::available_parallelism()?.get() < 2 {
            bail!("this needs two cores: one for the server, one for the client");
        }
        (self.open)(setup)
    }

    /// A program that it needs and that is not there.
    pub fn missing(&self) -> Option<&'static str> {
        let mut needs = self.needs.iter().copied();
        needs.find(|program| tool::find(program).is_none())
    }

    /// How long so many rounds of it take at most, as a rule.
    pub fn takes(&self, experiment: &Experiment, rules: &Rules, rounds: u32) -> Duration {
        let round = self.round(experiment, rules.window);
        round.saturating_mul(rounds).min(rules.limit)
    }

    /// How long a round of it takes.
    fn round(&self, experiment: &Experiment, window: Duration) -> Duration {
        let cells = u32::try_from(order::cells(experiment).len()).unwrap_or(u32::MAX);
        (window * self.windows + AROUND).saturating_mul(cells)
    }

    /// When no measurement begins any more if nobody says otherwise: late enough for the least rounds of such a run, where
    /// one takes longer than as a rule, too.
    pub fn limit(
        &self,
        extent: Extent,
        experiment: &Experiment,
        window: Duration,
        least_rounds: u32,
    ) -> Duration {
        let least = self.round(experiment, window).saturating_mul(least_rounds);
        let usual = match extent {
            Extent::Full => LIMIT,
            Extent::Quick => QUICK_LIMIT,
        };
        usual.max(least + least / 4)
    }

    /// How it is run if nobody says otherwise.
    pub fn rules(&self, extent: Extent) -> Rules {
        let quick = extent == Extent::Quick;
        let (full, short) = self.seconds;
        let window = Duration::from_secs(if quick { short } else { full });
        let (least_rounds, most_rounds) = match extent {
            Extent::Full => (7, 25),
            Extent::Quick => {
                let round = self.round(&self.declare(extent), window);
                let is_short = |rounds: &u32| round.saturating_mul(*rounds) <= IMPRESSION;
                let rounds = (LEAST_ROUNDS..=ROUNDS).rev().find(is_short);
                let rounds = rounds.unwrap_or(LEAST_ROUNDS);
                (rounds, rounds)
            }
        };
        Rules {
            least_rounds,
            most_rounds,
            precision: 0.05,
            limit: self.limit(extent, &self.declare(extent), window, least_rounds),
            window,
            seed: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Extent;
    use crate::catalogue::{ALL, find};
    use std::time::Duration;

    /// What was cut short by its limit is no full run: that has seven rounds at least.
    #[test]
    fn the_least_rounds_of_everything_fit_its_limit() {
        for entry in ALL {
            for extent in [Extent::Full, Extent::Quick] {
                let (rules, experiment) = (entry.rules(extent), entry.declare(extent));
                let least = rules.least_rounds;
                let takes = entry.round(&experiment, rules.window) * least;
                assert!(
                    takes <= rules.limit,
                    "{}: {takes:?} of {rules:?}",
                    entry.name
                );
            }
            assert!(
                entry.rules(Extent::Full).least_rounds >= 7,
                "{}",
                entry.name
            );
        }
    }

    #[test]
    fn whoever_measures_longer_has_more_time() {
        let entry = find("web").unwrap();
        let experiment = entry.declare(Extent::Quick);
        let limit = |seconds| {
            let window = Duration::from_secs(seconds);
            entry.limit(Extent::Quick, &experiment, window, 3).as_secs()
        };
        assert_eq!(limit(1), 300);
        assert!(limit(600) > 3 * 600 * 2);
    }
}
