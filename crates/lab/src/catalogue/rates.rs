//! 000, figures 6.3 to 6.7 and tables A.1 to A.3: connections at a rate that rises, three requests
//! on each, for a small file, one of ten kilobytes and one that is not there.

use super::bed::{Bed, Cost, SERVER_CORE, STACKS, write_file};
use super::each::Each;
use super::httperf::{self, Asked};
use super::offered;
use super::prime::prime;
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Finding, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::nginx::PORT;
use crate::world::Side;
use anyhow::{Result, bail};

pub const ENTRY: Entry = Entry {
    name: "rates",
    source: "000",
    about: "replies, time and errors as the rate of connections rises, by file",
    needs: &["nginx", "httperf", "taskset"],
    seconds: (10, 1),
    windows: 1,
    declare,
    open,
};

const RATE: &str = "connections a second";
const FILE: &str = "file";
const LARGER: &str = "10,240 B";
/// Names, paths and sizes, those of the source.
const FILES: [(&str, &str, Option<usize>); 3] = [
    ("354 B", "/index", Some(354)),
    (LARGER, "/10K", Some(10_240)),
    ("missing", "/missing", None),
];
const REPLIES: &str = "replies";
const SENT: &str = "requests";
const MADE: &str = "connections";
const TIME: &str = "response time";
const CONNECT: &str = "setting a connection up";
const ERRORS: &str = "errors";
const BYTES: &str = "bytes on the wire";
/// Requests on each connection.
const REQUESTS: u32 = 3;
/// Seconds after which a request has failed.
const PATIENCE: f64 = 5.0;

/// The source's rates, as round as they are: of what shares of a core they have nobody but the idle
/// one is sure.
const SOURCES: [f64; 11] = [
    20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 110.0, 120.0,
];
/// Those at which a machine of today has something to do.
const TODAYS: [u32; 7] = [500, 1_000, SOME, 4_000, 6_000, FULL, MOST];
/// Of these one at which its core has time left, one that fills it, and one that is too much.
const SOME: u32 = 2_000;
const FULL: u32 = 8_000;
const MOST: u32 = 12_000;
/// Milliseconds that a response took at least in the source's tables.
const QUICKEST: f64 = 5.2;

fn declare(extent: Extent) -> Experiment {
    let rates: Vec<f64> = match extent {
        Extent::Full => SOURCES.into_iter().chain(TODAYS.map(prime)).collect(),
        Extent::Quick => vec![100.0, prime(FULL)],
    };
    let mut measures = vec![
        Measure::new(REPLIES, "1/s"),
        Measure::new(SENT, "1/s"),
        Measure::new(MADE, "1/s"),
        Measure::new(TIME, "ms"),
        Measure::new(CONNECT, "ms"),
        Measure::new(ERRORS, "%"),
        Measure::new(BYTES, "KB/s"),
    ];
    measures.extend(SHARES.map(|name| Measure::new(name, "%")));
    Experiment {
        name: ENTRY.name.into(),
        title: "Rising rates of connections, by file".into(),
        question:
            "How many requests are answered, in which time, with how many errors, as clients \
            come faster? 000 asked this of nginx on a processor of 50 BogoMIPS; its rates are \
            measured here, too, and those at which a machine of today is full."
                .into(),
        workload: format!(
            "httperf: connections at a fixed rate for as long as a measurement is (the source: 3,000 \
             at each rate), {REQUESTS} requests on each, given up after {PATIENCE} s. The source's \
             rates are in step with the kernel's tick: of the shares of a core only the idle one is \
             exact there"
        ),
        roles: offered::roles(extent),
        axes: vec![
            Axis::of_numbers(RATE, "", &rates),
            Axis::of_words(FILE, &FILES.map(|(name, ..)| name)),
        ],
        subjects: offered::of_nginx(extent),
        measures,
        pictures: FILES.iter().flat_map(|(file, ..)| pictures(file)).collect(),
        findings: findings(),
        left_out: Vec::new(),
        model: None,
        claims: claims(extent, &rates),
    }
}

