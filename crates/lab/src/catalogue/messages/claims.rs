//! What is claimed of messages: what features bring to the kernel, as the source has it, and what the engine changes.

use super::super::Extent;
use super::super::bed::STACKS;
use super::{ALL, OFF, SIZE, sizes, subject};
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
        to,
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
        to,
        ..claim(says, "", measure, at, ratio)
    }
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
