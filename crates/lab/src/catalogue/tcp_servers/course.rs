//! 001, figures 6.3 to 6.5: the course of one send of 64 bytes, by what the program, its engine and the peer say.

use super::super::{Entry, Extent, Setup};
use super::{ASYNCHRONOUS, REGISTERED, SENDS as WAYS, SYNCHRONOUS, SYNCHRONOUS_REGISTERED};
use super::{Beds, PLACE, PLACES, cited, peer, read, subject, subjects};
use crate::clock;
use crate::experiment::declaration::{Axis, Bound, Claim, Finding, Measure, Picture};
use crate::experiment::used::Used;
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::outboard::Traced;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

pub const ENTRY: Entry = Entry {
    name: "send-course",
    source: "001",
    about: "the course of one send of 64 bytes: the call, the engine, the peer, and back",
    needs: &["taskset"],
    seconds: (4, 1),
    windows: 1,
    declare,
    open,
};

const SIZE: usize = 64;
const RETURNED: &str = "the call returns";
const SUBMITTED: &str = "submitted";
const AWAKE: &str = "engine awake";
const TAKEN: &str = "taken";
const BUILT: &str = "segment built";
const HANDED: &str = "device told";
const PEER: &str = "the peer has it";
const ACKNOWLEDGED: &str = "acknowledged";
const TOLD: &str = "completion posted";
const KNOWN: &str = "the program knows";
/// Besides the moments.
const ENGINE: &str = "CPU of the engine, a send";
/// In their order, but for the first: a call may return before anything else has happened, or at last.
const MOMENTS: [&str; 10] = [
    RETURNED,
    SUBMITTED,
    AWAKE,
    TAKEN,
    BUILT,
    HANDED,
    PEER,
    ACKNOWLEDGED,
    TOLD,
    KNOWN,
];
/// Those of the engine, and what it calls them: one of each a send.
const TRACED: [(&str, &str); 4] = [
    (TAKEN, "taken"),
    (BUILT, "built"),
    (HANDED, "handed"),
    (ACKNOWLEDGED, "acknowledged"),
];
/// What ends a send, and before that one which waits for the wire.
const TOLD_BY: [&str; 2] = ["told_acknowledged", "told_left"];
/// What a report calls each, and how the program is told of it.
const SUBJECTS: [(&str, &str); 6] = [
    (KERNEL, "sockets"),
    (INTERPOSER, "sockets"),
    SYNCHRONOUS,
    SYNCHRONOUS_REGISTERED,
    ASYNCHRONOUS,
    REGISTERED,
];
const KERNEL: &str = "kernel";
const INTERPOSER: &str = "interposer";
/// Sends in a second: one every two milliseconds, and what it takes.
const SENDS: u64 = 200;
/// The first of them do not count: pages are touched and windows open then.
const WARM_UP: usize = 20;

/// When calls returned there, and in which figure.
const FINDINGS: [(&str, &str, f64); 3] = [
    ("regular there", "figure 6.3", 29.0),
    ("synchronous there", "figure 6.4", 89.6),
    ("asynchronous there", "figure 6.5", 7.56),
];

