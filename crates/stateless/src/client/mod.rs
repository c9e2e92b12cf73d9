//! The load client: connections without sessions.
//!
//! Whatever the client must do when a segment arrives is computed from that segment. The place it
//! was sent to (our address and port) gives the number of the connection, by a permutation that
//! runs both ways ([`walk`]). The number gives our initial sequence number, by a keyed hash. All
//! requests have one length ([`request`]), so what the server acknowledges says how many of them
//! it has; which was asked for follows from the connection's number again. What is to be
//! acknowledged follows from the segment's own sequence number and length. And the time at which a
//! request was due travels in the timestamps option, from which the server echoes it with the
//! response (RFC 7323 section 3). The clock of these timestamps is the machine's, so that a server
//! that still has a connection of an earlier run in TIME-WAIT sees a later one in their place
//! (RFC 6191).
//!
//! So there is nothing to look up, nothing to time, and nothing that grows with the number of
//! connections. Two tables of bounded size stand beside that: the [`ledger`], so that everything
//! is counted exactly once, and the one of `body`, for responses that are longer than a segment.
//!
//! | file | what |
//! | --- | --- |
//! | [`sources`], [`walk`] | where connections come from, and in which order |
//! | [`request`], [`response`] | what is asked for; where an answer ends |
//! | `exchange` | the state machine: a segment in, replies out |
//! | `upkeep` | what no segment asks for |
//! | `body` | responses that come in pieces |
//! | [`ledger`] | what was counted; who is due for another attempt |
//! | [`reply`], `usual` | frames |
//! | [`pace`] | when what is due |
//! | `reluctance` | what is not begun at once, because all before it failed |
//! | [`run`] | the client on a device |
//!
//! # Loss
//!
//! A server with a TCP of its own repeats what was not acknowledged, and the client acknowledges
//! the end of a response only together with what follows it (the next request, or FIN). So
//! whatever is lost from the handshake on comes again by the server's doing, and the repetition is
//! answered like the original. What only the client can repeat is the SYN; and a repeated SYN
//! (the same number, computed again) helps in every other case, too: a server without sessions
//! answers as it did at first, and a TCP with the connection answers with an acknowledgement that
//! says what it has (RFC 9293 section 3.10.7.4, RFC 5961 section 4.2), from which the client goes
//! on.

mod body;
mod config;
pub mod counters;
mod exchange;
mod finishing;
pub mod ledger;
pub mod pace;
pub mod path;
mod reluctance;
pub mod reply;
pub mod request;
pub mod response;
pub mod run;
pub mod sent;
pub mod sources;
mod upkeep;
mod usual;
pub mod walk;

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use wire::seq::SeqNumber;
use wire::tcp::Timestamps;

pub use body::Verify;
use body::{Examiner, Partials};
pub use config::{Config, ConfigError, Finish};
pub use counters::Counters;
use finishing::Finishing;
use ledger::{Ledger, Stage};
use path::Path;
use reply::{Reply, What};
use request::Requests;
use response::HeadCache;
use walk::{Walk, mix};

/// Bytes of its sequence space that a connection may use: the next one from the same place begins
/// behind them.
pub const MAX_STREAM: u64 = 1 << 26;

/// Longest latency that is told apart, in microseconds: an hour.
const MAX_LATENCY_US: u64 = 3_600_000_000;

/// A connection whose next request waits until it is due.
#[derive(Debug, Clone, Copy)]
struct Ready {
    connection: u64,
    place: u64,
    /// Where our next byte goes, and what is to be acknowledged.
    seq: SeqNumber,
    ack: SeqNumber,
    /// Requests sent before.
    asked: u32,
    /// The server's last timestamp.
    echo: Option<u32>,
    /// When it came here, in microseconds.
    since: u32,
}

/// The state machine, and what it counts.
#[derive(Debug)]
pub struct Client {
    config: Config,
    walk: Walk,
    ledger: Ledger,
    partials: Partials,
    /// Connections with segments that are not acknowledged yet.
    owed: Vec<u64>,
    heads: HeadCache,
    examiner: Examiner,
    ready: VecDeque<Ready>,
    /// How many of `ready`, from the front, have been acknowledged.
    ready_acknowledged: usize,
    finishing: Finishing,
    draining: bool,
    /// What [`Client::sweep`] has not yet come round to, in connections times microseconds.
    sweep_credit: u64,
    counters: Counters,
    path: Path,
    latency: Histogram<u64>,
    connect: Histogram<u64>,
}

/// A histogram of microseconds.
pub fn histogram() -> Histogram<u64> {
    // The bounds are constants that are right.
    let mut histogram = Histogram::new_with_bounds(1, MAX_LATENCY_US, 3)
        .unwrap_or_else(|_| unreachable!("constant bounds"));
    histogram.auto(false);
    histogram
}