/// What is to hold at the rates that are measured: what was too much for the source's server is not for one of today, and
/// a server that is full does as the source's did.
fn claims(extent: Extent, rates: &[f64]) -> Vec<Claim> {
    let [kernel, engine] = STACKS;
    let subjects = offered::of_nginx(extent);
    let there = |place: &str| Citation {
        document: "000".into(),
        place: place.into(),
    };
    // Of rates that are not measured nothing is claimed.
    let among = |wanted: &[f64]| -> Vec<(String, String)> {
        let found = rates.iter().filter(|rate| wanted.contains(rate));
        found.map(|rate| (RATE.into(), rate.to_string())).collect()
    };
    let (theirs, full) = (among(&SOURCES), among(&[prime(FULL)]));
    let (some, most) = (among(&[prime(SOME)]), among(&[prime(MOST)]));
    // The smaller ones are all answered even then.
    let mut too_much = most.clone();
    if !most.is_empty() {
        too_much.push((FILE.into(), LARGER.into()));
    }
    let claim =
        |says: &str, citation, measure: &str, subject: &str, to: &str, at: &[_], ratio| Claim {
            says: says.into(),
            citation,
            measure: measure.into(),
            subject: subject.into(),
            to: to.into(),
            at: at.to_vec(),
            ratio,
        };
    let mut claims = Vec::new();
    for subject in &subjects {
        claims.extend([
            claim(
                "At the source's rates, where up to 26 % failed, one request in a hundred fails at most",
                Citation::goal(),
                ERRORS,
                subject,
                "",
                &theirs,
                Bound::AtMost(1.0),
            ),
            claim(
                "At the source's rates a response takes no longer than the quickest there",
                Citation::goal(),
                TIME,
                subject,
                "",
                &theirs,
                Bound::AtMost(QUICKEST),
            ),
        ]);
    }
    // The source's kernel had its receive work on its server's core.
    for subject in subjects.iter().filter(|subject| *subject != engine) {
        claims.extend([
            claim(
                "When it is full requests fail",
                there("figure 6.4"),
                ERRORS,
                subject,
                "",
                &most,
                Bound::AtLeast(1.0),
            ),
            claim(
                "When it is full a response takes 0.4 s and longer",
                there("figure 6.5"),
                TIME,
                subject,
                "",
                &most,
                Bound::AtLeast(380.0),
            ),
        ]);
    }
    claims.extend([
        claim(
            "The engine answers no fewer at a rate that fills a core",
            Citation::goal(),
            REPLIES,
            engine,
            kernel,
            &full,
            Bound::AtLeast(1.0),
        ),
        claim(
            "The engine answers no fewer when more is asked than a server has",
            Citation::goal(),
            REPLIES,
            engine,
            kernel,
            &too_much,
            Bound::AtLeast(1.0),
        ),
        claim(
            "The engine leaves as much of the server's core idle",
            Citation::goal(),
            "idle",
            engine,
            kernel,
            &some,
            Bound::AtLeast(1.0),
        ),
    ]);
    claims.retain(|claim| !claim.at.is_empty());
    offered::as_in_the_source(extent, claims)
}

/// What is drawn of a file.
fn pictures(file: &str) -> Vec<Picture> {
    let over = |what: &str, place: &str, measure: &str| {
        let title = format!("{what}, {file} (000, {place})");
        Picture::new(title, RATE, measure).at(FILE, file).log_x()
    };
    let of_the_core = |share: &str| {
        let what = format!("The server's core, {share}");
        over(&what, "figure 6.6", share)
    };
    let tables = "tables A.1 to A.3";
    vec![
        over("Replies a second", "figure 6.3", REPLIES).log_y(),
        over("Requests a second", "figure 6.3", SENT).log_y(),
        over("Connections made", tables, MADE).log_y(),
        over("Response time", "figure 6.5", TIME).log_y(),
        over("Errors", "figure 6.4", ERRORS),
        over("Bytes on the wire", "figure 6.7", BYTES).log_y(),
        of_the_core("usr"),
        of_the_core("sys"),
        of_the_core("softirq"),
        of_the_core("idle"),
    ]
}

