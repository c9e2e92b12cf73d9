//! Timers that are due.

use super::Stack;
use crate::connection::Context;
use crate::{ConnId, Instant};

impl Stack {
    /// Runs the timers that are due, at most `budget` of them. Nothing is sent here.
    pub fn on_timeout(&mut self, now: Instant, budget: usize) {
        let mut left = budget;
        while left > 0 {
            let Some(index) = self.lists.wheel.pop_expired(now) else {
                break;
            };
            left -= 1;
            self.on_connection_timeout(now, index);
        }
        while left > 0 {
            let Some((index, attempts)) = self.half_opens.expired(now) else {
                break;
            };
            left -= 1;
            if attempts >= self.common.config.syn_ack_retries {
                self.common.counters.half_open_timeouts += 1;
                self.forget_half_open(index);
            } else {
                let waits_on = self.waits_for_data(index, attempts + 1);
                self.half_opens.restart(now, index, attempts + 1);
                if !waits_on {
                    self.common.counters.syn_acks_retransmitted += 1;
                    self.queue_syn_ack(index);
                }
            }
        }
        while left > 0 {
            let Some(slot) = self.time_wait.expired(now) else {
                break;
            };
            left -= 1;
            self.forget_time_wait(slot);
        }
    }

    fn on_connection_timeout(&mut self, now: Instant, index: u32) {
        let Some((generation, c)) = self.connections.at_mut(index) else {
            return;
        };
        let id = ConnId { index, generation };
        if c.timers.on_wheel(now) {
            let common = &mut self.common;
            c.on_timeout(&mut Context { now, id, common });
        }
        // Otherwise the deadline has moved since the wheel was told: settling tells it again.
        if !self.lists.settle(id, c, &mut self.common) {
            self.settle_over(now, id);
        }
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called next. May be early, never late.
    #[must_use]
    pub fn next_timeout(&mut self) -> Option<Instant> {
        [
            self.lists.wheel.next(),
            self.half_opens.next_deadline(),
            self.time_wait.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
