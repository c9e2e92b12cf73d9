//! TIME-WAIT (RFC 9293 3.6.1), in a table of its own: a few words a pair instead of a connection.
//!
//! A pair may be taken over by a new SYN before its time when the SYN is certainly new: its
//! timestamp (RFC 6191) or its sequence number (RFC 1122 4.2.2.13) lies beyond the old connection's.
//! When the table is full the oldest pair makes room.

use core::net::SocketAddr;
use core::time::Duration;

use wire::flow::FlowKey;
use wire::segment::Segment;
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Repr, Timestamps};

use crate::Instant;
use crate::aging::Aging;
use crate::connection::Connection;
use crate::snapshot::{TimeWait, VERSION};
use crate::time::Nanos;

/// How far beyond the old connection's last sequence number a new one begins at least, so that no
/// old segment fits into its window (as much as an unscaled window).
const SEQUENCE_GAP: u32 = 65_537;

/// A pair of endpoints whose connection is over.
pub(crate) struct Pair {
    pub(crate) key: FlowKey,
    snd_nxt: SeqNumber,
    rcv_nxt: SeqNumber,
    window: u16,
    timestamps: Option<PairTimestamps>,
    since: Instant,
    /// When a stray segment was last answered.
    pub(crate) answered_at: Option<Instant>,
}

#[derive(Clone, Copy)]
struct PairTimestamps {
    recent: u32,
    offset: u32,
}

impl Pair {
    pub(crate) fn of(c: &Connection, now: Instant) -> Self {
        Self {
            key: c.key,
            snd_nxt: c.snd.nxt,
            rcv_nxt: c.rcv.nxt,
            window: u16::try_from(c.rcv.buffer >> c.rcv.scale).unwrap_or(u16::MAX),
            timestamps: c.ts.enabled.then_some(PairTimestamps {
                recent: c.ts.recent,
                offset: c.ts.offset,
            }),
            since: now,
            answered_at: None,
        }
    }

    pub(crate) fn export(&self, now: Instant, left: Nanos) -> TimeWait {
        let clock = |t: PairTimestamps| (t.recent, (now.as_millis() as u32).wrapping_add(t.offset));
        TimeWait {
            version: VERSION,
            local: SocketAddr::new(self.key.local, self.key.local_port),
            remote: SocketAddr::new(self.key.remote, self.key.remote_port),
            snd_nxt: self.snd_nxt.0,
            rcv_nxt: self.rcv_nxt.0,
            window: self.window,
            timestamps: self.timestamps.map(clock),
            age: now.since(self.since).get(),
            left: left.get(),
        }
    }

    pub(crate) fn import(now: Instant, key: FlowKey, from: &TimeWait) -> Self {
        Self {
            key,
            snd_nxt: SeqNumber(from.snd_nxt),
            rcv_nxt: SeqNumber(from.rcv_nxt),
            window: from.window,
            // What our clock says goes on from what the other said.
            timestamps: from.timestamps.map(|(recent, reads)| PairTimestamps {
                recent,
                offset: reads.wrapping_sub(now.as_millis() as u32),
            }),
            since: now.before(Nanos::new(from.age)),
            answered_at: None,
        }
    }

    /// The least initial sequence number of a successor of this pair.
    pub(crate) fn least_successor(&self) -> SeqNumber {
        self.snd_nxt + SEQUENCE_GAP
    }

    /// Whether we may open this pair again: the peer can tell us from our predecessor by timestamps
    /// that are a second apart.
    pub(crate) fn may_reopen(&self, now: Instant) -> bool {
        self.timestamps.is_some()
            && now.saturating_duration_since(self.since) >= Duration::from_secs(1)
    }

    /// The old connection had timestamps.
    pub(crate) fn has_timestamps(&self) -> bool {
        self.timestamps.is_some()
    }

    /// The acknowledgement that a stray segment is answered by.
    pub(crate) fn acknowledgement(&self, now: Instant) -> Repr {
        let mut tcp = Repr {
            src_port: self.key.local_port,
            dst_port: self.key.remote_port,
            seq: self.snd_nxt,
            ack: Some(self.rcv_nxt),
            flags: Flags::ACK,
            window: self.window,
            options: wire::tcp::Options::NONE,
        };
        tcp.options.timestamps = self.timestamps.map(|t| Timestamps {
            value: (now.as_millis() as u32).wrapping_add(t.offset),
            echo: t.recent,
        });
        tcp
    }
}

