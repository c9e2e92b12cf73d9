//! What must agree, and what a reviewed list lets pass.
//!
//! The list can excuse what a call says. It is never asked about a call that returns on one side
//! alone, about bytes, about which connection was accepted, about what the peer has, or about a process
//! that dies.

use crate::happened::Happened;
use crate::outcome::Outcome;
use crate::program::{Call, Flag, Program, ReceiveBy, Slot, Wait};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::fmt;

/// The reviewed list.
const LIST: &str = include_str!("../differences.toml");

/// A difference that was looked at and found good.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reviewed {
    /// Unique.
    name: String,
    /// What the call is called; a star at its end stands for any rest.
    call: String,
    /// What the kernel's outcome is, likewise.
    kernel: String,
    /// What the engine's outcome is, likewise.
    engine: String,
    /// Only then; without it, always.
    only: Option<Condition>,
    /// Why that is good.
    why: String,
}

/// What must have been before, for a difference to be good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// An `accept` has waited.
    AcceptHasWaited,
    /// A `connect` has said that it did not succeed, or not yet.
    ConnectHasFailed,
}

#[derive(Debug, Deserialize)]
struct File {
    #[serde(default)]
    difference: Vec<Reviewed>,
}

/// The differences that were looked at and found good.
#[derive(Debug)]
pub struct Differences(Vec<Reviewed>);

impl Differences {
    /// Those in the list.
    ///
    /// # Errors
    /// The list is not well-formed, or a reason is missing.
    pub fn read() -> Result<Self> {
        let file: File = toml::from_str(LIST).context("differences.toml")?;
        for entry in &file.difference {
            anyhow::ensure!(!entry.why.trim().is_empty(), "{}: says not why", entry.name);
        }
        Ok(Self(file.difference))
    }

    /// The name of the entry that lets this pass.
    pub fn covers(
        &self,
        call: &Call,
        kernel: &Outcome,
        engine: &Outcome,
        given: &[Condition],
    ) -> Option<&str> {
        let excusable = |outcome: &Outcome| !matches!(outcome, Outcome::Data(..));
        if !(excusable(kernel) && excusable(engine)) {
            return None;
        }
        if let (Outcome::Accepted(_, wanted), Outcome::Accepted(_, got)) = (kernel, engine)
            && wanted != got
        {
            return None;
        }
        let name = call.name();
        let (kernel, engine) = (kernel.to_string(), engine.to_string());
        self.0
            .iter()
            .find(|entry| {
                entry.only.is_none_or(|only| given.contains(&only))
                    && fits(&entry.call, &name)
                    && fits(&entry.kernel, &kernel)
                    && fits(&entry.engine, &engine)
            })
            .map(|entry| entry.name.as_str())
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => text.starts_with(begin),
        None => pattern == text,
    }
}

/// What kind of difference it is: shrinking keeps to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What the kernel did did not come.
    Hang(String),
    /// A call returned that still waits on the kernel.
    Early(String),
    /// A call returned something else: its name, and whether it failed on either.
    Outcome(String, String, String),
    /// A process died.
    Crash,
    /// The peer has other bytes, or another end.
    Peer,
    /// Something is left at the engine after the end of all.
    Left,
    /// The engine itself ended.
    Engine,
}

impl Kind {
    /// Whether it must not be even once in many tries: a hang, a lost byte, a crash.
    pub fn is_grave(&self) -> bool {
        match self {
            Self::Hang(_) | Self::Crash | Self::Peer | Self::Left | Self::Engine => true,
            Self::Early(_) | Self::Outcome(..) => false,
        }
    }
}

/// Where the engine differs.
#[derive(Clone, Debug)]
pub struct Difference {
    /// In which step.
    pub step: usize,
    /// Which kind.
    pub kind: Kind,
    /// In words.
    pub text: String,
    /// What the program printed: nothing, unless it panicked.
    pub said: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {}", self.step, self.text)?;
        match self.said.trim() {
            "" => Ok(()),
            said => write!(f, "\n  the program printed: {said}"),
        }
    }
}

