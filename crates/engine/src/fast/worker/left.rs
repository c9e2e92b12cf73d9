//! Listeners that nobody accepts from for now, with clients in their queue.
//!
//! A listening socket goes from program to program as the kernel's: through exec, or in a message. Until
//! the next one has shown it to the engine, its last holder may be gone. The kernel knows whether a copy
//! of it is left, in a process or in a message that nobody has read: then whoever waits in the queue
//! waits on, as in the kernel, and is the next holder's. New clients are the kernel's meanwhile, which
//! listens all the time.
//!
//! A program without the interposer may have it, which will never ask the engine. So the wait has an
//! end.

use std::time::Duration;

use netdev::Device;
use tcp::Instant;

use super::Worker;
use crate::fast::listeners::Left;
use crate::network::{Network, Steered};
use crate::stats::Drop;

/// How long a client waits at most for the next holder to come: longer than a server takes to start
/// again, and shorter than clients wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// When it is first looked whether a copy is left. The next look comes after half of the time that has
/// passed since: a holder that ends closes its copies in any order, within microseconds.
const FIRST_LOOK: Duration = Duration::from_millis(2);

impl<D: Device, N: Network> Worker<D, N> {
    /// Nobody accepts from a listener any more.
    pub(super) fn abandon_listener(&mut self, number: u32) {
        if self.stopping || !self.has_clients(number) || !self.has_copies(number) {
            self.remove_listener(number);
            return;
        }
        let now = self.now;
        let Some(listener) = self.listeners.get_mut(number) else {
            return;
        };
        listener.left = Some(Left {
            since: now,
            look: now + FIRST_LOOK,
        });
        listener.how = Steered::Closing;
        self.steer_as_said(number);
    }

    /// When it is looked next at what was left.
    pub(super) fn left_due(&self) -> Option<Instant> {
        let left = self.listeners.iter().filter_map(|l| l.left);
        left.map(|left| left.look).min()
    }

    /// Ends what was left and is nobody's: the last copy of its socket is closed, nobody waits any more,
    /// or it was too long.
    pub(super) fn recheck_left(&mut self, now: Instant) {
        let due = |left: Left| left.look <= now;
        let numbers: Vec<u32> = self
            .listeners
            .iter()
            .filter(|l| l.left.is_some_and(due))
            .map(|l| l.number)
            .collect();
        for number in numbers {
            if !self.has_clients(number) || !self.has_copies(number) {
                self.remove_listener(number);
                continue;
            }
            let Some(listener) = self.listeners.get_mut(number) else {
                continue;
            };
            let (id, local) = (listener.id, listener.local);
            let Some(left) = &mut listener.left else {
                continue;
            };
            let age = now.saturating_duration_since(left.since);
            if age < PATIENCE {
                left.look = now + (age / 2).max(FIRST_LOOK);
                continue;
            }
            let clients = self.stack.waiting(id);
            tracing::warn!(
                %local,
                clients,
                "nobody has come to accept who waits there: another program has the listening socket, \
                 and is not on the engine"
            );
            for _ in 0..clients {
                self.counters.drop(Drop::ListenerLeft);
            }
            self.remove_listener(number);
        }
    }

    /// Whether anybody waits in a listener, or is about to.
    fn has_clients(&mut self, number: u32) -> bool {
        let Some(listener) = self.listeners.get_mut(number) else {
            return false;
        };
        let counts = self.stack.listener_counts(listener.id);
        counts.is_some_and(|counts| counts.waiting > 0 || counts.half_open > 0)
    }

    /// Whether a copy is known to be left of a socket that was shown for a listener.
    fn has_copies(&mut self, number: u32) -> bool {
        let listener = self.listeners.get_mut(number);
        self.proofs_followed && listener.is_some_and(|l| !l.proofs.is_empty())
    }
}
