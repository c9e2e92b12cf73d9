//! A connection as the program sees it.
//!
//! Nothing here waits: what cannot be done now is `EAGAIN`, and [`Socket::wait`] or a
//! [`ReadySet`](crate::ReadySet) tells when to try again. Errors are the numbers that the kernel
//! would give.
//!
//! - `receive`: reading, and telling the engine how far it has been read
//! - `send`: writing into the send area
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

mod bell;
mod elsewhere;
mod end;
mod ends;
mod error;
mod events;
mod file;
mod mode;
mod options;
mod passed;
mod phase;
mod place;
mod post;
mod receive;
mod room;
mod send;
mod sharing;
mod syn;
mod travel;
mod view;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use queue_pair::ConnRef;
use queue_pair::control::{ConnInfo, Fds, Reply, Request};
use queue_pair::parked::Wants;
use rustix::io::Errno;

use crate::attachment::{Attachment, RUNS_WITHIN};
use crate::bell_name::BellName;
use crate::interest::Source;
use crate::lock::lock;
use crate::locks::Locks;
use crate::post_queue::PostQueue;
use crate::readiness::Readiness;
use crate::ready_set::{SourceHandle, Watchable};
use crate::receive_queue::ReceiveQueue;
use crate::send_queue::SendQueue;
use crate::session::SessionCore;
use crate::sleep::Awaited;

use elsewhere::Elsewhere;
pub use end::Shutdown;
use ends::Ends;
pub use error::PendingError;
use passed::Passed;
use phase::{Phase, Syn};
pub use place::{Piece, Registered, Room};

pub use options::DEFAULT_SEND_BUFFER;
pub(crate) use options::Options;
pub use view::View;

/// An offloaded connection. Dropping it closes it, as the last `close` does in the kernel.
pub struct Socket {
    core: Arc<SocketCore>,
}

/// What the session's tables and lists hold of a socket.
pub(crate) struct SocketCore {
    session: Arc<SessionCore>,
    source: SourceHandle,
    state: Mutex<State>,
    /// Threads have slept on it alone: then the engine wakes them for its news, and nobody else.
    parks: AtomicBool,
    /// Who waits for room to send into.
    room: room::Room,
    /// Which doorbell the engine rings for it.
    bell: bell::OneBell,
    /// What another process has said of O_NONBLOCK.
    mode: mode::Said,
}

/// What acknowledgements bring, which the engine reports in its own time.
const FOR_ROOM: Readiness = Readiness(Readiness::OUT.0 | Readiness::WRNORM.0 | Readiness::ACKED.0);

/// More bytes than are ever sent.
const NEVER: u64 = u64::MAX;

/// The connection's name in an attachment.
struct Link {
    attachment: Arc<Attachment>,
    conn: ConnRef,
}

impl Link {
    /// Which bell the engine rings for it; its number, if it is one.
    fn name_bell(&self, bell: Option<BellName>) -> Option<u32> {
        self.attachment.name_bell(self.conn.index, bell)
    }
}

/// When the program wants to be told of what it has written: from so many bytes on, or [`NEVER`].
struct Marks {
    acknowledged: u64,
    departed: u64,
    /// The engine was asked to tell what has left.
    asked: bool,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            acknowledged: NEVER,
            departed: NEVER,
            asked: false,
        }
    }
}

impl Marks {
    fn are_set(&self) -> bool {
        self.acknowledged.min(self.departed) != NEVER
    }
}

