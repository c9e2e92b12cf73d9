//! Virtual time, links with faults, and worlds of TCP stacks.
//!
//! A [`World`] has hosts, each with a [`tcp::Stack`] of its own, joined by links that lose, delay,
//! duplicate, reorder, corrupt and queue what is sent over them. Every segment really becomes a
//! frame and is read back from it. Applications send bytes that follow from their place in the
//! stream, and whatever they read is held against what the other end sent: the oracle knows every
//! byte. [`Pair`] is the world that most tests need, a client and a server.
//!
//! Everything follows from a seed. A world that fails prints it, and the last segments.
#![forbid(unsafe_code)]

mod host;
mod ids;
mod link;
mod memory;
mod network;
pub mod offers;
mod pair;
pub mod pattern;
mod rng;
pub mod scenario;
pub mod script;
mod socket;
pub mod sockets;
mod trace;
mod world;

pub use host::{Host, HostConfig};
pub use ids::{HostId, SocketId};
pub use link::{Burst, Fate, LinkConfig};
pub use memory::Memory;
pub use pair::{Pair, PairConfig, forge};
pub use rng::{Chance, Rng};
pub use socket::{Plan, Reading, Socket, Then};
pub use trace::{Sent, Trace};
pub use world::World;
