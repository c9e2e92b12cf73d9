//! 001, figures 6.3 to 6.5: the course of one send of 64 bytes, by what the program, its engine and the peer say.

use super::super::bed::Bed;
use super::super::{Entry, Extent, Setup};
use super::{ASYNCHRONOUS, REGISTERED, SENDS as WAYS, SYNCHRONOUS, SYNCHRONOUS_REGISTERED};
use super::{Beds, PLACE, PLACES, cited, peer, read, subject, subjects};
use crate::captured::{self, Segment};
use crate::experiment::declaration::{Axis, Bound, Claim, Finding, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::world::Side;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

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
const SENT: &str = "the engine sends";
const PEER: &str = "the peer has it";
const ACKNOWLEDGED: &str = "acknowledged";
const KNOWN: &str = "the program knows";
/// Besides the moments.
const ENGINE: &str = "CPU of the engine, a send";
const MOMENTS: [&str; 5] = [RETURNED, SENT, PEER, ACKNOWLEDGED, KNOWN];
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
/// Nothing takes longer, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);

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
             byte, which carries the acknowledgement. All moments are since the call, by the wall clock of the one \
             machine; medians over the sends. When the engine sends, and when it has the acknowledgement, are the \
             times that it gives the frames in a capture of its own: those of the turn that handles them. That the \
             program knows is its cookie's return, which tells of the acknowledgement or, of a synchronous send, that \
             it has left; over sockets it is not told. The engine captures meanwhile, which costs it some time, and is \
             in its CPU, as is the answer. {WAYS}"
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
        let sending = || {
            peer::with(bed, answer, |address| {
                program.args(["--to", &address.to_string()]).output()
            })
        };
        let (((arrived, printed), cost), frames) = captured(bed, || bed.account(sending))?;
        let found = read(&printed)?;
        let called = moments(&found["called"])?;
        let mut rows = vec![(RETURNED, moments(&found["returned"])?), (PEER, arrived)];
        if !found["known"].is_null() {
            rows.push((KNOWN, moments(&found["known"])?));
        }
        if let Some(frames) = frames {
            let (from, by) = (Side::Server.ipv4().octets(), Side::Client.ipv4().octets());
            rows.push((SENT, times(&frames, from, SIZE)));
            rows.push((ACKNOWLEDGED, times(&frames, by, 1)));
        }
        let mut sample = Sample::default();
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

/// What `work` returned, and the segments that the engine handled meanwhile, if there is one.
fn captured<T>(bed: &Bed, work: impl FnOnce() -> Result<T>) -> Result<(T, Option<Vec<Segment>>)> {
    let Some(outboard) = bed.outboard() else {
        return Ok((work()?, None));
    };
    let file = bed.world().scratch().join("course.pcapng");
    // One of an earlier measurement is no sign of this one's beginning.
    let _ = std::fs::remove_file(&file);
    let mut capture = outboard
        .command(bed.world(), "capture")
        .arg("-w")
        .arg(&file)
        .log(bed.world().scratch().join("capture.log"))
        .start()?;
    let has_begun = || std::fs::metadata(&file).is_ok_and(|file| file.len() > 0);
    capture.wait_until(LIMIT, has_begun)?;
    let did = work()?;
    capture.stop(LIMIT)?;
    let frames = captured::segments(&std::fs::read(&file)?)?;
    Ok((did, Some(frames)))
}

/// When segments from an address with so much data were handled.
fn times(frames: &[Segment], from: [u8; 4], data: usize) -> Vec<u64> {
    let are_meant = |frame: &&Segment| frame.from == from && frame.data == data;
    frames
        .iter()
        .filter(are_meant)
        .map(|frame| frame.at)
        .collect()
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
    // The engine tells the time when its turn begins: that can be before the call.
    let mut passed: Vec<u64> = pairs.map(|(call, at)| at.saturating_sub(*call)).collect();
    let middle = passed.len() / 2;
    Ok(*passed.select_nth_unstable(middle).1 as f64 / 1e3)
}

/// A frame that a capture lacks and one that it has twice make as many as there should be: no time is its send's then.
///
/// # Errors
/// The peer has what the engine has not sent.
fn are_in_order(sample: &Sample) -> Result<()> {
    let [sent, there] = [SENT, PEER].map(|moment| sample.values.get(moment));
    if let (Some(sent), Some(there)) = (sent, there)
        && sent > there
    {
        bail!("the engine sends {sent} µs after the call, and the peer has it after {there} µs");
    }
    Ok(())
}

/// A synchronous call returns after the engine has sent.
///
/// # Errors
/// It does not.
fn waits_for_the_engine(subject: &str, sample: &Sample) -> Result<()> {
    let is_meant = [SYNCHRONOUS.0, SYNCHRONOUS_REGISTERED.0].contains(&subject);
    let [sent, returned] = [SENT, RETURNED].map(|moment| sample.values.get(moment));
    if let (true, Some(sent), Some(returned)) = (is_meant, sent, returned)
        && returned < sent
    {
        bail!("a {subject} call returns after {returned} µs, and the engine sends after {sent} µs");
    }
    Ok(())
}

/// Answers each send with a byte, to the end of the stream. When each was there, in nanoseconds since 1970.
fn answer(mut stream: TcpStream) -> Result<Vec<u64>> {
    let (mut message, mut arrived) = ([0; SIZE], Vec::new());
    loop {
        let first = stream.read(&mut message)?;
        if first == 0 {
            return Ok(arrived);
        }
        stream.read_exact(&mut message[first..])?;
        let since = SystemTime::UNIX_EPOCH.elapsed()?;
        arrived.push(u64::try_from(since.as_nanos())?);
        stream.write_all(&[1])?;
    }
}

#[cfg(test)]
mod tests {
    use super::{ASYNCHRONOUS, SYNCHRONOUS, SYNCHRONOUS_REGISTERED};
    use super::{PEER, RETURNED, SENT, WARM_UP, are_in_order, since, times, waits_for_the_engine};
    use crate::captured::Segment;
    use crate::experiment::Sample;

    #[test]
    fn moments_are_since_their_own_calls() {
        let called: Vec<u64> = (0..WARM_UP as u64 + 3)
            .map(|number| number * 1_000_000)
            .collect();
        let mut sent: Vec<u64> = called.iter().map(|call| call + 5_000).collect();
        // The first do not count, and one that is late does not matter.
        sent[0] += 700_000;
        sent[WARM_UP] += 300_000;
        assert_eq!(since(&called, &sent, SENT).unwrap(), 5.0);
        sent.push(7);
        let error = since(&called, &sent, SENT).unwrap_err().to_string();
        assert!(error.contains(SENT), "{error}");
        assert!(since(&called[..WARM_UP], &sent[..WARM_UP], SENT).is_err());
    }

    #[test]
    fn what_is_there_before_it_was_sent_is_an_error() {
        let sample = Sample::default().with(PEER, 300.0);
        assert!(are_in_order(&sample).is_ok(), "the kernel does not say");
        assert!(are_in_order(&sample.clone().with(SENT, 200.0)).is_ok());
        assert!(are_in_order(&sample.with(SENT, 6_000.0)).is_err());
    }

    #[test]
    fn a_synchronous_call_that_is_back_before_the_engine_sends_is_an_error() {
        let early = Sample::default().with(SENT, 3.0).with(RETURNED, 2.0);
        let late = Sample::default().with(SENT, 3.0).with(RETURNED, 3.5);
        for (name, _) in [SYNCHRONOUS, SYNCHRONOUS_REGISTERED] {
            assert!(waits_for_the_engine(name, &early).is_err());
            assert!(waits_for_the_engine(name, &late).is_ok());
        }
        assert!(waits_for_the_engine(ASYNCHRONOUS.0, &early).is_ok());
    }

    #[test]
    fn only_frames_of_a_side_and_a_length_count() {
        let frame = |at, from, data| Segment {
            at,
            from: [10, 0, 0, from],
            data,
        };
        let frames = [
            frame(1, 1, 0),
            frame(2, 1, 64),
            frame(3, 2, 1),
            frame(4, 1, 64),
        ];
        assert_eq!(times(&frames, [10, 0, 0, 1], 64), [2, 4]);
        assert_eq!(times(&frames, [10, 0, 0, 2], 1), [3]);
    }
}
