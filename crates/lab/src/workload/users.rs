//! SURGE's users ("user equivalents"): each asks for a page and for what is embedded in it, one after the other with
//! short pauses, and then reads for a while. The next request waits for the answer before it.

use super::files::File;
use super::surge::{Popularity, Sizes, active, embedded, inactive, requested_quantile};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use std::sync::Arc;
use std::time::Duration;

/// How long a user has been there, in seconds of its own, when it is looked at first: all would read else, and then
/// ask at once. Long beside what a page takes.
const AGE: f64 = 600.0;

/// So many files of SURGE's sizes, the most popular first.
///
/// Sizes of files, popularity, and sizes of what is asked for are three distributions that a set has to have at once. So
/// the n-th most popular file is the one whose size is nearest to a quantile of what is asked for, of those that no
/// other has taken; the quantiles of successive files are spread evenly by the golden section.
pub fn site(count: usize, seed: u64) -> Vec<File> {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let size = |_| Sizes.sample(&mut random).ceil().max(1.0) as u64;
    let mut left: Vec<u64> = (0..count).map(size).collect();
    left.sort_unstable();
    let mut files = Vec::new();
    while !left.is_empty() {
        let share = (0.5 + GOLDEN * files.len() as f64).fract();
        let place = nearest(&left, requested_quantile(share));
        let name = format!("surge-{}", files.len());
        let size = left.remove(place);
        files.push(File { name, size });
    }
    files
}

/// Where the size is that is nearest to what is wanted, by their ratio, of some in order.
fn nearest(sizes: &[u64], wanted: f64) -> usize {
    let above = sizes.partition_point(|size| (*size as f64) < wanted);
    let apart = |place: usize| {
        let size = sizes.get(place).map_or(f64::INFINITY, |size| *size as f64);
        (size / wanted).ln().abs()
    };
    match above.checked_sub(1) {
        Some(below) if apart(below) <= apart(above) => below,
        _ => above,
    }
}

/// One of them: how long it pauses after an answer, and for which file, by its popularity, it asks then; without end.
#[derive(Clone, Debug)]
pub struct User {
    popular: Arc<Popularity>,
    random: ChaCha8Rng,
    /// Objects of its page that it has not asked for.
    left: u32,
    /// What it is about to do when it is looked at first.
    first: Option<(Duration, usize)>,
}

impl User {
    /// The user of this number: the same for the same seed.
    pub fn new(popular: &Arc<Popularity>, seed: u64, number: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(number);
        let mut user = Self {
            popular: Arc::clone(popular),
            random,
            left: 0,
            first: None,
        };
        let mut passed = 0.0;
        while user.first.is_none() {
            let (pause, file) = user.goes_on();
            passed += pause;
            user.first = (passed > AGE).then(|| (time(passed - AGE), file));
        }
        user
    }

    /// Seconds of a pause, and a file.
    fn goes_on(&mut self) -> (f64, usize) {
        let pause = match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                active(&mut self.random)
            }
            None => {
                self.left = embedded(&mut self.random);
                inactive(&mut self.random)
            }
        };
        (pause, self.popular.sample(&mut self.random))
    }
}

impl Iterator for User {
    type Item = (Duration, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.first.take();
        first.or_else(|| {
            let (pause, file) = self.goes_on();
            Some((time(pause), file))
        })
    }
}

