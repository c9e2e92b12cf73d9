//! Connections by completions, the same on the engine and on the kernel.
//!
//! A program that knows of the engine posts what it wants and takes what has happened, as document
//! 001's TCP Servers let it (section 4.7): sends that come back by a cookie when the peer has
//! acknowledged them, memory that is sent from without a copy, data that is looked at where it
//! arrived. Where no engine serves a connection the same calls do the same over a socket of the
//! kernel's; [`Queue::facts`] tells which it is. So a program is written once.
//!
//! ```no_run
//! use native::{Context, Kind, Mode};
//!
//! # fn main() -> Result<(), native::Errno> {
//! let context = Context::attach("default", "echo", Mode::Any)?;
//! let mut queue = context.queue()?;
//! let listener = queue.listen("0.0.0.0:7000".parse().unwrap(), 128, 0)?;
//! let mut events = Vec::new();
//! loop {
//!     queue.wait(&mut events, 64, None)?;
//!     for event in events.drain(..) {
//!         match event.kind {
//!             Kind::Accept => while queue.accept(listener, 0).is_ok() {},
//!             Kind::Receive => {
//!                 let mut bytes = [0; 4096];
//!                 while let Ok(read @ 1..) = queue.recv(event.handle, &mut bytes) {
//!                     queue.send(event.handle, &bytes[..read], false)?;
//!                 }
//!             }
//!             Kind::End => queue.close(event.handle)?,
//!             _ => {}
//!         }
//!     }
//! }
//! # }
//! ```
//!
//! # Threads and forks
//!
//! A [`Context`] may be used from any thread. A [`Queue`] belongs to one thread at a time, with all
//! that was made in it; a [`Waker`] ends its wait from any thread. After a fork the child makes a
//! context of its own; what it has of its parent's it must not use, but may drop, which ends nothing of its
//! parent's. Until then the parent's sockets at the kernel are open in the child, too.

#![forbid(unsafe_code)]

mod accept;
mod admission;
mod awaiting;
mod connection;
mod context;
mod event;
mod file;
mod free;
mod kernel;
mod leave;
mod memory;
mod options;
mod post;
mod posting;
mod queue;
mod quiet;
mod seldom;
mod sends;
mod stage;
mod staging;
mod stream;
mod together;
mod transfer;
mod view;

pub use admission::Admitted;
pub use context::{Context, KernelSockets, Mode};
pub use event::{Event, Handle, Kind};
pub use file::File;
pub use host::{AdmissionLimit, AdmissionPolicy, ConnInfo, Errno, Shutdown};
pub use host::{Engine, EngineFacts, Neighbour, Way};
pub use memory::Memory;
pub use options::Setting;
pub use queue::{Queue, Waker};
pub use sends::Back;
pub use stream::Facts;
pub use transfer::{Piece, Room};
pub use view::View;