fn declare(extent: Extent) -> Experiment {
    let places = PLACES.map(|(name, _)| name);
    let levels = match extent {
        Extent::Full => &places[..],
        Extent::Quick => &places[1..],
    };
    let picture = |place: &&str| {
        let title = format!("The course of a send (001, figures 6.3 to 6.5): engine {place}");
        let course = Picture::course(title, "moment", "since the call (µs)", &MOMENTS);
        course.log_y().at(PLACE, place)
    };
    Experiment {
        name: ENTRY.name.into(),
        title: "The course of one send".into(),
        question: "What happens between the call of a send of 64 bytes and the moment that its program knows of \
            its end, and when? 001 draws it for its kernel, for a call that waits for the engine, and for one that \
            does not."
            .into(),
        workload: format!(
            "One send of {SIZE} bytes every two milliseconds; the peer, on the kernel's TCP, answers each with a \
             byte, which carries the acknowledgement. All moments are since the call, by CLOCK_MONOTONIC of the one \
             machine; medians over the sends. Those of the engine are its own trace points (outboard trace): it wakes \
             (at 0, and not drawn, if it was awake), takes the submission, has built the segment in the ring of the \
             device, has told the device, which on a veth does the peer's receiving in that call, has taken in the \
             acknowledgement, and has posted what it tells the program. Submitted is when the program's part is done, \
             its doorbell included. That the program knows is its cookie's return, which tells of the acknowledgement \
             or, of a synchronous send, that it has left; over sockets neither is seen. A trace costs the engine some \
             looks at the clock, which are in its CPU, as is the answer. {WAYS}"
        ),
        roles: "the sender on core 0, its peer on core 1; the engine on either".into(),
        axes: vec![Axis::of_words(PLACE, levels)],
        subjects: subjects(
            extent,
            SUBJECTS.iter().map(|(name, _)| *name),
            SYNCHRONOUS_REGISTERED.0,
        ),
        measures: MOMENTS
            .into_iter()
            .chain([ENGINE])
            .map(|name| Measure::new(name, "µs"))
            .collect(),
        pictures: levels.iter().map(picture).collect(),
        findings: FINDINGS
            .map(|(name, figure, microseconds)| Finding {
                name: name.into(),
                axis: PLACE.into(),
                measure: RETURNED.into(),
                // The other processor was a machine of its own.
                points: vec![((levels.len() - 1) as f64, microseconds)],
                at: Vec::new(),
                citation: cited(figure),
            })
            .to_vec(),
        claims: vec![Claim {
            says: "A call that does not wait returns before one that does".into(),
            citation: cited("figures 6.4 and 6.5"),
            measure: RETURNED.into(),
            subject: REGISTERED.0.into(),
            to: SYNCHRONOUS.0.into(),
            at: Vec::new(),
            ratio: Bound::AtMost(1.0),
        }],
        left_out: Vec::new(),
        model: None,
    }
}

struct Courses {
    setup: Setup,
    beds: Beds,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    Ok(Box::new(Courses {
        setup: setup.clone(),
        beds: Beds::new(setup)?,
    }))
}

impl Bench for Courses {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let known = SUBJECTS.iter().find(|(name, _)| *name == at.subject);
        let (_, way) = known.with_context(|| format!("no subject {}", at.subject))?;
        let bed = self.beds.get(at.subject == KERNEL, at.word(PLACE)?)?;
        let sends = WARM_UP as u64 + SENDS * at.window.as_secs().max(1);
        let program = subject(&self.setup, bed, at.subject == INTERPOSER)
            .args(["course", "--way", way, "--size", &SIZE.to_string()])
            .args(["--sends", &sends.to_string()]);
        if let Some(outboard) = bed.outboard() {
            outboard.trace(sends)?;
        }
        let sending = || {
            peer::with(bed, answer, |address| {
                program.args(["--to", &address.to_string()]).output()
            })
        };
        let ((arrived, printed), cost) = bed.account(sending)?;
        let found = read(&printed)?;
        let called = moments(&found["called"])?;
        let mut rows = vec![(RETURNED, moments(&found["returned"])?), (PEER, arrived)];
        for (moment, name) in [(SUBMITTED, "submitted"), (KNOWN, "known")] {
            if !found[name].is_null() {
                rows.push((moment, moments(&found[name])?));
            }
        }
        if let Some(outboard) = bed.outboard() {
            let traced = outboard.traced()?;
            rows.push((AWAKE, awake(&called, &traced)));
            rows.extend(TRACED.map(|(moment, name)| (moment, times(&traced, name))));
            let by = &TOLD_BY[..1 + usize::from(waits_for_the_wire(at.subject))];
            rows.push((TOLD, told(&traced, by)));
        }
        // The other end is a thread that answers: which part of our time is its own is not known.
        let mut sample = Sample::default().using(&Used::of(&cost.spent));
        for (moment, times) in rows {
            sample = sample.with(moment, since(&called, &times, moment)?);
        }
        are_in_order(&sample)?;
        waits_for_the_engine(at.subject, &sample)?;
        if let Some(engine) = cost.spent.engine {
            sample = sample.with(ENGINE, 1e6 * engine.busy / called.len() as f64);
        }
        Ok(sample)
    }
}

