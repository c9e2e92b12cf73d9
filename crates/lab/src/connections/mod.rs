//! Clients of very many connections: those that ask all the time, and those that are only there.

mod asking;
mod holding;

pub use asking::Asking;
pub use holding::Holding;