fn time(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::{User, site};
    use crate::workload::agreement::{critical, distance};
    use crate::workload::surge::{
        Popularity, Sizes, active_cumulative, embedded_cumulative, inactive_cumulative,
        requested_cumulative,
    };
    use std::sync::Arc;
    use std::time::Duration;

    fn popular(files: usize) -> Arc<Popularity> {
        Arc::new(Popularity::of(files).unwrap())
    }

    fn agrees(name: &str, sample: &[f64], cumulative: impl Fn(f64) -> f64) {
        let (found, limit) = (distance(sample, cumulative), critical(sample.len()));
        assert!(found < limit, "{name}: {found} of {limit}");
    }

    #[test]
    fn a_user_asks_and_pauses_as_published() {
        let popular = popular(500);
        let mut user = User::new(&popular, 7, 3);
        let (mut reading, mut between) = (Vec::new(), Vec::new());
        let (mut objects, mut ranks) = (Vec::new(), Vec::new());
        for _ in 0..40_000 {
            let has_page = user.left == 0;
            let (pause, file) = user.goes_on();
            ranks.push(file as f64);
            if has_page {
                reading.push(pause);
                objects.push(f64::from(user.left));
            } else {
                between.push(pause);
            }
        }
        agrees("reading", &reading, inactive_cumulative);
        agrees("between", &between, active_cumulative);
        agrees("objects", &objects, embedded_cumulative);
        agrees("files", &ranks, |rank| popular.cumulative(rank));
        // All objects of all pages but the last were asked for.
        let asked = between.len() as f64;
        let embedded: f64 = objects.iter().sum();
        assert!((embedded - 150.0..=embedded).contains(&asked));
    }

    /// Nobody begins with a pause that all have: as many ask in the first seconds as later.
    #[test]
    fn users_are_there_already_when_they_are_looked_at() {
        const WINDOW: Duration = Duration::from_secs(20);
        const MANY: u64 = 5_000;
        let popular = popular(500);
        let in_time = |number| {
            let mut passed = Duration::ZERO;
            User::new(&popular, 5, number)
                .map(|(pause, _)| {
                    passed = passed.saturating_add(pause);
                    passed
                })
                .take_while(|passed| *passed < WINDOW)
                .count()
        };
        let asked: usize = (0..MANY).map(in_time).sum();
        // A pause between pages of 2.95 s on average (Pareto from 1 s to an hour, α = 1.5), and with each object one of
        // 1.46 s · Γ(1 + 1/0.382).
        let objects: f64 = (0..150)
            .map(|count| 1.0 - embedded_cumulative(f64::from(count)))
            .sum();
        let between = 1.46 * statrs::function::gamma::gamma(1.0 + 1.0 / 0.382);
        let page = 2.95 + objects * between;
        let expected = MANY as f64 * WINDOW.as_secs_f64() * (1.0 + objects) / page;
        let found = asked as f64 / expected;
        assert!((0.96..1.04).contains(&found), "{asked} of {expected}");
    }

    #[test]
    fn users_are_the_same_from_a_seed_and_no_two_are_alike() {
        let popular = popular(500);
        let some = |seed, number| -> Vec<(Duration, usize)> {
            User::new(&popular, seed, number).take(20).collect()
        };
        assert_eq!(some(1, 8), some(1, 8));
        assert_ne!(some(1, 8), some(1, 9));
        assert_ne!(some(1, 8), some(2, 8));
    }

    #[test]
    fn a_site_has_surges_sizes_and_is_asked_for_by_them() {
        const FILES: usize = 1_000;
        let files = site(FILES, 98);
        assert_eq!(files, site(FILES, 98));
        assert_ne!(files, site(FILES, 99));
        let sizes: Vec<f64> = files.iter().map(|file| file.size as f64).collect();
        agrees("sizes", &sizes, Sizes::cumulative);
        let bytes: f64 = sizes.iter().sum();
        assert!(bytes < 128e6, "{bytes}");
        // As often as the n-th most popular is asked for, in numbers that are whole.
        let asked = |sizes: &[f64]| -> Vec<f64> {
            let times = |rank: usize| 10 * FILES / (rank + 1);
            let each = sizes.iter().enumerate();
            each.flat_map(|(rank, size)| std::iter::repeat_n(*size, times(rank)))
                .collect()
        };
        // The most popular alone is an eighth of all.
        let apart = distance(&asked(&sizes), requested_cumulative);
        assert!(apart < 0.2, "{apart}");
        // In another order they would be far from it.
        let mut sorted = sizes;
        sorted.sort_by(f64::total_cmp);
        assert!(distance(&asked(&sorted), requested_cumulative) > 0.3);
    }
}
