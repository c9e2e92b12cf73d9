//! Connections that other processes have, too, since a fork.
//!
//! One process at a time reads, under a grant that the engine can end at any moment. So a read copies
//! first and then moves the position on ([`queue_pair::position`]): if that fails, another process
//! has become the reader, what was copied is thrown away, and the engine is asked for the grant. What
//! is written says when, so that the engine can take it in the order of time.

use std::sync::Arc;

use queue_pair::{ConnRef, Submission, Violation};
use rustix::io::Errno;

use super::elsewhere::{Elsewhere, NEVER_ALONE};
use super::{Attachment, Link, Phase, Socket, SocketCore, Starved, State, Syn};
use crate::attachment::RUNS_WITHIN;
use crate::clock::monotonic_ns;
use crate::lock::lock;
use crate::readiness::Readiness;
use crate::receive_queue::ReceiveQueue;
use crate::send_queue::SendQueue;

impl State {
    /// Whether another process may have the connection.
    pub(super) fn is_shared(&self) -> bool {
        self.link
            .as_ref()
            .is_some_and(|link| link.attachment.forks() != self.alone_since)
    }

    /// When what is posted now was posted, for a connection that others have, too; otherwise 0.
    pub(super) fn posting_time(&self) -> u64 {
        if self.is_shared() { monotonic_ns() } else { 0 }
    }

    /// Bytes that have come since the connection began, as far as this process knows.
    fn received(&self) -> u64 {
        let here = self.receive.consumed() + self.receive.waiting();
        here.max(self.elsewhere.received)
    }

    /// Another process reads: what was pushed here is not ours any more.
    fn lose_grant(&mut self) {
        if self.grant.take().is_some() {
            // There may be something: asking tells.
            self.elsewhere.unread = self.elsewhere.unread.max(1);
        }
        self.receive.forget();
        if let Some(posts) = &mut self.posts {
            posts.lose();
        }
    }

    /// Takes `count` bytes, which were copied, out of the queue. False: they are another process's.
    pub(super) fn take_copied(&mut self, count: u64) -> bool {
        let Some(Link { attachment, conn }) = &self.link else {
            return false;
        };
        if !attachment.is_live() {
            // The engine is gone, and with it whoever could read what had been pushed here.
            self.receive.take(count);
            return true;
        }
        let at = self.receive.consumed();
        let ours = self
            .grant
            .is_some_and(|grant| attachment.advance(*conn, grant, at, count));
        if ours {
            self.receive.take(count);
        } else {
            self.lose_grant();
        }
        ours
    }

    /// Takes note of `count` bytes that the engine has placed where this process wants them. False: they
    /// are another process's.
    pub(super) fn take_placed(&mut self, count: u64) -> bool {
        let Some(Link { attachment, conn }) = &self.link else {
            return false;
        };
        let at = self.receive.consumed();
        let ours = self
            .grant
            .is_some_and(|grant| attachment.advance(*conn, grant, at, count));
        if ours {
            self.receive.skip(count);
        } else {
            self.lose_grant();
        }
        ours
    }

    /// Whether what waits here is still ours to look at.
    pub(super) fn may_look(&mut self) -> bool {
        let Some(Link { attachment, conn }) = &self.link else {
            return false;
        };
        if !attachment.is_live() {
            return true;
        }
        let at = self.receive.consumed();
        let ours = self
            .grant
            .is_some_and(|grant| attachment.reads(*conn, grant, at));
        if !ours {
            self.lose_grant();
        }
        ours
    }

    /// Whether the engine has something to read that it gives to whoever asks.
    ///
    /// What has come before a connection has failed is there to be read as before.
    pub(super) fn must_ask(&self) -> bool {
        self.grant.is_none() && self.elsewhere.unread > 0 && self.is_known()
    }

    /// Whether the engine has given something to this process to read, of a connection that has failed,
    /// and that is not here yet.
    pub(super) fn is_owed(&self) -> bool {
        let here = self.receive.consumed() + self.receive.waiting();
        self.phase == Phase::Over
            && self.grant.is_some()
            && !self.read_shut
            && here < self.elsewhere.received
            && self.is_known()
    }

    /// Whether the engine knows the connection, open or not.
    pub(super) fn is_known(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.attachment.is_live() && !link.attachment.is_parents())
    }
}

impl SocketCore {
    /// This process reads from now on, from `consumed` bytes of the stream on. Called by the pumping
    /// thread, as what follows.
    pub(crate) fn granted(
        &self,
        attachment: &Attachment,
        grant: u16,
        consumed: u64,
        alone_since: Option<u32>,
    ) {
        let mut state = lock(&self.state);
        state.grant = Some(grant);
        state.receive = ReceiveQueue::resumed_at(consumed);
        state.elsewhere.unread = 0;
        state.elsewhere.answered(None);
        // What was said before the last fork says nothing of the child.
        let alone = alone_since.is_some_and(|forks| forks == attachment.forks());
        if alone && state.passed.is_before(grant) {
            state.alone_since = attachment.forks();
        }
        self.refresh(&state);
    }

    /// Another process has ended this side's direction.
    pub(crate) fn shut_elsewhere(&self) {
        let mut state = lock(&self.state);
        state.write_shut = true;
        if state.closed {
            return;
        }
        let news = self.refresh(&state);
        drop(state);
        self.happened(news | Readiness::OUT);
    }

    /// Another process has ended reading.
    pub(crate) fn read_shut_elsewhere(&self) {
        let mut state = lock(&self.state);
        state.read_shut = true;
        if state.closed {
            return;
        }
        let news = self.refresh(&state);
        drop(state);
        self.happened(news | Readiness::IN | Readiness::RDNORM);
    }

