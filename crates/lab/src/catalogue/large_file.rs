//! 000, figures 6.8 and 6.9 and tables A.4 and A.5: a file of 33.4 MB, two requests a connection, one
//! to ten connections a second.

use super::bed::{Bed, ROLES, SERVER_CORE, STACKS, write_file};
use super::each::Each;
use super::httperf::{self, Asked};
use super::rates::{SHARES, with_shares};
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Finding, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::nginx::PORT;
use crate::world::Side;
use crate::{apache, tool};
use anyhow::{Context, Result};
use std::path::Path;

pub const ENTRY: Entry = Entry {
    name: "large-file",
    source: "000",
    about: "a file of 33.4 MB at one to ten connections a second: Mb/s and CPU by category",
    needs: &["nginx", "httperf", "taskset"],
    seconds: (10, 2),
    windows: 1,
    declare,
    open,
};

const RATE: &str = "connections a second";
/// What shows that the client is not the limit, as a server of another make did in the source.
const REFERENCE: &str = apache::SUBJECT;
const PATH: &str = "/large";
const SIZE: usize = 33_400_000;
const THROUGHPUT: &str = "throughput";
const BUSY: &str = "CPU in use";
/// Requests on each connection.
const REQUESTS: u32 = 2;
/// Seconds after which a request has failed.
const PATIENCE: f64 = 10.0;

/// Table A.4. Its other columns (low priority, waiting for storage, interrupts) are zero at all rates.
const IDLE: [f64; 10] = [63.8, 16.6, 0.9, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];

const RATES: [f64; 10] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];

fn declare(extent: Extent) -> Experiment {
    let rates = match extent {
        Extent::Full => &RATES[..],
        Extent::Quick => &[1.0, 10.0],
    };
    let mut measures = vec![Measure::new(THROUGHPUT, "Mb/s"), Measure::new(BUSY, "%")];
    measures.extend(SHARES.map(|name| Measure::new(name, "%")));
    let finding = |name: &str, measure: &str, place: &str, column: [f64; 10]| Finding {
        name: name.into(),
        axis: RATE.into(),
        measure: measure.into(),
        points: RATES.into_iter().zip(column).collect(),
        at: Vec::new(),
        citation: Citation {
            document: "000".into(),
            place: place.into(),
        },
    };
    let mut subjects = STACKS.map(String::from).to_vec();
    let left_out = apache::left_out(tool::find(apache::PROGRAM).is_some(), "the reference");
    if left_out.is_empty() {
        subjects.push(REFERENCE.into());
    }
    Experiment {
        name: ENTRY.name.into(),
        title: "A large file at a few connections a second".into(),
        question:
            "How much of the wire does a server fill, and what does its core do meanwhile? In \
            000 the network stack took all of it at 61 Mb/s."
                .into(),
        workload: format!(
            "httperf: a file of {SIZE} bytes, {REQUESTS} requests a connection, given up after \
             {PATIENCE} s. Mb/s are of bodies and headers, as httperf counts them; CPU is that of the \
             server's core. Apache, as it is without settings, is a reference: a server of another make, for the \
             same client."
        ),
        roles: ROLES.into(),
        axes: vec![Axis::of_numbers(RATE, "", rates)],
        subjects,
        measures,
        pictures: vec![
            Picture::new("Throughput (000, figures 6.8 and 6.10)", RATE, THROUGHPUT).log_y(),
            Picture::new("The server's core (000, figure 6.8)", RATE, BUSY),
            Picture::new("Time in softirq (000, figure 6.9)", RATE, "softirq"),
            Picture::new("Time in the kernel (000, figure 6.9)", RATE, "sys"),
            Picture::new("Time in programs (000, figure 6.9)", RATE, "usr"),
        ],
        findings: vec![
            finding(
                "nginx there",
                THROUGHPUT,
                "table A.5",
                [
                    24.451, 48.424, 56.835, 60.965, 57.501, 57.809, 61.128, 61.286, 57.928, 57.652,
                ],
            ),
            finding(
                "IIS, the reference",
                THROUGHPUT,
                "table A.5",
                [
                    43.730, 162.263, 329.177, 413.588, 490.823, 476.802, 469.405, 511.762, 502.813,
                    515.770,
                ],
            ),
            finding(
                "nginx there",
                BUSY,
                "table A.4",
                [36.1, 83.2, 98.9, 99.6, 99.8, 99.9, 99.9, 99.8, 99.9, 99.8],
            ),
            finding("nginx there", "idle", "table A.4", IDLE),
            finding(
                "nginx there",
                "usr",
                "table A.4",
                [2.9, 3.0, 1.9, 1.3, 2.9, 2.5, 1.9, 1.7, 1.5, 1.7],
            ),
            finding(
                "nginx there",
                "sys",
                "table A.4",
                [8.5, 25.0, 40.3, 40.9, 40.1, 43.4, 42.3, 41.7, 37.7, 40.0],
            ),
            finding(
                "nginx there",
                "softirq",
                "table A.4",
                [24.7, 55.2, 56.7, 57.4, 56.8, 54.0, 55.7, 56.4, 60.7, 58.1],
            ),
        ],
        claims: claims(!left_out.is_empty()),
        left_out,
        model: None,
    }
}

