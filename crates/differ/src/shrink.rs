//! Making a program that fails small: steps are left out, and numbers made small, as long as it
//! fails in the same way.

use crate::program::{Call, Flag, Peer, Program, Step};

/// Shrinks; `fails` says whether a candidate still fails in the same way.
///
/// # Errors
/// Those of `fails`.
pub fn shrink(
    program: &Program,
    mut fails: impl FnMut(&Program) -> anyhow::Result<bool>,
) -> anyhow::Result<Program> {
    let mut best = program.clone();
    loop {
        let before = best.clone();
        leave_out(&mut best, &mut fails)?;
        simplify(&mut best, &mut fails)?;
        if best == before {
            return Ok(best);
        }
    }
}

/// Leaves out runs of steps, long ones first.
fn leave_out(
    best: &mut Program,
    fails: &mut impl FnMut(&Program) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let mut size = best.steps.len().div_ceil(2);
    while size > 0 {
        // From the end: what comes later is needed less often.
        let mut end = best.steps.len();
        while end > 0 {
            let begin = end.saturating_sub(size);
            let mut candidate = best.clone();
            candidate.steps.drain(begin..end);
            if fails(&candidate)? {
                *best = candidate;
            }
            end = begin.min(best.steps.len());
        }
        size /= 2;
    }
    Ok(())
}

/// Replaces each step by simpler ones.
fn simplify(
    best: &mut Program,
    fails: &mut impl FnMut(&Program) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    for index in 0..best.steps.len() {
        for simpler in simpler(&best.steps[index]) {
            let mut candidate = best.clone();
            candidate.steps[index] = simpler;
            if fails(&candidate)? {
                *best = candidate;
                break;
            }
        }
    }
    Ok(())
}

/// Simpler steps, the simplest first.
fn simpler(step: &Step) -> Vec<Step> {
    use crate::program::{AcceptBy, ReceiveBy, SendBy, StartBy};
    let mut all = Vec::new();
    match step {
        Step::Peer(Peer::Send(connection, length)) if *length > 1 => {
            for less in [1, 100].into_iter().filter(|less| less < length) {
                all.push(Step::Peer(Peer::Send(*connection, less)));
            }
        }
        Step::Do(
            actor,
            Call::Receive {
                slot, most, flags, ..
            },
        ) => {
            let plain = |most: u32, flags: Vec<Flag>, by: ReceiveBy| {
                let slot = *slot;
                Step::Do(
                    *actor,
                    Call::Receive {
                        slot,
                        most,
                        by,
                        flags,
                    },
                )
            };
            all.push(plain(1, vec![], ReceiveBy::Read));
            all.push(plain(*most, vec![], ReceiveBy::Read));
            all.push(plain(*most, flags.clone(), ReceiveBy::Recv));
        }
        Step::Do(
            actor,
            Call::Send {
                slot,
                length,
                flags,
                ..
            },
        ) => {
            for length in [1, *length] {
                let (slot, by, flags) = (*slot, SendBy::Write, vec![]);
                all.push(Step::Do(
                    *actor,
                    Call::Send {
                        slot,
                        length,
                        by,
                        flags,
                    },
                ));
            }
            let (slot, length, by, flags) = (*slot, *length, SendBy::Send, flags.clone());
            all.push(Step::Do(
                *actor,
                Call::Send {
                    slot,
                    length,
                    by,
                    flags,
                },
            ));
        }
        Step::Do(actor, Call::Accept { slot, new, by }) if *by != AcceptBy::Accept => {
            let (slot, new, by) = (*slot, *new, AcceptBy::Accept);
            all.push(Step::Do(*actor, Call::Accept { slot, new, by }));
        }
        Step::Do(actor, Call::Start { by, slot, length }) => {
            for (by, length) in [(StartBy::Spawn, 1), (StartBy::Spawn, *length), (*by, 1)] {
                let slot = *slot;
                all.push(Step::Do(*actor, Call::Start { by, slot, length }));
            }
        }
        _ => {}
    }
    // Strictly: or two that are as simple as each other take turns for ever.
    all.retain(|simpler| cost(simpler) < cost(step));
    all
}

/// How far a step is from the simplest of its kind.
fn cost(step: &Step) -> u64 {
    use crate::program::{AcceptBy, ReceiveBy, SendBy, StartBy};
    let rank = |plain: bool, common: bool, flags: &[Flag], length: u32| {
        let way = if plain { 0 } else { 2 - u64::from(common) };
        flags.len() as u64 * 1_000_000_000 + way * 100_000_000 + u64::from(length)
    };
    match step {
        Step::Peer(Peer::Send(_, length)) => (*length).into(),
        Step::Do(
            _,
            Call::Receive {
                most, by, flags, ..
            },
        ) => rank(*by == ReceiveBy::Read, *by == ReceiveBy::Recv, flags, *most),
        Step::Do(
            _,
            Call::Send {
                length, by, flags, ..
            },
        ) => rank(*by == SendBy::Write, *by == SendBy::Send, flags, *length),
        Step::Do(_, Call::Accept { by, .. }) => u64::from(*by != AcceptBy::Accept),
        Step::Do(_, Call::Start { by, length, .. }) => {
            rank(*by == StartBy::Spawn, true, &[], *length)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_left() {
        let step = |connection| Step::Peer(Peer::Send(connection, 5000));
        let program = Program {
            about: String::new(),
            steps: (0..40).map(step).collect(),
        };
        let has = |program: &Program, connection| {
            program
                .steps
                .iter()
                .any(|step| matches!(step, Step::Peer(Peer::Send(one, _)) if *one == connection))
        };
        let fails = |candidate: &Program| Ok(has(candidate, 7) && has(candidate, 31));
        let shrunk = shrink(&program, fails).unwrap();
        let small = |connection| Step::Peer(Peer::Send(connection, 1));
        assert_eq!(shrunk.steps, [small(7), small(31)]);
    }

    /// Whatever fails, and however: shrinking ends, and the simplest is left.
    #[test]
    fn shrinking_comes_to_an_end() {
        use crate::program::{ReceiveBy, SendBy};
        let receive = |by, flags: &[Flag]| {
            let flags = flags.to_vec();
            Step::Do(
                0,
                Call::Receive {
                    slot: 1,
                    most: 50,
                    by,
                    flags,
                },
            )
        };
        let send = |by, flags: &[Flag]| {
            let flags = flags.to_vec();
            Step::Do(
                0,
                Call::Send {
                    slot: 1,
                    length: 50,
                    by,
                    flags,
                },
            )
        };
        let program = Program {
            about: String::new(),
            steps: vec![
                receive(ReceiveBy::Recvmmsg, &[Flag::Peek]),
                receive(ReceiveBy::Read, &[]),
                send(SendBy::Sendmmsg, &[Flag::DontWait]),
                send(SendBy::Write, &[]),
            ],
        };
        // None can be left out, any can be replaced.
        let shrunk = shrink(&program, |candidate| Ok(candidate.steps.len() == 4)).unwrap();
        for step in &shrunk.steps {
            assert!(super::cost(step) <= 1, "{step:?}");
        }
    }
}
