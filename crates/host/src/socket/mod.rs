//! A connection as the program sees it.
//!
//! Nothing here waits: what cannot be done now is `EAGAIN`, and [`Socket::wait`] or a
//! [`ReadySet`](crate::ReadySet) tells when to try again. Errors are the numbers that the kernel
//! would give.
//!
//! - `state`: what is known of a connection
//! - `told`: what an attachment tells it
//! - `receive`: reading, and telling the engine how far it has been read
//! - `send`: writing into the send area
//! - `starved`: what finds no memory
//! - `opening`: what is asked about a connection before it is there
//! - `syn`: data that leaves with the SYN
//! - `place`: memory that the program fills, or has registered, and sends from without a copy
//! - `view`: reading where the engine has placed it
//! - `post`: having the engine place it where the program wants it
//! - `events`: what the engine reports of the connection
//! - `end`: shutdown and close
//! - `error`: which of several processes reports an error
//! - `mode`: O_NONBLOCK of several processes
//! - `sharing`: connections that other processes have, too, since a fork
//! - `travel`: connections that are passed to another program
//! - `options`: what `setsockopt` sets

mod awaits;
mod bell;
mod elsewhere;
mod end;
mod ends;
mod error;
mod events;
mod file;
mod mode;
mod opening;
mod options;
mod passed;
mod phase;
mod place;
mod post;
mod receive;
mod room;
mod send;
mod sharing;
mod starved;
mod state;
mod syn;
mod told;
mod travel;
mod view;

use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use queue_pair::control::{ConnInfo, Fds, Reply, Request};
use queue_pair::parked::Wants;
use rustix::io::Errno;

use crate::attachment::RUNS_WITHIN;
use crate::lock::lock;
use crate::readiness::Readiness;
use crate::ready_set::{SourceHandle, Watchable};
use crate::session::SessionCore;
use crate::sleep::Awaited;

pub use end::Shutdown;
pub use error::PendingError;
use phase::{Phase, Syn};
pub use place::{Piece, Registered, RegisteredWatch, Room};
pub use receive::Handed;

pub use options::DEFAULT_SEND_BUFFER;
pub(crate) use options::Options;
use starved::Starved;
pub(crate) use state::{Attachment, SocketCore};
use state::{Link, NEVER, State, TOLD_OF_ALL};
pub use view::View;

/// An offloaded connection. Dropping it closes it, as the last `close` does in the kernel.
pub struct Socket {
    core: Arc<SocketCore>,
    session: Arc<SessionCore>,
}

impl Socket {
    /// One of a connection that is in the session's tables.
    pub(crate) fn new(core: Arc<SocketCore>, session: &Arc<SessionCore>) -> Self {
        let session = Arc::clone(session);
        Self { core, session }
    }

    /// Locks the state. In the child of a fork that has not attached, it attaches first, which asks
    /// the engine and takes a while.
    fn attach_and_lock(&self) -> MutexGuard<'_, State> {
        let state = lock(&self.core.state);
        if !state.is_parents() {
            return state;
        }
        drop(state);
        // If it can, the sockets are its own afterwards; if not, they are over.
        self.session.attachment();
        lock(&self.core.state)
    }

    /// Sleeps until the engine has said what `look` looks for, at most so long.
    ///
    /// # Errors
    /// `EINTR`: a signal was handled. `ETIMEDOUT`: the time is over.
    fn wait_for_engine<T>(
        &self,
        limit: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, Errno> {
        crate::sleep::wait(
            &self.session,
            Awaited::NewsOf(&*self.core),
            Some(limit),
            |_| look(),
        )
    }

    /// What it is ready for now, by what the engine has said up to the last pump.
    pub fn readiness(&self) -> Readiness {
        self.core.source.0.readiness()
    }

    /// Waits until it is ready for any of `wanted`, has an error or has hung up. `None` waits
    /// without end.
    ///
    /// # Errors
    /// `EINTR`: a signal was handled. `ETIMEDOUT`: the time is over.
    pub fn wait(&self, wanted: Readiness, limit: Option<Duration>) -> Result<Readiness, Errno> {
        let wanted = wanted | Readiness::ALWAYS;
        let wants = if wanted.intersects(room::NEWS) {
            Wants::All
        } else {
            Wants::Urgent
        };
        crate::sleep::wait_at(&self.session, &self.core, wants, limit, || {
            let ready = self.readiness() & wanted;
            (!ready.is_empty()).then_some(ready)
        })
    }

    /// This end's address.
    pub fn local(&self) -> SocketAddr {
        lock(&self.core.state).ends.local()
    }

    /// The other end's address.
    pub fn peer(&self) -> SocketAddr {
        lock(&self.core.state).ends.peer()
    }

    /// Whether there is, or was, a connection: false while it is being opened.
    pub fn is_connected(&self) -> bool {
        lock(&self.core.state).phase == Phase::Open
    }

    /// Whether it has ended, in whatever way: nothing that was written is on its way any more.
    pub fn is_over(&self) -> bool {
        lock(&self.core.state).phase == Phase::Over
    }

    /// Whether this end has ended its direction.
    pub fn has_shut_writing(&self) -> bool {
        lock(&self.core.state).write_shut
    }

    /// Whether it was to be opened and has failed: there never was another end.
    pub fn never_opened(&self) -> bool {
        lock(&self.core.state).never_opened
    }

    /// `SO_ERROR`: the error that waits, which is thereby taken.
    pub fn take_error(&self) -> Option<Errno> {
        self.session.pump();
        let mut state = self.settled(self.attach_and_lock());
        let error = state.error.take();
        self.core.refresh(&state);
        error
    }

    /// Whether something waits in an error queue that is kept for this socket: it is ready for
    /// [`Readiness::ERR`] as long as that is so.
    pub fn set_notices(&self, wait: bool) {
        let mut state = self.attach_and_lock();
        state.notices = wait;
        self.core.changed_here(state);
    }

    /// A number that no other connection of this engine has had or will have (`SO_COOKIE`); none of the
    /// kernel's sockets has it either, which it counts from 1. 0 of one that is not open yet.
    pub fn cookie(&self) -> u64 {
        let state = lock(&self.core.state);
        let link = state.link.as_ref();
        link.map_or(0, |link| link.conn.to_word() | 1 << 63)
    }

    /// Whether another process may have the connection, too.
    pub fn is_shared(&self) -> bool {
        lock(&self.core.state).is_shared()
    }

    /// The facts that TCP_INFO tells of. Asks the engine, so it costs some microseconds.
    ///
    /// # Errors
    /// `ENOTCONN`: there is no connection. `ETIMEDOUT`: the engine does not run just now.
    pub fn info(&self) -> Result<ConnInfo, Errno> {
        let state = self.attach_and_lock();
        let Some(link) = state.link.as_ref().filter(|_| state.phase == Phase::Open) else {
            return Err(Errno::NOTCONN);
        };
        let (attachment, conn) = (Arc::clone(&link.attachment), link.conn);
        drop(state);
        match attachment.request(&Request::Info { conn }, Fds::new(), RUNS_WITHIN)? {
            (Reply::Info(info), _) => Ok(*info),
            _ => Err(Errno::PROTO),
        }
    }
}

impl Watchable for Socket {
    fn readiness_source(&self) -> &SourceHandle {
        self.core.readiness_source()
    }

    fn is_waited_for(&self) {
        self.core.is_waited_for();
    }
}