/// What is to hold when most is asked for; of the reference, unless it is left out.
fn claims(is_without_reference: bool) -> Vec<Claim> {
    let [kernel, engine] = STACKS;
    let most = RATES[RATES.len() - 1].to_string();
    let there = |place: &str| Citation {
        document: "000".into(),
        place: place.into(),
    };
    let claim = |says: &str, citation, measure: &str, subject: &str, to: &str, ratio| Claim {
        says: says.into(),
        citation,
        measure: measure.into(),
        subject: subject.into(),
        to: to.into(),
        at: vec![(RATE.into(), most.clone())],
        ratio,
    };
    let mut claims = vec![
        claim(
            "The core of the server is used up",
            there("table A.4"),
            BUSY,
            kernel,
            "",
            Bound::AtLeast(98.0),
        ),
        claim(
            "Half of it and more is softirq, the receiving half of the network stack",
            there("figure 6.9 and table A.4"),
            "softirq",
            kernel,
            "",
            Bound::AtLeast(50.0),
        ),
        claim(
            "Programs have next to nothing of it",
            there("figure 6.9 and table A.4"),
            "usr",
            kernel,
            "",
            Bound::AtMost(3.0),
        ),
        claim(
            "The engine carries no less than the kernel",
            Citation::goal(),
            THROUGHPUT,
            engine,
            kernel,
            Bound::AtLeast(1.0),
        ),
    ];
    if !is_without_reference {
        claims.push(claim(
            "The client is not the limit: a server of another make gets as much through it",
            there("figure 6.10 and table A.5"),
            THROUGHPUT,
            REFERENCE,
            kernel,
            Bound::AtLeast(1.0),
        ));
    }
    claims
}

/// Those of the stacks, and that of the reference once it is measured: whoever measures the others needs no Apache
/// that starts.
struct LargeFile {
    setup: Setup,
    stacks: Each<Bed>,
    reference: Option<Bed>,
}

fn fill(site: &Path) -> Result<()> {
    write_file(&site.join(&PATH[1..]), SIZE)
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let stacks = setup.subjects.iter().map(String::as_str);
    let stacks = stacks.filter(|subject| *subject != REFERENCE);
    Ok(Box::new(LargeFile {
        setup: setup.clone(),
        stacks: Each::named(stacks, |stack| Bed::with_nginx(setup, stack, fill))?,
        reference: None,
    }))
}

impl Bench for LargeFile {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        if at.subject == REFERENCE && self.reference.is_none() {
            let bed = Bed::bare(&self.setup, STACKS[0])?;
            self.reference = Some(bed.serving_by_apache(fill)?);
        }
        Ok(())
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let bed = match at.subject {
            REFERENCE => self.reference.as_ref().context("it was not started")?,
            stack => self.stacks.get(stack)?,
        };
        let rate = at.number(RATE)?;
        let asked = Asked {
            path: PATH,
            rate,
            connections: (rate * at.window.as_secs_f64()).ceil() as u32,
            requests: REQUESTS,
            patience: PATIENCE,
        };
        let server = Side::Server.ipv4().to_string();
        let (found, cost) = bed.account(|| httperf::run(bed, &server, PORT, asked))?;
        let busy = cost.spent.share_of_core(SERVER_CORE);
        let mut sample = cost
            .sample(cost.spent.passed)
            .with(THROUGHPUT, found.kilobytes * 1_024.0 * 8.0 / 1e6)
            .by(found.client(rate, busy));
        if let Some(share) = busy {
            sample = sample.with(BUSY, 100.0 * share);
        }
        if found.errors > 0.0 {
            let note = format!("{} connections a second: some requests failed", rate);
            sample.notes.push(note);
        }
        Ok(with_shares(sample, &cost))
    }
}

#[cfg(test)]
mod tests {
    use super::{BUSY, Extent, IDLE, REFERENCE, claims, declare};

    /// As the source rounds them.
    #[test]
    fn what_was_idle_there_and_what_was_in_use_is_all_of_the_core() {
        let findings = declare(Extent::Full).findings;
        let busy = findings.iter().find(|finding| finding.measure == BUSY);
        for ((rate, busy), idle) in busy.unwrap().points.iter().zip(IDLE) {
            assert!((busy + idle - 100.0).abs() < 0.35, "{rate}: {busy} {idle}");
        }
    }

    /// Of a reference that is not installed nothing is claimed.
    #[test]
    fn the_reference_is_claimed_where_it_is_there() {
        let of_it = |is_without| {
            let claims = claims(is_without);
            let of = claims.iter().filter(|claim| claim.subject == REFERENCE);
            (of.count(), claims.len())
        };
        assert_eq!((of_it(false), of_it(true)), ((1, 5), (0, 4)));
    }
}