/// Shares of the server's core (000, figure 6.6).
pub(super) const SHARES: [&str; 8] = [
    "usr", "sys", "nice", "idle", "io", "irq", "softirq", "steal",
];

/// Adds what the server's core did.
pub(super) fn with_shares(mut sample: Sample, cost: &Cost) -> Sample {
    if let Some(core) = cost.spent.cores.core(SERVER_CORE) {
        for (name, share) in core.shares(cost.spent.passed.as_secs_f64()) {
            sample = sample.with(name, share);
        }
    }
    sample
}

struct Rates(Each<Bed>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let beds = Bed::both(setup, |site| {
        for (_, path, size) in FILES {
            if let Some(size) = size {
                write_file(&site.join(path.trim_start_matches('/')), size)?;
            }
        }
        Ok(())
    })?;
    Ok(Box::new(Rates(beds)))
}

impl Bench for Rates {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let bed = self.0.get(at.subject)?;
        let (rate, file) = (at.number(RATE)?, at.word(FILE)?);
        let Some((_, path, _)) = FILES.into_iter().find(|(name, ..)| *name == file) else {
            bail!("no file {file}");
        };
        let asked = Asked {
            path,
            rate,
            connections: (rate * at.window.as_secs_f64()).ceil() as u32,
            requests: REQUESTS,
            patience: PATIENCE,
        };
        let server = Side::Server.ipv4().to_string();
        let (found, cost) = bed.account(|| httperf::run(bed, &server, PORT, asked))?;
        let busy = cost.spent.share_of_core(SERVER_CORE);
        let due = f64::from(asked.connections * asked.requests);
        let mut sample = cost
            .sample(cost.spent.passed)
            .with(REPLIES, found.replies / found.took)
            .with(SENT, found.requests)
            .with(MADE, found.connections)
            .with(TIME, found.reply_ms)
            .with(CONNECT, found.connect_ms)
            .with(ERRORS, 100.0 * (due - found.replies).max(0.0) / due)
            .with(BYTES, found.kilobytes)
            .by(found.client(rate, busy));
        // As many at least as their answers need.
        let made = (found.replies / f64::from(REQUESTS)).floor();
        sample.notes.extend(cost.beside_engine(made));
        Ok(with_shares(sample, &cost))
    }
}

/// Response rate, request rate, connection rate, response time, errors, KB/s of tables A.1 to A.3, at the source's
/// rates.
const TABLES: [(&str, &str, [[f64; 11]; 6]); 3] = [
    (
        "354 B",
        "table A.1",
        [
            [
                60.0, 90.0, 120.0, 150.0, 179.9, 209.9, 239.5, 269.6, 270.0, 258.4, 252.2,
            ],
            [
                60.0, 90.0, 120.0, 150.0, 180.0, 209.9, 239.8, 269.6, 271.2, 261.7, 257.2,
            ],
            [
                20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 89.9, 92.5, 98.1, 104.1,
            ],
            [
                5.3, 5.2, 5.3, 7.2, 8.3, 8.6, 13.3, 14.9, 397.7, 523.6, 558.5,
            ],
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.02, 0.0, 0.82, 4.64, 8.25],
            [
                33.0, 49.5, 66.0, 82.5, 98.9, 115.4, 131.8, 148.2, 149.0, 142.3, 138.2,
            ],
        ],
    ),
    (
        LARGER,
        "table A.2",
        [
            [
                60.0, 90.0, 119.9, 150.0, 179.9, 191.4, 186.8, 180.3, 178.5, 173.5, 170.0,
            ],
            [
                60.0, 90.0, 120.0, 150.0, 179.9, 192.1, 189.7, 187.8, 187.0, 185.0, 185.0,
            ],
            [
                20.0, 30.0, 40.0, 50.0, 60.0, 65.6, 72.8, 80.6, 86.9, 93.6, 100.5,
            ],
            [
                5.5, 5.7, 5.9, 8.3, 15.1, 528.2, 650.9, 676.4, 697.1, 710.4, 724.2,
            ],
            [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 6.0, 11.0, 15.0, 21.0, 26.0],
            [
                618.6, 927.8, 1236.6, 1545.9, 1854.0, 1975.0, 1922.6, 1865.9, 1843.0, 1781.2,
                1754.9,
            ],
        ],
    ),
    (
        "missing",
        "table A.3",
        [
            [
                60.0, 90.0, 120.0, 150.0, 179.9, 209.9, 239.8, 269.8, 296.3, 297.9, 298.9,
            ],
            [
                60.0, 90.0, 120.0, 150.0, 180.0, 209.9, 239.8, 269.3, 296.7, 295.7, 301.9,
            ],
            [
                20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 89.8, 98.9, 100.2, 107.3,
            ],
            [5.3, 5.4, 5.3, 6.2, 7.2, 8.3, 12.1, 11.7, 76.5, 380.8, 442.4],
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.01, 0.0, 0.0, 0.61, 2.47],
            [
                23.3, 35.0, 46.6, 58.3, 69.9, 81.6, 93.2, 104.7, 115.3, 114.8, 116.7,
            ],
        ],
    ),
];

