//! The shared memory between a host process and the engine: the only code that both sides run.
//!
//! A host attaches over the engine's [control socket](control) and receives a [region](mod@region),
//! a sealed memory that both map, and [doorbells](doorbell). In the region lie:
//!
//! - a **submission ring** (host → engine) and a **completion ring** (engine → host), each with one
//!   producer and one consumer ([`ring`]), carrying small typed [descriptors](descriptor);
//! - the **send area**, which the host allocates from and writes, and the **receive area**, which
//!   the engine allocates from and writes ([`Area`]); descriptors carry offsets, never pointers;
//! - one **position** a connection, by which processes that share it read each byte once
//!   ([`position`]);
//! - one **armed word** a side, in which whoever goes to sleep says so ([`armed`]).
//!
//! # The other side is hostile
//!
//! Every word in the region may change at any moment into anything. So each side keeps its own
//! indices and its own copy of the layout in private memory and never reads them back; it copies a
//! descriptor out once, validates the copy and uses only the copy; it reaches payload only through
//! bounds-checked `&[AtomicU8]` and raw copies. What cannot be honest ends in a [`Violation`] that
//! carries the offending values; the engine answers it by ending that session and no other.
//!
//! It can also take pages of the region away. That stops nobody: see [`lost`].
//!
//! Work per call is bounded whatever the other side writes: a consumer takes at most one ring's
//! capacity of entries before it must [release](ring::Consumer::release) them.

pub mod armed;
pub mod bells;
pub mod descriptor;
pub mod parked;
pub mod position;
pub mod ring;
pub mod room;
mod sync;
mod violation;

#[cfg(not(loom))]
mod accept_word;
#[cfg(not(loom))]
mod area;
#[cfg(not(loom))]
mod at_exit;
#[cfg(not(loom))]
mod born_here;
#[cfg(not(loom))]
pub mod control;
#[cfg(not(loom))]
mod copy;
#[cfg(not(loom))]
mod core_word;
#[cfg(not(loom))]
mod crowd;
#[cfg(not(loom))]
pub mod doorbell;
#[cfg(not(loom))]
mod kernel_socket;
#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
pub mod lost;
#[cfg(not(loom))]
pub mod memfd;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod odds;
#[cfg(not(loom))]
mod opening;
#[cfg(not(loom))]
mod page;
#[cfg(not(loom))]
mod profile;
#[cfg(not(loom))]
pub mod region;
#[cfg(not(loom))]
mod send_ring;
#[cfg(not(loom))]
mod sum;
#[cfg(not(loom))]
mod version;
#[cfg(not(loom))]
mod words;

pub use descriptor::{
    CONNECT_BLOCK_LEN, Completion, ConnRef, ConnectBlock, Entry, FastOpen, OptionKind, Submission,
};
pub use violation::Violation;

#[cfg(not(loom))]
pub use accept_word::AcceptWord;
#[cfg(not(loom))]
pub use area::Area;
#[cfg(not(loom))]
pub use at_exit::at_exit;
#[cfg(not(loom))]
pub use born_here::BornHere;
#[cfg(not(loom))]
pub use copy::{
    GATHERED, as_shared, copy_across, copy_in, copy_out, read_in, read_in_now, receive_in,
    write_out,
};
#[cfg(not(loom))]
pub use core_word::CoreWord;
#[cfg(not(loom))]
pub use crowd::Crowd;
#[cfg(not(loom))]
pub use kernel_socket::{send_out, unacknowledged, unsent};
#[cfg(not(loom))]
pub use layout::{Layout, LayoutError, MOST_PIECES, RECEIVE_CHUNK, Sizes};
#[cfg(not(loom))]
pub use odds::{Odds, Regularity};
#[cfg(not(loom))]
pub use opening::{Opening, OpeningWord};
#[cfg(not(loom))]
pub use profile::{NoProfile, PROFILE_VARIABLE, Profile};
#[cfg(not(loom))]
pub use region::{EngineSide, HostSide};
#[cfg(not(loom))]
pub use send_ring::{SendRing, Sending};
#[cfg(not(loom))]
pub use sum::copy_out_sum;
#[cfg(not(loom))]
pub use version::Versions;