    /// The engine cannot make this process the reader now.
    pub(crate) fn not_granted(&self, errno: Errno) {
        let mut state = lock(&self.state);
        state.elsewhere.answered(Some(errno));
        let news = self.refresh(&state);
        drop(state);
        if !news.is_empty() {
            self.happened(news);
        }
    }

    /// There may be memory for it by now.
    pub(crate) fn may_ask_again(&self) {
        let mut state = lock(&self.state);
        state.elsewhere.may_ask_again();
        let news = self.refresh(&state);
        drop(state);
        if !news.is_empty() {
            self.happened(news);
        }
    }

    /// The state of a connection that this process does not read.
    ///
    /// # Errors
    /// It cannot be so: more is acknowledged than was sent.
    pub(crate) fn read_elsewhere(
        &self,
        attachment: &Attachment,
        (unread, received): (u64, u64),
        acked: u64,
        peer_closed: bool,
    ) -> Result<(), Violation> {
        let mut state = lock(&self.state);
        state.lose_grant();
        let ends = peer_closed && !state.peer_closed;
        let arrived = received > state.elsewhere.received;
        state.elsewhere.unread = unread;
        state.elsewhere.received = received;
        self.acknowledged(&mut state, attachment, acked)?;
        state.peer_closed |= peer_closed;
        if state.closed {
            return Ok(());
        }
        let mut news = self.refresh(&state);
        // An edge-triggered interest sees every arrival.
        let arrives = ends || (arrived && unread >= state.options.readable_from());
        if arrives {
            news |= Readiness::IN | Readiness::RDNORM;
        }
        drop(state);
        self.turned_out(news, arrives);
        Ok(())
    }

    /// The child of a fork has attached: the connection is one of `attachment`, if it is not closed
    /// here. Of one that is being opened the name comes later.
    pub(crate) fn inherit(&self, attachment: &Arc<Attachment>, conn: Option<ConnRef>) -> bool {
        let mut state = lock(&self.state);
        let received = state.received();
        // What the parent has written, and has not read, is the parent's.
        state.send = SendQueue::default();
        state.receive.forget();
        state.posts = None;
        state.grant = None;
        state.elsewhere = Elsewhere::default();
        if received > 0 {
            // What was there before the fork arrives no more.
            state.elsewhere.received = received;
        }
        state.alone_since = NEVER_ALONE;
        state.asked = None;
        state.starved = Starved::NOT;
        state.listed_as_helpless = None;
        state.owes_announcement = false;
        if state.closed || !state.accepted {
            state.link = None;
            return false;
        }
        match conn {
            Some(conn) => self.link_to(&mut state, attachment, conn),
            None => state.link = None,
        }
        // The fork has let it go.
        state.syn = Syn::Ordinary;
        self.refresh(&state);
        true
    }

    /// The child of a fork cannot attach: the connection is over for it.
    pub(crate) fn disinherited(&self) {
        let mut state = lock(&self.state);
        state.link = None;
        state.send = SendQueue::default();
        state.receive.forget();
        state.posts = None;
        state.asked = None;
        state.elsewhere = Elsewhere::default();
        if state.closed || state.phase == Phase::Over {
            return;
        }
        state.phase = Phase::Over;
        state.error = Some(Errno::CONNRESET);
        self.refresh(&state);
        drop(state);
        self.happened(Readiness(u32::MAX));
    }
}

impl Socket {
    /// Asks the engine to be the reader, and waits for the answer: for the engine, never for another
    /// process. One that does not run answers later. Until then there is nothing to read.
    ///
    /// # Errors
    /// `EAGAIN`: the engine finds no memory of this process for what waits, or does not run just now.
    /// `ECONNRESET`: it is gone.
    pub(super) fn ask_to_read(&self) -> Result<(), Errno> {
        let before = {
            let mut state = lock(&self.core.state);
            // Of one that has failed, who waits is not held up by its readiness.
            if state.elsewhere.is_late && state.phase != Phase::Over {
                return Err(Errno::AGAIN);
            }
            let before = state.elsewhere.answers;
            if !state.elsewhere.asked {
                let Some(Link { attachment, conn }) = &state.link else {
                    return Err(Errno::CONNRESET);
                };
                attachment.post_surely(Submission::Acquire { conn: *conn });
                state.elsewhere.asked = true;
            }
            before
        };
        loop {
            let waited = self.wait_for_engine(RUNS_WITHIN, || {
                let state = lock(&self.core.state);
                let answered = state.elsewhere.answers != before;
                (answered || !state.is_known()).then_some(state.elsewhere.refused)
            });
            match waited {
                // A signal does not end it: the answer is on its way.
                Err(Errno::INTR) => {}
                Err(Errno::TIMEDOUT) => {
                    let mut state = lock(&self.core.state);
                    if state.elsewhere.answers == before && state.is_known() {
                        state.elsewhere.is_late = true;
                        self.core.refresh(&state);
                    }
                    return Err(Errno::AGAIN);
                }
                Err(errno) => return Err(errno),
                Ok(None) => return Ok(()),
                Ok(Some(errno)) => return Err(errno),
            }
        }
    }

    /// Waits until what the engine has given to this process is here.
    ///
    /// # Errors
    /// `EAGAIN`: the engine does not run just now.
    pub(super) fn await_owed(&self) -> Result<(), Errno> {
        loop {
            let waited = self.wait_for_engine(RUNS_WITHIN, || {
                (!lock(&self.core.state).is_owed()).then_some(())
            });
            match waited {
                Err(Errno::INTR) => {}
                Err(Errno::TIMEDOUT) => return Err(Errno::AGAIN),
                other => return other,
            }
        }
    }
}
