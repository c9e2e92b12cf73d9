//! 001, section 6.2.2: what a send costs the program that makes it, by its size.

use super::super::bed::{CLIENT_CORE, SERVER_CORE};
use super::super::{Entry, Extent, Setup};
use super::beds::{awake, core_of, cores_here};
use super::{ASYNCHRONOUS, REGISTERED, SENDS, SYNCHRONOUS, SYNCHRONOUS_REGISTERED};
use super::{Beds, PLACE, PLACES, cited, number, peer, read, subject, subjects};
use crate::cycles as clock;
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Finding, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::sampler::thread_time;
use anyhow::{Context, Result};

pub const ENTRY: Entry = Entry {
    name: "send-cost",
    source: "001",
    about: "what a send costs its program, by size: kernel, interposer and native ways",
    needs: &["taskset"],
    seconds: (2, 1),
    windows: 1,
    declare,
    open,
};

const SIZE: &str = "send";
const COST: &str = "cost of a send";
/// The parts of it at the host (001, figure 6.2), as table 6.3 has them: Processing, PostSend, SendWait, RecvWait.
const PROCESSING: &str = "of it, processing";
const POSTING: &str = "of it, posting";
const DOORBELL: &str = "of it, the doorbell";
const WAITING: &str = "of it, waiting";
/// What the program calls them.
const PARTS: [(&str, &str); 4] = [
    (PROCESSING, "processing_ns"),
    (POSTING, "posting_ns"),
    (DOORBELL, "doorbell_ns"),
    (WAITING, "wait_ns"),
];
const SENDER: &str = "CPU of the sender, a send";
const ENGINE: &str = "CPU of the engine, a send";
const LOOKING: &str = "looking of the engine, a send";
/// The cost of a send and what the engine does for it, beside each other in one unit.
const HOST_CYCLES: &str = "cycles at the host, a send";
const ENGINE_CYCLES: &str = "cycles of the engine, a send";
/// What a report calls each and how the program is told of it; and how many sends a batch has: what waits
/// for each send has one.
const SUBJECTS: [((&str, &str), usize); 7] = [
    ((KERNEL, SOCKETS), 8),
    (("interposer", SOCKETS), 8),
    (SYNCHRONOUS, 1),
    (SYNCHRONOUS_REGISTERED, 1),
    ((ACKNOWLEDGED, "acknowledged"), 1),
    (ASYNCHRONOUS, 8),
    (REGISTERED, 8),
];
/// The way that the program does not divide: what is in a call is not its own.
const SOCKETS: &str = "sockets";
const KERNEL: &str = "kernel";
const INTERPOSER: usize = 1;
/// What is measured where the engine is awake: there the doorbell is in question, and not what else a way costs.
const AWAKE: [&str; 3] = [KERNEL, ASYNCHRONOUS.0, REGISTERED.0];
const ACKNOWLEDGED: &str = "until acknowledged";
/// The sizes of table 6.2.
const SIZES: [f64; 8] = [
    64.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0, 8_192.0, 16_384.0,
];

