//! Tables that grow and shrink a step at a time, however much is in them.
//!
//! A vector, a ring or a hash table of the standard library copies all that it holds when it has no room
//! for one more: that is cheap in the mean, and a worker that holds a million connections stands still
//! for tens of milliseconds. Here nothing that is in a table moves when others come, or no more than one
//! piece of bounded size does.
//!
//! | | is | a step |
//! | --- | --- | --- |
//! | [`Chunks`] | an array | one chunk is added |
//! | [`Queue`] | first in, first out | one piece is added or let go of |
//! | [`Index`] | numbers by keys | one piece is split or two are joined |
//! | [`Line`] | numbers in the order in which they came, to be taken out anywhere | a chunk is added |
#![forbid(unsafe_code)]

mod chunks;
mod index;
mod line;
mod queue;

pub use chunks::Chunks;
pub use index::{Hash, Index};
pub use line::Line;
pub use queue::Queue;
