//! One attachment to one engine: the region, its rings, and who waits for what on them.
//!
//! An attachment lives from the answer to `Attach` until the engine is gone, or until this process
//! turns out to be the child of a fork. Connections belong to the attachment in which they began and
//! end with it; the [session](crate::Session) then makes another.
//!
//! Any thread may pump: it takes what the engine has said and brings it to the sockets. Whoever
//! finds another thread pumping goes on, since that one does the work; only a thread that is about
//! to sleep waits for it, because it has to know that nothing is on its way to its sockets.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use queue_pair::armed::{Armed, Sleepers};
use queue_pair::control::{self, Channel, ChannelError, Fds, Reply, Request};
use queue_pair::doorbell::{Bell, Ringer};
use queue_pair::memfd::MemfdError;
use queue_pair::region::{RegionWord, RingCells};
use queue_pair::ring::{Consumer, Producer};
use queue_pair::{Area, Completion, ConnRef, HostSide, Submission, Violation, region};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::connections::Connections;
use crate::listener::ListenerCore;
use crate::lock::{lock, try_lock};
use crate::private_fds::{Private, lift};
use crate::send_pool::SendPool;
use crate::session::SessionCore;
use crate::socket::SocketCore;

/// How long an answer on the control socket may take. An engine that is alive answers in
/// microseconds; one that is stopped must not stop the program for good.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The connection to an engine's control socket.
pub(crate) type Control = Private<Channel>;

/// An attachment. See the [module](self).
pub(crate) struct Attachment {
    control: Mutex<Control>,
    pump: Mutex<Pump>,
    submissions: Mutex<Submissions>,
    pub(crate) pool: Mutex<SendPool>,
    pub(crate) send: Area,
    pub(crate) receive: Area,
    armed: Armed<RegionWord>,
    engine: Sleepers<RegionWord>,
    doorbell: Private<Ringer>,
    /// Wakers that the engine has given and no thread sleeps by.
    spare_wakers: Mutex<Vec<Waker>>,
    /// Submissions wait because the ring was full.
    deferred: AtomicBool,
    /// Sockets that found no send memory or no room in the ring.
    starved: Mutex<Vec<Arc<SocketCore>>>,
    starving: AtomicBool,
    /// Send memory has come back since.
    freed: AtomicBool,
    /// Sockets on which something was read of which the engine has not been told.
    unannounced: Mutex<Vec<Arc<SocketCore>>>,
    state: AtomicU8,
}

/// How often a thread that is about to sleep yields its core to an engine that is awake. On a core
/// that both share, one yield lets the engine do all that it has; on another one, each is a look.
const YIELDS: u32 = 4;

/// The attachment works.
const LIVE: u8 = 0;
/// The engine broke the protocol or is gone; the next pump ends the attachment.
const CONDEMNED: u8 = 1;
/// It is over.
const ENDED: u8 = 2;
/// This process is a fork's child, and the attachment its parent's: the region is not mapped here.
const PARENTS: u8 = 3;

/// The way in which the engine wakes one thread.
pub(crate) struct Waker {
    /// Its bit in the armed word.
    pub(crate) index: u32,
    pub(crate) bell: Private<Bell>,
}

/// What the pumping thread needs.
struct Pump {
    completions: Consumer<Completion, RingCells>,
    connections: Connections,
    listeners: HashMap<u32, Arc<ListenerCore>>,
    connecting: HashMap<u64, Arc<SocketCore>>,
    next_token: u64,
}

struct Submissions {
    ring: Producer<Submission, RingCells>,
    /// What may not be lost and found the ring full, in its order.
    deferred: VecDeque<Submission>,
    /// A socket that is starved found no room here.
    starved_by_ring: bool,
}

