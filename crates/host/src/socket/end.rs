//! The end of a connection on this side: shutdown and close.

use std::sync::Arc;

use queue_pair::control::Farewell;
use queue_pair::{OptionKind, Submission};
use rustix::io::Errno;

use super::{Link, Phase, Socket, SocketCore};
use crate::lock::lock;

/// Of `SO_LINGER`: on, with no time.
const LINGERS_NOT: u32 = 1;

/// Which directions to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Nothing more will be read; what arrives is still acknowledged, and lost.
    Read,
    /// Nothing more will be written: FIN after what is pending.
    Write,
    /// Both.
    Both,
}

impl Socket {
    /// Ends one direction, or both. If other processes have the connection, too, the engine is asked to
    /// tell them, which takes some microseconds.
    ///
    /// # Errors
    /// `ENOTCONN`: there is no connection.
    pub fn shutdown(&self, how: Shutdown) -> Result<(), Errno> {
        // The engine may have said that the connection is over.
        self.session.pump();
        let mut state = self.attach_and_lock();
        if state.phase == Phase::Over {
            return Err(Errno::NOTCONN);
        }
        let mut concerns_others = None;
        if how != Shutdown::Write && !state.read_shut {
            state.read_shut = true;
            // Of one that is still being opened, `opened` sees to it.
            if let Some(Link { attachment, conn }) = &state.link {
                attachment.end_reading(*conn);
                concerns_others = state.is_shared().then(|| Arc::clone(attachment));
            }
        }
        if how != Shutdown::Read && !state.write_shut {
            state.write_shut = true;
            self.core.starves_no_more(&mut state);
            // Of one that is still being opened, `opened` sees to it.
            if let Some(link) = &state.link {
                link.attachment.post_surely(Submission::Shutdown {
                    conn: link.conn,
                    at: state.posting_time(),
                });
                if state.is_shared() {
                    concerns_others = Some(Arc::clone(&link.attachment));
                }
            }
        }
        self.core.changed_here(state);
        if let Some(attachment) = concerns_others {
            // Whoever writes after this has returned is refused, and whoever reads finds the end.
            attachment.settle();
        }
        Ok(())
    }

    /// Makes it a connection that was reset, as far as anybody here can tell; it is, when this is dropped. Whether it
    /// was not over before.
    pub fn reset(&self) -> bool {
        let mut state = self.attach_and_lock();
        if state.phase == Phase::Over {
            return false;
        }
        let _ = state.options.set(OptionKind::Linger, LINGERS_NOT);
        state.error = Some(Errno::CONNRESET);
        (state.read_shut, state.write_shut) = (true, true);
        self.core.changed_here(state);
        true
    }

    /// Whether nothing is left that a lingering close would wait for: all that was written is
    /// acknowledged, or never will be. The child of a fork that has not attached has written nothing.
    pub fn is_drained(&self) -> bool {
        let state = lock(&self.core.state);
        state.is_parents() || state.phase == Phase::Over || state.send.in_flight() == 0
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(farewell) = self.core.close() {
            self.session.say_farewell(farewell);
        }
    }
}

impl SocketCore {
    /// The program has no descriptor of it any more. The engine sends what is pending, and FIN; or
    /// it resets the connection, if data was unread or the program lingers for no time. What is to be said of
    /// it elsewhere is returned.
    fn close(&self) -> Option<Farewell> {
        let mut state = lock(&self.state);
        state.handles = state.handles.saturating_sub(1);
        if state.handles > 0 || std::mem::replace(&mut state.closed, true) {
            return None;
        }
        let mut farewell = None;
        let mut told = None;
        // One that has failed stays the engine's until it is closed, too.
        if let Some(Link { attachment, conn }) = &state.link {
            let (attachment, conn) = (Arc::clone(attachment), *conn);
            let lingers_not = state.options.lingers_for_no_time();
            if attachment.is_parents() {
                farewell = Some(Farewell::Connection(conn));
            } else if attachment.is_live() {
                let at = state.posting_time();
                // Of one that others have, too, the engine knows what is unread when the last closes.
                let abort = lingers_not || (at == 0 && state.receive.waiting() > 0);
                if at == 0 && !abort && state.receive.unannounced() > 0 {
                    // Or the engine would take what was read for unread.
                    let total = state.receive.announce();
                    attachment.post_surely(Submission::Consumed { conn, total });
                }
                attachment.post_surely(Submission::Close { conn, abort, at });
                told = Some(attachment);
            }
        }
        self.starves_no_more(&mut state);
        state.cancel();
        if state.link.is_none() || state.phase == Phase::Over {
            state.posts = None;
        }
        state.receive.abandon();
        self.source.0.set(state.readiness());
        drop(state);
        self.source.0.forget_watches();
        if let Some(attachment) = told {
            attachment.read_for_deferred();
        }
        farewell
    }

    /// The process closes its listener: a connection that it was handed and never took goes back.
    pub(crate) fn give_back(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        if let Some(link) = &state.link
            && link.attachment.is_live()
        {
            link.attachment
                .post_surely(Submission::GiveBack { conn: link.conn });
        }
        state.receive.abandon();
    }
}
