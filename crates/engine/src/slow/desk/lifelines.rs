//! The children of forks that have not attached: what they say, and that they end.

use std::time::Instant;

use queue_pair::control::{Explanation, Farewell};
use rustix::io::Errno;

use super::Desk;
use super::rates::cost;
use crate::exchange::{Order, WorkerId};
use crate::slow::control::{Accepted, Heard};
use crate::stats::Drop;

/// What is heard of one child in one go.
const BUDGET: usize = 16;
/// Farewells of a child that are heard when it attaches: more than its lifeline holds.
const FAREWELLS: usize = 1 << 16;

/// Why a connection that was passed has ended.
const PASSED_AWAY: &str =
    "passed away: the program that it was passed to cannot use it, or did not want it";

impl Desk {
    /// Takes what the child of a fork has said before it attaches.
    pub(super) fn listen_to_lifeline(&mut self, token: u64) {
        let Some(slot) = self.control.lifeline_of(token) else {
            return;
        };
        let home = self.control.home_of_lifeline(slot);
        for _ in 0..FAREWELLS {
            match self.control.hear_lifeline(slot) {
                Heard::Said(what) => self.child_closed((slot, token), home, what),
                Heard::Knocked(uid, outcome) => self.child_knocked(uid, outcome),
                Heard::Quiet | Heard::Ended(_) | Heard::TicketEnded(_) => return,
            }
        }
    }

    /// A lifeline is readable: the child of a fork has closed something, or ended.
    pub(super) fn lifeline_readable(&mut self, slot: u32) {
        for _ in 0..BUDGET {
            if self.crew.has_backlog() {
                // It stays readable.
                return;
            }
            let Some(token) = self.control.token_of_lifeline(slot) else {
                return;
            };
            let home = self.control.home_of_lifeline(slot);
            let unclaimed = self.control.unclaimed(slot);
            match self.control.hear_lifeline(slot) {
                Heard::Said(what) => self.child_closed((slot, token), home, what),
                Heard::Knocked(uid, outcome) => self.child_knocked(uid, outcome),
                Heard::Quiet => return,
                Heard::Ended(token) => {
                    self.crew.order(home, Order::ChildEnded(token));
                    return;
                }
                Heard::TicketEnded(token) => {
                    if let Some(pid) = unclaimed {
                        self.passed_away(pid);
                    }
                    self.crew.order(home, Order::TicketEnded(token));
                    return;
                }
            }
        }
    }

    fn child_closed(&mut self, (slot, token): (u32, u64), home: WorkerId, what: Farewell) {
        if let Farewell::Listener(name) = what {
            self.control.inherits_no_longer(slot, name);
        }
        self.crew.order(home, Order::ChildClosed { token, what });
    }

    /// A child of this user's that cannot reach the control socket has brought a connection. It is charged for it
    /// as for one that comes by the socket, whatever became of it.
    fn child_knocked(&mut self, uid: u32, outcome: Result<Accepted, Errno>) {
        self.rates.charge(uid, cost::CONNECTION, Instant::now());
        match outcome {
            Ok(Accepted::Client(_)) => {}
            Ok(_) => self.counters.drop(Drop::ControlFull),
            Err(error) => tracing::warn!(%error, uid, "a child's own connection is not taken on"),
        }
    }

    /// Nobody has claimed what a process had passed.
    fn passed_away(&mut self, pid: u32) {
        self.counters.tickets_unclaimed += 1;
        tracing::info!(
            pid,
            "a connection was passed to a program that did not take it"
        );
        if self.control.is_connected(pid) {
            let explanation = Explanation {
                fd: Explanation::NO_DESCRIPTOR,
                kind: "connection".to_owned(),
                reason: PASSED_AWAY.to_owned(),
                detail: String::new(),
            };
            self.control.report(pid, explanation);
        }
    }
}
