//! What is claimed of messages: what features bring to the kernel, as the source has it, and what the engine changes.

use super::super::Extent;
use super::super::bed::STACKS;
use super::{
    ALL, CPU, CPU_OF_GIGABIT, LARGE, OFF, ONE_FRAME, ONE_WAY, RATE, SIZE, SMALL, as_there,
    direction, sizes, subject,
};
use crate::experiment::declaration::{Bound, Citation, Claim};

/// Who is compared with whom, as the source has it: the kernel with all features and with none.
fn features() -> [String; 2] {
    [ALL, OFF].map(|features| subject(STACKS[0], features))
}

/// Whether the engine changes it: both stacks with all features.
fn stacks() -> [String; 2] {
    [STACKS[1], STACKS[0]].map(|stack| subject(stack, ALL))
}

/// A statement of the source's, which stands in this place, about messages of a size.
pub fn claim(
    says: &str,
    place: &str,
    measure: &str,
    at: Vec<(String, String)>,
    ratio: Bound,
) -> Claim {
    let [subject, to] = features();
    Claim {
        says: says.into(),
        citation: Citation {
            document: "002".into(),
            place: place.into(),
        },
        measure: measure.into(),
        subject,
        to: to.into(),
        at,
        ratio,
    }
}

/// What the engine is to change, or to leave as it is.
pub fn goal(says: &str, measure: &str, at: Vec<(String, String)>, ratio: Bound) -> Claim {
    let [subject, to] = stacks();
    Claim {
        citation: Citation::goal(),
        subject,
        to: to.into(),
        ..claim(says, "", measure, at, ratio)
    }
}

/// What a table of the source's shows of latencies, of which the largest message says this, and that the engine takes no
/// longer, nor more of the machine.
pub fn of_latencies(table: &str, largest: (&str, f64)) -> Vec<Claim> {
    let there = |says: &str, size: &str, ratio| claim(says, table, ONE_WAY, as_there(size), ratio);
    let here = |says: &str, measure: &str, size: &str| {
        goal(says, measure, as_there(size), Bound::AtMost(1.0))
    };
    let slow = "The engine takes no longer for a message";
    let busy = "The machine has no more to do on the engine";
    vec![
        there("Small messages gain nothing", SMALL, Bound::AtLeast(0.95)),
        there(
            "Messages that fit a frame gain nothing",
            ONE_FRAME,
            Bound::AtLeast(0.95),
        ),
        there(largest.0, LARGE, Bound::AtMost(largest.1)),
        here(slow, ONE_WAY, SMALL),
        here(slow, ONE_WAY, LARGE),
        here(busy, CPU, SMALL),
        here(busy, CPU, LARGE),
    ]
}

/// That the engine carries no less of a stream, nor takes more of the machine for as much.
pub fn of_streams_here() -> Vec<Claim> {
    let here = |says: &str, measure: &str, size: &str, ratio| {
        goal(says, measure, direction::as_there(size), ratio)
    };
    let carries = "The engine carries no less";
    let costs = "The machine has no more to do for as much on the engine";
    vec![
        here(carries, RATE, SMALL, Bound::AtLeast(1.0)),
        here(carries, RATE, LARGE, Bound::AtLeast(1.0)),
        here(costs, CPU_OF_GIGABIT, SMALL, Bound::AtMost(1.0)),
        here(costs, CPU_OF_GIGABIT, LARGE, Bound::AtMost(1.0)),
    ]
}

/// Of these, those of messages that are measured.
pub fn measured(extent: Extent, claims: Vec<Claim>) -> Vec<Claim> {
    let sizes = sizes(extent);
    let is_there = |(axis, level): &(String, String)| {
        axis != SIZE || sizes.levels.iter().any(|known| known.name == *level)
    };
    let claims = claims.into_iter();
    claims
        .filter(|claim| claim.at.iter().all(is_there))
        .collect()
}
