//! Payload memory: pools of receive chunks, which chunk holds which part of a connection's stream, the
//! areas that sessions send from, and the buffers there that they receive into.

mod areas;
mod budget;
mod pool;
mod posted;
mod stream;

pub use areas::{Memory, Store};
pub use budget::Budget;
pub use pool::{CHUNK, Pool};
pub use stream::Stream;
