//! The state machine: a segment in, replies out.
//!
//! | file | what |
//! | --- | --- |
//! | here | which connection, which state; opening; what is said again |
//! | `payload` | bytes of a response, and its end |
//! | `answered` | a response that is whole, and what follows it |
//! | `closing` | FIN |

mod answered;
mod closing;
mod payload;

use wire::segment::Segment;
use wire::seq::SeqNumber;
use wire::tcp::Flags;

use super::Client;
use super::ledger::Stage;
use super::reply::{Reply, What};

/// A segment, and what was computed from it.
struct Turn<'a> {
    segment: &'a Segment<'a>,
    now_us: u32,
    connection: u64,
    place: u64,
    /// Whether the ledger has the connection as not over.
    live: bool,
    /// Its acknowledgement.
    ack: SeqNumber,
    /// How many requests it acknowledges.
    asked: u32,
    /// Whether it acknowledges a FIN of ours as well.
    finished: bool,
}

impl Turn<'_> {
    /// The number behind the segment.
    fn end(&self) -> SeqNumber {
        self.segment.tcp.seq + self.segment.sequence_len()
    }

    fn has_fin(&self) -> bool {
        self.segment.tcp.flags.contains(Flags::FIN)
    }
}

impl Client {
    /// Takes a segment that arrived at `now_us`, in microseconds of the caller's clock; what is to
    /// be sent is added to `out`.
    pub fn on_segment(&mut self, now_us: u32, segment: &Segment<'_>, out: &mut Vec<Reply>) {
        let tcp = &segment.tcp;
        let server = self.config.server;
        if segment.src != server.ip() || tcp.src_port != server.port() {
            self.counters.foreign += 1;
            return;
        }
        let place = self.config.sources.place_of(segment.dst, tcp.dst_port);
        let found = place.and_then(|place| {
            let step = self.walk.step(place)?;
            let (connection, live) = self.ledger.resolve(step)?;
            Some((place, connection, live))
        });
        let Some((place, connection, live)) = found else {
            self.counters.foreign += 1;
            return;
        };
        self.counters.segments_received += 1;
        self.counters.bytes_received += segment.payload.len() as u64;
        let Some(ack) = tcp.ack else {
            if tcp.flags.contains(Flags::RST) && live {
                self.reset(connection);
            }
            return;
        };
        // What it acknowledges is the state of the exchange.
        let first = self.initial(connection, place) + 1;
        let offset = ack.0.wrapping_sub(first.0);
        let length = self.config.requests.length() as u32;
        let (asked, beyond) = (offset / length, offset % length);
        if live
            && offset != 0
            && !tcp.flags.contains(Flags::RST)
            && self.ledger.stage(connection) == Stage::Opening
        {
            self.displace(connection, place, segment, ack, out);
            return;
        }
        if asked > self.config.per_connection {
            self.counters.stale += 1;
            return;
        }
        if beyond > 1 {
            self.counters.not_a_state += 1;
            return;
        }
        let turn = Turn {
            segment,
            now_us,
            connection,
            place,
            live,
            ack,
            asked,
            finished: beyond == 1,
        };
        if tcp.flags.contains(Flags::RST) {
            if live {
                self.reset(connection);
            }
        } else if tcp.flags.contains(Flags::SYN) {
            self.on_syn_ack(&turn, offset, out);
        } else {
            self.path.later(segment);
            self.on_established(&turn, out);
        }
    }

    /// The server answers a SYN from an earlier connection that it still has at this place: that
    /// one is reset, and the SYN sent again (RFC 9293 section 3.5.2).
    fn displace(
        &mut self,
        connection: u64,
        place: u64,
        segment: &Segment<'_>,
        ack: SeqNumber,
        out: &mut Vec<Reply>,
    ) {
        self.counters.displaced += 1;
        self.counters.resets += 1;
        self.ledger.touch(connection);
        out.push(Reply {
            place,
            seq: ack,
            ack: segment.tcp.seq,
            timestamps: None,
            what: What::Reset,
        });
        out.push(self.syn(connection, place, self.ledger.due(connection)));
    }

    fn reset(&mut self, connection: u64) {
        if self.ledger.stage(connection) == Stage::Opening {
            self.counters.refused += 1;
        } else {
            self.counters.reset += 1;
        }
        self.over(connection);
    }

    fn over(&mut self, connection: u64) {
        if !self.partials.is_empty() {
            self.partials.remove(connection);
        }
        self.ledger.close(connection);
    }

