//! The mixes of sizes of two benchmarks of their time: WebStone's, which 003 drives its servers by, and
//! SPECweb99's; requests come by Poisson.

use super::bed::{Bed, ROLES, STACKS};
use super::each::Each;
use super::offered::{self, CONNECTIONS, LOAD};
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::load::Asked;
use crate::workload::arrivals::poisson;
use crate::workload::files::{self, File};
use crate::workload::mixes::Mix;
use crate::workload::surge::Popularity;
use anyhow::{Context, Result};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "mixes",
    source: "",
    about: "WebStone's and SPECweb99's mixes of sizes, arrivals by Poisson: throughput and CPU by load",
    needs: &["nginx", "taskset"],
    seconds: (10, 1),
    windows: 1,
    declare,
    open,
};

const MIX: &str = "mix";
/// What is in the files is drawn from this.
const SEED: u64 = 99;
/// SPECweb99 has its files in directories, the first most often asked for (Zipf): here so many of 5 MB.
const DIRECTORIES: usize = 12;
/// Requests that are drawn before they begin again.
const DRAWN: usize = 8_192;

fn declare(extent: Extent) -> Experiment {
    let names = [Mix::webstone(), Mix::specweb99()].map(|mix| mix.name);
    let mut pictures = Vec::new();
    for name in names {
        for (what, measure) in [("throughput", offered::REPLIES), ("CPU", offered::BUSY)] {
            let title = format!("{name}'s mix: {what}");
            pictures.push(Picture::new(title, LOAD, measure).at(MIX, name));
        }
    }
    let measures: Vec<Measure> = offered::measures();
    Experiment {
        name: ENTRY.name.into(),
        title: "Mixes of sizes, by load".into(),
        question: "What does a server do that is asked for small and large files as often as benchmarks of \
            websites ask for them?"
            .into(),
        workload: format!(
            "GET by HTTP/1.0, arrivals by Poisson, a connection for each request, at most {CONNECTIONS} at once. \
             WebStone: five files of 500 B to 5 MB, of which the smaller two are 85 % of the requests. SPECweb99: \
             36 files of 102 B to 900 KB in each of {DIRECTORIES} directories, which are asked for by Zipf's law."
        ),
        roles: ROLES.into(),
        axes: vec![offered::loads(extent), Axis::of_words(MIX, &names)],
        subjects: STACKS.map(String::from).to_vec(),
        measures,
        pictures,
        findings: Vec::new(),
        claims: vec![Claim {
            citation: Citation::goal(),
            ..offered::claim("The engine answers no less of a mix", "", &[], Bound::AtLeast(1.0))
        }],
        left_out: Vec::new(),
        model: None,
    }
}

/// A mix, and its files, directory by directory.
struct Site {
    mix: Mix,
    directories: usize,
    files: Vec<File>,
}

impl Site {
    fn of(mix: Mix, directories: usize) -> Self {
        let each = (0..directories).flat_map(|directory| {
            let name = mix.name;
            let sizes = mix.sizes.iter().enumerate();
            sizes.map(move |(index, (size, _))| File {
                name: format!("{name}-{directory}-{index}"),
                size: *size,
            })
        });
        Self {
            files: each.collect(),
            directories,
            mix,
        }
    }

    /// Its requests, at moments of their own: the same for the same seed.
    fn asked(&self, rate: f64, window: Duration, seed: u64) -> Result<Asked> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let popular = Popularity::of(self.directories)?;
        let mut one = || {
            let directory = popular.sample(&mut random);
            u16::try_from(directory * self.mix.sizes.len() + self.mix.draw_place(&mut random))
        };
        let order = (0..DRAWN).map(|_| one()).collect::<Result<_, _>>()?;
        let text = |file: &File| offered::get(&format!("/{}", file.name));
        Ok(Asked {
            texts: self.files.iter().map(text).collect(),
            wanted: Vec::new(),
            order,
            limit: None,
            due: poisson(rate, window, &mut random),
        })
    }
}

struct Mixes {
    beds: Each<Bed>,
    sites: [Site; 2],
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let sites = [
        Site::of(Mix::webstone(), 1),
        Site::of(Mix::specweb99(), DIRECTORIES),
    ];
    let beds = offered::beds(setup, |directory| {
        for site in &sites {
            files::write(&site.files, directory, SEED)?;
        }
        Ok(String::new())
    })?;
    Ok(Box::new(Mixes { beds, sites }))
}

impl Bench for Mixes {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let name = at.word(MIX)?;
        let site = self.sites.iter().find(|site| site.mix.name == name);
        let site = site.with_context(|| format!("no mix {name}"))?;
        let rate = at.number(LOAD)?;
        let asked = site.asked(rate, at.window, at.seed)?;
        offered::measure(self.beds.get(at.subject)?, &asked, rate, at.window)
    }
}

#[cfg(test)]
mod tests {
    use super::{DIRECTORIES, DRAWN, Site};
    use crate::workload::agreement::{critical, distance};
    use crate::workload::mixes::Mix;
    use std::time::Duration;

    #[test]
    fn requests_have_the_sizes_and_the_moments_of_the_mix() {
        for (mix, directories) in [(Mix::webstone(), 1), (Mix::specweb99(), DIRECTORIES)] {
            let site = Site::of(mix.clone(), directories);
            assert_eq!(site.files.len(), directories * mix.sizes.len());
            let window = Duration::from_secs(10);
            let asked = site.asked(1_000.0, window, 5).unwrap();
            let size = |place: &u16| site.files[usize::from(*place)].size as f64;
            let sizes: Vec<f64> = asked.order.iter().map(size).collect();
            let apart = distance(&sizes, |x| mix.cumulative(x));
            assert!(apart < critical(DRAWN), "{}: {apart}", mix.name);
            // A Poisson process of 10,000, within four deviations.
            assert!((9_600..10_400).contains(&asked.due.len()));
            let first = asked
                .order
                .iter()
                .filter(|place| usize::from(**place) < mix.sizes.len());
            let share = first.count() as f64 / DRAWN as f64;
            let harmonic: f64 = (1..=directories).map(|rank| 1.0 / rank as f64).sum();
            assert!(
                (share * harmonic - 1.0).abs() < 0.06,
                "{}: {share}",
                mix.name
            );
            assert_eq!(asked.order, site.asked(500.0, window, 5).unwrap().order);
        }
    }
}