impl Attachment {
    /// Attaches to the engine behind `control`.
    pub(crate) fn new(
        mut control: Control,
        program: &str,
        fork_token: Option<u64>,
    ) -> Result<Self, Errno> {
        let request = Request::Attach {
            version: control::VERSION,
            program: program.to_owned(),
            fork_token,
        };
        let (reply, mut fds) = ask(&mut control, &request, Fds::new())?;
        if !matches!(reply, Reply::Attached { .. }) || fds.len() != 3 {
            return Err(Errno::PROTO);
        }
        let bell = Bell::from(lift(fds.remove(2)));
        let doorbell = Ringer::from(lift(fds.remove(1)));
        let HostSide {
            submissions,
            completions,
            send,
            receive,
            armed,
            sleepers,
            ..
        } = region::attach(&fds[0]).map_err(|error| match error {
            MemfdError::Violation(_) => Errno::PROTO,
            MemfdError::Io(error) => Errno::from_io_error(&error).unwrap_or(Errno::IO),
        })?;
        Ok(Self {
            control: Mutex::new(control),
            pump: Mutex::new(Pump {
                completions,
                connections: Connections::default(),
                listeners: HashMap::new(),
                connecting: HashMap::new(),
                next_token: 0,
            }),
            submissions: Mutex::new(Submissions {
                ring: submissions,
                deferred: VecDeque::new(),
                starved_by_ring: false,
            }),
            pool: Mutex::new(SendPool::new(send.len())),
            send,
            receive,
            armed,
            engine: sleepers,
            doorbell: Private::new(doorbell),
            spare_wakers: Mutex::new(vec![Waker {
                index: 0,
                bell: Private::new(bell),
            }]),
            deferred: AtomicBool::new(false),
            starved: Mutex::default(),
            starving: AtomicBool::new(false),
            freed: AtomicBool::new(false),
            unannounced: Mutex::default(),
            state: AtomicU8::new(LIVE),
        })
    }

    /// Whether connections on it can be used.
    pub(crate) fn is_live(&self) -> bool {
        self.state.load(Ordering::Relaxed) <= CONDEMNED
    }

    /// Whether it is the parent's of this process.
    pub(crate) fn is_parents(&self) -> bool {
        self.state.load(Ordering::Relaxed) == PARENTS
    }

    /// This process is the child of the one that attached.
    pub(crate) fn leave_to_parent(&self) {
        self.state.store(PARENTS, Ordering::Relaxed);
    }

    /// The engine is gone, or has said what cannot be. Only marks the attachment, since the caller
    /// may hold locks; the next pump does the rest.
    pub(crate) fn condemn(&self) {
        let _ = self
            .state
            .compare_exchange(LIVE, CONDEMNED, Ordering::Relaxed, Ordering::Relaxed);
    }

    // --- what goes to the engine

    /// Posts a submission, publishes it and rings if the engine sleeps. `false`: the ring is full.
    pub(crate) fn post(&self, submission: &Submission) -> bool {
        let mut submissions = lock(&self.submissions);
        let posted = submissions.deferred.is_empty() && self.try_post(&mut submissions, submission);
        submissions.starved_by_ring = !posted;
        submissions.ring.publish();
        drop(submissions);
        // Also when it did not fit: the engine must make room.
        self.ring_if_asleep();
        posted
    }

    /// As [`post`](Self::post), but what finds the ring full is kept until there is room.
    pub(crate) fn post_surely(&self, submission: Submission) {
        let mut submissions = lock(&self.submissions);
        if !submissions.deferred.is_empty() || !self.try_post(&mut submissions, &submission) {
            submissions.deferred.push_back(submission);
            self.deferred.store(true, Ordering::Relaxed);
        }
        submissions.ring.publish();
        drop(submissions);
        self.ring_if_asleep();
    }

    fn try_post(&self, submissions: &mut Submissions, submission: &Submission) -> bool {
        submissions
            .ring
            .post(submission)
            .unwrap_or_else(|_violation| {
                self.condemn();
                false
            })
    }

    fn post_deferred(&self) {
        if !self.deferred.load(Ordering::Relaxed) {
            return;
        }
        let mut submissions = lock(&self.submissions);
        while let Some(first) = submissions.deferred.pop_front() {
            if !self.try_post(&mut submissions, &first) {
                submissions.deferred.push_front(first);
                break;
            }
        }
        self.deferred
            .store(!submissions.deferred.is_empty(), Ordering::Relaxed);
        submissions.ring.publish();
        drop(submissions);
        self.ring_if_asleep();
    }

    fn ring_if_asleep(&self) {
        if self.engine.take() != 0 {
            self.doorbell.ring();
        }
    }

