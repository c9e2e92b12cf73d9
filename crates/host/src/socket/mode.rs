//! O_NONBLOCK of a connection that several processes have.
//!
//! It is one flag on the kernel. Here whoever waits around these calls keeps it, in each process. So one
//! that changes it tells the engine, which tells the others: a call that begins after the change has
//! returned finds it. A call that waits already goes on waiting, as in the kernel.

use std::sync::atomic::{AtomicU8, Ordering};

use queue_pair::Submission;

use super::Socket;

/// The first version of the protocol in which others are told.
const SINCE: u32 = 11;

/// What was said last.
#[derive(Default)]
pub(super) struct Said(AtomicU8);

const BLOCKS: u8 = 1;
const DOES_NOT: u8 = 2;

impl Said {
    /// It was set or cleared.
    pub(super) fn say(&self, on: bool) {
        let said = if on { DOES_NOT } else { BLOCKS };
        self.0.store(said, Ordering::Relaxed);
    }
}

impl Socket {
    /// The program has set or cleared O_NONBLOCK. If other processes have the connection, too, the engine is
    /// asked to tell them, which takes some microseconds.
    pub fn tell_nonblocking(&self, on: bool) {
        let state = self.attach_and_lock();
        let link = state.link.as_ref().filter(|_| state.is_shared());
        if let Some(link) = link.filter(|link| link.attachment.speaks(SINCE)) {
            let attachment = link.attachment.clone();
            let conn = link.conn;
            attachment.post_surely(Submission::NonBlocking { conn, on });
            drop(state);
            attachment.settle();
            // What others have said before is over.
            attachment.pump_surely();
        }
        // For other sockets of this process, too, that came by a ticket.
        self.core.mode.say(on);
    }

    /// Whether calls do not wait, once any process has said so.
    #[inline]
    pub fn is_nonblocking(&self) -> Option<bool> {
        match self.core.mode.0.load(Ordering::Relaxed) {
            BLOCKS => Some(false),
            DOES_NOT => Some(true),
            _ => None,
        }
    }
}