impl Client {
    /// A client that has not begun.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        if config.sources.is_ipv4() != config.server.is_ipv4() {
            return Err(ConfigError::MixedFamilies);
        }
        let most = Self::most_requests(&config.requests);
        if config.per_connection > most {
            return Err(ConfigError::TooManyRequests(config.per_connection, most));
        }
        let places = config.sources.places();
        let window = config.window.max(1).next_power_of_two();
        Ok(Self {
            walk: Walk::new(places, mix(config.key ^ 1)),
            // Connections in it must be at different places.
            ledger: Ledger::new(window, places),
            partials: Partials::with_limit(config.partial.max(1)),
            owed: Vec::new(),
            heads: HeadCache::default(),
            examiner: Examiner::new(config.verify.clone(), config.requests.patterns()),
            ready: VecDeque::new(),
            ready_acknowledged: 0,
            finishing: Finishing::default(),
            draining: false,
            sweep_credit: 0,
            counters: Counters::default(),
            path: Path::default(),
            latency: histogram(),
            connect: histogram(),
            config,
        })
    }

    /// Requests that fit a connection at most.
    pub fn most_requests(requests: &Requests) -> u32 {
        ((MAX_STREAM - 2) / requests.length().max(1) as u64) as u32
    }

    /// What is counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// For what its surroundings count.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// What was seen of the path.
    pub const fn path(&self) -> &Path {
        &self.path
    }

    /// Microseconds from when a request was due until its response was whole. The first request of
    /// a connection is due when the connection is.
    pub const fn latency(&self) -> &Histogram<u64> {
        &self.latency
    }

    /// Microseconds from when a connection was due until its SYN-ACK came.
    pub const fn connect_latency(&self) -> &Histogram<u64> {
        &self.connect
    }

    /// Connections that are not over.
    pub const fn outstanding(&self) -> u64 {
        self.ledger.outstanding()
    }

    /// Connections that are over here, and whose FIN has not been acknowledged, about: see
    /// `finishing`.
    pub const fn finishing(&self) -> u64 {
        self.finishing.count()
    }

    /// Connections that stand still and were set aside, so that others can go on.
    pub fn set_aside(&self) -> usize {
        self.ledger.set_aside()
    }

    /// Connections whose next request waits until it is due.
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// Whether connections are opened and held.
    pub const fn is_holding(&self) -> bool {
        self.config.per_connection == 0
    }

    /// Bytes of the ledger, which are all that depends on how much may be outstanding.
    pub const fn ledger_memory(&self) -> usize {
        self.ledger.memory()
    }

    /// Begins a connection that is due since `due_us`, in microseconds of the caller's clock.
    /// `None` if as many are outstanding as may be.
    #[inline]
    pub fn open(&mut self, due_us: u32) -> Option<Reply> {
        let Some(connection) = self.ledger.open(due_us) else {
            self.counters.no_room += 1;
            return None;
        };
        self.counters.syns += 1;
        let place = self.walk.place(connection);
        Some(self.syn(connection, place, due_us))
    }

    fn syn(&self, connection: u64, place: u64, time_us: u32) -> Reply {
        Reply {
            place,
            seq: self.initial(connection, place),
            ack: SeqNumber(0),
            timestamps: Some((time_us, 0)),
            what: What::Syn,
        }
    }

    /// Sends the next request that waited, which is due since `due_us`; `None` if none waits.
    #[inline]
    pub fn ask(&mut self, due_us: u32) -> Option<Reply> {
        if self.is_ending() {
            return None;
        }
        let ready = self.ready.pop_front()?;
        self.ready_acknowledged = self.ready_acknowledged.saturating_sub(1);
        self.ledger.advance(ready.connection, Stage::Asked, due_us);
        self.counters.requests += 1;
        self.counters.bytes_sent += self.config.requests.length() as u64;
        Some(Reply {
            place: ready.place,
            seq: ready.seq,
            ack: ready.ack,
            timestamps: ready.echo.map(|echo| (due_us, echo)),
            what: self.ask_for(ready.connection, ready.asked),
        })
    }

    #[inline]
    fn ask_for(&self, connection: u64, index: u32) -> What {
        What::Ask {
            pattern: self.config.requests.pattern_of(connection, index) as u16,
            last: self.config.finish == Finish::ByServer && index + 1 == self.config.per_connection,
        }
    }

    /// Whether connections end instead of asking again.
    #[inline]
    pub(super) fn is_ending(&self) -> bool {
        self.draining || self.is_at_limit()
    }

    /// Whether no request at all is to be sent any more.
    #[inline]
    pub(super) fn is_at_limit(&self) -> bool {
        let limit = self.config.requests_in_all;
        limit.is_some_and(|limit| self.counters.requests >= limit)
    }

    /// The initial sequence number of a connection.
    #[inline]
    fn initial(&self, connection: u64, place: u64) -> SeqNumber {
        let epoch = connection / self.walk.places();
        SeqNumber(sent::initial(self.config.key, epoch, place))
    }

    /// The time of a timestamp that was echoed, if it is one of ours.
    #[inline]
    fn time_of(timestamps: Timestamps, now_us: u32) -> Option<u32> {
        let time = timestamps.echo;
        (now_us.wrapping_sub(time) < 1 << 31).then_some(time)
    }
}
