//! The end of a connection.

use super::super::body::Taken;
use super::super::ledger::Stage;
use super::super::reply::{Reply, What};
use super::super::{Client, Finish};
use super::Turn;

impl Client {
    /// The server's FIN, without payload.
    pub(super) fn on_fin(&mut self, turn: &Turn<'_>, out: &mut Vec<Reply>) {
        let mut has_answered = false;
        if let Some(partial) = self.partials.get_mut(turn.connection) {
            if turn.segment.tcp.seq != partial.expected || turn.ack != partial.asked {
                self.counters.out_of_order += 1;
                return;
            }
            let kind = self.kind(turn);
            let whole = self
                .partials
                .get_mut(turn.connection)
                .and_then(|partial| partial.body.ended(kind, &mut self.examiner));
            self.partials.remove(turn.connection);
            if let Some(Taken::Whole { status, right, .. }) = whole {
                self.count_response(turn, status, right);
                has_answered = true;
            }
        } else if turn.live
            && self.lag(turn) >= 0
            && turn.segment.tcp.seq != self.ledger.expected(turn.connection)
        {
            // Something before it has not come; both will come again.
            self.counters.out_of_order += 1;
            return;
        }
        self.counters.fins_received += 1;
        self.close(turn, has_answered, out);
    }

    /// The server has closed its side, up to the end of the segment, with or without having
    /// answered in it: closes ours.
    pub(super) fn close(&mut self, turn: &Turn<'_>, has_answered: bool, out: &mut Vec<Reply>) {
        if turn.finished {
            self.counters.acknowledgements += 1;
            out.push(self.reply(turn, turn.end(), What::Acknowledge, None));
        } else if self.config.finish == Finish::ByReset {
            self.counters.resets += 1;
            out.push(self.reply(turn, turn.end(), What::Reset, None));
        } else {
            self.send_fin(turn, out);
        }
        if turn.live {
            let early = turn.asked < self.config.per_connection && !self.is_ending();
            // Fewer than were answered: a server without sessions, which was asked anew from the
            // first request on.
            let unanswered = self.lag(turn) > 0;
            // A request may have been on its way to a server that closed meanwhile.
            let overtaken = !has_answered && self.ledger.stage(turn.connection) == Stage::Asked;
            if unanswered || overtaken {
                self.counters.unanswered += 1;
            }
            if early || unanswered {
                self.counters.closed_early += 1;
            } else {
                self.counters.closed += 1;
            }
            self.remove_ready(turn.connection);
            self.over(turn.connection);
        }
    }

    /// A connection that waits for its next request is closed by the server: rare, so the search
    /// may take its time.
    pub(super) fn remove_ready(&mut self, connection: u64) {
        if self.ledger.stage(connection) != Stage::Waiting {
            return;
        }
        let at = self
            .ready
            .iter()
            .position(|ready| ready.connection == connection);
        if let Some(at) = at {
            self.ready.remove(at);
            if at < self.ready_acknowledged {
                self.ready_acknowledged -= 1;
            }
        }
    }

    /// Ends our side after the last response, and waits for the server's.
    pub(super) fn finish(&mut self, turn: &Turn<'_>, out: &mut Vec<Reply>) {
        if turn.live {
            self.ledger
                .advance(turn.connection, Stage::Closing, turn.now_us);
        }
        self.send_fin(turn, out);
    }

    pub(super) fn send_fin(&mut self, turn: &Turn<'_>, out: &mut Vec<Reply>) {
        self.counters.fins += 1;
        self.finishing.sent();
        out.push(self.reply(turn, turn.end(), What::Finish, None));
    }
}
