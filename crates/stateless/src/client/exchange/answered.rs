//! A response that is whole, and what follows it.

use super::super::ledger::Stage;
use super::super::reply::{Reply, What};
use super::super::{Client, Finish, Ready};
use super::Turn;

impl Client {
    /// A response is whole, and ends with the segment: its status, whether its body is right, and
    /// whether the server will close the connection.
    pub(super) fn on_response(
        &mut self,
        turn: &Turn<'_>,
        (status, right, close): (u16, bool, bool),
        out: &mut Vec<Reply>,
    ) {
        let fresh = self.count_response(turn, status, right);
        let is_last = close || turn.asked >= self.config.per_connection;
        if turn.has_fin() {
            self.counters.fins_received += 1;
            self.close(turn, true, out);
        } else if turn.finished {
            self.counters.acknowledgements += 1;
            out.push(self.reply(turn, turn.end(), What::Acknowledge, None));
        } else if !fresh && self.ledger.stage(turn.connection) == Stage::Asked {
            // The next request was sent, and the server has not seen it.
            self.request(turn, false, None, out);
        } else if is_last || self.is_ending() {
            self.on_last(turn, fresh && is_last, close, out);
        } else if !fresh && self.ledger.stage(turn.connection) == Stage::Closing {
            // All was answered, and a server without sessions begins anew: on to the end again.
            self.request(turn, false, None, out);
        } else if !self.config.paced {
            self.ledger
                .advance(turn.connection, Stage::Asked, turn.now_us);
            self.request(turn, true, Some(turn.now_us), out);
        } else if fresh {
            self.ledger
                .advance(turn.connection, Stage::Waiting, turn.now_us);
            self.ready.push_back(Ready {
                connection: turn.connection,
                place: turn.place,
                seq: turn.ack,
                ack: turn.end(),
                asked: turn.asked,
                echo: turn.segment.tcp.options.timestamps.map(|both| both.value),
                since: turn.now_us,
            });
        } else {
            self.counters.acknowledgements += 1;
            out.push(self.reply(turn, turn.end(), What::Acknowledge, None));
        }
    }

    /// The last response of a connection: ends it, or lets the server.
    pub(super) fn on_last(
        &mut self,
        turn: &Turn<'_>,
        fresh: bool,
        close: bool,
        out: &mut Vec<Reply>,
    ) {
        match self.config.finish {
            Finish::ByReset => {
                self.counters.resets += 1;
                self.counters.closed += 1;
                out.push(self.reply(turn, turn.end(), What::Reset, None));
                self.over(turn.connection);
            }
            // Its FIN comes of itself, and is acknowledged together with the response; if it does
            // not, the response comes again.
            finish if fresh && (close || finish == Finish::ByServer) => {
                self.ledger
                    .advance(turn.connection, Stage::Closing, turn.now_us);
            }
            Finish::ByServer | Finish::ByClient => self.finish(turn, out),
        }
    }

    /// Counts a response, unless it was counted before; whether it was not.
    pub(super) fn count_response(&mut self, turn: &Turn<'_>, status: u16, right: bool) -> bool {
        let connection = turn.connection;
        let fresh = turn.live
            && turn.asked > 0
            && self.ledger.answered(connection) == (turn.asked - 1) as u16;
        if !fresh {
            self.counters.responses_again += 1;
            return false;
        }
        // The time that was echoed; or that of the ledger, where there is none, or where it is
        // that of a later attempt.
        let echoed = turn.segment.tcp.options.timestamps;
        let echoed = echoed.map(|echoed| Self::time_of(echoed, turn.now_us));
        let due = match echoed {
            Some(Some(due)) if !self.ledger.was_retried(connection) => due,
            Some(None) => {
                self.counters.timestamps_wrong += 1;
                self.ledger.due(connection)
            }
            _ => self.ledger.due(connection),
        };
        let waited = turn.now_us.wrapping_sub(due);
        self.latency.saturating_record(u64::from(waited));
        let segment = turn.segment;
        let end = segment.tcp.seq + segment.payload.len() as u32;
        self.ledger.answer(connection, end);
        self.counters.responses += 1;
        let class = match status {
            200..=299 => &mut self.counters.status_2xx,
            300..=399 => &mut self.counters.status_3xx,
            400..=499 => &mut self.counters.status_4xx,
            _ => &mut self.counters.status_5xx,
        };
        *class += 1;
        if !right {
            self.counters.bodies_wrong += 1;
        }
        true
    }
}
