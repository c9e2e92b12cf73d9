//! What the engine reports of a connection. Called by the pumping thread.

use std::sync::{Arc, MutexGuard};

use queue_pair::{ConnRef, OptionKind, Submission, Violation};
use rustix::io::Errno;

use super::{Attachment, Phase, SocketCore, Starved, State, Syn, TOLD_OF_ALL};
use crate::lock::lock;
use crate::readiness::Readiness;

impl SocketCore {
    /// The connection's state as the engine has it now.
    ///
    /// # Errors
    /// It cannot be so: data outside of the receive area, or more acknowledged than was sent.
    pub(crate) fn updated(
        self: &Arc<Self>,
        attachment: &Attachment,
        (addr, len): (u64, u32),
        acked: u64,
        peer_closed: bool,
    ) -> Result<(), Violation> {
        let mut state = lock(&self.state);
        let mut news = Readiness::NONE;
        // Without a grant it is what was on its way when the engine gave it to another.
        if len > 0 && !state.closed && state.grant.is_some() {
            state.receive.push(&attachment.receive, addr, len)?;
            // Also if data waited before: an edge-triggered interest sees every arrival. What another process
            // left to this one has not come now.
            let here = state.receive.consumed() + state.receive.waiting();
            let arrives = here > state.elsewhere.received;
            if arrives && state.receive.waiting() >= state.options.readable_from() {
                news = Readiness::IN | Readiness::RDNORM;
            }
        }
        self.take_note(state, attachment, (acked, peer_closed), news)
    }

    /// Takes note of the rest of an update: what was acknowledged, and whether the peer has closed. `news`
    /// is what has come.
    pub(super) fn take_note(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        attachment: &Attachment,
        (acked, peer_closed): (u64, bool),
        mut news: Readiness,
    ) -> Result<(), Violation> {
        self.acknowledged(&mut state, attachment, acked)?;
        if peer_closed && !state.peer_closed {
            // An end is an arrival, also if data waits before it.
            news = news | Readiness::IN | Readiness::RDNORM;
        }
        let arrives = !news.is_empty();
        state.peer_closed |= peer_closed;
        if state.closed {
            return Ok(());
        }
        let is_posted = state.posts.is_some();
        let copied = state.fill_posted();
        news |= self.refresh(&state);
        // Whoever is told of it below looks at the state.
        match is_posted && (copied || state.receive.unannounced() > 0) {
            true => self.consumed(state),
            false => drop(state),
        }
        self.turned_out(news, arrives);
        Ok(())
    }

    /// Tells of news. If there is something to be read that has not arrived just now, it was there before.
    pub(super) fn turned_out(&self, news: Readiness, arrives: bool) {
        let to_read = Readiness::IN | Readiness::RDNORM;
        let (there, rest) = match arrives {
            true => (Readiness::NONE, news),
            false => (news & to_read, news & !to_read),
        };
        if !rest.is_empty() {
            self.happened(rest);
        }
        if !there.is_empty() {
            self.happened(there | Readiness::NO_ARRIVAL);
        }
    }

    /// So many bytes are worth writing before they are acknowledged.
    pub(crate) fn advised(&self, bytes: u32) {
        let mut state = lock(&self.state);
        state.options.advise_send_buffer(bytes.into());
        let news = self.refresh(&state);
        drop(state);
        if !news.is_empty() {
            self.happened(news);
        }
    }

    /// So much of what this process has written has left.
    ///
    /// # Errors
    /// It was never written.
    pub(crate) fn departed(&self, total: u64) -> Result<(), Violation> {
        let mut state = lock(&self.state);
        state
            .send
            .depart(total)
            .map_err(|total| Violation::UndefinedValue {
                field: "bytes that have left",
                value: total,
            })?;
        let news = self.refresh(&state);
        drop(state);
        if !news.is_empty() {
            self.happened(news);
        }
        Ok(())
    }