fn declare(extent: Extent) -> Experiment {
    let quick = extent == Extent::Quick;
    let sizes = if quick { &[64.0, 16_384.0] } else { &SIZES[..] };
    let [here, apart] = PLACES.map(|(name, _)| name);
    let awake = awake(cores_here()).0;
    let places = [here, apart, awake];
    let places = if quick { &places[1..2] } else { &places[..] };
    let claim = |says: &str, citation, subject: &str, size: &str, place: &str, ratio| Claim {
        says: says.into(),
        citation,
        measure: COST.into(),
        subject: subject.into(),
        to: KERNEL.into(),
        at: vec![(SIZE.into(), size.into()), (PLACE.into(), place.into())],
        ratio,
    };
    // Where one holds and another does not, it is the place that costs: so each place has its own.
    let goals = |place: &&str| {
        let goal = |size: &str, spoken: &str, part: &str, ratio| {
            let says = format!(
                "An asynchronous send of {spoken} takes {part} of the kernel's at most, the engine {place}"
            );
            let bound = Bound::AtMost(ratio);
            claim(&says, Citation::goal(), REGISTERED.0, size, place, bound)
        };
        [
            goal("16384", "16 KB", "a twentieth", 0.05),
            goal("64", "64 bytes", "a tenth", 0.1),
        ]
    };
    let picture = |title: &str, measure: &str| {
        let picture = Picture::new(title, SIZE, measure);
        picture.log_x().log_y().at(PLACE, apart)
    };
    let parts = |size: f64| {
        let size = size.to_string();
        let title = format!("The parts of a send of {size} bytes (001, figure 6.2)");
        let course = Picture::course(title, "part", "ns", &PARTS.map(|(name, _)| name));
        course.log_y().at(SIZE, &size).at(PLACE, apart)
    };
    let beside = |size: f64| {
        let size = size.to_string();
        let title = format!("Cycles of a send of {size} bytes: at the host, and of the engine");
        let course = Picture::course(title, "where", "cycles", &[HOST_CYCLES, ENGINE_CYCLES]);
        course.log_y().at(SIZE, &size).at(PLACE, apart)
    };
    let mut pictures = vec![
        picture("Cost of a send (001, figure 6.1)", COST),
        beside(sizes[0]),
        beside(sizes[sizes.len() - 1]),
        parts(sizes[0]),
        parts(sizes[sizes.len() - 1]),
        picture("CPU of the sender, a send", SENDER),
        picture("CPU of the engine, a send", ENGINE),
        picture("Cycles of the engine, a send", ENGINE_CYCLES),
    ];
    if !quick {
        let picture = Picture::new("Cost of a send, the engine awake", SIZE, COST);
        pictures.push(picture.log_x().log_y().at(PLACE, awake));
    }
    let mut engine = Axis::of_words(PLACE, places);
    for level in engine.levels.iter_mut().filter(|level| level.name == awake) {
        let subjects = SUBJECTS.iter().map(|((name, _), _)| *name);
        let left_out = subjects.filter(|name| !AWAKE.contains(name));
        level.without = left_out.map(str::to_owned).collect();
    }
    Experiment {
        name: ENTRY.name.into(),
        title: "What a send costs its program".into(),
        question: "How long is a program in a call that sends, and what of that is left when another \
            processor does the rest? 001 found 29 µs for 64 bytes on the kernel, 90 if the call waits \
            for the other processor, and 7.6 if it does not."
            .into(),
        workload: format!("Batches of eight sends (one, if each is waited for), for which the buffers have room; \
            then the peer, on the kernel's TCP, answers with a byte, and the next batch follows. Only the \
            sends are timed; the median over batches is told. TCP_NODELAY is set. {SENDS} Cookies are taken outside \
            of the time and inside of the CPU. Until acknowledged is a send from registered memory that is waited for \
            until the peer's TCP has acknowledged it: the network and the peer are in it, too. \
            The parts are those at the host, and of native sends only. Posting is measured by itself (an entry of the \
            ring, its publication, the look whether the engine sleeps). Processing is what else a send takes that \
            follows another one at once: the call, the look at the connection, the cookie, the copy if there is one. \
            The doorbell is what the first send of a batch takes more, spread over the batch: it wakes an engine that \
            sleeps, and finds caches that have cooled; synchronously every send is a first one. The source's SendWait \
            stands beside it: until its network had taken the request. An engine that is awake looks for work for up to \
            a millisecond before it sleeps (`--profile latency`), and batches follow each other faster than that: nobody \
            has to ring for it, and what a send costs less there is what the doorbell costs elsewhere. The kernel and \
            asynchronous sends are measured there, and nothing else. \
            Beside the cost at the host stands the engine's: the time of its turns that found something to do, by its \
            own account, over all sends; the answers are in it, and whoever took the core from it meanwhile. Its \
            looking for work stands apart, since that is spent whether anybody sends or not. Cycles are both times by \
            the time stamp counter, where it is invariant and perf can count it; otherwise at the clock of the core, as \
            the kernel tells it (/proc/cpuinfo)."),
        roles: roles(cores_here()),
        axes: vec![
            Axis::of_numbers(SIZE, "B", sizes),
            engine,
        ],
        subjects: subjects(
            extent,
            SUBJECTS.iter().map(|((name, _), _)| *name),
            ACKNOWLEDGED,
        ),
        measures: vec![
            Measure::new(COST, "ns"),
            Measure::new(PROCESSING, "ns"),
            Measure::new(POSTING, "ns"),
            Measure::new(DOORBELL, "ns"),
            Measure::new(WAITING, "ns"),
            Measure::new(SENDER, "ns"),
            Measure::new(ENGINE, "ns"),
            Measure::new(LOOKING, "ns"),
            Measure::new(HOST_CYCLES, "cycles"),
            Measure::new(ENGINE_CYCLES, "cycles"),
        ],
        pictures,
        findings: findings(),
        claims: [
            claim(
                "A synchronous send of 64 bytes takes longer than the kernel's",
                cited("table 6.2"),
                SYNCHRONOUS.0,
                "64",
                apart,
                Bound::AtLeast(1.0),
            ),
            Claim {
                measure: SENDER.into(),
                ..claim(
                    "A synchronous send of 64 bytes takes half of the CPU of the kernel's",
                    cited("section 6.2.3"),
                    SYNCHRONOUS.0,
                    "64",
                    apart,
                    Bound::AtMost(0.52),
                )
            },
        ]
        .into_iter()
        .chain(places.iter().flat_map(goals))
        .collect(),
        left_out: Vec::new(),
        model: None,
    }
}