/// When the engine did this.
fn times(traced: &[Traced], name: &str) -> Vec<u64> {
    let are_meant = traced.iter().filter(|it| it.moment == name);
    are_meant.map(|it| it.at).collect()
}

/// When each send was told of, by the first of these: one that is acknowledged at once is not told to have left.
fn told(traced: &[Traced], by: &[&str]) -> Vec<u64> {
    let mut tells = traced.iter().filter(|it| by.contains(&&*it.moment));
    let mut last = None;
    let taken = traced.iter().filter(|it| it.moment == "taken");
    let each = taken.map_while(|send| {
        let is_told = |tale: &&Traced| tale.bytes >= send.bytes;
        last = last.filter(is_told).or_else(|| tells.find(is_told));
        last.map(|tale| tale.at)
    });
    each.collect()
}

/// When the engine woke for each of the submissions that it took; at the call if it was awake.
fn awake(called: &[u64], traced: &[Traced]) -> Vec<u64> {
    let mut woken = Vec::new();
    for (index, it) in traced.iter().enumerate() {
        if it.moment != "taken" {
            continue;
        }
        let before = index.checked_sub(1).and_then(|before| traced.get(before));
        let woke = before.filter(|it| it.moment == "awake").map(|it| it.at);
        let call = called.get(woken.len()).copied();
        woken.push(woke.or(call).unwrap_or(it.at));
    }
    woken
}

fn moments(told: &Value) -> Result<Vec<u64>> {
    let told = told.as_array().context("no moments")?;
    let each = told.iter().map(Value::as_u64);
    each.collect::<Option<_>>().context("no moment")
}

/// The median of what passed since the calls, in microseconds, but for the first.
fn since(called: &[u64], times: &[u64], moment: &str) -> Result<f64> {
    if called.len() != times.len() || called.len() <= WARM_UP {
        bail!(
            "{} sends, and {} times that {moment}: something was sent again, or not seen",
            called.len(),
            times.len()
        );
    }
    let pairs = called.iter().zip(times).skip(WARM_UP);
    // It may have been awake before the call.
    let mut passed: Vec<u64> = pairs.map(|(call, at)| at.saturating_sub(*call)).collect();
    let middle = passed.len() / 2;
    Ok(*passed.select_nth_unstable(middle).1 as f64 / 1e3)
}

/// What was lost and sent again makes as many moments as there should be, where another is lacking: no time is its
/// send's then.
///
/// # Errors
/// The peer has what the engine has not built.
fn are_in_order(sample: &Sample) -> Result<()> {
    let [built, there] = [BUILT, PEER].map(|moment| sample.values.get(moment));
    if let (Some(built), Some(there)) = (built, there)
        && built > there
    {
        bail!(
            "the engine has built the segment {built} µs after the call, and the peer has it after {there} µs"
        );
    }
    Ok(())
}

fn waits_for_the_wire(subject: &str) -> bool {
    [SYNCHRONOUS.0, SYNCHRONOUS_REGISTERED.0].contains(&subject)
}

/// A synchronous call returns after the engine has posted that it has left.
///
/// # Errors
/// It does not.
fn waits_for_the_engine(subject: &str, sample: &Sample) -> Result<()> {
    let [told, returned] = [TOLD, RETURNED].map(|moment| sample.values.get(moment));
    if let (true, Some(told), Some(returned)) = (waits_for_the_wire(subject), told, returned)
        && returned < told
    {
        bail!(
            "a {subject} call returns after {returned} µs, and the engine posts that after {told} µs"
        );
    }
    Ok(())
}

