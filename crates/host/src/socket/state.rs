//! What is known of a connection, and what follows from a change of it: the socket as the session's tables
//! and lists have it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use queue_pair::room::Awaits;
use queue_pair::{ConnRef, OptionKind};
use rustix::io::Errno;

use super::elsewhere::Elsewhere;
use super::ends::Ends;
use super::options::Options;
use super::passed::Passed;
use super::phase::{Phase, Syn};
use super::starved::Starved;
use super::{bell, mode, room};
use crate::attachment::{self, HeldRun};
use crate::bell_name::BellName;
use crate::interest::Source;
use crate::lock::lock;
use crate::locks::Locks;
use crate::nudge::Nudges;
use crate::post_queue::PostQueue;
use crate::readiness::Readiness;
use crate::ready_set::{SourceHandle, Watchable};
use crate::receive_queue::ReceiveQueue;
use crate::send_queue::SendQueue;

/// An attachment, in whose tables connections are sockets.
pub(crate) type Attachment = attachment::Attachment<SocketCore>;

/// What the session's tables and lists hold of a socket.
pub(crate) struct SocketCore {
    pub(super) nudges: Arc<Nudges>,
    pub(super) source: SourceHandle,
    pub(super) state: Mutex<State>,
    /// Threads have slept on it alone: then the engine wakes them for its news, and nobody else.
    pub(super) parks: AtomicBool,
    /// Who waits for room to send into.
    pub(super) room: room::Room,
    /// Which doorbell the engine rings for it.
    pub(super) bell: bell::OneBell,
    /// What another process has said of O_NONBLOCK.
    pub(super) mode: mode::Said,
}

/// More bytes than are ever sent.
pub(super) const NEVER: u64 = u64::MAX;

/// The connection's name in an attachment.
pub(super) struct Link {
    pub(super) attachment: Arc<Attachment>,
    pub(super) conn: ConnRef,
}

impl Link {
    /// Its attachment, and its place there.
    fn place(&self) -> (Arc<Attachment>, u32) {
        (Arc::clone(&self.attachment), self.conn.index)
    }

    /// Which bell the engine rings for it; its number, if it is one.
    pub(super) fn name_bell(&self, bell: Option<BellName>) -> Option<u32> {
        self.attachment.name_bell(self.conn.index, bell)
    }
}

/// When the program wants to be told of what it has written: from so many bytes on, or [`NEVER`].
pub(super) struct Marks {
    pub(super) acknowledged: u64,
    pub(super) departed: u64,
    /// The engine was asked to tell what has left.
    pub(super) asked: bool,
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
    pub(super) fn are_set(&self) -> bool {
        self.acknowledged.min(self.departed) != NEVER
    }
}

/// By this bound for what has not left ([`OptionKind::NotSentLow`]) the engine tells of all that leaves.
pub(super) const TOLD_OF_ALL: u32 = 1;

impl State {
    /// Whether the engine was asked to tell of all that leaves.
    pub(super) fn is_told_of_all(&self) -> bool {
        self.marks.as_ref().is_some_and(|marks| marks.asked)
    }

    /// What the engine is told that an option is set to.
    pub(super) fn to_engine(&self, option: OptionKind, value: u32) -> u32 {
        match option {
            // The bound is the host's then, and the engine has it tell what it needs for that.
            OptionKind::NotSentLow if self.is_told_of_all() => TOLD_OF_ALL,
            _ => value,
        }
    }
}

/// How a connection was asked for: of whom, by which token, and where what is wanted stands in the send area, until
/// the engine has read that.
pub(super) struct Asked {
    pub(super) of: Weak<Attachment>,
    pub(super) token: u64,
    pub(super) block: Option<u64>,
}

