//! Connections that are passed to another program, by a [ticket](queue_pair::control::ticket).
//!
//! To pass one is to share it, as after a fork, until the engine says that nobody else has it. What this
//! process writes says when from the moment at which it asks for the ticket.

use std::sync::Arc;

use queue_pair::control::{Carried, Fds, Reply, Request};
use queue_pair::{ConnRef, OptionKind};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

use super::elsewhere::{Elsewhere, NEVER_ALONE};
use super::{Attachment, Link, Phase, Socket, SocketCore, State};
use crate::attachment::ANSWER_WITHIN;
use crate::lock::lock;
use crate::nudge::Nudges;
use crate::session::Session;

/// Among what is read back of a socket: SO_ERROR is 0, though its connection has ended with an error. That was
/// reported, and whoever has the descriptor next is not to hear of it again. Level, name, value.
const ERROR_WAS_REPORTED: (i32, i32, i32) = (1, 4, 0);

impl Socket {
    /// A ticket for this connection, to be passed to another program instead of a descriptor, with what
    /// the caller wants to go along. Options that this crate knows are added. Asks the engine.
    ///
    /// # Errors
    /// `ENOTCONN`: there is no connection. `ETOOMANYREFS`: too many are under way. `EMFILE`: there is no descriptor left.
    /// `ECONNRESET`: the engine is gone.
    pub fn ticket(&self, mut carried: Carried) -> Result<OwnedFd, Errno> {
        let mut state = self.attach_and_lock();
        let Some(Link { attachment, conn }) = &state.link else {
            return Err(Errno::NOTCONN);
        };
        let (attachment, conn) = (Arc::clone(attachment), *conn);
        state.passed.asked += 1;
        state.alone_since = NEVER_ALONE;
        carried.read_shut = state.read_shut;
        let reported =
            state.phase == Phase::Over && state.error.is_none() || state.error_was_reported;
        if reported && carried.kept.len() < Carried::MOST {
            carried.kept.push(ERROR_WAS_REPORTED);
        }
        state.options.carry(&mut carried);
        drop(state);
        attachment.make_room();
        let answer = attachment.request(
            &Request::Ticket { conn, carried },
            Fds::new(),
            ANSWER_WITHIN,
        );
        let mut state = lock(&self.core.state);
        state.passed.asked -= 1;
        match answer? {
            (Reply::Ticket { grant }, mut fds) => {
                state.passed.under = Some(grant);
                fds.pop().ok_or(Errno::MFILE)
            }
            _ => Err(Errno::PROTO),
        }
    }
}

impl Session {
    /// The connection of a ticket that was passed to this process, and what came along with it. Asks the
    /// engine, and attaches if need be.
    ///
    /// # Errors
    /// `ENOTCONN`: it is no ticket of this engine, or of no use any more. `EBUSY`: this process has just
    /// closed the same connection. `ECONNREFUSED`: there is no engine. `ETIMEDOUT`: it does not run.
    pub fn claim(&self, ticket: impl AsFd) -> Result<(Socket, Carried), Errno> {
        let core = self.core();
        let attachment = core.attachment_at_length()?;
        let shown = rustix::io::fcntl_dupfd_cloexec(ticket, 0)?;
        // A fork waits until nothing is being claimed: where one claims after the other that might be never.
        core.forks.let_pass(ANSWER_WITHIN, || false);
        let (socket, mut carried) = attachment.claim(shown)?;
        carried.kept.retain(|it| *it != ERROR_WAS_REPORTED);
        // What the engine has said of it by now is known when this returns.
        attachment.pump_surely();
        Ok((Socket::new(socket, core), carried))
    }
}

impl SocketCore {
    /// The socket of a connection that came by a ticket. Another process reads it, until it asks.
    pub(crate) fn claimed(
        nudges: &Arc<Nudges>,
        attachment: &Arc<Attachment>,
        conn: ConnRef,
        [local, peer]: [std::net::SocketAddr; 2],
        carried: &Carried,
    ) -> Arc<Self> {
        let mut state = State::new(Phase::Open, local, peer);
        state.link_to(attachment, conn);
        state.alone_since = NEVER_ALONE;
        state.elsewhere = Elsewhere::default();
        state.read_shut = carried.read_shut;
        state.error_was_reported = carried.kept.contains(&ERROR_WAS_REPORTED);
        state.options.take_carried(carried);
        let ready = state.readiness();
        let core = Self::new(nudges, state);
        core.source.0.set(ready);
        core
    }

    /// One more [`Socket`] stands for it, which came by a ticket to a process that has the connection.
    /// False: it is closed here.
    pub(crate) fn share_handle(&self) -> bool {
        let mut state = lock(&self.state);
        if !state.closed {
            state.handles += 1;
        }
        !state.closed
    }
}

impl super::Options {
    /// Writes down what the program has set.
    fn carry(&self, carried: &mut Carried) {
        let chosen = self.chosen();
        // Values come from `set`, which takes no more than 32 bits.
        carried.options = chosen
            .map(|(option, value)| (option as u8, value as u32))
            .collect();
        carried.send_buffer = self.chosen_send_buffer();
        carried.receive_low = self.receive_low();
    }

    /// The inverse. What cannot be is left out.
    fn take_carried(&mut self, carried: &Carried) {
        for (option, value) in &carried.options {
            let known = OptionKind::ALL.into_iter().find(|it| *it as u8 == *option);
            if let Some(option) = known {
                let _ = self.set(option, *value);
            }
        }
        if let Some(bytes) = carried.send_buffer {
            self.set_send_buffer(bytes);
        }
        self.set_receive_low(carried.receive_low);
    }
}
