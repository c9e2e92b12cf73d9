//! The children of forks that have not attached: what they say, and that they end.

use super::Desk;
use crate::exchange::Order;
use crate::slow::control::Heard;

/// What is heard of one child in one go.
const BUDGET: usize = 16;
/// Farewells of a child that are heard when it attaches: more than its lifeline holds.
const FAREWELLS: usize = 1 << 16;

impl Desk {
    /// Takes what the child of a fork has said before it attaches.
    pub(super) fn listen_to_lifeline(&mut self, token: u64) {
        let Some(slot) = self.control.lifeline_of(token) else {
            return;
        };
        for _ in 0..FAREWELLS {
            match self.control.hear_lifeline(slot) {
                Heard::Said(what) => self.order(Order::ChildClosed { token, what }),
                Heard::Quiet | Heard::Ended(_) => return,
            }
        }
    }

    /// A lifeline is readable: the child of a fork has closed something, or ended.
    pub(super) fn lifeline_readable(&mut self, slot: u32) {
        for _ in 0..BUDGET {
            if !self.backlog.is_empty() {
                // It stays readable.
                return;
            }
            let Some(token) = self.control.token_of_lifeline(slot) else {
                return;
            };
            match self.control.hear_lifeline(slot) {
                Heard::Said(what) => self.order(Order::ChildClosed { token, what }),
                Heard::Quiet => return,
                Heard::Ended(token) => {
                    self.order(Order::ChildEnded(token));
                    return;
                }
            }
        }
    }
}