struct SendCost {
    setup: Setup,
    beds: Beds,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(SendCost {
        setup: setup.clone(),
        beds: Beds::with_awake(setup)?,
    }))
}

impl Bench for SendCost {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let index = SUBJECTS
            .iter()
            .position(|((name, _), _)| *name == at.subject);
        let index = index.with_context(|| format!("no subject {}", at.subject))?;
        let ((_, way), batch) = SUBJECTS[index];
        let is_kernel = at.subject == KERNEL;
        let bed = self.beds.get(is_kernel, at.word(PLACE)?)?;
        let size = at.number(SIZE)? as usize;
        let program = subject(&self.setup, bed, index == INTERPOSER)
            .args(["send", "--way", way])
            .args(["--size", at.word(SIZE)?, "--batch", &batch.to_string()])
            .args(["--seconds", &at.window.as_secs().max(1).to_string()]);
        let ((peer, printed), cost) = bed.account(|| {
            peer::with(
                bed,
                |stream| {
                    peer::acknowledge(stream, batch * size)?;
                    // The thread is there for that alone.
                    Ok(thread_time())
                },
                |address| program.args(["--to", &address.to_string()]).output(),
            )
        })?;
        let found = read(&printed)?;
        let call = number(&found, "call_ns")?;
        let cost = cost.of_child(peer);
        let mut sample = cost
            .sample(at.window)
            .with(COST, call)
            .with(SENDER, number(&found, "cpu_ns")?);
        if let Some(clock) = clock::of(SERVER_CORE) {
            sample = sample.with(HOST_CYCLES, cycles(call, clock.rate));
        }
        if way != SOCKETS {
            for (part, name) in PARTS {
                sample = sample.with(part, number(&found, name)?);
            }
        }
        if !is_kernel {
            cost.came_to_engine()?;
            let engine = cost.spent.engine.context("no account of the engine's")?;
            let sends = number(&found, "all_sends")?;
            let each = 1e9 * engine.busy / sends;
            sample = sample
                .with(ENGINE, each)
                .with(LOOKING, 1e9 * engine.looking / sends);
            if let Some(clock) = core_of(at.word(PLACE)?).and_then(clock::of) {
                sample = sample.with(ENGINE_CYCLES, cycles(each, clock.rate));
            }
        }
        Ok(sample)
    }
}

/// What is on which core, on a machine with so many.
fn roles(cores: usize) -> String {
    let place = match awake(cores).1 {
        CLIENT_CORE => {
            "on core 1 where it is awake: together with the peer, as there are two cores only"
        }
        _ => "on core 2, its own, where it is awake: the kernel has a core less",
    };
    format!("the sender on core 0, its peer on core 1; the engine on either, and {place}")
}

/// Cycles in so many nanoseconds, at so many a second.
fn cycles(nanoseconds: f64, rate: f64) -> f64 {
    nanoseconds * rate / 1e9
}