    /// Notes that `socket` was read from, so that the engine hears of it before anyone sleeps.
    pub(crate) fn owe_announcement(&self, socket: &Arc<SocketCore>) {
        lock(&self.unannounced).push(Arc::clone(socket));
    }

    fn announce_owed(&self) {
        let mut owed = std::mem::take(&mut *lock(&self.unannounced));
        for socket in owed.drain(..) {
            socket.announce_consumption();
        }
        // Its memory is used again.
        let mut list = lock(&self.unannounced);
        if list.capacity() == 0 {
            *list = owed;
        }
    }

    /// Notes that `socket` found no send memory or no room in the ring.
    pub(crate) fn starve(&self, socket: &Arc<SocketCore>) {
        lock(&self.starved).push(Arc::clone(socket));
        self.starving.store(true, Ordering::Relaxed);
    }

    /// Send memory has come back.
    pub(crate) fn freed(&self) {
        if self.starving.load(Ordering::Relaxed) {
            self.freed.store(true, Ordering::Relaxed);
        }
    }

    fn feed_starved(&self) {
        if !self.starving.load(Ordering::Relaxed) || !self.has_food() {
            return;
        }
        let starved = {
            let mut starved = lock(&self.starved);
            self.starving.store(false, Ordering::Relaxed);
            std::mem::take(&mut *starved)
        };
        for socket in starved {
            socket.fed();
        }
    }

    /// Whether memory has come back, or the ring is far from full.
    fn has_food(&self) -> bool {
        self.freed.swap(false, Ordering::Relaxed) || {
            let mut submissions = lock(&self.submissions);
            let room = submissions.ring.room();
            submissions.starved_by_ring
                && room.is_ok_and(|room| room >= submissions.ring.capacity() / 2)
        }
    }

    /// Asks on the control socket.
    pub(crate) fn request(&self, request: &Request, fds: Fds) -> Result<(Reply, Fds), Errno> {
        if !self.is_live() {
            return Err(Errno::CONNRESET);
        }
        let answer = ask(&mut lock(&self.control), request, fds);
        if matches!(
            answer,
            Err(Errno::PROTO | Errno::CONNRESET | Errno::TIMEDOUT)
        ) {
            self.condemn();
        }
        answer
    }

    /// Says something on the control socket that wants no answer. What an engine is too busy to read
    /// is lost.
    pub(crate) fn tell(&self, request: &Request) {
        debug_assert!(!request.wants_reply());
        if !self.is_live() {
            return;
        }
        let told = lock(&self.control).get_mut().send(request, Fds::new());
        if matches!(told, Err(ChannelError::Closed)) {
            self.condemn();
        }
    }

    // --- what comes from the engine

    /// Brings what the engine has said to the sockets, unless another thread does. Returns whether
    /// the attachment still works.
    pub(crate) fn pump(self: &Arc<Self>, session: &Arc<SessionCore>) -> bool {
        match try_lock(&self.pump) {
            Some(pump) => self.pump_locked(pump, session),
            None => self.is_live(),
        }
    }

    /// As [`pump`](Self::pump), but waits for another thread to be done: afterwards nothing that the
    /// engine had said before is still on its way to a socket.
    pub(crate) fn pump_surely(self: &Arc<Self>, session: &Arc<SessionCore>) -> bool {
        self.pump_locked(lock(&self.pump), session)
    }

    fn pump_locked(
        self: &Arc<Self>,
        mut pump: MutexGuard<'_, Pump>,
        session: &Arc<SessionCore>,
    ) -> bool {
        match self.state.load(Ordering::Relaxed) {
            LIVE => {}
            CONDEMNED => {
                self.end(&mut pump, session);
                return false;
            }
            _ => return false,
        }
        let mut taken = 0;
        loop {
            let completion = match pump.completions.take() {
                Ok(Some(completion)) => completion,
                Ok(None) => break,
                Err(_violation) => {
                    self.end(&mut pump, session);
                    return false;
                }
            };
            taken += 1;
            if self.deliver(&mut pump, session, completion).is_err() {
                self.end(&mut pump, session);
                return false;
            }
            // Others may want the lock, and the engine its slots.
            if taken == pump.completions.capacity() / 2 {
                break;
            }
        }
        if taken > 0 {
            pump.completions.release();
            if taken >= pump.completions.capacity() / 4 {
                // The engine may have gone to sleep for want of room.
                self.ring_if_asleep();
            }
        }
        drop(pump);
        self.post_deferred();
        self.feed_starved();
        true
    }

