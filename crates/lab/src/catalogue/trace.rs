//! 001, figure 6.18 and table 6.6: the requests of an access log, made again at the log's own rhythm,
//! faster and faster.

use super::bed::Bed;
use super::each::Each;
use super::offered::{self, CONNECTIONS, LOAD, SERVERS};
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Bound, Citation, Claim, Level};
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
use std::time::Duration;

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

/// Adds to the loads of a trace each of `speeds` times the log's own rate: `log`, or ours without one. The names of these
/// levels are the same whatever the log has.
///
/// # Errors
/// The log cannot be read, has nothing that is replayed, or at one of these speeds not one request in a `window`.
pub fn at_speeds(
    experiment: &mut Experiment,
    log: Option<&Path>,
    speeds: &[f64],
    window: Duration,
) -> Result<()> {
    if speeds.is_empty() {
        return Ok(());
    }
    let own = replay(log)?.rate();
    let axis = experiment.axes.iter_mut().find(|axis| axis.name == LOAD);
    let levels = &mut axis.context("no loads")?.levels;
    for speed in speeds {
        let rate = speed * own;
        if rate * window.as_secs_f64() < 1.0 {
            bail!(
                "at {speed} times its own rate the log has a request in {:.0} s: measure for longer (--seconds), or faster",
                (1.0 / rate).ceil()
            );
        }
        let name = format!("{speed} × the log's");
        if levels.iter().all(|level| level.name != name) {
            levels.push(Level {
                name,
                value: Some(rate),
                without: Vec::new(),
            });
        }
    }
    levels.sort_by(|one, other| {
        f64::total_cmp(&one.value.unwrap_or(0.0), &other.value.unwrap_or(0.0))
    });
    experiment.workload += &format!(" The log's own rate is {own:.4} requests a second.");
    Ok(())
}

/// What is replayed of a log, or of ours.
pub(super) fn replay(log: Option<&Path>) -> Result<Replay> {
    let text = match log {
        Some(path) => read(path)?,
        None => OURS.to_owned(),
    };
    let replay = Replay::of(&Log::read(&text, 1.0));
    if replay.order.is_empty() {
        bail!(
            "the log has no GET request that was answered with 200, 304 or 404, in Common or Combined Log Format"
        );
    }
    Ok(replay)
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let replay = replay(setup.log.as_deref())?;
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
        let host = Nginx::address();
        let get = |name: &str, condition: &str| {
            format!("GET /{name} HTTP/1.0\r\nHost: {host}\r\n{condition}\r\n")
        };
        let asked = asked(&self.replay, rate, at, get);
        let bed = self.beds.get(at.subject)?;
        let mut sample = offered::measure(bed, &asked, rate, at.window)?;
        sample.notes.extend(left_out(&self.replay));
        Ok(sample)
    }
}

/// What is asked for, from a place of the log on that is drawn, at so many requests a second on average. `get` makes a
/// request for what is called so, with a line for its condition, if it has one.
pub(super) fn asked(
    replay: &Replay,
    rate: f64,
    at: &At<'_>,
    get: impl Fn(&str, &str) -> String,
) -> Asked {
    let mut random = ChaCha8Rng::seed_from_u64(at.seed);
    let first = random.random_range(0..replay.order.len());
    let (order, due) = replay.due(rate, at.window, first);
    let text = |request: &Request| match request {
        Request::Object(number) => get(&number.to_string(), ""),
        Request::Missing => get("missing", ""),
        // Whatever the client has of it is what the server has (RFC 9110, 13.1.2).
        Request::Unchanged(number) => get(&number.to_string(), "If-None-Match: *\r\n"),
    };
    let requests = replay.requests.iter();
    Asked {
        texts: requests.clone().map(|it| text(it).into_bytes()).collect(),
        wanted: requests.map(status).collect(),
        order,
        limit: None,
        due,
    }
}

/// What is to be said of a log that is not replayed whole.
pub(super) fn left_out(replay: &Replay) -> Vec<String> {
    let mut notes = Vec::new();
    if replay.left_out > 0 {
        notes.push(format!(
            "{} lines of the log are not replayed: no GET, another status, or too large",
            replay.left_out
        ));
    }
    if replay.too_many > 0 {
        notes.push(format!(
            "{} lines of the log are not replayed because they ask for something new: {} different \
             requests are told apart",
            replay.too_many,
            replay.requests.len()
        ));
    }
    notes
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
    use super::{LOAD, OURS, at_speeds, declare};
    use crate::catalogue::Extent;
    use crate::workload::access_log::Log;
    use crate::workload::replay::Replay;
    use std::time::Duration;

    /// Beside the loads that there are, in their order, by names that do not depend on the log.
    #[test]
    fn a_log_is_replayed_at_its_own_rate_and_faster() {
        let before = declare(Extent::Full);
        let mut experiment = before.clone();
        let window = Duration::from_secs(10);
        at_speeds(&mut experiment, None, &[1_000.0, 1.0, 1.0], window).unwrap();
        assert_eq!(experiment.mistakes(), [""; 0]);
        let levels = &experiment.axis(LOAD).unwrap().levels;
        assert_eq!(levels.len(), before.axis(LOAD).unwrap().levels.len() + 2);
        let rate = |name: &str| {
            let level = levels.iter().find(|level| level.name == name);
            level.unwrap().value.unwrap()
        };
        // 407 lines from 09:00:03 to 09:10:13, of which seven are posted.
        let own = rate("1 × the log's");
        assert!((own - 400.0 / 611.0).abs() < 1e-9, "{own}");
        assert!((rate("1000 × the log's") / own - 1_000.0).abs() < 1e-6);
        assert!(levels.is_sorted_by_key(|level| level.value.map(|value| value as u64)));
        let mut same = before.clone();
        at_speeds(&mut same, None, &[], window).unwrap();
        assert_eq!(same, before);
    }

    #[test]
    fn a_speed_without_a_request_in_a_window_is_refused() {
        let mut experiment = declare(Extent::Quick);
        let slow = at_speeds(&mut experiment, None, &[0.5], Duration::from_secs(1));
        let error = slow.unwrap_err().to_string();
        assert!(error.contains("--seconds"), "{error}");
    }

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
