//! Payload memory: pools of receive chunks, which chunk holds which part of a connection's stream, the
//! areas that sessions send from, the buffers there that they receive into, and how memory goes back to
//! the machine.

mod areas;
mod budget;
mod pool;
mod posted;
mod reclaim;
mod stream;

pub use areas::{Memory, Store};
pub use budget::Budget;
pub use pool::{CHUNK, Pool};
pub use reclaim::Reclaim;
pub use stream::Stream;