    fn deliver(
        self: &Arc<Self>,
        pump: &mut Pump,
        session: &Arc<SessionCore>,
        completion: Completion,
    ) -> Result<(), Violation> {
        match completion {
            Completion::Update {
                conn,
                addr,
                len,
                acked,
                peer_closed,
            } => {
                // One that is not ours any more was reset here while this was on its way.
                match pump.connections.get(conn) {
                    Some(socket) => socket.updated(self, addr, len, acked, peer_closed),
                    None => Ok(()),
                }
            }
            Completion::Failed { conn, errno } => {
                if let Some(socket) = pump.connections.get(conn) {
                    socket.ended(self, errno_from(errno));
                }
                Ok(())
            }
            Completion::Released { conn } => {
                if let Some(socket) = pump.connections.remove(conn) {
                    socket.released(self);
                }
                Ok(())
            }
            Completion::Accepted {
                conn,
                listener,
                peer,
                local,
            } => {
                let Some(listener) = pump.listeners.get(&listener).map(Arc::clone) else {
                    self.post_surely(Submission::GiveBack { conn });
                    return Ok(());
                };
                let socket = SocketCore::accepted(session, self, conn, local, peer);
                self.admit(pump, conn, Arc::clone(&socket))?;
                listener.handed(socket);
                Ok(())
            }
            Completion::Opened { token, conn, local } => {
                let Some(socket) = pump.connecting.remove(&token) else {
                    self.post_surely(Submission::Close { conn, abort: true });
                    return Ok(());
                };
                self.admit(pump, conn, Arc::clone(&socket))?;
                socket.opened(self, conn, local);
                Ok(())
            }
            Completion::OpenFailed { token, errno } => {
                if let Some(socket) = pump.connecting.remove(&token) {
                    socket.ended(self, errno_from(errno).or(Some(Errno::CONNREFUSED)));
                }
                Ok(())
            }
            // A listener that a program waits on has credit, so what waits is handed over anyway.
            Completion::Backlog { .. } => Ok(()),
        }
    }

    fn admit(
        &self,
        pump: &mut Pump,
        conn: ConnRef,
        socket: Arc<SocketCore>,
    ) -> Result<(), Violation> {
        match pump.connections.insert(conn, socket) {
            Ok(None) => Ok(()),
            Ok(Some(former)) => {
                former.ended(self, Some(Errno::CONNRESET));
                Ok(())
            }
            Err(conn) => Err(Violation::UndefinedValue {
                field: "connection index",
                value: conn.index.into(),
            }),
        }
    }

    /// The end: every connection fails, and nobody sleeps on.
    fn end(&self, pump: &mut Pump, session: &Arc<SessionCore>) {
        self.state.store(ENDED, Ordering::Relaxed);
        for socket in pump.connections.drain() {
            socket.ended(self, Some(Errno::CONNRESET));
        }
        for (_, socket) in pump.connecting.drain() {
            socket.ended(self, Some(Errno::CONNRESET));
        }
        for (_, listener) in pump.listeners.drain() {
            listener.lost_engine();
        }
        lock(&self.starved).clear();
        lock(&self.unannounced).clear();
        session.nudges.nudge_all();
    }

    /// Ends the attachment of a session that nobody uses any more.
    pub(crate) fn close(&self, session: &Arc<SessionCore>) {
        if self.is_parents() {
            return;
        }
        self.end(&mut lock(&self.pump), session);
    }

    // --- who is known to the pump

    /// Completions of `listener` go to this listener from now on.
    pub(crate) fn know_listener(&self, listener: u32, core: Arc<ListenerCore>) {
        lock(&self.pump).listeners.insert(listener, core);
    }

    /// The inverse of [`know_listener`](Self::know_listener).
    pub(crate) fn forget_listener(&self, listener: u32) {
        lock(&self.pump).listeners.remove(&listener);
    }

