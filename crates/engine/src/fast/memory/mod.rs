//! Payload memory: pools of receive chunks, which chunk holds which part of a connection's stream, the
//! areas and files that sessions send from, the buffers there that they receive into, and how memory goes back to
//! the machine.

mod ahead;
mod areas;
mod budget;
mod files;
mod pool;
mod posted;
mod reclaim;
mod stream;

pub use ahead::{Readers, WINDOW};
pub use areas::{Memory, Place, Store};
pub use budget::{Budget, CHUNK, guaranteed};
pub use files::{Files, Held, Lack, OpenFile, Opened};
pub use pool::Pool;
pub use reclaim::Reclaim;
pub use stream::Stream;
