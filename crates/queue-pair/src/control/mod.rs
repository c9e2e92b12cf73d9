//! The control socket: everything that is rare.
//!
//! A host, or a command such as `outboard ss`, connects to the engine's UNIX socket
//! ([`socket_path`]), which keeps message boundaries (SOCK_SEQPACKET) and carries file descriptors.
//! A message is one JSON value: a [`Request`] one way, a [`Reply`] the other. Requests are answered
//! in their order, one reply each, except those that want none ([`Request::wants_reply`]).

mod admission;
mod channel;
mod facts;
mod families;
mod farewell;
mod messages;
mod placed;
pub mod ticket;
mod traced;
mod way;

pub use admission::{AdmissionCounts, AdmissionLimit, AdmissionPolicy};
pub use channel::{Channel, ChannelError, Encoded, Fds, MAX_FDS, MAX_MESSAGE, MAX_UNSENT};
pub use facts::{BbrInfo, ConnInfo, Explanation, Histogram, Metric, MetricKind, SocketRow};
pub use farewell::{Farewell, KNOCK};
pub use messages::{Reply, Request, VERSION};
pub use placed::{ByPolicy, Placed};
pub use ticket::Carried;
pub use traced::{Moment, Traced};
pub use way::{EngineFacts, Neighbour, Way};

use std::env;
use std::path::PathBuf;

/// The engine that is meant when none is named.
pub const DEFAULT_NAME: &str = "default";

/// Where the engine called `name` listens: `/run/outboard/NAME.sock`, or what the environment
/// variable `OUTBOARD_SOCKET` says.
pub fn socket_path(name: &str) -> PathBuf {
    env::var_os("OUTBOARD_SOCKET").map_or_else(
        || PathBuf::from(format!("/run/outboard/{name}.sock")),
        PathBuf::from,
    )
}
