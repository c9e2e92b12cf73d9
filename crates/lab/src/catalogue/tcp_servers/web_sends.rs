//! 001, figures 6.8, 6.9 and 6.14: a web server's files of 16 KB in sends of 4 KB and of 16 KB, on a link that is fast
//! and on one that is the limit.

use super::super::offered;
use super::super::static_files::in_pieces;
use super::super::web::{CONNECTIONS, ENGINE_CPU, MACHINE_CPU, SERVER_CPU, THROUGHPUT};
use super::super::{Entry, Extent, Setup};
use super::ttcp::{LINKS, SLOW};
use super::web_server::{
    ALL, Beds, EAGER, KERNEL, KERNEL_RECEIVED, PULL, PUSH, SETUP, SUBJECTS, VARIANTS, drawn, words,
};
use super::{ASYNCHRONOUS, REGISTERED, SYNCHRONOUS, SYNCHRONOUS_REGISTERED, cited, subjects};
use crate::experiment::declaration::{Axis, Bound, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::faults::FaultyWire;
use crate::world::World;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "web-sends",
    source: "001",
    about: "a web server's files of 16 KB in each variant, in sends of 4 KB and 16 KB, on a fast and a slow link",
    needs: &["nginx", "wrk", "taskset", "ethtool"],
    seconds: (5, 1),
    windows: 1,
    declare,
    open,
};

pub(super) const SENDS: &str = "sends";
const LINK: &str = "link";
/// What the levels are called, in KB, and where nginx has its files in such pieces.
pub(super) const PIECES: [(&str, u32, &str); 2] =
    [("sends of 4 KB", 4, "/4K"), ("sends of 16 KB", 16, "/16K")];
pub(super) const SIZE: usize = 16 << 10;
const BITS: &str = "throughput of files";
/// Connections at once on the slow link: their first windows together are less than its queue holds.
const FEW: usize = 8;

fn declare(extent: Extent) -> Experiment {
    let [fast, slow] = LINKS;
    let [four, sixteen] = PIECES.map(|(name, ..)| name);
    let pieces = match extent {
        Extent::Full => &[four, sixteen][..],
        Extent::Quick => &[four],
    };
    let claim = |says: &str, figure: &str, link: &str, sends: &str, subject: &str, ratio| Claim {
        says: says.into(),
        citation: cited(&format!("figure {figure}")),
        measure: THROUGHPUT.into(),
        subject: subject.into(),
        to: KERNEL.into(),
        at: [(SENDS, sends), (LINK, link)]
            .map(|(axis, level)| (axis.to_owned(), level.to_owned()))
            .to_vec(),
        ratio,
    };
    let nothing = "A link that is the limit leaves nothing to gain";
    let mut claims = vec![
        claim(
            "In sends of 4 KB that wait for the engine a full server answers 7 % more",
            "6.9",
            fast,
            four,
            SYNCHRONOUS_REGISTERED.0,
            Bound::AtLeast(1.07),
        ),
        claim(
            "In sends of 4 KB that nobody waits for it answers 17 % more",
            "6.9",
            fast,
            four,
            REGISTERED.0,
            Bound::AtLeast(1.17),
        ),
        claim(
            nothing,
            "6.8",
            slow,
            four,
            SYNCHRONOUS_REGISTERED.0,
            Bound::AtMost(1.05),
        ),
        claim(nothing, "6.8", slow, four, ALL, Bound::AtMost(1.05)),
    ];
    if pieces.len() > 1 {
        claims.push(claim(
            "In sends of 16 KB that wait for the engine it answers 22 % more",
            "6.14",
            fast,
            sixteen,
            SYNCHRONOUS_REGISTERED.0,
            Bound::AtLeast(1.22),
        ));
    }
    // One way to accept is as good as another here, and so is one to receive.
    let names = SUBJECTS.iter().map(|(name, _)| *name);
    let names = names.filter(|name| ![EAGER, SETUP, PULL, PUSH].contains(name));
    // That of registered memory says it, for a first impression.
    let is_short = |name: &&str| ![KERNEL_RECEIVED, ASYNCHRONOUS.0].contains(name);
    let names = names.filter(|name| extent == Extent::Full || is_short(name));
    let subjects = subjects(extent, names, SYNCHRONOUS.0);
    let each = [
        (
            "Requests a second (001, figures 6.9 and 6.14)",
            THROUGHPUT,
            fast,
        ),
        (
            "Requests a second on a slow link (001, figure 6.8)",
            THROUGHPUT,
            slow,
        ),
        ("CPU of the server, a request", SERVER_CPU, fast),
        (
            "CPU of the server, a request, on a slow link",
            SERVER_CPU,
            slow,
        ),
        ("CPU of the engine, a request", ENGINE_CPU, fast),
    ];
    let mut pictures = Vec::new();
    for (ways, names) in drawn(&subjects) {
        pictures.extend(each.map(|(title, measure, link)| {
            let picture = Picture::new(format!("{title}{ways}"), SENDS, measure);
            picture.at(LINK, link).of(&names)
        }));
    }
    Experiment {
        name: ENTRY.name.into(),
        title: "A web server's sends, and its link".into(),
        question: "Does it matter to a web server in how many sends a file leaves, and what is left of a gain when the \
            link is the limit? In 001 a full server answered 7 % more in sends of 4 KB and 22 % more in sends of 16 KB \
            when these waited for the engine, 17 % and (with set-up) 30 % more when they did not, and not one request \
            more over Fast Ethernet."
            .into(),
        workload: format!(
            "GET by HTTP/1.1, a connection for each request, of {} in turn; wrk, one thread, \
             {CONNECTIONS} connections, and {FEW} on the slow link, whose queue takes all that these send at first. A \
             head leaves with the first send. nginx reads and writes in pieces of 4 KB or 16 KB (sendfile off). CPU of \
             the machine is all of it, the client and, on the slow link, the wire included: a thread of the lab is \
             that wire. {VARIANTS}",
            words(SIZE)
        ),
        roles: offered::roles(extent),
        axes: vec![
            Axis::of_words(SENDS, pieces),
            Axis::of_words(LINK, &LINKS),
        ],
        subjects,
        measures: vec![
            Measure::new(THROUGHPUT, "req/s"),
            Measure::new(BITS, "Mb/s"),
            Measure::new(SERVER_CPU, "µs"),
            Measure::new(ENGINE_CPU, "µs"),
            Measure::new(MACHINE_CPU, "µs"),
        ],
        pictures,
        findings: Vec::new(),
        claims: offered::as_by_a_nic(extent, claims, &[(KERNEL, KERNEL_RECEIVED)]),
        left_out: Vec::new(),
        model: None,
    }
}

