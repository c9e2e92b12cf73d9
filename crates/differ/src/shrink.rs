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
    use crate::program::{AcceptBy, ReceiveBy, SendBy};
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
                slot,
                most,
                by,
                flags,
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
            let _ = by;
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
        _ => {}
    }
    all.retain(|simpler| simpler != step);
    all
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
}