struct State {
    phase: Phase,
    /// `None` until the connection is open, or its SYN waits for data.
    link: Option<Link>,
    receive: ReceiveQueue,
    send: SendQueue,
    /// Where what comes is wanted. The engine may write there until it has released the connection.
    posts: Option<Box<PostQueue<Registered>>>,
    /// What `SO_ERROR` or the next call reports.
    error: Option<Errno>,
    /// Another process was told with what error it has ended.
    error_was_reported: bool,
    /// It has ended before there was another end.
    never_opened: bool,
    /// The peer has ended its direction.
    peer_closed: bool,
    /// This side wants no more data.
    read_shut: bool,
    /// This side has ended its direction.
    write_shut: bool,
    /// The program has no descriptor of it any more.
    closed: bool,
    /// How many [`Socket`]s stand for it: one, unless the process was passed what it had.
    handles: u32,
    /// The grant under which this process reads it. `None`: another process does, or did last.
    grant: Option<u16>,
    /// An accept has taken it.
    accepted: bool,
    /// What the engine has said of what others read.
    elsewhere: Elsewhere,
    /// The forks of this process when the connection was last known to be its alone.
    alone_since: u32,
    /// To other programs.
    passed: Passed,
    /// The last send found no memory or no room in the ring.
    starved: bool,
    /// It stands in the attachment's list of those to be told when there is memory or room.
    listed_as_starved: bool,
    /// It stands in the attachment's list of those whose reading must be announced.
    owes_announcement: bool,
    /// Something other than an error waits in the error queue that whoever stands in for the kernel
    /// keeps.
    notices: bool,
    /// What the program wants to be told of what it has written, since it has first asked.
    marks: Option<Box<Marks>>,
    options: Options,
    ends: Ends,
    /// The block of the send area in which the engine reads whom to connect to.
    connect_block: Option<u64>,
    syn: Syn,
}

impl State {
    /// Whether it is that of a parent that has forked this process.
    fn is_parents(&self) -> bool {
        self.link
            .as_ref()
            .is_some_and(|link| link.attachment.is_parents())
    }

    fn new(phase: Phase, local: SocketAddr, peer: SocketAddr) -> Self {
        Self {
            phase,
            link: None,
            receive: ReceiveQueue::default(),
            send: SendQueue::default(),
            posts: None,
            error: None,
            error_was_reported: false,
            never_opened: false,
            peer_closed: false,
            read_shut: false,
            write_shut: false,
            closed: false,
            handles: 1,
            grant: None,
            accepted: true,
            elsewhere: Elsewhere::default(),
            alone_since: 0,
            passed: Passed::default(),
            starved: false,
            listed_as_starved: false,
            owes_announcement: false,
            notices: false,
            marks: None,
            options: Options::default(),
            ends: Ends::new(local, peer),
            connect_block: None,
            syn: Syn::Ordinary,
        }
    }

    /// What the state is ready for, as the kernel's `tcp_poll` would have it.
    fn readiness(&self) -> Readiness {
        let mut ready = Readiness::NONE;
        let over = self.phase == Phase::Over;
        if self.error.is_some() || self.notices {
            ready |= Readiness::ERR;
        }
        if over || (self.write_shut && (self.peer_closed || self.read_shut)) {
            ready |= Readiness::HUP;
        }
        // The end is after what waits at an engine that does not answer.
        let is_late = self.elsewhere.is_late() && self.elsewhere.unread > 0;
        if over || (self.peer_closed && !is_late) || self.read_shut {
            ready |= Readiness::IN | Readiness::RDNORM | Readiness::RDHUP;
        }
        if let Some(marks) = &self.marks {
            let acked = self.send.acknowledged() >= marks.acknowledged;
            let departed = self.send.departed() >= marks.departed;
            if acked || departed || (over && marks.are_set()) {
                ready |= Readiness::ACKED;
            }
        }
        if self.phase == Phase::Connecting {
            if matches!(self.syn, Syn::Waits(_)) {
                ready |= Readiness::OUT | Readiness::WRNORM;
            }
            return ready;
        }
        // What is lent has been read, as far as waiting goes.
        let unread = self.receive.waiting() - self.receive.lent();
        let placed = self.posts.as_ref().is_some_and(|posts| posts.has_news());
        if placed || unread + self.elsewhere.to_be_had() >= self.options.readable_from() {
            ready |= Readiness::IN | Readiness::RDNORM;
        }
        // Writable means that a third of the buffer is free, so that a program is not woken for
        // every byte that is acknowledged. After an end a write fails at once: that is not waiting.
        let room = self.send.is_writable(self.options.send_buffer())
            && !self.starved
            && !self.is_held_back();
        if over || self.write_shut || room {
            ready |= Readiness::OUT | Readiness::WRNORM;
        }
        ready
    }
}

