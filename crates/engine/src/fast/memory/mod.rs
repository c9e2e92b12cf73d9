//! Payload memory: pools of receive chunks, which chunk holds which part of a connection's stream,
//! and the areas that sessions send from.

mod areas;
mod budget;
mod pool;
mod stream;

pub use areas::{Memory, Store};
pub use budget::Budget;
pub use pool::{CHUNK, Pool};
pub use stream::Stream;
