//! 001, figure 6.18 and table 6.6: the requests of an access log, made again at the log's own rhythm,
//! faster and faster.

use super::bed::Bed;
use super::each::Each;
use super::offered::{self, CONNECTIONS, LOAD, SERVERS};
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Bound, Citation, Claim};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::load::Asked;
use crate::nginx::Nginx;
use crate::workload::access_log::Log;
use crate::workload::files;
use crate::workload::replay::{Replay, Request};
use anyhow::{Context, Result, bail};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::io::Read;
use std::path::Path;

pub const ENTRY: Entry = Entry {
    name: "trace",
    source: "001",
    about: "an access log replayed, --log FILE or a small one of our own: throughput and CPU by load",
    needs: &["nginx", "taskset"],
    seconds: (10, 1),
    windows: 1,
    declare,
    open,
};

/// Of our own making: sixty visitors, drawn from SURGE's distributions, in ten minutes.
const OURS: &str = include_str!("trace.log");
/// What is read of a log of the user's.
const READ: u64 = 256 << 20;
/// What is in the objects is drawn from this.
const SEED: u64 = 18;

fn declare(extent: Extent) -> Experiment {
    let claim = |claim| Claim {
        citation: Citation {
            document: "001".into(),
            place: "figure 6.18 and table 6.6".into(),
        },
        ..claim
    };
    Experiment {
        name: ENTRY.name.into(),
        title: "An access log replayed, by load".into(),
        question: "What does offloading gain for what people really asked a server for? In 001 a full \
            server answered 19 % more of a trace by calls that wait for the engine, 26 % more by calls \
            that do not."
            .into(),
        workload: format!(
            "GET requests of an access log (`--log FILE`; without it a small one of our own), answered with \
             200, 304 or 404, by HTTP/1.0, a connection for each, at most {CONNECTIONS} at once; objects \
             made to the sizes that the log has. Their times are the log's, faster: so that it has the \
             load on average. Each round begins at a place of the log that is drawn. {SERVERS}"
        ),
        roles: offered::roles(extent),
        axes: vec![offered::loads(extent)],
        subjects: offered::subjects(extent),
        measures: offered::measures(),
        pictures: offered::pictures("A trace", ["6.18", "6.18"], &[]),
        findings: Vec::new(),
        claims: offered::as_in_the_source(extent, vec![
            claim(offered::claim(
                "A full server answers 19 % more of a trace",
                "6.18",
                &[],
                Bound::AtLeast(1.19),
            )),
            claim(offered::asynchronous(
                "By calls that do not wait a full server answers 26 % more of a trace",
                "6.18",
                &[],
                Bound::AtLeast(1.26),
            )),
        ]),
        left_out: Vec::new(),
        model: None,
    }
}

struct Trace {
    beds: Each<Bed>,
    replay: Replay,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let text = match &setup.log {
        Some(path) => read(path)?,
        None => OURS.to_owned(),
    };
    let replay = Replay::of(&Log::read(&text, 1.0));
    if replay.order.is_empty() {
        bail!(
            "the log has no GET request that was answered with 200, 304 or 404, in Common or Combined Log Format"
        );
    }
    let write = |site: &Path| files::write(&replay.files, site, SEED);
    let fill = |site: &Path| write(site).map(|()| String::new());
    let beds = offered::all_beds(setup, fill, write)?;
    Ok(Box::new(Trace { beds, replay }))
}

/// What there is of a log, however large. What is no text in it is no request either.
fn read(path: &Path) -> Result<String> {
    let file = std::fs::File::open(path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    let mut bytes = Vec::new();
    let read = file.take(READ).read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Bench for Trace {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let rate = at.number(LOAD)?;
        let mut random = ChaCha8Rng::seed_from_u64(at.seed);
        let first = random.random_range(0..self.replay.order.len());
        let (order, due) = self.replay.due(rate, at.window, first);
        let requests = self.replay.requests.iter();
        let asked = Asked {
            texts: requests.clone().map(text).collect(),
            wanted: requests.map(status).collect(),
            order,
            limit: None,
            due,
        };
        let bed = self.beds.get(at.subject)?;
        let mut sample = offered::measure(bed, &asked, rate, at.window)?;
        if self.replay.left_out > 0 {
            sample.notes.push(format!(
                "{} lines of the log are not replayed: no GET, another status, or too large",
                self.replay.left_out
            ));
        }
        if self.replay.too_many > 0 {
            sample.notes.push(format!(
                "{} lines of the log are not replayed because they ask for something new: {} different \
                 requests are told apart",
                self.replay.too_many,
                self.replay.requests.len()
            ));
        }
        Ok(sample)
    }
}

fn text(request: &Request) -> Vec<u8> {
    match request {
        Request::Object(number) => offered::get(&format!("/{number}")),
        Request::Missing => offered::get("/missing"),
        Request::Unchanged(number) => {
            // Whatever the client has of it is what the server has (RFC 9110, 13.1.2).
            let host = Nginx::address();
            format!("GET /{number} HTTP/1.0\r\nHost: {host}\r\nIf-None-Match: *\r\n\r\n")
                .into_bytes()
        }
    }
}

fn status(request: &Request) -> u16 {
    match request {
        Request::Object(_) => 200,
        Request::Unchanged(_) => 304,
        Request::Missing => 404,
    }
}

#[cfg(test)]
mod tests {
    use super::OURS;
    use crate::workload::access_log::Log;
    use crate::workload::replay::Replay;

    #[test]
    fn our_own_log_is_replayed_but_for_what_is_posted() {
        let replay = Replay::of(&Log::read(OURS, 1.0));
        let posted = OURS.lines().filter(|line| line.contains("\"POST ")).count();
        assert_eq!(replay.left_out, posted);
        assert_eq!(replay.order.len() + posted, OURS.lines().count());
        let statuses: Vec<u16> = replay.requests.iter().map(super::status).collect();
        assert!(
            [200, 304, 404]
                .iter()
                .all(|status| statuses.contains(status))
        );
    }
}
