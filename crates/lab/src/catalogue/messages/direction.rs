//! Which way a stream of messages goes: features of a sender are of no use to one that receives, and the other way
//! round. The source switched both ends.

use super::{Extent, MTU, MTUS, SIZE, pictures};
use crate::experiment::At;
use crate::experiment::declaration::{Axis, Picture};
use anyhow::Result;

/// The axis.
pub const DIRECTION: &str = "direction";
/// Its levels. A first impression is of the first.
pub const DIRECTIONS: [&str; 2] = ["subject sends", "subject receives"];
/// What a workload says of it.
pub const WORDS: &str = "Where the subject receives, the lab sends, on the kernel's TCP, messages of the same size; \
    rates are by who receives, and its CPU is that of whole pieces of a stream";

fn directions(extent: Extent) -> &'static [&'static str] {
    match extent {
        Extent::Full => &DIRECTIONS,
        Extent::Quick => &DIRECTIONS[..1],
    }
}

/// The axis, as far as it is asked for.
pub fn axis(extent: Extent) -> Axis {
    Axis::of_words(DIRECTION, directions(extent))
}

/// Whether the subject sends.
pub fn sends(at: &At<'_>) -> Result<bool> {
    Ok(at.word(DIRECTION)? == DIRECTIONS[0])
}

/// Where the source has a figure of it: with its MTU, and as a sender.
pub fn as_there(size: &str) -> Vec<(String, String)> {
    let mut at = vec![(SIZE.to_owned(), size.to_owned())];
    at.extend(sending());
    at
}

/// The same at every size.
pub fn sending() -> [(String, String); 2] {
    [
        (MTU.into(), MTUS[0].to_string()),
        (DIRECTION.into(), DIRECTIONS[0].into()),
    ]
}

/// Pictures of a measure by size for each direction and MTU. Graphs of the source are of senders.
pub fn each(extent: Extent, title: &str, measure: &str) -> Vec<Picture> {
    let plain = title.split(" (002").next().unwrap_or(title);
    let all = directions(extent).iter().flat_map(|direction| {
        let is_first = *direction == DIRECTIONS[0];
        let title = match is_first {
            true => title.to_owned(),
            false => format!("{plain}, {direction}"),
        };
        let drawn = pictures(extent, &title, measure).into_iter();
        drawn.map(|picture| picture.at(DIRECTION, direction))
    });
    all.collect()
}
