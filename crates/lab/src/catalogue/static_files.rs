//! 001, figures 6.9 to 6.11, 6.14 and 6.15: files of 16 KB by HTTP/1.0, in sends of 4 KB and of 16 KB,
//! many of them and the same again and again.

use super::bed::Bed;
use super::each::Each;
use super::offered::{self, CONNECTIONS, LOAD, SERVERS};
use super::{Entry, Extent, Setup};
use crate::caches;
use crate::experiment::declaration::{Axis, Bound};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::load::Asked;
use crate::workload::files::{self, File};
use anyhow::{Context, Result};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::Path;

pub const ENTRY: Entry = Entry {
    name: "static",
    source: "001",
    about: "files of 16 KB in sends of 4 KB and 16 KB, many and the same one: throughput and CPU by load",
    needs: &["nginx", "taskset"],
    seconds: (10, 1),
    windows: 1,
    declare,
    open,
};

const SENDS: &str = "sends";
/// What the levels are called, and the places that nginx serves them at.
const BUFFERS: [(&str, &str, u32); 2] =
    [("sends of 4 KB", "/4K", 4), ("sends of 16 KB", "/16K", 16)];
const FILES: &str = "files";
const ONE: &str = "one file";
pub(super) const SIZE: u64 = 16 << 10;
/// Bytes of all files at least: where the caches are small, or nobody knows how large they are.
const SET: u64 = 64 << 20;
/// What is in them is drawn from this.
const SEED: u64 = 16;
/// Requests that are drawn for each file before they begin again: all but e^-4 of the files are among them.
const DRAWN: usize = 4;

/// Files: more than the caches of this machine hold.
pub(super) fn count() -> usize {
    (caches::beyond(SET) / SIZE) as usize
}

/// What the level with all of them is called.
fn many() -> String {
    format!("{} MB of files", caches::beyond(SET) >> 20)
}

/// What a report says of them.
pub(super) fn words() -> String {
    let (count, set) = (count(), caches::words(caches::beyond(SET)));
    format!("{count} files of {SIZE} bytes ({set})")
}

fn declare(extent: Extent) -> Experiment {
    let (four, sixteen) = (BUFFERS[0].0, BUFFERS[1].0);
    let many = many();
    let many = many.as_str();
    let at = |sends, files| [(SENDS, sends), (FILES, files)];
    let (kinds, sends) = match extent {
        Extent::Full => (vec![many, ONE], vec![four, sixteen]),
        Extent::Quick => (vec![many], vec![sixteen]),
    };
    let mut pictures = Vec::new();
    for (what, figures, piece, files) in [
        ("Sends of 4 KB", ["6.9", "6.10"], four, many),
        ("Sends of 16 KB", ["6.14", "6.15"], sixteen, many),
        ("The same file, sends of 4 KB", ["6.11", "6.11"], four, ONE),
        (
            "The same file, sends of 16 KB",
            ["6.11", "6.11"],
            sixteen,
            ONE,
        ),
    ] {
        if !kinds.contains(&files) || !sends.contains(&piece) {
            continue;
        }
        pictures.extend(offered::pictures(what, figures, &at(piece, files)));
    }
    let mut claims = vec![
        offered::claim(
            "A full server answers 7 % more in sends of 4 KB",
            "6.9",
            &at(four, many),
            Bound::AtLeast(1.07),
        ),
        offered::claim(
            "A full server answers 22 % more in sends of 16 KB",
            "6.14",
            &at(sixteen, many),
            Bound::AtLeast(1.22),
        ),
        offered::asynchronous(
            "By calls that do not wait a full server answers 17 % more in sends of 4 KB",
            "6.9",
            &at(four, many),
            Bound::AtLeast(1.17),
        ),
        offered::asynchronous(
            "By calls that do not wait a full server answers 30 % more in sends of 16 KB",
            "6.14",
            &at(sixteen, many),
            Bound::AtLeast(1.30),
        ),
    ];
    if kinds.contains(&ONE) {
        claims.push(offered::claim(
            "Nothing is gained for the same file again and again",
            "6.11",
            &[(FILES, ONE)],
            Bound::AtMost(1.05),
        ));
    }
    claims.retain(|claim| {
        let mut places = claim.at.iter();
        places.all(|(axis, level)| axis != SENDS || sends.contains(&level.as_str()))
    });
    Experiment {
        name: ENTRY.name.into(),
        title: "Files of 16 KB, by load".into(),
        question: "What does offloading gain for files that the server sends in pieces, and does it matter \
            how large the pieces are? In 001 a full server answered 7 % more in sends of 4 KB and 22 % more \
            in sends of 16 KB, by calls that wait for the engine; 17 % and 30 % more by calls that do not; \
            and no more for the same file again and again, which its processor had in its cache."
            .into(),
        workload: format!(
            "GET by HTTP/1.0, due at a fixed rate, a connection for each, at most {CONNECTIONS} at once; \
             {}, in an order drawn at random, or one of them; nginx reads and \
             writes in pieces of 4 KB or 16 KB (sendfile off). {SERVERS} Replies are those of the window and of the \
             second after it.",
            words()
        ),
        roles: offered::roles(extent),
        axes: vec![
            offered::loads(extent),
            Axis::of_words(SENDS, &sends),
            Axis::of_words(FILES, &kinds),
        ],
        subjects: offered::subjects(extent),
        measures: offered::measures(),
        pictures,
        findings: Vec::new(),
        claims: offered::as_in_the_source(extent, claims),
        left_out: Vec::new(),
        model: None,
    }
}

