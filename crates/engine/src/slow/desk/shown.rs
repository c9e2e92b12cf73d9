//! Listening sockets that programs have shown: nobody here has them any more when the program is told.
//!
//! What programs send is [closed](super::closing) by threads that nobody waits for. While such a thread has a listening
//! socket, its port is not free: a program that closes it, or ends, and listens there again would be refused
//! (EADDRINUSE). So the answer to who has shown one waits until it is closed, and for a moment at most: another
//! program of the same user may hold up those threads.

use std::time::{Duration, Instant};

use super::Desk;
use crate::exchange::{Answer, ClientKey, WorkerId};
use crate::slow::control::Pending;

/// How long an answer waits at most. A thread closes within some 50 µs if it gets a core.
const PATIENCE: Duration = Duration::from_millis(50);

/// An answer that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    until: Instant,
    from: WorkerId,
    client: ClientKey,
    answer: Answer,
}

impl Desk {
    /// A worker has answered. What is told of a listening socket is told when that is closed here.
    pub(super) fn answered(&mut self, from: WorkerId, client: ClientKey, answer: Answer) {
        let shows = self.control.client_named(client).is_some_and(|client| {
            let shown =
                |asked: &Pending| matches!(asked, Pending::Listen { .. } | Pending::Listener(_));
            client.pending.as_ref().is_some_and(shown) && self.closing.has_some_of(client.uid)
        });
        if !shows {
            return self.answer(from, client, answer);
        }
        self.shown.push(Waiting {
            until: Instant::now() + PATIENCE,
            from,
            client,
            answer,
        });
    }

    /// When to [look](Self::see_to_shown) at the latest.
    pub(super) fn shown_due(&self) -> Option<Instant> {
        self.shown.iter().map(|waiting| waiting.until).min()
    }

    /// Answers whose sockets are closed by now, and who has waited for long.
    pub(super) fn see_to_shown(&mut self, now: Instant) {
        for waiting in std::mem::take(&mut self.shown) {
            let client = self.control.client_named(waiting.client);
            let is_closed = client.is_none_or(|client| !self.closing.has_some_of(client.uid));
            if is_closed || waiting.until <= now {
                self.answer(waiting.from, waiting.client, waiting.answer);
            } else {
                self.shown.push(waiting);
            }
        }
    }
}