    /// The answer to a request to open a connection goes to this socket: the token to ask with.
    pub(crate) fn know_connecting(&self, socket: Arc<SocketCore>) -> u64 {
        let mut pump = lock(&self.pump);
        let token = pump.next_token;
        pump.next_token += 1;
        pump.connecting.insert(token, socket);
        token
    }

    /// Completions of `conn`, adopted from another process, go to this socket from now on.
    pub(crate) fn know_adopted(
        &self,
        conn: ConnRef,
        socket: Arc<SocketCore>,
    ) -> Result<(), Violation> {
        self.admit(&mut lock(&self.pump), conn, socket)
    }

    // --- sleeping

    /// A waker for a thread that blocks: a spare one, or one more from the engine. `None`: it gives
    /// no more.
    pub(crate) fn take_waker(&self) -> Option<Waker> {
        let spare = lock(&self.spare_wakers).pop();
        spare.or_else(|| match self.request(&Request::Waker, Fds::new()) {
            Ok((Reply::Waker { waker }, mut fds)) if waker < u64::BITS => {
                let bell = lift(fds.pop()?);
                Some(Waker {
                    index: waker,
                    bell: Private::new(Bell::from(bell)),
                })
            }
            _ => None,
        })
    }

    /// The inverse of [`take_waker`](Self::take_waker).
    pub(crate) fn return_waker(&self, waker: Waker) {
        lock(&self.spare_wakers).push(waker);
    }

    /// Before a thread goes to the trouble of sleeping. While the engine is awake it may be
    /// about to answer what was just submitted, on this core or on another, and to be woken costs
    /// more than to yield a few times.
    fn hesitate(&self) {
        for _ in 0..YIELDS {
            if self.engine.any_asleep() || self.has_news() {
                return;
            }
            rustix::thread::sched_yield();
        }
    }

    /// Whether the engine has said something that nobody has taken in.
    fn has_news(&self) -> bool {
        let pump = try_lock(&self.pump);
        pump.is_some_and(|mut pump| !matches!(pump.completions.is_empty(), Ok(true)))
    }

    /// The thread with this waker is about to sleep: tells the engine what it still has to know,
    /// asks to be woken, and looks once more. Whether the attachment still works.
    pub(crate) fn arm(self: &Arc<Self>, waker: Option<u32>, session: &Arc<SessionCore>) -> bool {
        self.announce_owed();
        self.hesitate();
        if let Some(index) = waker {
            self.armed.arm(index);
        }
        self.pump_surely(session)
    }

    /// The thread with this waker is awake.
    pub(crate) fn disarm(&self, waker: u32) {
        self.armed.disarm(waker);
    }

    /// Whether something waits for room that the engine makes without saying so: then nobody
    /// sleeps for long.
    pub(crate) fn wants_room(&self) -> bool {
        self.deferred.load(Ordering::Relaxed) || self.starving.load(Ordering::Relaxed)
    }
}

/// Connects to the engine that listens at `path`.
pub(crate) fn connect(path: &std::path::Path) -> Result<Control, Errno> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let socket: OwnedFd = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let socket = lift(socket);
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(Private::new(Channel::new(socket)))
}

/// Asks on a control connection and waits for the answer.
fn ask(control: &mut Control, request: &Request, fds: Fds) -> Result<(Reply, Fds), Errno> {
    match control.get_mut().request(request, fds, ANSWER_WITHIN) {
        Ok((Reply::Error { errno, .. }, _)) => Err(u16::try_from(errno)
            .ok()
            .and_then(errno_from)
            .unwrap_or(Errno::PROTO)),
        Ok(answer) => Ok(answer),
        Err(ChannelError::Closed) => Err(Errno::CONNRESET),
        Err(ChannelError::TimedOut(_)) => Err(Errno::TIMEDOUT),
        Err(ChannelError::Io(error)) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        Err(_) => Err(Errno::PROTO),
    }
}

/// The kernel's number for an error, if it is one.
fn errno_from(number: u16) -> Option<Errno> {
    (1..4096)
        .contains(&number)
        .then(|| Errno::from_raw_os_error(number.into()))
}