/// What a segment for a pair in TIME-WAIT asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing.
    Ignore,
    /// An acknowledgement.
    Acknowledge,
    /// An acknowledgement, and the whole wait again: the peer's FIN, which it would not have sent
    /// again had it seen our ACK.
    AcknowledgeAndRestart,
    /// A new connection.
    TakeOver,
}

impl Pair {
    /// RFC 9293 3.10.7.4 for TIME-WAIT. RST is ignored (RFC 1337).
    pub(crate) fn on_segment(&self, segment: &Segment<'_>) -> Answer {
        let tcp = &segment.tcp;
        if tcp.flags.contains(Flags::RST) {
            return Answer::Ignore;
        }
        if tcp.flags.contains(Flags::SYN) {
            //= RFC 6191 §2
            let beyond = tcp.seq.after(self.rcv_nxt);
            let later = match (self.timestamps, tcp.options.timestamps) {
                (Some(old), Some(new)) => match new.value.wrapping_sub(old.recent) as i32 {
                    // Within one tick of the peer's clock the number decides.
                    0 => beyond,
                    newer => newer > 0,
                },
                _ => beyond,
            };
            let fresh = tcp.ack.is_none() && later;
            return if fresh {
                Answer::TakeOver
            } else {
                Answer::Acknowledge
            };
        }
        let end = tcp.seq + segment.sequence_len();
        if tcp.flags.contains(Flags::FIN) && end == self.rcv_nxt {
            return Answer::AcknowledgeAndRestart;
        }
        if segment.sequence_len() > 0 || tcp.seq != self.rcv_nxt {
            Answer::Acknowledge
        } else {
            Answer::Ignore
        }
    }
}

pub(crate) struct TimeWaitTable {
    pairs: Aging<Pair>,
    limit: u32,
}

impl TimeWaitTable {
    pub(crate) fn new(wait: Duration, limit: u32) -> Self {
        Self {
            pairs: Aging::new([wait]),
            limit: limit.max(1),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.pairs.len()
    }

    /// Whether each pair will be let go.
    pub(crate) fn is_in_order(&self) -> bool {
        self.pairs.is_in_order()
    }

    pub(crate) fn slots(&self) -> u32 {
        self.pairs.slots()
    }

    /// The pair in a slot, and how long it has still to wait.
    pub(crate) fn at(&self, index: u32, now: Instant) -> Option<(&Pair, Nanos)> {
        let (pair, _, left) = self.pairs.at(index, now)?;
        Some((pair, left))
    }

    /// The pair that has to go before another may come.
    pub(crate) fn overflowing(&self) -> Option<u32> {
        (self.pairs.len() >= self.limit)
            .then(|| self.pairs.oldest(0))
            .flatten()
    }

    pub(crate) fn insert(&mut self, now: Instant, pair: Pair) -> u32 {
        self.pairs.insert(now, 0, pair)
    }

    /// The same for one that has waited elsewhere and has so much time `left`.
    pub(crate) fn insert_for(&mut self, now: Instant, left: Nanos, pair: Pair) -> u32 {
        self.pairs.insert_for(now, 0, left, pair)
    }

    /// The one that has waited longest.
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.pairs.oldest(0)
    }

    /// How long one has still to wait.
    pub(crate) fn left(&mut self, index: u32, now: Instant) -> Option<Nanos> {
        self.pairs.standing(index, now).map(|(_, left)| left)
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Pair> {
        self.pairs.remove(index)
    }

    pub(crate) fn get(&mut self, index: u32) -> Option<&Pair> {
        self.pairs.get_mut(index).map(|pair| &*pair)
    }

    pub(crate) fn note_answered(&mut self, now: Instant, index: u32) {
        if let Some(pair) = self.pairs.get_mut(index) {
            pair.answered_at = Some(now);
        }
    }

    pub(crate) fn restart(&mut self, now: Instant, index: u32) {
        self.pairs.restart(now, index, 0);
    }

    pub(crate) fn expired(&mut self, now: Instant) -> Option<u32> {
        self.pairs.expired(now).map(|(index, _)| index)
    }

    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        self.pairs.next_deadline()
    }
}
