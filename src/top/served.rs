//! Who is served: programs, or the listeners that connections came to.

use std::cmp::Ordering;
use std::net::SocketAddr;

/// Whose sockets: the program's name, and the number of its process.
pub type Who = (String, Option<u32>);

/// What stands in a row.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A process.
    #[default]
    Program,
    /// A listener, with the connections that came to it, whichever process has them.
    Listener,
}

/// Who stands first.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// That of the most bytes a second.
    #[default]
    Bytes,
    /// That of the most connections.
    Conns,
    /// That of the most segments a second.
    Segs,
    /// That of the most segments sent again a second.
    Retrans,
    /// That for which the most connections wait, and then the most bytes.
    Waits,
    /// By name.
    Name,
}

/// What a connection has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Amounts {
    pub segments: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Segments sent again.
    pub retransmits: u64,
}

/// A connection at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    pub who: Who,
    pub amounts: Amounts,
    /// Bytes that its program has not read.
    pub unread: u64,
    /// Bytes that its program has sent and the peer not acknowledged.
    pub unacked: u64,
}

/// One who is served; what has a rate is a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Served {
    pub name: String,
    pub pid: Option<u32>,
    pub listens: Vec<SocketAddr>,
    pub connections: u64,
    pub segments: f64,
    pub bytes_in: f64,
    pub bytes_out: f64,
    pub retransmits: f64,
    /// Connections that wait to be accepted.
    pub waiting: u64,
    /// Bytes that wait to be read.
    pub unread: u64,
    /// Bytes that wait to be acknowledged.
    pub unacked: u64,
}

impl Sort {
    /// All, in the order in which a key goes through them.
    pub const ALL: [Sort; 6] = [
        Sort::Bytes,
        Sort::Conns,
        Sort::Segs,
        Sort::Retrans,
        Sort::Waits,
        Sort::Name,
    ];

    /// Which of two stands first.
    pub fn order(self, one: &Served, other: &Served) -> Ordering {
        let key = |row: &Served| match self {
            Sort::Bytes => (row.bytes_in + row.bytes_out, 0.0),
            Sort::Conns => (row.connections as f64, 0.0),
            Sort::Segs => (row.segments, 0.0),
            Sort::Retrans => (row.retransmits, 0.0),
            Sort::Waits => (row.waiting as f64, (row.unread + row.unacked) as f64),
            Sort::Name => (0.0, 0.0),
        };
        let ((a, then_a), (b, then_b)) = (key(one), key(other));
        let by_amount = b.total_cmp(&a).then(then_b.total_cmp(&then_a));
        let id = |row: &Served| (row.name.clone(), row.pid, row.listens.clone());
        by_amount.then_with(|| id(one).cmp(&id(other)))
    }
}

impl Served {
    /// Whether the text is part of its name, its number or where it listens.
    pub fn has(&self, text: &str) -> bool {
        let pid = self.pid.map(|pid| pid.to_string()).unwrap_or_default();
        self.name.contains(text)
            || (!text.is_empty() && pid == text)
            || self.places().contains(text)
    }

    /// Where it listens, in words.
    pub fn places(&self) -> String {
        if self.listens.is_empty() {
            return "(opened)".into();
        }
        let places: Vec<String> = self.listens.iter().map(ToString::to_string).collect();
        places.join(" ")
    }

    pub(super) fn add(&mut self, connection: &Connection, since: &Amounts, seconds: f64) {
        let now = &connection.amounts;
        let rate = |now: u64, since: u64| now.saturating_sub(since) as f64 / seconds;
        self.connections += 1;
        self.segments += rate(now.segments, since.segments);
        self.bytes_in += rate(now.bytes_in, since.bytes_in);
        self.bytes_out += rate(now.bytes_out, since.bytes_out);
        self.retransmits += rate(now.retransmits, since.retransmits);
        self.unread += connection.unread;
        self.unacked += connection.unacked;
    }
}

impl Amounts {
    pub(super) fn is_before(&self, now: &Amounts) -> bool {
        self.segments <= now.segments
            && self.bytes_in <= now.bytes_in
            && self.bytes_out <= now.bytes_out
            && self.retransmits <= now.retransmits
    }
}