    /// The peer has acknowledged `acked` bytes of this process.
    pub(super) fn acknowledged(
        &self,
        state: &mut State,
        attachment: &Attachment,
        acked: u64,
    ) -> Result<(), Violation> {
        let give_back =
            state
                .send
                .acknowledge(acked)
                .map_err(|acked| Violation::UndefinedValue {
                    field: "acknowledged bytes",
                    value: acked,
                })?;
        if state.starved.is() {
            state.starved.acknowledged(acked);
            if !state.starved.is() {
                self.starves_no_more(state);
            }
        }
        if give_back {
            state.send.give_back(&mut lock(&attachment.pool));
            attachment.freed();
        }
        Ok(())
    }

    /// The connection that was asked for is there. Without a grant another process reads it.
    pub(crate) fn opened(
        &self,
        attachment: &Arc<Attachment>,
        conn: ConnRef,
        grant: Option<u16>,
        local: std::net::SocketAddr,
    ) {
        let mut state = lock(&self.state);
        if let Some(block) = state.take_connect_block() {
            lock(&attachment.pool).give_back(block);
        }
        state.phase = Phase::Open;
        state.syn = Syn::Ordinary;
        // What was asked of it under that name the engine knows.
        let named = state.link.is_some();
        state.ends.set_local(local);
        state.asked = None;
        state.grant = grant;
        self.link_to(&mut state, attachment, conn);
        if state.closed {
            if !named {
                let at = state.posting_time();
                attachment.post_surely(Submission::Close {
                    conn,
                    abort: true,
                    at,
                });
            }
            return;
        }
        for (option, value) in state.options.chosen() {
            attachment.set_option(conn, option, value);
        }
        if state.is_told_of_all() {
            attachment.set_option(conn, OptionKind::NotSentLow, TOLD_OF_ALL.into());
        }
        if state.read_shut && !named {
            attachment.end_reading(conn);
        }
        if state.write_shut && !named {
            let at = state.posting_time();
            attachment.post_surely(Submission::Shutdown { conn, at });
        }
        let news = self.refresh(&state);
        drop(state);
        self.happened(news);
    }

    /// The connection has failed, or never came to be. Its send memory is free: nothing of it will be
    /// sent any more.
    pub(crate) fn ended(&self, attachment: &Attachment, errno: Option<Errno>) {
        let mut state = lock(&self.state);
        {
            let mut pool = lock(&attachment.pool);
            state.send.clear(&mut pool);
            if let Some(block) = state.take_connect_block() {
                pool.give_back(block);
            }
        }
        attachment.freed();
        self.starves_no_more(&mut state);
        state.starved = Starved::NOT;
        let before = std::mem::replace(&mut state.phase, Phase::Over);
        state.never_opened |= before == Phase::Connecting;
        if state.closed {
            // Nothing comes there any more.
            state.posts = None;
        }
        if state.closed || before == Phase::Over {
            return;
        }
        state.error = match errno {
            _ if state.error_was_reported => None,
            // As Linux in CLOSE-WAIT: to who could still write it is that nobody will read.
            Some(Errno::CONNRESET) if state.peer_closed && !state.write_shut => Some(Errno::PIPE),
            other => other,
        };
        self.refresh(&state);
        drop(state);
        self.happened(Readiness(u32::MAX));
    }

    /// The last word of the engine on the connection. True if nobody had accepted it.
    pub(crate) fn released(&self, attachment: &Attachment) -> bool {
        let mut state = lock(&self.state);
        state.send.clear(&mut lock(&attachment.pool));
        attachment.freed();
        self.starves_no_more(&mut state);
        state.phase = Phase::Over;
        state.link = None;
        if state.closed {
            state.posts = None;
        }
        let offered = !state.accepted && !state.closed;
        if offered {
            state.closed = true;
            state.receive.abandon();
        }
        self.refresh(&state);
        offered
    }

    /// Whether the engine has taken the offer of it back.
    pub(crate) fn is_withdrawn(&self) -> bool {
        let state = lock(&self.state);
        !state.accepted && state.closed
    }

    /// There may be send memory, and room in the ring, again.
    pub(crate) fn fed(&self) {
        let mut state = lock(&self.state);
        // It may have been listed anew since it was taken out of the list.
        self.starves_no_more(&mut state);
        state.starved = Starved::NOT;
        let news = self.refresh(&state);
        drop(state);
        if !news.is_empty() {
            // The engine has rung who waits for the connection of which the memory was: those are called by this.
            self.happened(news);
        }
    }
}
