//! Races that Linux decides by chance: several wait for the same thing, and one has it.
//!
//! What arrives wakes all that wait to read, and the first of them to run takes as much as it asked for. Which
//! one that is nobody can tell, and often it is the same one ten times over. So it is no difference that
//! another has it, if nothing is missing: the same bytes are taken, by calls that waited before.
//!
//! And one that the engine decides otherwise: which of the connections that wait a process accepts, where
//! several do.

use crate::happened::Happened;
use crate::outcome::Outcome;
use crate::program::{Call, Connection, Flag, Peer as Act, Program, Step};
use std::collections::BTreeSet;

/// Whether those that were in calls `before` the step have only changed places.
pub fn is_contest(
    program: &Program,
    before: &BTreeSet<usize>,
    kernel: &Happened,
    engine: &Happened,
) -> bool {
    // Those that waited, and the others.
    let divided = |side: &Happened| -> (Vec<_>, Vec<_>) {
        let returned = side.returned.iter();
        let returned = returned.map(|(step, outcome)| (*step, outcome.clone()));
        returned.partition(|(step, _)| before.contains(step))
    };
    let ((one, rest), (other, others_rest)) = (divided(kernel), divided(engine));
    let same = have_changed_places(program, &one, &other)
        || have_shared_otherwise(program, &one, &other) && rest == others_rest;
    same && kernel.died == engine.died && kernel.views == engine.views
}

/// Whether the same calls have returned the same, in other places.
fn have_changed_places(
    program: &Program,
    one: &[(usize, Outcome)],
    other: &[(usize, Outcome)],
) -> bool {
    let steps = |side: &[(usize, Outcome)]| side.iter().map(|(step, _)| *step).collect::<Vec<_>>();
    let outcomes = |side: &[(usize, Outcome)]| {
        let mut all: Vec<String> = side
            .iter()
            .map(|(step, outcome)| {
                let name = call(program, *step).map(Call::name);
                // Who accepts gets a number of his own process.
                match outcome {
                    Outcome::Descriptors(_) => format!("{name:?}"),
                    Outcome::Accepted(_, connection) => format!("{name:?} {connection:?}"),
                    other => format!("{name:?} {other}"),
                }
            })
            .collect();
        all.sort();
        all
    };
    steps(one) != steps(other) && outcomes(one) == outcomes(other)
}

/// Whether accepts have got others of the connections that waited at a listener which several processes have.
/// On the engine a process has first what it was offered, also if one that came before lies with another
/// process. That one is lost to nobody: the next that finds nothing has it.
pub fn is_other_order(program: &Program, kernel: &Happened, engine: &Happened) -> bool {
    let mut same = engine.clone();
    for (step, wanted) in &kernel.returned {
        let Some(got) = engine.returned.get(step) else {
            return false;
        };
        if wanted != got && have_waited_together(program, *step, wanted, got) {
            same.returned.insert(*step, wanted.clone());
        }
    }
    *engine != *kernel && same == *kernel
}

/// Whether the step could have accepted either: both connections are the peer's to one port, and by then the
/// program has had several processes.
fn have_waited_together(program: &Program, step: usize, one: &Outcome, other: &Outcome) -> bool {
    let (Outcome::Accepted(_, Some(one)), Outcome::Accepted(_, Some(other))) = (one, other) else {
        return false;
    };
    let before = &program.steps[..step.min(program.steps.len())];
    let port_of = |wanted: &Connection| {
        before.iter().find_map(|step| match step {
            Step::Peer(Act::Connect {
                connection, port, ..
            }) if connection == wanted => Some(*port),
            _ => None,
        })
    };
    let forks = |step: &Step| matches!(step, Step::Do(_, Call::Fork { .. }));
    port_of(one).is_some() && port_of(one) == port_of(other) && before.iter().any(forks)
}

/// Whether the same bytes were taken, by others or in other portions.
fn have_shared_otherwise(
    program: &Program,
    one: &[(usize, Outcome)],
    other: &[(usize, Outcome)],
) -> bool {
    let shares = |side: &[(usize, Outcome)]| -> Option<Vec<Share>> {
        side.iter()
            .map(|(step, outcome)| share(call(program, *step)?, outcome))
            .collect()
    };
    let (Some(first), Some(second)) = (shares(one), shares(other)) else {
        return false;
    };
    if first.is_empty() || second.is_empty() || one == other {
        return false;
    }
    let length = |shares: &[Share]| shares.iter().map(Share::length).sum::<usize>();
    let text = |shares: &[Share]| -> Option<String> {
        let mut parts: Vec<&str> = shares.iter().map(Share::text).collect::<Option<_>>()?;
        // Each place in a stream reads differently, and later ones are greater.
        parts.sort_unstable();
        Some(parts.concat())
    };
    match (text(&first), text(&second)) {
        (Some(first), Some(second)) => first == second,
        _ => length(&first) == length(&second),
    }
}

/// What a call has taken out of a connection.
enum Share {
    /// These bytes.
    Bytes(String),
    /// So many that nobody has seen.
    Unseen(usize),
}

impl Share {
    fn length(&self) -> usize {
        match self {
            Self::Bytes(text) => text.len(),
            Self::Unseen(length) => *length,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Bytes(text) => Some(text),
            Self::Unseen(_) => None,
        }
    }
}

