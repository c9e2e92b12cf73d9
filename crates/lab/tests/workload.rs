//! Each generator against its distribution, by Kolmogorov and Smirnov at 1 %; and a test that a
//! generator with another parameter would not pass.

use lab::workload::access_log::Log;
use lab::workload::agreement::{critical, distance};
use lab::workload::mixes::{Mix, class};
use lab::workload::{arrivals, files, surge};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use std::time::Duration;

const DRAWS: usize = 20_000;

fn random() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(7)
}

fn draws(mut one: impl FnMut(&mut ChaCha8Rng) -> f64) -> Vec<f64> {
    let mut random = random();
    (0..DRAWS).map(|_| one(&mut random)).collect()
}

fn agrees(name: &str, sample: &[f64], cumulative: impl Fn(f64) -> f64) {
    let found = distance(sample, cumulative);
    let limit = critical(sample.len());
    assert!(found < limit, "{name}: {found} of {limit}");
}

#[test]
fn surge_is_as_published() {
    let sizes = draws(|random| surge::Sizes.sample(random));
    agrees("sizes", &sizes, surge::Sizes::cumulative);
    let tail = sizes.iter().filter(|size| **size >= surge::TAIL).count();
    let share = tail as f64 / DRAWS as f64;
    assert!((0.065..0.075).contains(&share), "{share}");
    let requested = draws(surge::requested);
    agrees("requested", &requested, surge::requested_cumulative);
    let embedded = draws(|random| f64::from(surge::embedded(random)));
    agrees("embedded", &embedded, surge::embedded_cumulative);
    let inactive = draws(surge::inactive);
    agrees("inactive", &inactive, surge::inactive_cumulative);
    let active = draws(surge::active);
    agrees("active", &active, surge::active_cumulative);
    let popularity = surge::Popularity::of(500).unwrap();
    let ranks = draws(|random| popularity.sample(random) as f64);
    agrees("popularity", &ranks, |rank| popularity.cumulative(rank));
    assert!(surge::Popularity::of(0).is_err());
}

/// By the published parameters, in numbers: what is drawn and what it is held against have theirs from one place.
#[test]
fn surges_parameters_are_the_published_ones() {
    let near = |name: &str, found: f64, wanted: f64| {
        assert!((found - wanted).abs() < 1e-3, "{name}: {found}");
    };
    // Lognormal, 9.357 and 1.318: its median, and a deviation above that. 93 % are of it, and 0.968 of it below 133 kB.
    let sizes = surge::Sizes::cumulative;
    near("body", sizes(11_580.0), 0.93 * 0.5 / 0.968);
    near("body", sizes(43_261.0), 0.93 * 0.8413 / 0.968);
    // Pareto: twice the least is passed by 2^−α, α = 1.1, and 1.0 for what is asked for, from 1,000 bytes on.
    near("tail", sizes(266_000.0), 0.93 + 0.07 * 0.5335);
    near("requested", surge::requested_cumulative(2_000.0), 0.5);
    let median = surge::requested_quantile(0.5);
    assert!((1_995.0..2_005.0).contains(&median), "{median}");
    // A page has one object at most if fewer than two were drawn: α = 2.43.
    near("embedded", surge::embedded_cumulative(1.0), 0.8144);
    // From a second on, α = 1.5.
    near("inactive", surge::inactive_cumulative(1.0), 0.0);
    near("inactive", surge::inactive_cumulative(4.0), 0.875);
    // Weibull, 1.46 and 0.382: its median, and its scale.
    near("active", surge::active_cumulative(0.559), 0.5);
    near("active", surge::active_cumulative(1.46), 0.6321);
}

/// The test has the power to see a parameter that is a little off.
#[test]
fn another_parameter_would_be_found_out() {
    let sizes = draws(|random| 1.05 * surge::Sizes.sample(random));
    assert!(distance(&sizes, surge::Sizes::cumulative) > critical(DRAWS));
    let is_found_out = |name: &str, sample: &[f64], cumulative: &dyn Fn(f64) -> f64| {
        let found = distance(sample, cumulative);
        assert!(found > critical(sample.len()), "{name}: {found}");
    };
    let pauses = draws(|random| 1.1 * surge::active(random));
    is_found_out("active", &pauses, &surge::active_cumulative);
    // Tails are lighter or heavier by a tenth of their exponent.
    let requested = draws(|random| 1_000.0 * (surge::requested(random) / 1_000.0).powf(1.1));
    is_found_out("requested", &requested, &surge::requested_cumulative);
    let inactive = draws(|random| surge::inactive(random).powf(1.1));
    is_found_out("inactive", &inactive, &surge::inactive_cumulative);
    // One page in twenty has an object more.
    let embedded = draws(|random| {
        let more = random.random_bool(0.05);
        f64::from(surge::embedded(random)) + f64::from(u8::from(more))
    });
    is_found_out("embedded", &embedded, &surge::embedded_cumulative);
    // A set with a fifth more of files has as many that are hardly asked for.
    let (known, larger) = (surge::Popularity::of(500), surge::Popularity::of(600));
    let (known, larger) = (known.unwrap(), larger.unwrap());
    let ranks = draws(|random| larger.sample(random) as f64);
    is_found_out("popularity", &ranks, &|rank| known.cumulative(rank));
    for mix in [Mix::webstone(), Mix::specweb99()] {
        // One file in ten is twice as large.
        let sizes = draws(|random| {
            let twice = random.random_bool(0.1);
            mix.draw(random) as f64 * if twice { 2.0 } else { 1.0 }
        });
        is_found_out(mix.name, &sizes, &|x| mix.cumulative(x));
    }
    // Arrivals that are too regular by a tenth: the pause is one of a mean, and nine tenths of what is drawn.
    let mut before = 0.0;
    let due = arrivals::poisson(100.0, Duration::from_secs(200), &mut random());
    let pauses: Vec<f64> = due
        .iter()
        .map(|at| {
            let pause = 0.9 * (at.as_secs_f64() - before) + 0.001;
            before = at.as_secs_f64();
            pause
        })
        .collect();
    is_found_out("arrivals", &pauses, &|pause| 1.0 - (-100.0 * pause).exp());
}

