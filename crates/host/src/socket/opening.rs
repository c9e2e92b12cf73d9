//! A connection that is being opened, and has no name yet: it is asked about by its token.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use queue_pair::Submission;
use rustix::io::Errno;

use super::state::State;
use super::{Attachment, Phase, Socket, SocketCore};
use crate::lock::lock;

/// The first version of the protocol that has these questions.
const SINCE: u32 = 13;

impl State {
    /// It is being opened, and has no name yet.
    fn is_nameless(&self) -> bool {
        self.phase == Phase::Connecting && self.link.is_none()
    }

    /// The engine that is opening it, and the token, if it has no name yet and that engine can be asked from here:
    /// what its parent has begun to open the child of a fork does not ask about.
    fn being_opened(&self) -> Option<(Arc<Attachment>, u64)> {
        let asked = self.asked.as_ref().filter(|_| self.is_nameless())?;
        let of = asked.of.upgrade()?;
        let answers = of.is_live() && !of.is_parents() && of.speaks(SINCE);
        answers.then_some((of, asked.token))
    }

    /// Where the engine was told what is wanted, if that is not its own any more: it goes back to the pool.
    pub(super) fn take_connect_block(&mut self) -> Option<u64> {
        self.asked.as_mut()?.block.take()
    }

    /// The program has closed it: it need not be opened any more.
    pub(super) fn cancel(&self) {
        if let Some((engine, token)) = self.being_opened() {
            engine.post_surely(Submission::Cancel { token });
        }
    }

    /// Whether it is known from where it is, or is being opened.
    fn has_local(&self) -> bool {
        let local = self.ends.local();
        local.port() != 0 && !local.ip().is_unspecified()
    }
}

impl SocketCore {
    /// It has just been asked for.
    pub(crate) fn is_asked_for(&self, of: &Arc<Attachment>, token: u64) {
        if let Some(asked) = &mut lock(&self.state).asked {
            (asked.of, asked.token) = (Arc::downgrade(of), token);
        }
    }

    /// The engine has said from where it opens it. Called by the pumping thread.
    pub(crate) fn opens_from(&self, local: SocketAddr) {
        lock(&self.state).ends.set_local(local);
    }
}

impl Socket {
    /// Whether its SYN is under way, and nothing has come back yet.
    pub fn is_opening(&self) -> bool {
        lock(&self.core.state).is_nameless()
    }

    /// This end's address, as [`local`](Self::local). While it is being opened the engine is asked, and
    /// waited for, at most so long.
    pub fn await_local(&self, limit: Duration) -> SocketAddr {
        let unknown = || {
            let state = lock(&self.core.state);
            state.being_opened().filter(|_| !state.has_local())
        };
        // For a name that is known nobody pumps: the child of a fork would attach for it.
        if unknown().is_some() {
            self.session.pump();
        }
        if let Some((engine, token)) = unknown() {
            engine.post_surely(Submission::AskLocal { token });
            let until = Instant::now() + limit;
            let told = || unknown().is_none().then_some(());
            let wait =
                || self.wait_for_engine(until.saturating_duration_since(Instant::now()), told);
            while let Err(Errno::INTR) = wait() {
                // The answer is on its way: a signal does not end it.
            }
        }
        self.local()
    }
}