impl State {
    /// The connection has this name now. What was said of the one that had it before is past.
    fn link_to(&mut self, attachment: &Arc<Attachment>, conn: ConnRef) {
        // Nobody waits for anything of it yet.
        let _ = attachment.mind_room(conn.index);
        attachment.name_bell(conn.index, None);
        self.link = Some(Link {
            attachment: Arc::clone(attachment),
            conn,
        });
    }
}

impl SocketCore {
    /// As [`State::link_to`], for a socket that may have had another name.
    fn link_to(&self, state: &mut State, attachment: &Arc<Attachment>, conn: ConnRef) {
        state.link_to(attachment, conn);
        self.room.forget();
        self.bell.forget();
    }

    fn new(session: &Arc<SessionCore>, state: State) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(session),
            source: SourceHandle(Arc::new(Source::default())),
            state: Mutex::new(state),
            parks: AtomicBool::new(false),
            room: room::Room::default(),
            bell: bell::OneBell::default(),
            mode: mode::Said::default(),
        })
    }

    /// Where a thread that waits for it alone sleeps, if it is open.
    fn place_to_park(&self) -> Option<(Arc<Attachment>, u32)> {
        let state = lock(&self.state);
        let link = state.link.as_ref()?;
        // The answer to who reads is for those who sleep by a bell.
        let parks =
            state.phase == Phase::Open && link.attachment.is_live() && !state.elsewhere.is_late();
        parks.then(|| {
            self.parks.store(true, Ordering::SeqCst);
            (Arc::clone(&link.attachment), link.conn.index)
        })
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
        crate::sleep::wait(&self.session, Awaited::NewsOf(self), Some(limit), |_| {
            look()
        })
    }

    /// Tells those who want to hear of news. Where the engine has woken only who sleeps on the connection,
    /// those who wait in sets are woken here.
    fn happened(&self, news: Readiness) {
        let watched = self.source.0.happened(news);
        if watched && self.parks.load(Ordering::SeqCst) {
            self.session.nudges.nudge_all();
        }
    }

    /// Its readiness, and who watches it.
    pub(crate) fn source(&self) -> &SourceHandle {
        &self.source
    }

    /// Takes the locks, for a fork.
    pub(crate) fn lock_all<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.state);
        self.source.0.lock_all(locks);
    }

    /// The socket of a connection that the engine offers to this process, under a grant.
    pub(crate) fn accepted(
        session: &Arc<SessionCore>,
        attachment: &Arc<Attachment>,
        (conn, grant): (ConnRef, u16),
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Arc<Self> {
        let mut state = State::new(Phase::Open, local, peer);
        state.link_to(attachment, conn);
        state.grant = Some(grant);
        state.accepted = false;
        state.alone_since = attachment.forks();
        let ready = state.readiness();
        let core = Self::new(session, state);
        core.source.0.set(ready);
        core
    }

    /// The socket of a connection that the engine will be asked to open.
    pub(crate) fn connecting(
        session: &Arc<SessionCore>,
        local: SocketAddr,
        peer: SocketAddr,
        options: Options,
        (attachment, connect_block): (&Attachment, u64),
        may_hold_syn: bool,
    ) -> Arc<Self> {
        let mut state = State::new(Phase::Connecting, local, peer);
        state.options = options;
        state.connect_block = Some(connect_block);
        if may_hold_syn {
            state.syn = Syn::Asked;
        }
        state.alone_since = attachment.forks();
        Self::new(session, state)
    }

    /// An accept takes it. False: the engine has offered it to another process meanwhile.
    pub(crate) fn accept(&self) -> bool {
        let mut state = lock(&self.state);
        let taken = match (&state.link, state.grant) {
            (Some(Link { attachment, conn }), Some(grant)) => attachment.accept(*conn, grant),
            _ => false,
        };
        state.accepted = taken;
        taken
    }

    /// Gives the socket what its listener's program had set.
    pub(crate) fn take_options(&self, options: Options) {
        let mut state = lock(&self.state);
        if let (Phase::Open, Some(Link { attachment, conn })) = (state.phase, &state.link) {
            for (option, value) in options.chosen() {
                attachment.set_option(*conn, option, value);
            }
        }
        // What the engine has said of the path is about this connection.
        let advised = state.options.advised_send_buffer();
        state.options = options;
        state.options.advise_send_buffer(advised);
        self.refresh(&state);
    }

    /// Locks the state. In the child of a fork that has not attached, it attaches first, which asks
    /// the engine and takes a while.
    fn attach_and_lock(self: &Arc<Self>) -> MutexGuard<'_, State> {
        let state = lock(&self.state);
        if !state.is_parents() {
            return state;
        }
        drop(state);
        // If it can, the sockets are its own afterwards; if not, they are over.
        self.session.attachment();
        lock(&self.state)
    }

    /// Publishes the readiness after a change; returns what became ready by it.
    fn refresh(&self, state: &State) -> Readiness {
        let ready = state.readiness();
        let before = self.source.0.readiness();
        if ready != before {
            self.source.0.set(ready);
        }
        self.tell_who_waits(state, ready);
        if let Some(link) = &state.link {
            self.bell
                .say_once(&self.source, |bell| link.name_bell(bell));
        }
        ready & !before
    }

    /// Tells the engine whether anybody waits for room, if that has changed.
    fn tell_who_waits(&self, state: &State, ready: Readiness) {
        let Some(link) = &state.link else {
            return;
        };
        let marked = state.marks.as_ref().is_some_and(|marks| marks.are_set());
        match self.room.turns(ready, marked) {
            Some(true) => link.attachment.calm_down(link.conn.index),
            // There may be a thread that sleeps already.
            Some(false) if link.attachment.mind_room(link.conn.index) => {
                self.session.nudges.nudge_all();
            }
            _ => {}
        }
    }

    /// Lets go of the state and tells whoever watches what this process itself has changed.
    fn changed_here(&self, state: MutexGuard<'_, State>) {
        let news = self.refresh(&state);
        let parked = state
            .link
            .as_ref()
            .filter(|_| self.parks.load(Ordering::SeqCst));
        let parked = parked.map(|link| (Arc::clone(&link.attachment), link.conn.index));
        drop(state);
        if !news.is_empty() {
            self.source.0.happened(news);
            self.session.nudges.nudge_all();
            if let Some((attachment, place)) = parked {
                attachment.wake_parked(place);
            }
        }
    }
}

