//! The end of a connection on this side: shutdown, close, and the move to another process.

use std::sync::Arc;

use queue_pair::Submission;
use queue_pair::control::{Fds, Reply, Request};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::{Link, Phase, Socket, SocketCore, State};
use crate::lock::lock;
use crate::receive_queue::ReceiveQueue;
use crate::send_queue::SendQueue;

/// How often, and how long apart, a connection is asked for that is just moving between two other
/// processes: until the peer has acknowledged what the first of them had written. Only programs that
/// write to one connection from several processes in turn meet this.
const HANDOVER_TRIES: u32 = 200;
const HANDOVER_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

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
    /// Ends one direction, or both.
    ///
    /// # Errors
    /// `ENOTCONN`: there is no connection.
    pub fn shutdown(&self, how: Shutdown) -> Result<(), Errno> {
        let mut state = self.core.own();
        if state.phase == Phase::Over {
            return Err(Errno::NOTCONN);
        }
        if how != Shutdown::Write {
            state.read_shut = true;
        }
        if how != Shutdown::Read && !state.write_shut {
            state.write_shut = true;
            // Of one that is still being opened, `opened` sees to it.
            if let Some(link) = &state.link {
                link.attachment
                    .post_surely(Submission::Shutdown { conn: link.conn });
            }
        }
        self.core.changed_here(state);
        Ok(())
    }

    /// Whether nothing is left that a lingering close would wait for: all that was written is
    /// acknowledged, or never will be.
    pub fn is_drained(&self) -> bool {
        let state = self.core.own();
        state.phase == Phase::Over || state.send.in_flight() == 0
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.core.close();
    }
}

impl SocketCore {
    /// The program has no descriptor of it any more. The engine sends what is pending, and FIN; or
    /// it resets the connection, if data was unread or the program lingers for no time.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.closed, true) {
            return;
        }
        // One that has failed stays the engine's until it is closed, too.
        if let Some(Link { attachment, conn }) = &state.link
            && attachment.is_live()
        {
            let (attachment, conn) = (Arc::clone(attachment), *conn);
            let abort = state.receive.waiting() > 0 || state.options.lingers_for_no_time();
            if !abort && state.receive.unannounced() > 0 {
                // Or the engine would take what was read for unread.
                let total = state.receive.announce();
                attachment.post_surely(Submission::Consumed { conn, total });
            }
            attachment.post_surely(Submission::Close { conn, abort });
        }
        state.receive.abandon();
        self.source.0.set(state.readiness());
        drop(state);
        self.source.0.forget_watches();
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

    /// The first touch of a connection that was another process's: it becomes this one's. What the
    /// other had not read comes anew; what it had written is in its memory and goes its way.
    pub(super) fn take_over(self: &Arc<Self>, state: &mut State) {
        let taken = self.try_take_over(state);
        state.moved = false;
        if taken.is_none() {
            state.link = None;
            state.phase = Phase::Over;
            state.error = Some(Errno::CONNRESET);
            self.refresh(state);
        }
    }

    fn try_take_over(self: &Arc<Self>, state: &mut State) -> Option<()> {
        let Link { attachment, conn } = state.link.as_ref()?;
        if state.moved && !attachment.is_live() {
            // The engine that knew it is gone.
            return None;
        }
        let conn = *conn;
        let attachment = self.session.attachment()?;
        // Known first, since its data may come as soon as it is adopted. What comes waits for the
        // lock on the state, which the caller holds.
        attachment.know_adopted(conn, Arc::clone(self)).ok()?;
        let mut answer = attachment.request(&Request::Adopt { conn }, Fds::new());
        for _ in 0..HANDOVER_TRIES {
            if answer.as_ref().err() != Some(&Errno::AGAIN) {
                break;
            }
            let _ = rustix::thread::nanosleep(&HANDOVER_PAUSE);
            answer = attachment.request(&Request::Adopt { conn }, Fds::new());
        }
        let Ok((
            Reply::Adopted {
                consumed,
                sent,
                acked,
                peer,
                local,
            },
            _,
        )) = answer
        else {
            return None;
        };
        state.receive = ReceiveQueue::resumed_at(consumed);
        state.send = SendQueue::resumed_at(sent, acked);
        state.link = Some(Link { attachment, conn });
        state.starved = false;
        state.listed_as_starved = false;
        state.owes_announcement = false;
        (state.peer, state.local) = (peer, local);
        self.refresh(state);
        Some(())
    }
}