struct Static(Each<Bed>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Static(offered::all_beds(setup, fill, write)?)))
}

/// The files, and the places of nginx.
fn fill(site: &Path) -> Result<String> {
    write(site)?;
    Ok(BUFFERS
        .map(|(_, path, size)| in_pieces(path, site, size))
        .concat())
}

/// Writes the files, whose names are numbers.
pub(super) fn write(site: &Path) -> Result<()> {
    let set: Vec<File> = (0..count())
        .map(|number| File {
            name: number.to_string(),
            size: SIZE,
        })
        .collect();
    files::write(&set, site, SEED)
}

/// A place of nginx where files of `site` are read and sent in pieces of so many KB.
pub(super) fn in_pieces(path: &str, site: &Path, size: u32) -> String {
    format!(
        "        location {path}/ {{
            alias {}/;
            sendfile off;
            output_buffers 1 {size}k;
            open_file_cache max=40000 inactive=600s;
        }}\n",
        site.display()
    )
}

impl Bench for Static {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let sends = at.word(SENDS)?;
        let buffers = BUFFERS.iter().find(|(name, ..)| *name == sends);
        let (_, place, _) = buffers.with_context(|| format!("no {sends}"))?;
        let place = if offered::is_serve(at.subject) {
            ""
        } else {
            place
        };
        let count = if at.word(FILES)? == ONE { 1 } else { count() };
        let bed = self.0.get(at.subject)?;
        let asked = asked(place, count, at.seed);
        offered::measure(bed, &asked, at.number(LOAD)?, at.window)
    }
}

/// Any of so many files, each as often as the others.
fn asked(place: &str, count: usize, seed: u64) -> Asked {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let order = (0..DRAWN * count).map(|_| random.random_range(0..count) as u16);
    Asked {
        texts: (0..count)
            .map(|number| offered::get(&format!("{place}/{number}")))
            .collect(),
        wanted: Vec::new(),
        order: order.collect(),
        limit: None,
        due: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{asked, count, many};
    use crate::caches;

    #[test]
    fn every_file_is_asked_for_and_the_same_from_a_seed() {
        let files = 4_096;
        let many = asked("/4K", files, 1);
        let mut seen: Vec<u16> = many.order.clone();
        seen.sort_unstable();
        seen.dedup();
        // Of 16,384 draws from 4,096 files, all but e^-4 of them.
        assert!((3_990..4_060).contains(&seen.len()), "{}", seen.len());
        assert_eq!(many.order, asked("/16K", files, 1).order);
        assert_ne!(many.order, asked("/4K", files, 2).order);
        assert!(asked("/4K", 1, 1).order.iter().all(|index| *index == 0));
        assert!(many.texts[7].starts_with(b"GET /4K/7 HTTP/1.0\r\n"));
    }

    /// Each has a number of 16 bits, as what is computed beside them has.
    #[test]
    fn files_are_more_than_caches_hold_and_can_be_numbered() {
        let bytes = count() as u64 * super::SIZE;
        assert!(bytes >= 64 << 20 && count() < usize::from(u16::MAX));
        assert_eq!(many(), format!("{} MB of files", bytes >> 20));
        assert!(super::words().contains(&caches::words(bytes)));
    }
}