fn findings() -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, place, columns) in &TABLES {
        for (measure, column) in [REPLIES, SENT, MADE, TIME, ERRORS, BYTES]
            .iter()
            .zip(columns)
        {
            findings.push(Finding {
                name: format!("nginx there, {file}"),
                axis: RATE.into(),
                measure: (*measure).into(),
                points: SOURCES.into_iter().zip(*column).collect(),
                at: vec![(FILE.into(), (*file).into())],
                citation: Citation {
                    document: "000".into(),
                    place: (*place).into(),
                },
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{Extent, FILE, FILES, QUICKEST, RATE, STACKS, TABLES, TIME, declare};
    use crate::catalogue::bed::RECEIVED;

    /// Each of the source's tables is of one file, and so is each picture.
    #[test]
    fn figures_and_pictures_are_of_one_file() {
        for extent in [Extent::Full, Extent::Quick] {
            let declared = declare(extent);
            assert_eq!(declared.mistakes(), [""; 0]);
            for (file, ..) in FILES {
                let own = (FILE.to_owned(), file.to_owned());
                let tables: Vec<&str> = declared
                    .findings
                    .iter()
                    .filter(|finding| finding.at == [own.clone()])
                    .map(|finding| finding.citation.place.as_str())
                    .collect();
                assert_eq!(tables.len(), 6, "{file}");
                assert!(tables.iter().all(|place| *place == tables[0]), "{tables:?}");
                let pictures = declared.pictures.iter();
                assert_eq!(pictures.filter(|it| it.at == [own.clone()]).count(), 10);
            }
            assert_eq!(declared.findings.len(), 6 * FILES.len());
            assert_eq!(declared.pictures.len(), 10 * FILES.len());
        }
    }

    /// Of a rate that a first impression leaves out nothing is claimed, and nothing of all rates.
    #[test]
    fn claims_are_of_rates_that_are_measured() {
        let says = |extent| {
            let claims = declare(extent).claims;
            let of_a_rate = |at: &[(String, String)]| at.iter().any(|(axis, _)| axis == RATE);
            assert!(
                claims
                    .iter()
                    .all(|it| !it.at.is_empty() && of_a_rate(&it.at))
            );
            claims.len()
        };
        assert_eq!((says(Extent::Full), says(Extent::Quick)), (16, 5));
        let beside = |to: &str| {
            let claims = declare(Extent::Full).claims.into_iter();
            claims.filter(|claim| claim.to == to).count()
        };
        assert_eq!((beside(STACKS[0]), beside(RECEIVED)), (3, 3));
        let times = TABLES.iter().flat_map(|(.., columns)| columns[3]);
        assert_eq!(times.fold(f64::INFINITY, f64::min), QUICKEST, "{TIME}");
    }
}
