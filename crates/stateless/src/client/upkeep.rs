//! What no segment asks for: acknowledgements that are owed, further attempts, and the end.

use super::Client;
use super::ledger::Stage;
use super::reply::{Reply, What};
use wire::seq::SeqNumber;

/// Attempts after which a connection is given up.
const MAX_ATTEMPTS: u8 = 4;

/// Microseconds after which a response whose next request is not due yet is acknowledged alone.
const DELAYED_ACK_US: u32 = 40_000;

impl Client {
    /// From now on connections end instead of asking again. Those that are being opened ask once:
    /// that was due before.
    pub fn drain(&mut self, out: &mut Vec<Reply>) {
        self.draining = true;
        while let Some(ready) = self.ready.pop_front() {
            self.counters.fins += 1;
            self.ledger.advance(ready.connection, Stage::Closing, 0);
            out.push(Reply {
                place: ready.place,
                seq: ready.seq,
                ack: ready.ack,
                timestamps: ready.echo.map(|echo| (ready.since, echo)),
                what: What::Finish,
            });
        }
        self.ready_acknowledged = 0;
    }

    /// Resets the connections that are held (see [`Config::per_connection`](super::Config::per_connection)); to be called until
    /// nothing is left, with at most `budget` each time. Returns how many there were.
    pub fn release(&mut self, budget: usize, out: &mut Vec<Reply>) -> usize {
        let held: Vec<u64> = self
            .ledger
            .live()
            .filter(|(_, stage)| *stage == Stage::Waiting)
            .map(|(connection, _)| connection)
            .take(budget)
            .collect();
        for &connection in &held {
            let place = self.walk.place(connection);
            self.counters.resets += 1;
            self.counters.closed += 1;
            self.ledger.close(connection);
            out.push(Reply {
                place,
                seq: self.initial(connection, place) + 1,
                ack: SeqNumber(0),
                timestamps: None,
                what: What::Reset,
            });
        }
        held.len()
    }

    /// What is owed after a batch of segments: acknowledgements of responses that go on, and of
    /// those whose next request is not due for long.
    pub fn end_batch(&mut self, now_us: u32, out: &mut Vec<Reply>) {
        while let Some(connection) = self.owed.pop() {
            let Some(partial) = self.partials.get_mut(connection) else {
                continue;
            };
            if std::mem::take(&mut partial.unacknowledged) == 0 {
                continue;
            }
            self.counters.acknowledgements += 1;
            out.push(Reply {
                place: self.walk.place(connection),
                seq: partial.asked,
                ack: partial.expected,
                timestamps: partial.timestamps,
                what: What::Acknowledge,
            });
        }
        while let Some(ready) = self.ready.get(self.ready_acknowledged) {
            if now_us.wrapping_sub(ready.since) < DELAYED_ACK_US {
                break;
            }
            self.ready_acknowledged += 1;
            self.counters.acknowledgements += 1;
            out.push(Reply {
                place: ready.place,
                seq: ready.seq,
                ack: ready.ack,
                timestamps: ready.echo.map(|echo| (ready.since, echo)),
                what: What::Acknowledge,
            });
        }
    }

    /// Counts what is under way when nothing more is waited for: requests without an answer, and
    /// connections that did not come to one.
    pub fn abandon(&mut self) {
        let unfinished = |stage: &Stage| matches!(stage, Stage::Opening | Stage::Asked);
        let live = self.ledger.live();
        let count = live.filter(|(_, stage)| unfinished(stage)).count();
        self.counters.unfinished += count as u64;
    }

    /// Moves the hand on by what `elapsed_us` microseconds ask for if a turn takes `turn_us`, and
    /// tries again whatever has not moved for a turn.
    pub fn sweep(&mut self, now_us: u32, elapsed_us: u32, turn_us: u32, out: &mut Vec<Reply>) {
        self.finishing.pass(now_us);
        self.sweep_credit += self.ledger.span() * u64::from(elapsed_us);
        let steps = self.sweep_credit / u64::from(turn_us.max(1));
        if steps == 0 {
            return;
        }
        self.sweep_credit -= steps * u64::from(turn_us.max(1));
        let mut stalled = Vec::new();
        self.ledger.sweep(steps, |one| stalled.push(one));
        for one in stalled {
            if one.stage == Stage::Asked && now_us.wrapping_sub(one.due) >= self.config.timeout_us {
                self.counters.timed_out += 1;
                self.partials.remove(one.connection);
                self.ledger.close(one.connection);
                continue;
            }
            if one.acknowledged {
                continue;
            }
            if one.attempts >= MAX_ATTEMPTS {
                match one.stage {
                    Stage::Opening => self.counters.lost_opening += 1,
                    Stage::Closing => self.counters.lost_closing += 1,
                    _ => self.counters.lost_asked += 1,
                }
                self.partials.remove(one.connection);
                self.ledger.close(one.connection);
                continue;
            }
            self.counters.syns_again += 1;
            let place = self.walk.place(one.connection);
            let time = match one.stage {
                Stage::Opening => one.due,
                _ => now_us,
            };
            out.push(self.syn(one.connection, place, time));
        }
    }
}
