//! Workloads with published sizes: `--preset`. The parameters are those of the lab's generators
//! ([`lab::workload`]), which draw from them.

use anyhow::Result;
use lab::workload::mixes::{CLASS_LIMITS, Mix, class};
use lab::workload::surge;
use queueing::Distribution;

/// What `--preset` takes.
pub const NAMES: [&str; 4] = ["webstone", "specweb99", "surge", "surge-files"];

/// Sizes that stand for a class of a continuous distribution, each as likely as the others.
const POINTS: usize = 2_048;
/// Steps of the search for one of them: enough for all digits.
const STEPS: usize = 64;

/// A class of sizes.
pub struct Part {
    /// What it is called.
    pub name: String,
    /// Its share of the requests.
    pub share: f64,
    /// The greatest size in it, bytes; `None` of the last.
    pub up_to_bytes: Option<u64>,
    /// The sizes in it, bytes.
    pub sizes: Distribution,
}

/// A workload.
pub struct Workload {
    /// Where it is from, and what it is cut at.
    pub origin: &'static str,
    /// Its classes by ascending size, those of document 003.
    pub parts: Vec<Part>,
}

/// The workload called `name`, one of [`NAMES`].
pub fn find(name: &str) -> Result<Workload> {
    Ok(match name {
        "specweb99" => Workload {
            origin: "SPECweb99's mix",
            parts: of_mix(&Mix::specweb99())?,
        },
        "surge" => Workload {
            origin: "SURGE's requested sizes, Pareto from 1,000 B with α = 1, cut at 50 MB",
            parts: of_sizes(surge::requested_cumulative, surge::LARGEST)?,
        },
        "surge-files" => Workload {
            origin: "SURGE's files, each asked for as often: lognormal, and Pareto with α = 1.1 from \
                     133,000 B, cut at 50 MB",
            parts: of_sizes(surge::Sizes::cumulative, surge::LARGEST)?,
        },
        _ => Workload {
            origin: "WebStone's mix",
            parts: of_mix(&Mix::webstone())?,
        },
    })
}

fn part(number: usize, share: f64, sizes: Distribution) -> Part {
    Part {
        name: format!("class {number}"),
        share,
        up_to_bytes: CLASS_LIMITS.get(number).copied(),
        sizes,
    }
}

/// The last class has no end, whatever its number.
fn open(mut parts: Vec<Part>) -> Vec<Part> {
    if let Some(last) = parts.last_mut() {
        last.up_to_bytes = None;
    }
    parts
}

fn of_mix(mix: &Mix) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for number in 0..=CLASS_LIMITS.len() {
        let within: Vec<(u64, f64)> = mix
            .sizes
            .iter()
            .filter(|(size, _)| class(*size) == number)
            .copied()
            .collect();
        if within.is_empty() {
            continue;
        }
        let share = within.iter().map(|(_, share)| share).sum();
        let sizes = within
            .into_iter()
            .map(|(size, share)| Ok((share, Distribution::deterministic(size as f64)?)))
            .collect::<Result<Vec<_>>>()?;
        parts.push(part(number, share, Distribution::mixture(sizes)?));
    }
    Ok(open(parts))
}

/// A continuous distribution, by its cumulative function up to `largest`.
fn of_sizes(cumulative: impl Fn(f64) -> f64, largest: f64) -> Result<Vec<Part>> {
    let limits = CLASS_LIMITS.iter().map(|limit| *limit as f64);
    let limits: Vec<f64> = limits.chain([largest]).collect();
    let mut parts = Vec::new();
    let mut below = 0.0;
    for (number, limit) in limits.into_iter().enumerate() {
        let upto = cumulative(limit);
        let share = upto - below;
        if share > 0.0 {
            let middle = |point: usize| below + share * (point as f64 + 0.5) / POINTS as f64;
            let sizes: Vec<f64> = (0..POINTS)
                .map(|point| invert(&cumulative, middle(point), largest))
                .collect();
            parts.push(part(number, share, Distribution::empirical(&sizes)?));
        }
        below = upto;
    }
    Ok(open(parts))
}

/// The size up to which the share `at` of all sizes lies.
fn invert(cumulative: &impl Fn(f64) -> f64, at: f64, largest: f64) -> f64 {
    let (mut low, mut high) = (0.0, largest);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if cumulative(middle) < at {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(workload: &Workload) -> f64 {
        let parts = workload.parts.iter();
        parts
            .map(|part| part.share * part.sizes.moment(1).unwrap())
            .sum()
    }

    #[test]
    fn every_workload_has_its_published_mean_and_classes() {
        let pareto = Distribution::bounded_pareto(1_000.0, surge::LARGEST, 1.0).unwrap();
        for (name, expected, classes) in [
            ("webstone", Mix::webstone().mean(), 5),
            ("specweb99", Mix::specweb99().mean(), 4),
            ("surge", pareto.moment(1).unwrap(), 5),
        ] {
            let workload = find(name).unwrap();
            assert_eq!(workload.parts.len(), classes, "{name}");
            let shares: f64 = workload.parts.iter().map(|part| part.share).sum();
            assert!((shares - 1.0).abs() < 1e-9, "{name}: {shares}");
            let mean = mean(&workload);
            assert!((mean / expected - 1.0).abs() < 2e-3, "{name}: {mean}");
            for pair in workload.parts.windows(2) {
                assert!(pair[0].up_to_bytes.is_some(), "{name}");
            }
            assert_eq!(workload.parts[classes - 1].up_to_bytes, None);
        }
        // The tail, too: the second moment hangs on nothing else.
        let last = &find("surge").unwrap().parts[4];
        let tail = Distribution::bounded_pareto(1_048_576.0, surge::LARGEST, 1.0).unwrap();
        let (found, expected) = (last.sizes.moment(2).unwrap(), tail.moment(2).unwrap());
        assert!((found / expected - 1.0).abs() < 1e-2, "{found} {expected}");
        // Half of SURGE's body is below its median of e^9.357 bytes.
        let files = find("surge-files").unwrap();
        assert!((files.parts[1].share - 0.93 / 0.968 * (0.463 - 0.033)).abs() < 0.01);
    }
}