pub(super) struct State {
    pub(super) phase: Phase,
    /// What it is asked about by while it is being opened.
    pub(super) asked: Option<Box<Asked>>,
    /// `None` until the connection is open, or its SYN waits for data.
    pub(super) link: Option<Link>,
    pub(super) receive: ReceiveQueue,
    pub(super) send: SendQueue,
    /// Where what comes is wanted. The engine may write there until it has released the connection.
    pub(super) posts: Option<Box<PostQueue<HeldRun<SocketCore>>>>,
    /// What `SO_ERROR` or the next call reports.
    pub(super) error: Option<Errno>,
    /// Another process was told with what error it has ended.
    pub(super) error_was_reported: bool,
    /// It has ended before there was another end.
    pub(super) never_opened: bool,
    /// The peer has ended its direction.
    pub(super) peer_closed: bool,
    /// This side wants no more data.
    pub(super) read_shut: bool,
    /// This side has ended its direction.
    pub(super) write_shut: bool,
    /// The program has no descriptor of it any more.
    pub(super) closed: bool,
    /// How many [`Socket`]s stand for it: one, unless the process was passed what it had.
    pub(super) handles: u32,
    /// The grant under which this process reads it. `None`: another process does, or did last.
    pub(super) grant: Option<u16>,
    /// An accept has taken it.
    pub(super) accepted: bool,
    /// What the engine has said of what others read.
    pub(super) elsewhere: Elsewhere,
    /// The forks of this process when the connection was last known to be its alone.
    pub(super) alone_since: u32,
    /// To other programs.
    pub(super) passed: Passed,
    /// The last send found no memory or no room in the ring.
    pub(super) starved: Starved,
    /// It stands in the attachment's list of those to be told when there is memory or room: as helpless, or not.
    pub(super) listed_as_helpless: Option<bool>,
    /// It stands in the attachment's list of those whose reading must be announced.
    pub(super) owes_announcement: bool,
    /// Something other than an error waits in the error queue that whoever stands in for the kernel
    /// keeps.
    pub(super) notices: bool,
    /// What the program wants to be told of what it has written, since it has first asked.
    pub(super) marks: Option<Box<Marks>>,
    pub(super) options: Options,
    pub(super) ends: Ends,
    pub(super) syn: Syn,
}

impl State {
    /// Whether it is that of a parent that has forked this process.
    pub(super) fn is_parents(&self) -> bool {
        self.link
            .as_ref()
            .is_some_and(|link| link.attachment.is_parents())
    }

    pub(super) fn new(phase: Phase, local: SocketAddr, peer: SocketAddr) -> Self {
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
            starved: Starved::NOT,
            listed_as_helpless: None,
            owes_announcement: false,
            notices: false,
            marks: None,
            options: Options::default(),
            ends: Ends::new(local, peer),
            asked: None,
            syn: Syn::Ordinary,
        }
    }

    /// What the state is ready for, as the kernel's `tcp_poll` would have it.
    pub(super) fn readiness(&self) -> Readiness {
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
            && !self.starved.is()
            && !self.is_held_back();
        if over || self.write_shut || room {
            ready |= Readiness::OUT | Readiness::WRNORM;
        }
        ready
    }
}

impl State {
    /// The connection has this name now. What was said of the one that had it before is past.
    pub(super) fn link_to(&mut self, attachment: &Arc<Attachment>, conn: ConnRef) {
        // Nobody waits for room yet, nor has the engine acknowledged anything.
        let _ = attachment.awaits_room(conn.index, Awaits::Anything);
        attachment.name_bell(conn.index, None);
        self.link = Some(Link {
            attachment: Arc::clone(attachment),
            conn,
        });
    }
}

impl SocketCore {
    /// As [`State::link_to`], for a socket that may have had another name.
    pub(super) fn link_to(&self, state: &mut State, attachment: &Arc<Attachment>, conn: ConnRef) {
        state.link_to(attachment, conn);
        self.bell.forget();
    }

    pub(super) fn new(nudges: &Arc<Nudges>, state: State) -> Arc<Self> {
        Arc::new(Self {
            nudges: Arc::clone(nudges),
            source: SourceHandle(Arc::new(Source::default())),
            state: Mutex::new(state),
            parks: AtomicBool::new(false),
            room: room::Room::default(),
            bell: bell::OneBell::default(),
            mode: mode::Said::default(),
        })
    }

    /// Where a thread that waits for it alone sleeps, if it is open.
    pub(crate) fn place_to_park(&self) -> Option<(Arc<Attachment>, u32)> {
        let state = lock(&self.state);
        let link = state.link.as_ref()?;
        // The answer to who reads is for those who sleep by a bell.
        let parks =
            state.phase == Phase::Open && link.attachment.is_live() && !state.elsewhere.is_late();
        parks.then(|| {
            self.parks.store(true, Ordering::SeqCst);
            link.place()
        })
    }

