//! What a worker leaves behind that ends. To close what programs have sent can take as long as they like, and nobody
//! is to wait for that who joins its thread: the slow half has it closed.

use super::Worker;
use crate::exchange::{Ask, Order, Tale, ToSlow};
use crate::fast::connections::SessionId;

/// Does not carry out an order. What it can take long to close goes back.
pub(super) fn decline(slow: &mut ToSlow, order: Order) {
    let Order::Ask { what, .. } = order else {
        return;
    };
    match what {
        Ask::Bound { socket, uid, .. } => slow.tell(Tale::Returned(uid, vec![socket])),
        Ask::File(file) => slow.tell(Tale::Forgotten(file)),
        Ask::Capture(capture) => slow.tell(Tale::Captured(capture)),
        Ask::Attach { session, .. } => slow.tell(Tale::Spent(session)),
        _ => {}
    }
}

impl<D, N> Worker<D, N> {
    /// Captures that nobody reads any more go back.
    pub(super) fn return_captures(&mut self) {
        while let Some(capture) = self.captures.take_ended() {
            self.slow.tell(Tale::Captured(capture));
        }
    }
}

impl<D, N> Drop for Worker<D, N> {
    fn drop(&mut self) {
        for id in (0..self.sessions.slots()).map(SessionId) {
            if let Some(mut session) = self.sessions.remove(id) {
                session.files = self.memory.remove(id);
                self.slow.tell(Tale::Spent(session));
            }
        }
        for returned in self.lent.end() {
            self.slow.tell(returned);
        }
        for capture in self.captures.end() {
            self.slow.tell(Tale::Captured(capture));
        }
        if let Some(waiting) = self.waiting.take() {
            decline(&mut self.slow, waiting.into_order());
        }
    }
}