/// Tables 6.2 and 6.3, whose figures are microseconds.
fn findings() -> Vec<Finding> {
    let finding = |name: &str, measure: &str, place: &str, points: &[(f64, f64)]| Finding {
        name: name.into(),
        axis: SIZE.into(),
        measure: measure.into(),
        points: points
            .iter()
            .map(|(size, microseconds)| (*size, 1_000.0 * microseconds))
            .collect(),
        at: Vec::new(),
        citation: cited(place),
    };
    let column = |name: &str, figures: [f64; 8]| {
        let points: Vec<_> = SIZES.into_iter().zip(figures).collect();
        finding(name, COST, "table 6.2", &points)
    };
    let mut found = vec![
        column(
            "regular there",
            [29.0, 30.0, 32.0, 36.0, 49.0, 72.0, 134.0, 242.0],
        ),
        column(
            "synchronous there",
            [90.0, 95.0, 99.0, 118.0, 142.0, 183.0, 285.0, 496.0],
        ),
        column(
            "asynchronous there",
            [7.56, 7.47, 7.73, 8.13, 8.34, 8.62, 9.11, 9.29],
        ),
    ];
    let parts = [
        ("synchronous there", &SYNCHRONOUS_PARTS),
        ("asynchronous there", &ASYNCHRONOUS_PARTS),
    ];
    for (name, rows) in parts {
        for (part, (measure, _)) in PARTS.iter().enumerate() {
            let points = rows.map(|(size, parts)| (size, parts[part]));
            found.push(finding(name, measure, "table 6.3", &points));
        }
    }
    found
}

/// Table 6.3: by size, Processing, PostSend, SendWait and RecvWait.
const SYNCHRONOUS_PARTS: [(f64, [f64; 4]); 4] = [
    (64.0, [4.13, 2.04, 8.15, 74.76]),
    (1_024.0, [4.22, 2.03, 21.33, 91.12]),
    (4_096.0, [4.4, 1.97, 51.9, 112.83]),
    (16_384.0, [5.41, 2.14, 183.36, 308.59]),
];
const ASYNCHRONOUS_PARTS: [(f64, [f64; 4]); 4] = [
    (64.0, [2.8, 2.06, 2.97, 0.0]),
    (1_024.0, [3.02, 2.16, 3.21, 0.0]),
    (4_096.0, [3.24, 2.27, 3.39, 0.0]),
    (16_384.0, [3.5, 2.35, 3.63, 0.0]),
];

#[cfg(test)]
mod tests {
    use super::{
        ASYNCHRONOUS_PARTS, COST, Extent, PARTS, SYNCHRONOUS_PARTS, cycles, declare, findings,
        roles,
    };

    #[test]
    fn each_place_has_its_goals_and_who_shares_a_core_is_said() {
        for (extent, places) in [(Extent::Full, 3), (Extent::Quick, 1)] {
            let claims = declare(extent).claims;
            let goals = claims
                .iter()
                .filter(|claim| claim.citation.document == "goal");
            assert_eq!(goals.count(), 2 * places);
        }
        assert!(roles(2).contains("together with the peer"));
        assert!(roles(3).contains("on core 2, its own"));
    }

    #[test]
    fn a_nanosecond_has_as_many_cycles_as_a_core_makes_in_it() {
        assert_eq!(cycles(100.0, 2.6e9), 260.0);
    }

    /// The parts of table 6.3 are the whole of table 6.2, but for what the source lost in rounding.
    #[test]
    fn the_sources_parts_fit_its_whole() {
        let found = findings();
        for (column, parts) in [(1, SYNCHRONOUS_PARTS), (2, ASYNCHRONOUS_PARTS)] {
            for (size, parts) in parts {
                let whole = found[column]
                    .points
                    .iter()
                    .find(|(known, _)| *known == size);
                let part = 1_000.0 * parts.iter().sum::<f64>() / whole.unwrap().1;
                assert!((0.92..1.09).contains(&part), "{size}: {part}");
            }
        }
        let costs = found.iter().filter(|f| f.measure == COST);
        assert!(costs.into_iter().all(|f| f.points.len() == 8));
        let parts = found.iter().filter(|f| f.measure != COST);
        assert_eq!(parts.count(), 2 * PARTS.len());
    }
}
