//! The opener: a small process beside the engine that keeps the privileges which a running engine still needs
//! now and then, so that the engine itself needs none.
//!
//! It is asked for one of a few things ([`words`]), does it ([`doer`]), and answers with an error, or with a
//! descriptor. It was told at its start which interfaces there are, and believes nothing else that the engine says.
//! Whoever took over the engine could ask it for no more than that.
//!
//! Nobody asks it on the way of a packet: the slow half does, and threads of their own that may wait.

mod channel;
mod client;
mod doer;
mod serve;
mod stock;
mod words;

pub use channel::{Begun, pair};
pub use client::Opener;
pub use doer::Done;
pub use serve::{on_a_thread, run};
pub use stock::restock;
pub use words::{Dump, Operation};

/// Begins one for the interfaces with these indices.
pub type Start = fn(&[u32]) -> std::io::Result<Begun>;