/// Answers each send with a byte, to the end of the stream. When each was there, in nanoseconds.
fn answer(mut stream: TcpStream) -> Result<Vec<u64>> {
    let (mut message, mut arrived) = ([0; SIZE], Vec::new());
    loop {
        let first = stream.read(&mut message)?;
        if first == 0 {
            return Ok(arrived);
        }
        stream.read_exact(&mut message[first..])?;
        arrived.push(clock::now());
        stream.write_all(&[1])?;
    }
}

#[cfg(test)]
mod tests {
    use super::{ASYNCHRONOUS, SYNCHRONOUS, SYNCHRONOUS_REGISTERED};
    use super::{BUILT, PEER, RETURNED, TOLD, WARM_UP};
    use super::{TOLD_BY, are_in_order, awake, since, times, told, waits_for_the_engine};
    use crate::experiment::Sample;
    use crate::outboard::Traced;

    #[test]
    fn moments_are_since_their_own_calls() {
        let called: Vec<u64> = (0..WARM_UP as u64 + 3)
            .map(|number| number * 1_000_000)
            .collect();
        let mut sent: Vec<u64> = called.iter().map(|call| call + 5_000).collect();
        // The first do not count, and one that is late does not matter.
        sent[0] += 700_000;
        sent[WARM_UP] += 300_000;
        assert_eq!(since(&called, &sent, BUILT).unwrap(), 5.0);
        sent.push(7);
        let error = since(&called, &sent, BUILT).unwrap_err().to_string();
        assert!(error.contains(BUILT), "{error}");
        assert!(since(&called[..WARM_UP], &sent[..WARM_UP], BUILT).is_err());
    }

    #[test]
    fn what_is_there_before_it_was_sent_is_an_error() {
        let sample = Sample::default().with(PEER, 300.0);
        assert!(are_in_order(&sample).is_ok(), "the kernel does not say");
        assert!(are_in_order(&sample.clone().with(BUILT, 200.0)).is_ok());
        assert!(are_in_order(&sample.with(BUILT, 6_000.0)).is_err());
    }

    #[test]
    fn a_synchronous_call_that_is_back_before_the_engine_says_so_is_an_error() {
        let early = Sample::default().with(TOLD, 3.0).with(RETURNED, 2.0);
        let late = Sample::default().with(TOLD, 3.0).with(RETURNED, 3.5);
        for (name, _) in [SYNCHRONOUS, SYNCHRONOUS_REGISTERED] {
            assert!(waits_for_the_engine(name, &early).is_err());
            assert!(waits_for_the_engine(name, &late).is_ok());
        }
        assert!(waits_for_the_engine(ASYNCHRONOUS.0, &early).is_ok());
    }

    fn traced(moments: &[(&str, u64, u64)]) -> Vec<Traced> {
        let each = moments.iter().map(|(moment, at, bytes)| Traced {
            moment: (*moment).into(),
            at: *at,
            bytes: *bytes,
        });
        each.collect()
    }

    #[test]
    fn who_is_awake_woke_at_the_call_and_else_before_it_took_it() {
        let traced = traced(&[
            ("awake", 12, 64),
            ("taken", 14, 64),
            ("built", 15, 64),
            ("taken", 24, 128),
            ("acknowledged", 26, 128),
            ("awake", 33, 192),
            ("taken", 35, 192),
        ]);
        assert_eq!(awake(&[10, 20, 30], &traced), [12, 20, 33]);
        assert_eq!(times(&traced, "taken"), [14, 24, 35]);
        assert!(times(&traced, "handed").is_empty());
    }

    #[test]
    fn a_send_is_told_of_by_what_comes_first_and_by_one_that_tells_of_more() {
        let traced = traced(&[
            ("taken", 10, 64),
            ("told_left", 11, 64),
            ("told_acknowledged", 12, 64),
            ("taken", 20, 128),
            ("told_acknowledged", 21, 128),
            ("taken", 30, 192),
            ("taken", 31, 256),
            ("told_acknowledged", 33, 256),
            ("taken", 40, 320),
        ]);
        assert_eq!(told(&traced, &TOLD_BY), [11, 21, 33, 33]);
        assert_eq!(told(&traced, &TOLD_BY[..1]), [12, 21, 33, 33]);
    }
}
