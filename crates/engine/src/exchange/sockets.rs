//! Some of the engine's sockets, in rows, as the fast half knows them.

use std::net::SocketAddr;
use std::sync::Arc;

use queue_pair::Profile;
use tcp::ConnId;

use crate::network::NicId;

/// Sockets in one answer: a control message has room for so many.
pub const ROWS: usize = 24;

/// Some sockets as the fast half knows them.
#[derive(Debug, Default)]
pub struct Page {
    /// At most `room`.
    pub rows: Vec<Row>,
    /// How many there may be, not more than [`ROWS`].
    pub room: usize,
    /// Where to go on.
    pub next: Option<u64>,
}

/// Where among what a page ends at those begin that have no connection: half-open ones, and then pairs in
/// TIME-WAIT. All others are before.
pub const FIRST_PAIR: u64 = 2 << 32;

impl Page {
    /// With room for so many.
    pub fn with_room(room: usize) -> Box<Self> {
        Box::new(Self {
            rows: Vec::with_capacity(room),
            room,
            next: None,
        })
    }
}

/// One socket.
#[derive(Debug)]
pub struct Row {
    /// Whose it is: the session's number, the process, the program.
    pub owner: Option<(u32, u32, Arc<str>)>,
    /// The core that the program named, and that of this worker.
    pub cores: Option<(u32, u32)>,
    /// How the program wants to be waited for, if it has said.
    pub wanted: Option<Profile>,
    /// What it is.
    pub kind: RowKind,
}

/// What a socket is.
#[expect(
    clippy::large_enum_variant,
    reason = "a page of them is allocated at once"
)]
#[derive(Debug)]
pub enum RowKind {
    /// A listener.
    Listener {
        /// Its address.
        local: SocketAddr,
        /// Connections that wait.
        waiting: u64,
        /// Connections that may wait.
        backlog: u32,
        /// IPv4 does not reach it, though its address be that of all.
        v6_only: bool,
    },
    /// A connection.
    Connection {
        /// The interface by which it leaves, of an engine that has several.
        nic: Option<NicId>,
        /// Its name.
        conn: ConnId,
        /// Its other end is on this machine, and the engine's too.
        within: bool,
        /// Its facts.
        info: tcp::ConnInfo,
        /// How long it is known.
        age: core::time::Duration,
    },
    /// Two ends that have no connection yet (half open), or none any more (TIME-WAIT).
    Pair {
        /// The other end is on this machine, and the engine's too.
        within: bool,
        /// What is known of them.
        info: tcp::PairInfo,
    },
}