    /// Tells those who want to hear of news. Where the engine has woken only who sleeps on the connection,
    /// those who wait in sets are woken here. For room it may have woken nobody: it looks for how much somebody waits
    /// after it has published what is there, and by then it may have been taken in here, and less be waited for.
    pub(super) fn happened(&self, news: Readiness) {
        let watched = self.source.0.happened(news);
        let (parks, of_room) = (
            self.parks.load(Ordering::SeqCst),
            news.intersects(room::NEWS),
        );
        if watched && (parks || of_room) {
            self.source.0.call();
        }
        if parks && of_room {
            let link = lock(&self.state).link.as_ref().map(Link::place);
            if let Some((attachment, place)) = link {
                attachment.wake_for_room(place);
            }
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
        nudges: &Arc<Nudges>,
        attachment: &Arc<Attachment>,
        (conn, grant): (ConnRef, u16),
        [local, peer]: [SocketAddr; 2],
    ) -> Arc<Self> {
        let mut state = State::new(Phase::Open, local, peer);
        state.link_to(attachment, conn);
        state.grant = Some(grant);
        state.accepted = false;
        state.alone_since = attachment.forks();
        let ready = state.readiness();
        attachment.name_no_bell(conn.index);
        let core = Self::new(nudges, state);
        core.bell.is_nobodys();
        core.source.0.set(ready);
        core
    }

    /// The socket of a connection that the engine will be asked to open.
    pub(crate) fn connecting(
        nudges: &Arc<Nudges>,
        local: SocketAddr,
        peer: SocketAddr,
        options: Options,
        (attachment, connect_block): (&Attachment, u64),
        may_hold_syn: bool,
    ) -> Arc<Self> {
        let mut state = State::new(Phase::Connecting, local, peer);
        state.options = options;
        state.asked = Some(Box::new(Asked {
            of: Weak::new(),
            token: 0,
            block: Some(connect_block),
        }));
        if may_hold_syn {
            state.syn = Syn::Asked;
        }
        state.alone_since = attachment.forks();
        Self::new(nudges, state)
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

    /// Publishes the readiness after a change; returns what became ready by it.
    pub(super) fn refresh(&self, state: &State) -> Readiness {
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

    /// Tells the engine for how much room somebody waits, if that is not what it was told.
    pub(super) fn tell_who_waits(&self, state: &State, ready: Readiness) {
        let Some(link) = &state.link else {
            return;
        };
        let awaits = state.awaits(self.room.is_awaited(ready));
        // There may be threads that sleep already.
        if link.attachment.awaits_room(link.conn.index, awaits) {
            self.source.0.call();
            if self.parks.load(Ordering::SeqCst) {
                link.attachment.wake_for_room(link.conn.index);
            }
        }
    }

    /// Lets go of the state and tells whoever watches what this process itself has changed.
    pub(super) fn changed_here(&self, state: MutexGuard<'_, State>) {
        let news = self.refresh(&state);
        let parked = state
            .link
            .as_ref()
            .filter(|_| self.parks.load(Ordering::SeqCst));
        let parked = parked.map(Link::place);
        drop(state);
        if !news.is_empty() {
            self.source.0.happened(news);
            self.source.0.call();
            if let Some((attachment, place)) = parked {
                attachment.wake_parked(place);
            }
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
        // Who has slept by the word has left it as if somebody waited for whatever comes.
        self.tell_who_waits(&state, state.readiness());
        let others_were_not_rung = state
            .link
            .as_ref()
            .is_some_and(|link| self.bell.say(&self.source, |bell| link.name_bell(bell)));
        drop(state);
        if others_were_not_rung {
            self.source.0.call();
        }
        if self.parks.load(Ordering::SeqCst)
            && let Some((attachment, place)) = self.place_to_park()
        {
            attachment.park_for_all(place);
        }
    }
}

impl SocketCore {
    /// A thread sleeps by the word of it alone, which wakes it for what it has asked for, and not for how much room,
    /// until this is called; it looks once more after this.
    pub(crate) fn is_slept_on(&self) {
        let state = lock(&self.state);
        self.tell_who_waits(&state, state.readiness());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