impl Socket {
    pub(crate) fn new(core: Arc<SocketCore>) -> Self {
        Self { core }
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
        let at = || self.core.place_to_park();
        let wants = if wanted.intersects(FOR_ROOM) {
            Wants::All
        } else {
            Wants::Urgent
        };
        let core = &self.core;
        crate::sleep::wait_at(&core.session, &**core, at, wants, limit, || {
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
        self.core.session.pump();
        let mut state = self.core.settled(self.core.attach_and_lock());
        let error = state.error.take();
        self.core.refresh(&state);
        error
    }

    /// Whether something waits in an error queue that is kept for this socket: it is ready for
    /// [`Readiness::ERR`] as long as that is so.
    pub fn set_notices(&self, wait: bool) {
        let mut state = self.core.attach_and_lock();
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
        let state = self.core.attach_and_lock();
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

impl Watchable for SocketCore {
    fn readiness_source(&self) -> &SourceHandle {
        &self.source
    }

    /// Threads that sleep on it alone take in what others want, too, and the engine may have rung others for what
    /// it has said.
    fn is_waited_for(&self) {
        let state = lock(&self.state);
        let others_were_not_rung = state
            .link
            .as_ref()
            .is_some_and(|link| self.bell.say(&self.source, |bell| link.name_bell(bell)));
        drop(state);
        if others_were_not_rung {
            self.session.nudges.nudge_all();
        }
        if self.parks.load(Ordering::SeqCst)
            && let Some((attachment, place)) = self.place_to_park()
        {
            attachment.park_for_all(place, &self.session);
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

#[cfg(test)]
mod tests {
    use super::SocketCore;

    #[test]
    fn a_socket_is_small() {
        // There may be a million; with the counts of its references and its length it takes 24 bytes more.
        assert!(
            size_of::<SocketCore>() <= 304,
            "{}",
            size_of::<SocketCore>()
        );
    }
}
