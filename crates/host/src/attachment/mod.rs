//! One attachment to one engine: the region, its rings, and who waits for what on them.
//!
//! An attachment lives from the answer to `Attach` until the engine is gone, or until this process
//! turns out to be the child of a fork. Connections belong to the attachment in which they began and
//! end with it; the [session](crate::Session) then makes another.
//!
//! - `connection`, `listens`: what it asks of connections and of listeners, which stand above it
//! - `life`: where it is in its life
//! - `ask`: questions on the control socket, also to an engine that does not run
//! - `control`: the connection that they go over
//! - `submit`: what goes to the engine, and who waits for room
//! - `unread`: how much it was asked since somebody read its answers
//! - `pump`: what comes from the engine, and whom it concerns
//! - `files`: what the engine sends from by itself
//! - `left`: files that the engine's policy leaves to the program
//! - `held`: memory that a program holds
//! - `hesitate`: what a thread does before it sleeps
//! - `hunger`: connections that found no send memory, or no room
//! - `memory`: send memory that goes back to the machine
//! - `park`: threads that sleep each on its own connection
//! - `refused`: connections that could not be read for want of memory
//! - `promise`: forks of which an engine that does not run has not heard

mod ask;
mod connection;
mod control;
mod engine;
mod files;
mod held;
mod hesitate;
mod hunger;
mod left;
mod life;
mod listens;
mod memory;
mod park;
mod promise;
mod pump;
mod refused;
mod submit;
mod unread;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use queue_pair::armed::{Armed, Sleepers};
use queue_pair::control::{ChannelError, Fds, Reply, Request};
use queue_pair::doorbell::{Bell, Ringer};
use queue_pair::memfd::MemfdError;
use queue_pair::region::{Positions, RegionWord};
use queue_pair::{
    AcceptWord, Area, BornHere, ConnRef, CoreWord, HostSide, OpeningWord, Versions, bells,
    position, region,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use crate::bell_name::BellName;
use crate::clock::monotonic_ns;
use crate::lock::{lock, try_lock};
use crate::locks::Locks;
use crate::nudge::Nudges;
use crate::private_fds::{Private, lift};
use crate::reserve;
use crate::send_pool::SendPool;

pub(crate) use connection::Connection;
pub(crate) use control::{
    ANSWER_WITHIN, Control, RUNS_WITHIN, WHILE_IT_LIVES, answers_within, connect, connect_now,
    has_answered, pair,
};
pub use engine::Engine;
use files::Files;
pub use files::RegisteredFile;
pub(crate) use files::Worth;
pub(crate) use held::HeldRun;
pub(crate) use hesitate::Hesitated;
use hesitate::Hesitation;
use hunger::Hunger;
use life::{CONDEMNED, LIVE, PARENTS};
pub(crate) use listens::{Accepts, Listeners, Listens};
use park::Parked;
pub(crate) use park::{Spot, Watch};
use promise::Promises;
use pump::Pump;
use refused::Refused;
use submit::Submissions;
use unread::Unread;

/// An attachment, with what its tables hold of each connection. See the [module](self).
pub(crate) struct Attachment<C> {
    /// Which of those that there have been.
    number: u32,
    /// The index of the interface by which the engine sends.
    pub(crate) interface: u32,
    /// Those of further ones.
    others: Vec<u32>,
    /// The version of the protocol that both sides speak.
    version: u32,
    /// What stays on this machine may be the engine's, too: it is asked for each address.
    local: bool,
    /// `None` in the child of a fork, whose parent's it was.
    control: Mutex<Option<Control>>,
    pump: Mutex<Pump<C>>,
    /// Tickets that were shown to the engine, and whose connections are not here yet.
    claims: AtomicU32,
    submissions: Mutex<Submissions>,
    pub(crate) pool: Mutex<SendPool>,
    pub(crate) send: Area,
    pub(crate) receive: Area,
    positions: Positions,
    armed: Armed<RegionWord>,
    engine: Sleepers<RegionWord>,
    /// Who opens connections just now.
    pub(crate) opening: OpeningWord,
    /// On which core this process last ran, for an engine that follows it.
    core: CoreWord,
    /// When this process last accepted a connection.
    accepted: AcceptWord,
    /// `None` in the child of a fork, as above.
    doorbell: RwLock<Option<Private<Ringer>>>,
    /// Wakers that the engine has given and no thread sleeps by.
    spare_wakers: Mutex<Vec<Waker>>,
    /// It has said that it gives no more.
    no_more_wakers: AtomicBool,
    /// Threads that sleep each on its own connection.
    parked: Parked,
    /// The last pump has left something in the ring.
    unfinished: AtomicBool,
    /// Submissions wait because the ring was full.
    deferred: AtomicBool,
    /// How many that are answered were posted since somebody read all that the engine had said.
    unread: Unread,
    /// What is known of files.
    files: Mutex<Files>,
    /// Sockets that found no send memory or no room in the ring.
    hunger: Hunger<C>,
    /// Sockets that could not be read.
    refused: Refused<C>,
    /// Sockets on which something was read of which the engine has not been told.
    unannounced: Mutex<Vec<Arc<C>>>,
    /// The list has grown long.
    owes_many: AtomicBool,
    /// Something was posted for which the engine was not rung.
    owes_ring: AtomicBool,
    /// The engine has not answered in time: what follows from its answer is to be done when that comes.
    unanswered: AtomicBool,
    /// Children that wait for such an answer.
    promises: Promises,
    /// Forks of this process that the engine was told of, or is about to be: connections that lived
    /// through one are shared until the engine says otherwise.
    forks: AtomicU32,
    /// What is known of waiting for the engine.
    hesitation: Hesitation,
    /// Threads of the session that may sleep.
    nudges: Arc<Nudges>,
    /// The session's listeners.
    listeners: Arc<Listeners<Attachment<C>>>,
    state: AtomicU8,
    /// A child that was made without a fork handler has not got it.
    born_here: BornHere,
}

/// How often a thread that is about to sleep pumps while the engine posts as fast: four rings full.
const PUMPS: u32 = 8;

/// The way in which the engine wakes one thread.
pub(crate) struct Waker {
    /// Its bit in the armed word.
    pub(crate) index: u32,
    pub(crate) bell: Private<Bell>,
}

fn request_to_attach(program: &str, fork_token: Option<u64>) -> Request {
    let spoken = Versions::SPOKEN;
    Request::Attach {
        version: spoken.newest,
        // Who speaks one version says what programs always said.
        oldest: (spoken.oldest != spoken.newest).then_some(spoken.oldest),
        program: program.to_owned(),
        fork_token,
    }
}

impl<C: Connection<Attachment<C>>> Attachment<C> {
    /// Attaches to the engine behind `control`, which has `limit` to answer.
    pub(crate) fn new(
        mut control: Control,
        program: &str,
        limit: Duration,
        nudges: &Arc<Nudges>,
        listeners: &Arc<Listeners<Self>>,
    ) -> Result<Self, Errno> {
        let request = request_to_attach(program, None);
        let answer = control::ask(&mut control, &request, Fds::new(), limit)?;
        Self::attached(control, answer, nudges, listeners)
    }

    /// Asks the engine behind `control` to attach, without waiting: what it answers comes late.
    pub(crate) fn ask_to_attach(
        control: &mut Control,
        program: &str,
        fork_token: Option<u64>,
    ) -> Result<(), ChannelError> {
        let request = request_to_attach(program, fork_token);
        control.get_mut().request_blindly(&request)
    }

    /// Attaches by what the engine has answered on `control`.
    pub(crate) fn attached(
        control: Control,
        (reply, mut fds): (Reply, Fds),
        nudges: &Arc<Nudges>,
        listeners: &Arc<Listeners<Self>>,
    ) -> Result<Self, Errno> {
        let spoken = Versions::SPOKEN;
        if let Reply::Error { errno, .. } = reply {
            return Err(control::error_from(errno));
        }
        let Reply::Attached {
            interface,
            others,
            local,
            version,
            ..
        } = reply
        else {
            return Err(Errno::PROTO);
        };
        match fds.len() {
            3 => {}
            // The rest did not arrive: this process can have no more.
            ..3 => return Err(Errno::MFILE),
            _ => return Err(Errno::PROTO),
        }
        let bell = Bell::from(lift(fds.remove(2)));
        let doorbell = Ringer::from(lift(fds.remove(1)));
        let HostSide {
            submissions,
            completions,
            send,
            receive,
            positions,
            armed,
            sleepers,
            opening,
            core,
            accepted,
            layout,
            ..
        } = region::attach(&fds[0]).map_err(|error| match error {
            MemfdError::Violation(_) => Errno::PROTO,
            MemfdError::Io(error) => from_io(&error),
        })?;
        // What the region is made for is what was agreed on, and one of ours.
        if layout.version != version.unwrap_or(spoken.newest) {
            return Err(Errno::PROTO);
        }
        Ok(Self {
            number: BellName::next_attachment(),
            interface,
            others,
            version: layout.version,
            local,
            control: Mutex::new(Some(control)),
            pump: Mutex::new(Pump::new(completions)),
            claims: AtomicU32::new(0),
            unread: Unread::with(submissions.capacity()),
            submissions: Mutex::new(Submissions::new(submissions)),
            pool: Mutex::new(SendPool::new(send.len())),
            send,
            receive,
            positions,
            armed,
            engine: sleepers,
            opening,
            core,
            accepted,
            doorbell: RwLock::new(Some(Private::new(doorbell))),
            spare_wakers: Mutex::new(vec![Waker {
                index: 0,
                bell: Private::new(bell),
            }]),
            no_more_wakers: AtomicBool::new(false),
            parked: Parked::default(),
            unfinished: AtomicBool::new(false),
            deferred: AtomicBool::new(false),
            files: Mutex::default(),
            hunger: Hunger::default(),
            refused: Refused::default(),
            unannounced: Mutex::default(),
            owes_many: AtomicBool::new(false),
            owes_ring: AtomicBool::new(false),
            unanswered: AtomicBool::new(false),
            promises: Promises::default(),
            forks: AtomicU32::new(0),
            hesitation: Hesitation::new(),
            nudges: Arc::clone(nudges),
            listeners: Arc::clone(listeners),
            state: AtomicU8::new(LIVE),
            born_here: BornHere::new().map_err(|error| from_io(&error))?,
        })
    }

    /// Whether the engine sends by several interfaces.
    pub(crate) fn has_several_interfaces(&self) -> bool {
        !self.others.is_empty()
    }

    /// Those by which it sends; none if it does not say.
    pub(crate) fn interfaces(&self) -> impl Iterator<Item = u32> {
        let first = (self.interface != 0).then_some(self.interface);
        first.into_iter().chain(self.others.iter().copied())
    }

    /// Whether the engine speaks a version of the protocol that has what came with `version`.
    pub(crate) fn speaks(&self, version: u32) -> bool {
        self.version >= version
    }

    /// Whether connections on it can be used.
    pub(crate) fn is_live(&self) -> bool {
        self.state.load(Ordering::Relaxed) <= CONDEMNED && self.born_here.is_still()
    }

    /// Whether it is the parent's of this process, however that has come to be.
    pub(crate) fn is_parents(&self) -> bool {
        self.state.load(Ordering::Relaxed) == PARENTS || !self.born_here.is_still()
    }

    /// In the child of a fork the region is not mapped; where it was, something else may be by the time the last
    /// reference goes. So one never does.
    pub(crate) fn outlives_its_region(self: &Arc<Self>) {
        if self.is_parents() {
            std::mem::forget(Arc::clone(self));
        }
    }

    /// This process is the child of the one that attached.
    pub(crate) fn leave_to_parent(&self) {
        self.state.store(PARENTS, Ordering::Relaxed);
        self.born_here.inherit();
    }

    /// Whether this process is the one that was left without, and no child that it has made without anybody being
    /// told.
    pub(crate) fn is_heirs(&self) -> bool {
        self.born_here.is_heirs()
    }

    /// The engine is gone, or has said what cannot be. Only marks the attachment, since the caller
    /// may hold locks; the next pump does the rest.
    pub(crate) fn condemn(&self) {
        let _ = self
            .state
            .compare_exchange(LIVE, CONDEMNED, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Takes the lock on what the engine has said, for a fork.
    pub(crate) fn lock_pump<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.pump);
    }

    /// Whether nobody has the lock under which the engine is asked. Whoever asks this may hold others, and does not wait.
    pub(crate) fn can_ask(&self) -> bool {
        try_lock(&self.control).is_some()
    }

    /// Takes the lock under which the engine is asked, for a fork.
    pub(crate) fn lock_control<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.control);
        self.lock_promises(locks);
    }

    /// Takes the other locks under which no other is taken, for a fork.
    pub(crate) fn lock_leaves<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.submissions);
        locks.take(&self.pool);
        locks.take(&self.spare_wakers);
        locks.take(&self.files);
        self.hunger.lock_all(locks);
        self.refused.lock_all(locks);
        locks.take(&self.unannounced);
        self.parked.lock_all(locks);
    }

    /// Forks of this process: connections that are older than the last are shared.
    pub(crate) fn forks(&self) -> u32 {
        self.forks.load(Ordering::Acquire)
    }

    /// This process is about to fork. What other threads send on from now on may meet what the child
    /// sends, and says when.
    pub(crate) fn forking(&self) {
        self.forks.fetch_add(1, Ordering::AcqRel);
    }

    /// Accepts a connection that was offered. False: the engine has taken the offer back.
    pub(crate) fn accept(&self, conn: ConnRef, grant: u16) -> bool {
        if self.is_parents() {
            return false;
        }
        self.accepted.tell(monotonic_ns());
        self.positions
            .word(conn.index)
            .is_some_and(|word| position::accept(word, grant, conn.generation))
    }

    /// This process has copied `count` bytes from `offset` of the stream on. False: another process
    /// reads the connection, and what was copied is not ours.
    pub(crate) fn advance(&self, conn: ConnRef, grant: u16, offset: u64, count: u64) -> bool {
        !self.is_parents()
            && self
                .positions
                .word(conn.index)
                .is_some_and(|word| position::advance(word, grant, offset, count))
    }

    /// Whether this process still reads the connection, at `offset` of the stream.
    pub(crate) fn reads(&self, conn: ConnRef, grant: u16, offset: u64) -> bool {
        !self.is_parents()
            && self
                .positions
                .word(conn.index)
                .is_some_and(|word| position::holds(word, grant, offset))
    }

    /// A waker for a thread that blocks: a spare one, or one more from the engine. `None`: it gives
    /// no more, or does not answer just now, or there is no descriptor left for its bell.
    pub(crate) fn take_waker(&self) -> Option<Waker> {
        let spare = lock(&self.spare_wakers).pop();
        if spare.is_some() || self.no_more_wakers.load(Ordering::Relaxed) {
            return spare;
        }
        // Who is about to sleep does not wait for one who waits for an answer.
        drop(try_lock(&self.control)?);
        // One that does not arrive would be lost to this session.
        let place = self.with_control(|control| fcntl_dupfd_cloexec(&*control, 0));
        drop(place?.ok()?);
        match self.request(&Request::Waker, Fds::new(), RUNS_WITHIN) {
            Ok((Reply::Waker { waker }, mut fds)) if waker < u64::BITS => {
                let bell = lift(fds.pop()?);
                Some(Waker {
                    index: waker,
                    bell: Private::new(Bell::from(bell)),
                })
            }
            Err(Errno::TIMEDOUT) => None,
            _ => {
                self.no_more_wakers.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    /// Sees to it that there is a number for a descriptor that comes with an answer.
    pub(crate) fn make_room(&self) {
        let place = || self.with_control(|control| fcntl_dupfd_cloexec(&*control, 0));
        let _ = reserve::spare(1, || place().transpose().map(drop));
    }

    /// The inverse of [`take_waker`](Self::take_waker).
    pub(crate) fn return_waker(&self, waker: Waker) {
        lock(&self.spare_wakers).push(waker);
    }

    /// The name of a waker's bell.
    pub(crate) fn bell_name(&self, waker: &Waker) -> BellName {
        BellName {
            attachment: self.number,
            index: waker.index,
        }
    }

    /// For news of the connection at `place` the engine rings this bell alone, if it is one of this attachment's;
    /// otherwise all that are armed. Who waits by another looks for news once more after this. Its number, if it is one.
    pub(crate) fn name_bell(&self, place: u32, bell: Option<BellName>) -> Option<u32> {
        let word = self.positions.bell(place).filter(|_| !self.is_parents())?;
        let index = self.bell_of(bell);
        bells::name(word, index);
        index
    }

    /// The number of this bell, if it is one of this attachment's.
    pub(crate) fn bell_of(&self, name: Option<BellName>) -> Option<u32> {
        let own = name.filter(|bell| bell.attachment == self.number);
        own.map(|bell| bell.index)
    }

    /// Nobody waits for news of the connection at `place`: the engine rings nobody for them. Who begins to
    /// [says so](Self::name_bell), and looks for news after that.
    pub(crate) fn name_no_bell(&self, place: u32) {
        if let Some(word) = self.positions.bell(place) {
            bells::name_nobody(word);
        }
    }

    /// Tells the engine on which core this thread runs. To be called only where the region is mapped.
    fn tell_core(&self) {
        self.core
            .tell(rustix::thread::sched_getcpu(), self.hesitation.wanted);
    }

    /// Whether the engine has said something that nobody has taken in.
    pub(crate) fn has_news(&self) -> bool {
        self.news() == Some(true)
    }

    /// The same; `None` while a thread takes in what there is.
    pub(super) fn news(&self) -> Option<bool> {
        let mut pump = try_lock(&self.pump)?;
        Some(!matches!(pump.completions.is_empty(), Ok(true)))
    }

    /// The thread with this waker is about to sleep: tells the engine what it still has to know,
    /// asks to be woken, and looks once more. Whether the attachment still works.
    pub(crate) fn arm(self: &Arc<Self>, waker: Option<u32>) -> bool {
        if self.is_parents() {
            return false;
        }
        self.tell_core();
        self.announce_owed();
        if let Some(index) = waker {
            self.armed.arm(index);
        }
        self.take_in()
    }

    /// Takes in all that the engine has said. Whether the attachment still works.
    fn take_in(self: &Arc<Self>) -> bool {
        // A pump leaves the rest of a very long list for the next; nobody rings for that.
        for _ in 0..PUMPS {
            if !self.pump_surely() {
                return false;
            }
            if !self.unfinished.load(Ordering::Relaxed) {
                break;
            }
        }
        true
    }

    /// The thread with this waker is awake.
    pub(crate) fn disarm(&self, waker: u32) {
        if self.is_parents() {
            return;
        }
        self.armed.disarm(waker);
    }

    /// Whether something is to be done for which nobody will ring: what the engine has said is not
    /// all taken in, or something waits for room that the engine makes without saying so. Then
    /// nobody sleeps for long.
    pub(crate) fn needs_attention(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed)
            || self.deferred.load(Ordering::Relaxed)
            || self.hunger.is_helpless()
            || self.keeps_still()
    }
}

fn from_io(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Whether an engine has not done what it was asked because it does not run just now, has ended, or is about
/// to: it may do it later, or the next one may.
pub(crate) fn is_away(error: Errno) -> bool {
    matches!(
        error,
        Errno::TIMEDOUT | Errno::CONNRESET | Errno::PROTO | Errno::AGAIN
    )
}
