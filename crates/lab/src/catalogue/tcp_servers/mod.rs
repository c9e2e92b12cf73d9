//! 001, chapter 6, up to its web servers: what offloading is worth to a program that knows of it. The
//! programs that are measured are ours (`outboard subject`), the same over sockets and over each way of
//! the native interface; the other end is in the lab, over the kernel's TCP. Beside them whole servers that know of
//! their engine, and those that people have instead.

pub mod accept;
mod beds;
pub mod channel;
pub mod course;
pub mod key_value;
pub mod latency;
pub mod peer;
pub mod receive;
pub mod send_cost;
mod sends;
pub mod serve;
pub mod server;
pub mod streams;
mod subject;
pub mod ttcp;
pub mod uploads;
pub mod web_loads;
pub mod web_sends;
mod web_server;
pub mod web_variants;

use super::{strength, workers};
use beds::{Beds, PLACE, PLACES, cited};
use sends::{ASYNCHRONOUS, REGISTERED, SENDS, SYNCHRONOUS, SYNCHRONOUS_REGISTERED, subjects};
pub use subject::{number, read, subject};

/// The names of this document's first experiments, in its order, of the servers, and of what tells what engines that are
/// weaker and stronger than their hosts are worth.
pub const NAMES: &[&str] = &[
    channel::ENTRY.name,
    send_cost::ENTRY.name,
    course::ENTRY.name,
    latency::ENTRY.name,
    accept::ENTRY.name,
    ttcp::ENTRY.name,
    receive::ENTRY.name,
    web_variants::ENTRY.name,
    web_sends::ENTRY.name,
    web_loads::ENTRY.name,
    serve::ENTRY.name,
    uploads::ENTRY.name,
    key_value::ENTRY.name,
    strength::ENTRY.name,
    workers::ENTRY.name,
];