/// Compares what happened in a step; the names of the reviewed differences that were needed.
pub fn compare(
    program: &Program,
    step: usize,
    kernel: &Happened,
    engine: &Happened,
    differences: &Differences,
    given: &[Condition],
) -> Result<Vec<String>, Box<Difference>> {
    let fail = |kind, text| {
        Err(Box::new(Difference {
            step,
            kind,
            text,
            said: String::new(),
        }))
    };
    let name = |step: usize| match program.steps.get(step) {
        Some(crate::program::Step::Do(actor, call)) => (call.name(), format!("{actor}: {call:?}")),
        Some(other) => ("peer".into(), format!("{other:?}")),
        None => ("end".into(), "the end".into()),
    };
    if kernel.died != engine.died {
        let text = format!(
            "actors {:?} die on the kernel, {:?} on the engine",
            kernel.died, engine.died
        );
        return fail(Kind::Crash, text);
    }
    let mut excused = Vec::new();
    for (made, wanted) in &kernel.returned {
        let (short, long) = name(*made);
        let Some(got) = engine.returned.get(made) else {
            let mut text =
                format!("step {made} ({long}) returns {wanted} on the kernel, hangs on the engine");
            let instead = engine.returned.iter();
            for (made, got) in instead.filter(|(made, _)| !kernel.returned.contains_key(made)) {
                text.push_str(&format!(
                    ", where step {made} ({}) returns {got}",
                    name(*made).1
                ));
            }
            return fail(Kind::Hang(short), text);
        };
        if got == wanted {
            continue;
        }
        let covered = match program.steps.get(*made) {
            Some(crate::program::Step::Do(_, call)) => differences.covers(call, wanted, got, given),
            _ => None,
        };
        match covered {
            Some(name) => excused.push(name.to_owned()),
            None => {
                let text = format!(
                    "step {made} ({long}) returns {wanted} on the kernel, {got} on the engine"
                );
                return fail(Kind::Outcome(short, class(wanted), class(got)), text);
            }
        }
    }
    for (made, got) in &engine.returned {
        if !kernel.returned.contains_key(made) {
            let (short, long) = name(*made);
            let text =
                format!("step {made} ({long}) waits on the kernel, returns {got} on the engine");
            return fail(Kind::Early(short), text);
        }
    }
    if kernel.came != engine.came {
        let text = format!(
            "actors {:?} come on the kernel, {:?} on the engine",
            kernel.came, engine.came
        );
        return fail(Kind::Hang(name(step).0), text);
    }
    if kernel.skipped != engine.skipped {
        let text = format!(
            "{:?} on the kernel, {:?} on the engine",
            kernel.skipped, engine.skipped
        );
        return fail(Kind::Early("actor".into()), text);
    }
    if kernel.connected != engine.connected {
        let text = format!(
            "the peer's connect: {:?} on the kernel, {:?} on the engine",
            kernel.connected, engine.connected
        );
        return fail(Kind::Peer, text);
    }
    if kernel.views != engine.views {
        return fail(Kind::Peer, views(kernel, engine));
    }
    Ok(excused)
}

/// Coarse enough that a shrunk program fails in the same way.
fn class(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Error(name) => name.clone(),
        Outcome::Data(bytes, _) if bytes.is_empty() => "end".into(),
        Outcome::Ready(ready) if ready.is_empty() => "none ready".into(),
        Outcome::Value(_) => "value".into(),
        Outcome::Descriptors(_) | Outcome::Accepted(..) => "descriptor".into(),
        Outcome::Data(..) => "data".into(),
        Outcome::Ready(_) => "ready".into(),
        Outcome::Text(_) => "text".into(),
        Outcome::NoSlot => "no slot".into(),
    }
}