/// `None`: the call took nothing. An end or an error is everybody's, and no share.
fn share(call: &Call, outcome: &Outcome) -> Option<Share> {
    match (call, outcome) {
        (Call::Receive { flags, .. }, _) if flags.contains(&Flag::Peek) => None,
        (Call::Receive { .. }, Outcome::Data(text, _)) if !text.is_empty() => {
            Some(Share::Bytes(text.clone()))
        }
        (Call::Receive { .. } | Call::Splice { .. }, Outcome::Value(length)) if *length > 0 => {
            usize::try_from(*length).ok().map(Share::Unseen)
        }
        _ => None,
    }
}

fn call(program: &Program, step: usize) -> Option<&Call> {
    match program.steps.get(step) {
        Some(Step::Do(_, call)) => Some(call),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{AcceptBy, Family, ReceiveBy};

    /// Two calls that read and one that splices wait at one connection.
    fn program() -> Program {
        let receive = |actor, most| {
            Step::Do(
                actor,
                Call::Receive {
                    slot: 2,
                    most,
                    by: ReceiveBy::Recv,
                    flags: vec![],
                },
            )
        };
        let splice = Call::Splice {
            from: 2,
            to: 8,
            length: 1448,
            nonblocking: true,
        };
        Program {
            about: String::new(),
            steps: vec![receive(0, 4), receive(1, 100), Step::Do(2, splice)],
        }
    }

    fn returning<const N: usize>(returned: [(usize, Outcome); N]) -> Happened {
        Happened {
            returned: returned.into(),
            ..Happened::default()
        }
    }

    fn data(text: &str) -> Outcome {
        Outcome::Data(text.into(), 0)
    }

    fn is_one<const M: usize, const N: usize>(
        kernel: [(usize, Outcome); M],
        engine: [(usize, Outcome); N],
    ) -> bool {
        super::is_contest(
            &program(),
            &[0, 1, 2].into(),
            &returning(kernel),
            &returning(engine),
        )
    }

    #[test]
    fn any_that_waits_may_have_what_came() {
        assert!(is_one([(0, data("abc"))], [(1, data("abc"))]));
        assert!(is_one([(0, data("abc"))], [(2, Outcome::Value(3))]));
        assert!(is_one([(2, Outcome::Value(3))], [(1, data("abc"))]));
        assert!(is_one(
            [(0, data("abcd")), (1, data("ef"))],
            [(1, data("abcdef"))]
        ));
    }

    #[test]
    fn a_lost_or_another_byte_is_no_contest() {
        assert!(!is_one([(0, data("abc"))], []));
        assert!(!is_one([], [(0, data("abc"))]));
        assert!(!is_one([(0, data("abc"))], [(1, data("ab"))]));
        assert!(!is_one([(0, data("abc"))], [(1, data("abd"))]));
        assert!(!is_one([(0, data("abc"))], [(2, Outcome::Value(2))]));
        assert!(!is_one(
            [(0, data("abc"))],
            [(0, data("abc")), (1, data("abc"))]
        ));
    }

    #[test]
    fn an_end_and_an_error_are_everybodys() {
        let reset = || Outcome::Error("ECONNRESET".into());
        assert!(!is_one([(0, data(""))], [(2, Outcome::Value(0))]));
        assert!(!is_one(
            [(0, reset()), (2, Outcome::Value(0))],
            [(0, reset())]
        ));
        assert!(!is_one([(0, data("abc"))], [(1, reset())]));
    }

    #[test]
    fn who_did_not_wait_takes_part_in_none() {
        let one = returning([(0, data("abc"))]);
        let other = returning([(1, data("abc"))]);
        assert!(!super::is_contest(&program(), &[0].into(), &one, &other));
    }

    /// Two processes have a listener at port 0, with two connections of the peer's; a third is at port 1.
    /// Process 1 accepts in the last step.
    fn accepting(forks: bool) -> Program {
        let connect = |connection, port| {
            Step::Peer(Act::Connect {
                connection,
                port,
                family: Family::V4,
            })
        };
        let accept = Call::Accept {
            slot: 1,
            new: 2,
            by: AcceptBy::Accept,
        };
        let second = match forks {
            true => Call::Fork { child: 1 },
            false => Call::Thread { new: 1 },
        };
        let mut steps = vec![Step::Do(0, second)];
        steps.extend([connect(3, 0), connect(5, 0), connect(6, 1)]);
        steps.push(Step::Do(1, accept));
        Program {
            about: String::new(),
            steps,
        }
    }

    fn accepted(number: i32, connection: u8) -> Happened {
        returning([(4, Outcome::Accepted(number, Some(connection)))])
    }

    #[test]
    fn one_of_several_processes_may_accept_what_it_was_offered() {
        let is = |program: &Program, one: &Happened, other: &Happened| {
            super::is_other_order(program, one, other)
        };
        let (shared, alone) = (accepting(true), accepting(false));
        let (one, other) = (accepted(7, 3), accepted(7, 5));
        let (one, other) = (&one, &other);
        assert!(is(&shared, one, other));
        assert!(!is(&alone, one, other), "one process has one queue");
        assert!(!is(&shared, one, one), "no difference");
        assert!(!is(&shared, one, &accepted(7, 6)), "of another listener");
        assert!(!is(&shared, one, &accepted(7, 4)), "of nobody");
        assert!(!is(&shared, one, &returning([])), "a hang");
        assert!(!is(&shared, &returning([]), one), "early");
        let failed = returning([(4, Outcome::Error("EMFILE".into()))]);
        assert!(!is(&shared, one, &failed) && !is(&shared, &failed, one));
        let mut more = other.clone();
        more.returned.insert(9, Outcome::Value(0));
        assert!(!is(&shared, one, &more) && !is(&shared, &more, one));
        more = other.clone();
        more.died.insert(0);
        assert!(!is(&shared, one, &more));
    }
}
