//! Bytes of a response, and its end.

use super::super::Client;
use super::super::body::{self, Body, Kind, Partial, Taken};
use super::super::reply::{Reply, What};
use super::Turn;

impl Client {
    pub(super) fn kind(&self, turn: &Turn<'_>) -> Kind {
        let requests = &self.config.requests;
        Kind {
            pattern: requests.pattern_of(turn.connection, turn.asked.saturating_sub(1)),
            head_only: requests.head_only(),
        }
    }

    pub(super) fn on_payload(&mut self, turn: &Turn<'_>, out: &mut Vec<Reply>) {
        if turn.asked == 0 || !turn.live {
            // Nothing was asked; or it is over, and the server repeats what it has not seen
            // acknowledged.
            self.counters.responses_again += 1;
            self.close(turn, false, out);
            return;
        }
        self.ledger.touch(turn.connection);
        let lag = self.lag(turn);
        if lag == 0 {
            // What was counted comes again, because the server has not seen what followed it.
            self.counters.responses_again += 1;
            let known = self.ledger.expected(turn.connection);
            if turn.has_fin() && turn.end() == known + 1 {
                self.counters.fins_received += 1;
                self.close(turn, false, out);
            } else {
                self.say_again(turn, out);
            }
            return;
        }
        if lag < 0 && !self.ledger.was_retried(turn.connection) {
            // It was overtaken on its way, by much.
            self.counters.responses_again += 1;
            return;
        }
        let kind = self.kind(turn);
        let in_pieces = if self.partials.is_empty() {
            None
        } else {
            self.partials
                .get_mut(turn.connection)
                .map(|partial| turn.ack.distance_from(partial.asked))
        };
        let taken = match in_pieces {
            Some(0) => self.go_on(turn, kind, out),
            // From the past.
            Some(..0) => None,
            Some(_) => {
                // Of an earlier attempt.
                self.partials.remove(turn.connection);
                self.begin(turn, kind, lag, out)
            }
            None => self.begin(turn, kind, lag, out),
        };
        match taken {
            Some(Taken::Whole {
                status,
                right,
                excess,
                close,
            }) => {
                if excess > 0 {
                    self.counters.excess += 1;
                }
                if status < 200 {
                    // An interim response: the real one follows, and is taken for it.
                    self.counters.status_1xx += 1;
                    return;
                }
                self.on_response(turn, (status, right, close), out);
            }
            Some(Taken::More) if turn.has_fin() => self.on_truncated(turn, kind, out),
            Some(Taken::More) | None => {}
        }
    }

    /// The first segment of a response.
    pub(super) fn begin(
        &mut self,
        turn: &Turn<'_>,
        kind: Kind,
        lag: i16,
        out: &mut Vec<Reply>,
    ) -> Option<Taken> {
        let mut bytes = turn.segment.payload;
        if lag > 0 {
            // How much of the segment was counted with what came before.
            let expected = self.ledger.expected(turn.connection);
            let known = expected.distance_from(turn.segment.tcp.seq);
            if known < 0 || known as usize >= bytes.len() {
                if known < 0 {
                    self.counters.out_of_order += 1;
                } else {
                    self.counters.responses_again += 1;
                }
                self.say_again(turn, out);
                return None;
            }
            bytes = &bytes[known as usize..];
        }
        let head = match self.heads.parse(bytes, kind.pattern, kind.head_only) {
            Ok(head) => head,
            Err(_) => return self.not_http(turn),
        };
        let begun = match head {
            Some(head) => {
                let rest = &bytes[head.length..];
                match body::begin(head, rest, kind, &mut self.examiner) {
                    Ok(begun) => begun,
                    Err(_) => return self.not_http(turn),
                }
            }
            None => (Taken::More, Some(Body::headless(bytes))),
        };
        let (taken, Some(body)) = begun else {
            return Some(begun.0);
        };
        let partial = Partial {
            asked: turn.ack,
            expected: turn.segment.tcp.seq + turn.segment.payload.len() as u32,
            unacknowledged: 1,
            timestamps: stamps(turn),
            body,
        };
        if !self.partials.insert(turn.connection, partial) {
            self.counters.table_full += 1;
            return None;
        }
        self.owed.push(turn.connection);
        Some(taken)
    }

    /// A further segment of a response.
    pub(super) fn go_on(
        &mut self,
        turn: &Turn<'_>,
        kind: Kind,
        out: &mut Vec<Reply>,
    ) -> Option<Taken> {
        let stamps = stamps(turn);
        let partial = self.partials.get_mut(turn.connection)?;
        let behind = partial.expected.distance_from(turn.segment.tcp.seq);
        let bytes = turn.segment.payload;
        if behind < 0 || behind as usize >= bytes.len() {
            // Behind a gap, or known: say at once what is expected (RFC 5681 section 4.2).
            if behind < 0 {
                self.counters.out_of_order += 1;
            } else {
                self.counters.responses_again += 1;
            }
            partial.unacknowledged = 0;
            let expected = partial.expected;
            self.counters.acknowledgements += 1;
            out.push(self.reply(turn, expected, What::Acknowledge, None));
            return None;
        }
        let bytes = &bytes[behind as usize..];
        partial.timestamps = stamps;
        let taken = partial.body.take(bytes, kind, &mut self.examiner);
        partial.expected += bytes.len() as u32;
        match taken {
            Err(_) => {
                self.partials.remove(turn.connection);
                self.not_http(turn)
            }
            Ok(Taken::More) => {
                partial.unacknowledged += 1;
                if partial.unacknowledged >= 2 {
                    // Every second segment (RFC 5681 section 4.2).
                    partial.unacknowledged = 0;
                    let expected = partial.expected;
                    self.counters.acknowledgements += 1;
                    out.push(self.reply(turn, expected, What::Acknowledge, None));
                } else {
                    self.owed.push(turn.connection);
                }
                Some(Taken::More)
            }
            Ok(whole) => {
                self.partials.remove(turn.connection);
                Some(whole)
            }
        }
    }

    /// The server closed the connection in the middle of a response, or at the end of one that
    /// lasts until then.
    pub(super) fn on_truncated(&mut self, turn: &Turn<'_>, kind: Kind, out: &mut Vec<Reply>) {
        let whole = self
            .partials
            .get_mut(turn.connection)
            .and_then(|partial| partial.body.ended(kind, &mut self.examiner));
        self.partials.remove(turn.connection);
        let has_answered = whole.is_some();
        if let Some(Taken::Whole { status, right, .. }) = whole {
            self.count_response(turn, status, right);
        }
        self.counters.fins_received += 1;
        self.close(turn, has_answered, out);
    }

    pub(super) fn not_http(&mut self, turn: &Turn<'_>) -> Option<Taken> {
        self.counters.not_http += 1;
        self.over(turn.connection);
        None
    }
}

/// The timestamps of an acknowledgement that is sent later.
fn stamps(turn: &Turn<'_>) -> Option<(u32, u32)> {
    let both = turn.segment.tcp.options.timestamps?;
    Some((both.echo, both.value))
}