fn views(kernel: &Happened, engine: &Happened) -> String {
    let (Some(kernel), Some(engine)) = (&kernel.views, &engine.views) else {
        return "the peer was not looked at".into();
    };
    let mut lines = Vec::new();
    for (connection, wanted) in kernel {
        let Some(got) = engine.get(connection).filter(|got| *got != wanted) else {
            continue;
        };
        let same = wanted
            .received
            .bytes()
            .zip(got.received.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        let around = |text: &str| text[same..text.len().min(same + 16)].to_owned();
        lines.push(format!(
            "connection {connection} at the peer: {:?} after {} bytes on the kernel, {:?} after \
             {} bytes on the engine; after {same} the same: {:?}, {:?}",
            wanted.state,
            wanted.received.len(),
            got.state,
            got.received.len(),
            around(&wanted.received),
            around(&got.received),
        ));
    }
    lines.join("\n  ")
}

/// The call that brings what a call has not brought yet, because it had not arrived: the same one,
/// if what it did can be done twice, or one for the rest.
pub fn again(call: &Call, wanted: &Outcome, got: &Outcome) -> Option<Call> {
    match (call, wanted, got) {
        (Call::Receive { flags, .. }, Outcome::Data(..), Outcome::Data(..))
            if flags.contains(&Flag::Peek) =>
        {
            Some(call.clone())
        }
        (
            Call::Receive {
                slot, by, flags, ..
            },
            Outcome::Data(wanted, _),
            Outcome::Data(got, _),
        ) if wanted.len() > got.len() && !got.is_empty() && wanted.starts_with(got.as_str()) => {
            Some(receive_now(slot, by, flags, wanted.len() - got.len()))
        }
        // So many bytes of the stream are passed over.
        (
            Call::Receive {
                slot, by, flags, ..
            },
            Outcome::Value(wanted),
            Outcome::Value(got),
        ) if flags.contains(&Flag::Truncate) && (1..*wanted).contains(got) => {
            Some(receive_now(slot, by, flags, (wanted - got) as usize))
        }
        (_, _, Outcome::Error(error)) if error == "EAGAIN" => Some(call.clone()),
        (Call::EpollWait { set, most, .. }, Outcome::Ready(wanted), Outcome::Ready(got))
            if is_part(got, wanted) =>
        {
            Some(Call::EpollWait {
                set: *set,
                most: *most,
                wait: Wait::No,
            })
        }
        (Call::Poll { slots, .. }, Outcome::Ready(wanted), Outcome::Ready(got))
            if is_part(got, wanted) =>
        {
            Some(Call::Poll {
                slots: slots.clone(),
                wait: Wait::No,
            })
        }
        (Call::Select { read, write, .. }, Outcome::Ready(wanted), Outcome::Ready(got))
            if is_part(got, wanted) =>
        {
            Some(Call::Select {
                read: read.clone(),
                write: write.clone(),
                wait: Wait::No,
            })
        }
        // What would be peeked at is counted (MSG_TRUNC).
        (Call::Receive { flags, .. }, Outcome::Value(_), Outcome::Value(_))
            if flags.contains(&Flag::Peek) =>
        {
            Some(call.clone())
        }
        (Call::Splice { from, to, .. }, Outcome::Value(wanted), Outcome::Value(got))
            if (1..*wanted).contains(got) =>
        {
            Some(Call::Splice {
                from: *from,
                to: *to,
                length: (wanted - got) as u32,
                nonblocking: true,
            })
        }
        (Call::Unread { .. } | Call::Name { .. }, ..) => Some(call.clone()),
        (Call::GetOption { .. }, Outcome::Text(_), Outcome::Text(got)) if got == "0 (4)" => {
            Some(call.clone())
        }
        _ => None,
    }
}

fn is_part(
    got: &[(u8, Vec<crate::program::Event>)],
    wanted: &[(u8, Vec<crate::program::Event>)],
) -> bool {
    got.iter().all(|(slot, events)| {
        wanted.iter().any(|(other, wanted)| {
            other == slot && events.iter().all(|event| wanted.contains(event))
        })
    })
}

/// Receives the `left` bytes that were missing, without waiting for them.
fn receive_now(slot: &Slot, by: &ReceiveBy, flags: &[Flag], left: usize) -> Call {
    Call::Receive {
        slot: *slot,
        most: left as u32,
        by: *by,
        flags: [flags, &[Flag::DontWait]].concat(),
    }
}

/// Whether a value is so many bytes of a stream, of which the next call has the rest.
fn is_stream(call: &Call) -> bool {
    match call {
        Call::Splice { .. } => true,
        Call::Receive { flags, .. } => {
            flags.contains(&Flag::Truncate) && !flags.contains(&Flag::Peek)
        }
        _ => false,
    }
}

/// What a call and its repetition brought together.
pub fn joined(call: &Call, first: Outcome, second: Outcome) -> Outcome {
    let peeks = matches!(call, Call::Receive { flags, .. } if flags.contains(&Flag::Peek));
    match (first, second) {
        (Outcome::Data(first, flags), Outcome::Data(second, more)) if !peeks => {
            Outcome::Data(first + &second, flags | more)
        }
        (Outcome::Data(first, flags), Outcome::Error(_)) => Outcome::Data(first, flags),
        (Outcome::Value(first), Outcome::Value(second)) if is_stream(call) => {
            Outcome::Value(first + second)
        }
        (Outcome::Value(first), Outcome::Error(_)) if is_stream(call) => Outcome::Value(first),
        (Outcome::Ready(first), Outcome::Ready(second)) => {
            let mut all = first;
            for (slot, events) in second {
                match all.iter_mut().find(|(known, _)| *known == slot) {
                    Some((_, known)) => {
                        known.extend(events);
                        known.sort();
                        known.dedup();
                    }
                    None => all.push((slot, events)),
                }
            }
            all.sort();
            Outcome::Ready(all)
        }
        (_, second) => second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Event, ReceiveBy, Step};

    fn list(text: &str) -> Differences {
        let file: File = toml::from_str(text).unwrap();
        Differences(file.difference)
    }

    /// A list that excuses as much as a list can.
    fn everything() -> Differences {
        list("[[difference]]\nname='all'\ncall='*'\nkernel='*'\nengine='*'\nwhy='for the test'")
    }

    fn receive(most: u32) -> Call {
        Call::Receive {
            slot: 1,
            most,
            by: ReceiveBy::Recv,
            flags: vec![],
        }
    }

    fn returning(outcome: Outcome) -> Happened {
        Happened {
            returned: [(0, outcome)].into(),
            ..Happened::default()
        }
    }

    fn kind(kernel: &Happened, engine: &Happened) -> Option<Kind> {
        let program = Program {
            about: String::new(),
            steps: vec![Step::Do(0, receive(10))],
        };
        compare(&program, 0, kernel, engine, &everything(), &[])
            .err()
            .map(|difference| difference.kind)
    }

    #[test]
    fn no_list_excuses_a_hang_a_lost_byte_or_a_crash() {
        let data = |text: &str| returning(Outcome::Data(text.into(), 0));
        let nothing = Happened::default();
        let hang = kind(&data("ab"), &nothing);
        assert_eq!(hang, Some(Kind::Hang("recv".into())));
        assert_eq!(
            kind(&nothing, &data("ab")),
            Some(Kind::Early("recv".into()))
        );
        assert!(kind(&data("ab"), &data("a")).is_some());
        assert!(kind(&data("ab"), &data("ba")).is_some());
        let error = returning(Outcome::Error("ECONNRESET".into()));
        assert!(kind(&data(""), &error).is_some());
        assert!(kind(&error, &data("")).is_some());
        let death = Happened {
            died: [0].into(),
            ..Happened::default()
        };
        assert_eq!(kind(&nothing, &death), Some(Kind::Crash));
        assert_eq!(kind(&death, &nothing), Some(Kind::Crash));
        let refused = Happened {
            connected: Some(crate::peer::State::Refused),
            ..Happened::default()
        };
        assert_eq!(kind(&refused, &nothing), Some(Kind::Peer));
        let came = Happened {
            came: [1].into(),
            ..Happened::default()
        };
        assert!(matches!(kind(&came, &nothing), Some(Kind::Hang(_))));
    }

    #[test]
    fn other_bytes_at_the_peer_are_a_difference() {
        let seen = |received: &str| Happened {
            views: Some(
                [(
                    0,
                    crate::peer::View {
                        state: crate::peer::State::Open,
                        received: received.into(),
                    },
                )]
                .into(),
            ),
            ..Happened::default()
        };
        assert_eq!(kind(&seen("ab"), &seen("ab")), None);
        assert_eq!(kind(&seen("ab"), &seen("a")), Some(Kind::Peer));
    }

    #[test]
    fn what_a_call_says_can_be_excused() {
        let value = |value| returning(Outcome::Value(value));
        assert_eq!(kind(&value(1), &value(2)), None);
    }

    #[test]
    fn an_entry_with_a_condition_needs_it() {
        let differences = Differences::read().unwrap();
        let call = Call::Socket {
            new: 1,
            family: crate::program::Family::V4,
            nonblocking: false,
        };
        let number = |number| Outcome::Descriptors(vec![number]);
        let covers = |given: &[Condition]| {
            differences
                .covers(&call, &number(6), &number(5), given)
                .is_some()
        };
        assert!(!covers(&[]));
        assert!(covers(&[Condition::AcceptHasWaited]));
    }

    #[test]
    fn which_connection_was_accepted_is_never_excused() {
        let accepted = |number, connection| Outcome::Accepted(number, Some(connection));
        let covers = |one: &Outcome, other: &Outcome| {
            let list = everything();
            list.covers(&receive(1), one, other, &[]).is_some()
        };
        assert!(covers(&accepted(5, 1), &accepted(6, 1)), "a number can");
        assert!(!covers(&accepted(5, 1), &accepted(5, 2)));
        assert!(!covers(&accepted(5, 1), &Outcome::Accepted(5, None)));
    }

    #[test]
    fn the_rest_of_what_came_in_part_is_read() {
        let data = |text: &str| Outcome::Data(text.into(), 0);
        let rest = again(&receive(10), &data("abc"), &data("a"));
        let Some(Call::Receive { most, flags, .. }) = &rest else {
            panic!("{rest:?}");
        };
        assert_eq!((*most, flags.as_slice()), (2, &[Flag::DontWait][..]));
        assert_eq!(joined(&receive(10), data("a"), data("bc")), data("abc"));
        // Other bytes are no part.
        assert_eq!(again(&receive(10), &data("abc"), &data("b")), None);
        // The end is not repeated: it is not a matter of time.
        assert_eq!(again(&receive(10), &data("abc"), &data("")), None);
    }

    #[test]
    fn events_that_come_one_after_the_other_are_joined() {
        let call = Call::EpollWait {
            set: 1,
            most: 9,
            wait: Wait::Forever,
        };
        let both = Outcome::Ready(vec![(1, vec![Event::In, Event::Out]), (2, vec![Event::In])]);
        let first = Outcome::Ready(vec![(1, vec![Event::Out])]);
        let second = Outcome::Ready(vec![(1, vec![Event::In]), (2, vec![Event::In])]);
        assert!(again(&call, &both, &first).is_some());
        assert_eq!(joined(&call, first, second), both);
        // One too many is not made good by waiting.
        let more = Outcome::Ready(vec![(3, vec![Event::In])]);
        assert_eq!(again(&call, &both, &more), None);
    }
}
