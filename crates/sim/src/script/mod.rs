//! Packet scripts: what arrives at a stack and what it is to answer, line by line and with times,
//! in the language of packetdrill. `docs/packet-scripts.md` describes the language.
//!
//! [`parse()`] reads a script, [`run()`] runs it on a [`Backend`]. [`Virtual`] is the one that is
//! our own stack under virtual time; the same scripts run on Linux's, elsewhere.

pub mod assertion;
mod ast;
mod backend;
pub mod call;
pub mod datagram;
mod errno;
mod error;
mod options;
pub mod packet;
mod parse;
pub mod place;
mod run;
pub mod setting;
pub mod tcp_info;
mod virtual_time;

pub use ast::{Event, Moment, Options, Script, Side, Version, What, When};
pub use backend::{Backend, Captured, Info};
pub use errno::Errno;
pub use error::ParseError;
pub use parse::{MAX_EVENTS, MAX_TEXT, parse};
pub use run::{Failure, run};
pub use virtual_time::Virtual;