#[test]
fn mixes_are_as_published() {
    for mix in [Mix::webstone(), Mix::specweb99()] {
        let parts: f64 = mix.sizes.iter().map(|(_, part)| part).sum();
        assert!((parts - 1.0).abs() < 1e-9, "{}: {parts}", mix.name);
        let sizes = draws(|random| mix.draw(random) as f64);
        agrees(mix.name, &sizes, |x| mix.cumulative(x));
    }
}

/// By the published parts, in numbers: what is drawn and what it is held against have theirs from one place.
#[test]
fn parts_of_the_mixes_are_the_published_ones() {
    let webstone = [
        (500, 0.35),
        (5_000, 0.5),
        (50_000, 0.14),
        (500_000, 0.009),
        (5_000_000, 0.001),
    ];
    assert_eq!(Mix::webstone().sizes, webstone);
    let mean = Mix::webstone().mean();
    assert!((mean - 19_175.0).abs() < 1e-6, "{mean}");
    // SPECweb99: a class of 35, 50, 14 and 1 %, and in each nine sizes by thousandths.
    let first = [102, 204, 307, 409, 512, 614, 716, 819, 921];
    let last = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(|number| number * 102_400);
    let thousandths = [39.0, 59.0, 88.0, 177.0, 353.0, 118.0, 71.0, 50.0, 44.0];
    let spec = Mix::specweb99().sizes;
    assert_eq!(spec.len(), 36);
    for (class, share) in spec.chunks(9).zip([0.35, 0.5, 0.14, 0.01]) {
        for ((_, part), wanted) in class.iter().zip(thousandths) {
            let wanted = share * wanted / 999.0;
            assert!((part - wanted).abs() < 1e-12, "{part} {wanted}");
        }
    }
    let sizes: Vec<u64> = spec.iter().map(|(size, _)| *size).collect();
    assert_eq!((&sizes[..9], &sizes[27..]), (&first[..], &last[..]));
    assert_eq!((sizes[9], sizes[26]), (1_024, 92_160));
}

#[test]
fn arrivals_are_poisson() {
    let due = arrivals::poisson(100.0, Duration::from_secs(200), &mut random());
    let mut before = 0.0;
    let pauses: Vec<f64> = due
        .iter()
        .map(|at| {
            let pause = at.as_secs_f64() - before;
            before = at.as_secs_f64();
            pause
        })
        .collect();
    // Twenty thousand, to within five deviations.
    assert!((19_290..20_710).contains(&pauses.len()), "{}", pauses.len());
    agrees("pauses", &pauses, |pause| 1.0 - (-100.0 * pause).exp());
    assert!(arrivals::poisson(0.0, Duration::from_secs(1), &mut random()).is_empty());
}

#[test]
fn file_sets_are_of_their_class_and_the_same_from_a_seed() {
    let directory = std::env::temp_dir().join(format!("lab-files-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    for wanted in 0..5 {
        let set = files::surge_class(wanted, 3, 4 << 20, 5);
        assert_eq!(set.len(), 3, "class {wanted}");
        assert!(set.iter().all(|file| class(file.size) == wanted));
        assert_eq!(set, files::surge_class(wanted, 3, 4 << 20, 5));
        assert_ne!(set, files::surge_class(wanted, 3, 4 << 20, 6));
        files::write(&set, &directory, 5).unwrap();
        for file in &set {
            let length = std::fs::metadata(directory.join(&file.name)).unwrap().len();
            assert_eq!(length, file.size);
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(
        [0, 1_024, 1_025, 10_240, 102_401, 1 << 20].map(class),
        [0, 0, 1, 1, 3, 3]
    );
    assert_eq!(class((1 << 20) + 1), 4);
}

#[test]
fn a_log_is_read_in_either_format_and_what_is_no_request_is_counted() {
    let text = include_str!("workload/access.log");
    let log = Log::read(text, 0.5);
    assert_eq!((log.requests.len(), log.left_out), (9, 4));
    assert!(log.requests.is_sorted_by_key(|request| request.at));
    let first = &log.requests[0];
    assert_eq!(
        (first.path.as_str(), first.status, first.bytes),
        ("/", 200, 1_804)
    );
    assert_eq!(first.at, Duration::ZERO);
    // Ten minutes after the first, at twice the speed; logged in another time zone.
    let last = log.requests.last().unwrap();
    assert_eq!(
        (last.path.as_str(), last.at),
        ("/news?page=2", Duration::from_secs(300))
    );
    let unchanged = log.requests.iter().find(|request| request.status == 304);
    assert_eq!(unchanged.unwrap().bytes, 0);
}