    fn on_syn_ack(&mut self, turn: &Turn<'_>, offset: u32, out: &mut Vec<Reply>) {
        if offset != 0 || !turn.live {
            self.counters.stale += 1;
            return;
        }
        let connection = turn.connection;
        let is_first = self.ledger.stage(connection) == Stage::Opening;
        let due = self.ledger.due(connection);
        if is_first {
            self.counters.syn_acks += 1;
            self.ledger.expect(connection, turn.end());
            self.path.handshake(turn.segment);
            if turn.segment.tcp.options.timestamps.is_none() {
                self.counters.without_timestamps += 1;
            }
            let waited = turn.now_us.wrapping_sub(due);
            self.connect.saturating_record(u64::from(waited));
        } else {
            self.counters.syn_acks_again += 1;
        }
        if self.config.per_connection == 0 {
            self.ledger.advance(connection, Stage::Waiting, due);
            self.counters.acknowledgements += 1;
            out.push(self.reply(turn, turn.end(), What::Acknowledge, None));
        } else if is_first && self.is_at_limit() {
            self.finish(turn, out);
        } else if !is_first && self.is_of_the_past(connection) {
            // It was repeated on its way.
        } else if self.has_finished_unasked(connection) {
            self.send_fin(turn, out);
        } else {
            if is_first {
                self.ledger.advance(connection, Stage::Asked, due);
            }
            self.request(turn, is_first, None, out);
        }
    }

    /// Whether a further SYN-ACK is no answer to a further SYN, nor to what was lost after it.
    fn is_of_the_past(&self, connection: u64) -> bool {
        self.ledger.answered(connection) > 0 && !self.ledger.was_retried(connection)
    }

    /// Whether our side was closed before anything was asked.
    fn has_finished_unasked(&self, connection: u64) -> bool {
        self.ledger.stage(connection) == Stage::Closing && self.ledger.answered(connection) == 0
    }

    fn on_established(&mut self, turn: &Turn<'_>, out: &mut Vec<Reply>) {
        if !turn.segment.payload.is_empty() {
            self.on_payload(turn, out);
        } else if turn.has_fin() {
            self.on_fin(turn, out);
        } else {
            self.on_acknowledgement(turn, out);
        }
    }

    /// The segment only acknowledges. That is news only after an attempt to find out.
    fn on_acknowledgement(&mut self, turn: &Turn<'_>, out: &mut Vec<Reply>) {
        if !turn.live {
            if turn.finished {
                self.finishing.acknowledged();
            }
            return;
        }
        if self.ledger.stage(turn.connection) == Stage::Asked && self.lag(turn) == 1 {
            // It has the request. A server without sessions never says so.
            self.ledger.acknowledge(turn.connection);
        }
        if !self.ledger.was_retried(turn.connection) {
            return;
        }
        self.ledger.touch(turn.connection);
        let answered = self.ledger.answered(turn.connection) == turn.asked as u16;
        if turn.finished || !answered {
            return;
        }
        self.say_again(turn, out);
    }

    /// Says again what the server has not seen: how much has come, and what follows.
    fn say_again(&mut self, turn: &Turn<'_>, out: &mut Vec<Reply>) {
        let ack = self.ledger.expected(turn.connection);
        let what = match self.ledger.stage(turn.connection) {
            Stage::Asked if self.lag(turn) == 0 => {
                self.counters.requests_again += 1;
                self.counters.bytes_sent += self.config.requests.length() as u64;
                self.ask_for(turn.connection, turn.asked)
            }
            Stage::Closing => {
                self.counters.fins += 1;
                What::Finish
            }
            _ => {
                self.counters.acknowledgements += 1;
                What::Acknowledge
            }
        };
        out.push(self.reply(turn, ack, what, None));
    }

    /// How many responses are to come to the requests that the server has. Negative: it begins
    /// anew, as a server without sessions does when its client does.
    #[inline]
    fn lag(&self, turn: &Turn<'_>) -> i16 {
        let answered = self.ledger.answered(turn.connection);
        (turn.asked as u16).wrapping_sub(answered).cast_signed()
    }

    /// Asks for what comes after the requests that were acknowledged.
    #[inline]
    fn request(&mut self, turn: &Turn<'_>, fresh: bool, due: Option<u32>, out: &mut Vec<Reply>) {
        if fresh {
            self.counters.requests += 1;
        } else {
            self.counters.requests_again += 1;
        }
        self.counters.bytes_sent += self.config.requests.length() as u64;
        let what = self.ask_for(turn.connection, turn.asked);
        out.push(self.reply(turn, turn.end(), what, due));
    }

    /// An answer to the segment. If something new is due since `due`, that is its timestamp; if
    /// not, it has the one that the segment echoed, so that the server goes on echoing it.
    #[inline]
    fn reply(&self, turn: &Turn<'_>, ack: SeqNumber, what: What, due: Option<u32>) -> Reply {
        let timestamps = turn.segment.tcp.options.timestamps.map(|both| {
            let ours = due.unwrap_or(both.echo);
            (ours, both.value)
        });
        Reply {
            place: turn.place,
            seq: turn.ack,
            ack,
            timestamps,
            what,
        }
    }
}