struct Sends {
    /// On the fast link, and on the slow one.
    beds: [Beds; 2],
    // After the engines that use them.
    _wires: Vec<FaultyWire>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let mut wires = Vec::new();
    let slow = || {
        let world = World::with_middle()?;
        wires.push(FaultyWire::start(&world, SLOW, 1)?);
        Ok(world)
    };
    let beds = [
        Beds::new(setup, &[SIZE], &[], World::new, places)?,
        Beds::new(setup, &[SIZE], &[], slow, places)?,
    ];
    Ok(Box::new(Sends {
        beds,
        _wires: wires,
    }))
}

/// Where nginx has the files in pieces.
pub(super) fn places(site: &Path) -> String {
    let files = site.join(SIZE.to_string());
    PIECES
        .map(|(_, size, path)| in_pieces(path, &files, size))
        .concat()
}

/// Where nginx has files in such sends, and how many bytes a server of ours sends at once for that.
pub(super) fn piece(sends: &str) -> Result<(&'static str, String)> {
    let known = PIECES.iter().find(|(name, ..)| *name == sends);
    let (_, kilobytes, path) = known.with_context(|| format!("no {sends}"))?;
    Ok((path, (kilobytes << 10).to_string()))
}

impl Bench for Sends {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let is_slow = at.word(LINK)? != LINKS[0];
        let (path, piece) = piece(at.word(SENDS)?)?;
        let beds = &self.beds[usize::from(is_slow)];
        let size = SIZE.to_string();
        let server = beds.start(at.subject, &size, path, &["--piece", &piece])?;
        let connections = if is_slow { FEW } else { CONNECTIONS };
        let saturate = || server.saturate(SIZE, connections, true, at.window);
        let (throughput, cost) = server.account(saturate)?;
        let answers = throughput * at.window.as_secs_f64();
        let each = |time: Duration| 1e6 * time.as_secs_f64() / answers;
        let mut sample = cost
            .sample(at.window)
            .with(THROUGHPUT, throughput)
            .with(BITS, 8.0 * throughput * SIZE as f64 / 1e6)
            .with(SERVER_CPU, each(cost.server()))
            .with(MACHINE_CPU, each(cost.machine()));
        if cost.spent.engine.is_some() {
            sample = sample.with(ENGINE_CPU, each(cost.engine()));
        }
        Ok(sample)
    }
}
