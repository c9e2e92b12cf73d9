//! What the two halves of the engine say to each other: bounded queues of small messages.
//!
//! The slow half sends [`Order`]s, which the fast half takes between its turns, a few at a time. It
//! brings whatever they need: memory, descriptors, room for the answer; so the fast half only puts
//! things into its tables. What it has to say goes back as a [`Tale`]. An order is taken only while
//! there is room for its answer, so the fast half never waits; the slow half keeps what it cannot send
//! yet.

mod keys;
mod sockets;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use netdev::steering::Endpoint;
use queue_pair::control::{AdmissionCounts, EngineFacts, Farewell, Way};
use queue_pair::doorbell::Ringer;
use queue_pair::{ConnRef, Profile};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use tcp::ConnId;

use crate::capture::Capture;
use crate::config::{Changes, Config, Limits};
pub use crate::network::Shared;
pub use keys::{ClientKey, SessionKey, WorkerId};
pub use sockets::{FIRST_PAIR, Page, ROWS, Row, RowKind};

use crate::fast::memory::{OpenFile, Reclaim};
use crate::fast::session::{EndReason, Session, SessionCounters};
use crate::netfilter::Policy;
use crate::network::NicId;
use crate::poller::{Poller, Source};
use crate::slow::control::Proof;
use crate::stats::Counters;
use crate::trace::Course;

/// Orders that can be under way.
const ORDERS: usize = 1024;
/// Tales that are no answers: a session's end, and its memory. Ten times the largest number of sessions
/// leaves it to nobody's luck.
const ROOM_BESIDE_ANSWERS: usize = 40_960;
/// Parts of files that a worker has fetched at a time.
pub const FETCHES: usize = 256;
/// Sessions whose counts are told one by one.
pub const SESSIONS: usize = 512;
/// Listeners whose counts are told one by one.
pub const LISTENERS: usize = 256;

/// What the fast half is to do.
#[derive(Debug)]
pub enum Order {
    /// A control connection asks for something; the answer is [`Tale::Answer`].
    Ask {
        /// Who asks.
        client: ClientKey,
        /// The session that it is.
        session: Option<SessionKey>,
        /// For what.
        what: Ask,
    },
    /// A session's process is gone, or its control connection.
    End(SessionKey, EndReason),
    /// The child of a fork has closed something without having attached.
    ChildClosed {
        /// The fork.
        token: u64,
        /// What it closed.
        what: Farewell,
    },
    /// The child of a fork has ended without having attached.
    ChildEnded(u64),
    /// The last copy of a ticket is closed.
    TicketEnded(u64),
    /// The responder is gone.
    EndResponding,
    /// From now on it is said, or no longer, when a socket that was shown as proof listens no longer.
    FollowsProofs(bool),
    /// The rules of netfilter say this.
    Netfilter(Box<Policy>),
    /// The socket with this cookie listens no longer: what it proved does not hold any more.
    Unproven(u64),
    /// Of the sockets that were shown as proof these, and no others, are bound to an interface by now: what they
    /// listen for is not all that the engine would give them.
    Confined(BTreeSet<u64>),
    /// The kernel had no connections on this port when it was asked for the time of this number.
    OnlyOurs {
        /// The port.
        port: u16,
        /// That of [`Tale::Mixed`].
        question: u64,
        /// It has sent SYN cookies that may still be answered, there or elsewhere.
        cookies: bool,
    },
    /// The new connections of a listener are divided so from now on, or are the engine's.
    Place {
        /// Where it listens.
        local: SocketAddr,
        /// How.
        shared: Option<Shared>,
    },
    /// What was to be given back of a session's memory is, or cannot be.
    Reclaimed(Box<Reclaim>),
    /// What came of the [fetch](Tale::Fetch) with this number.
    Fetched(u64, Fetched),
}

/// What a control connection asks of the fast half.
#[derive(Debug)]
pub enum Ask {
    /// Take this session in.
    Attach {
        /// All of it but what comes through a fork.
        session: Box<Session>,
        /// The fork out of which its process came, if its parent is at this worker.
        fork_token: Option<u64>,
        /// What it has inherited from a parent at another one.
        inherits: Vec<Inherited>,
    },
    /// Take connections for a listening socket of the kernel's.
    Listen {
        /// Its address.
        local: SocketAddr,
        /// What it has proven.
        proof: Proof,
        /// Connections that may wait.
        backlog: u32,
    },
    /// The program has set options on a listening socket, which this shows.
    Chosen {
        /// Its name in the session.
        listener: u32,
        /// What it shows.
        proof: Proof,
    },
    /// Admit to this listener whom this says, or everybody.
    Admit {
        /// Its name in the session.
        listener: u32,
        /// Whom.
        admission: Option<Box<tcp::Admission>>,
    },
    /// What is counted of this listener.
    Admitted(u32),
    /// Open the next connection from this socket's port.
    Bound {
        /// What it is bound to.
        local: SocketAddr,
        /// To be kept for as long as the port is used, and then [returned](Tale::Returned), as where it is not kept.
        socket: OwnedFd,
        /// Whose it is.
        uid: u32,
    },
    /// Send from this file, too.
    File(Arc<OpenFile>),
    /// Whether a listener of the engine's is at this address of this machine.
    Local(SocketAddr),
    /// Accept from this listener no longer.
    Unlisten(u32),
    /// One more doorbell of the host's.
    Waker(Ringer),
    /// The process is about to fork; without a token only that is counted.
    Fork(Option<u64>),
    /// Accept from a listener that came through a fork, too.
    AdoptListener(u32),
    /// The process passes a connection to another program.
    Ticket {
        /// The connection.
        conn: ConnRef,
        /// Names the ticket.
        token: u64,
    },
    /// The process was passed this ticket.
    Claim(u64),
    /// It has not waited for its connection.
    Disclaim(ConnId),
    /// Tell every process what follows from what the one that asks has submitted.
    Settle,
    /// What the engine is.
    Engine,
    /// The way to a destination.
    Way {
        /// Where.
        remote: IpAddr,
        /// It is to be looked at again.
        doubted: bool,
    },
    /// The facts of a connection.
    Info {
        /// Which one.
        conn: ConnId,
        /// Room for them.
        room: Box<Facts>,
    },
    /// All counts.
    Stats(Box<Snapshot>),
    /// Some sockets.
    Sockets {
        /// Where the last answer ended.
        after: Option<u64>,
        /// Room for them.
        page: Box<Page>,
    },
    /// What a process has.
    Explain {
        /// Its number.
        pid: u32,
        /// Room for its listeners: [`ROWS`] of them.
        listeners: Vec<Listening>,
    },
    /// Copy the packets that pass.
    Capture(Box<Capture>),
    /// Follow these sends, or none any more.
    Trace(Option<Box<Course>>),
    /// Call a responder's program.
    Respond {
        /// The interface that is meant.
        interface: u32,
        /// It comes with the first such request.
        program: Option<OwnedFd>,
        /// For these.
        endpoints: Vec<Endpoint>,
    },
    /// Call a program of the user's on an interface, or none any more.
    Divert(Option<(NicId, OwnedFd)>),
    /// Work by this configuration, as far as that is possible without a new start.
    Reload(Box<Config>),
    /// Drain and end.
    Stop,
}

/// A listener that came through a fork, with what it takes to have it at another worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inherited {
    /// Its name in the parent's session.
    pub name: u32,
    /// Where it listens.
    pub local: SocketAddr,
    /// What the kernel's socket has proven that was shown for it.
    pub proof: Proof,
    /// Connections that may wait.
    pub backlog: u32,
}

/// A listener of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    /// Where it listens.
    pub local: SocketAddr,
    /// Connections that wait for anybody to accept them.
    pub waiting: u32,
    /// How many may.
    pub backlog: u32,
    /// How many more the process is willing to be offered: its credit.
    pub credit: u32,
    /// Its user has as many connections as one may have: new ones are the kernel's.
    pub enough: bool,
    /// Its socket is bound to an interface by now: new ones are the kernel's.
    pub confined: bool,
}

/// What the fast half has to say.
#[derive(Debug)]
pub enum Tale {
    /// What it answers to a control connection.
    Answer(ClientKey, Answer),
    /// A session has ended; its control connection is to be closed.
    Ended(ClientKey, SessionKey, EndReason),
    /// Nothing refers to an ended session's memory any more: it can be given back.
    Spent(Box<Session>),
    /// The rules of netfilter said this, and no longer do: to be freed.
    Outdated(Box<Policy>),
    /// A port is mixed: the fast half wants to hear when the kernel has no connections there. One that is
    /// not answered yet stands for each listener at most.
    Mixed {
        /// The port.
        port: u16,
        /// Larger for what is asked later.
        question: u64,
    },
    /// Memory of a session is to be given back to the machine: one is under way for each at most.
    Reclaim(Box<Reclaim>),
    /// A listener is gone. There is one for each that an answer has told of.
    Unlistened(SocketAddr),
    /// Nothing more is sent from this file, or nothing at all: it is to be closed. There is one for each that is open.
    Forgotten(Arc<OpenFile>),
    /// Descriptors of a user that are used no more, which its programs have sent but for those of ports that they have
    /// named: to be closed. There is one for each port that was lent or named, or was to be lent.
    Returned(u32, Vec<OwnedFd>),
    /// A capture has ended, or was not begun: to be closed. There is one for each that was asked for.
    Captured(Box<Capture>),
    /// Part of a file is to be brought into memory. There are [`FETCHES`] at most.
    Fetch(Box<Fetch>),
    /// The fast half has ended, and does not carry out what is here, or still comes. It is the last that it tells.
    Undone(Receiver<Order>),
}

/// Part of a file that is to be brought into memory.
#[derive(Debug)]
pub struct Fetch {
    /// Names it.
    pub number: u64,
    /// Whose file it is.
    pub uid: u32,
    /// The file.
    pub file: Arc<OpenFile>,
    /// The part.
    pub part: Range<u64>,
    /// Nobody waits for it: it is enough that the disk begins to read it.
    pub is_ahead: bool,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetched {
    /// It is there.
    There,
    /// The file does not have it, or it cannot be read.
    Gone,
    /// It was not tried: another fetch for this user takes too long.
    NotNow,
}

/// What a worker answers, or why it does not do what was asked.
pub type Answer = Result<Told, Refused>;

/// What the fast half answers.
#[derive(Debug)]
pub enum Told {
    /// The session is there, and these listeners that were not: each ends by [`Tale::Unlistened`].
    Attached(SessionKey, Vec<SocketAddr>),
    /// The fork is known. If the child inherits nothing but listeners, and so can belong to any worker,
    /// these.
    Forked(Option<Vec<Inherited>>),
    /// The listener's name in the session.
    Listening(u32),
    /// Another policy holds than this, which is to be freed.
    Admits(Option<Box<tcp::Admission>>),
    /// What is counted of a listener.
    Admitted(AdmissionCounts),
    /// The name of a file in the session.
    File(u16),
    /// The bit of a doorbell.
    Waker(u32),
    /// The ticket is valid.
    Ticket {
        /// The number of the connection's grant.
        grant: u16,
    },
    /// The connection is the process's, too.
    Claimed(Claimed),
    /// What the engine is, but for its name.
    Engine(Box<EngineFacts>),
    /// The way to a destination.
    Way(Way),
    /// The facts of a connection, and its age.
    Info(Box<Facts>),
    /// All counts.
    Stats(Box<Snapshot>),
    /// Some sockets.
    Sockets(Box<Page>),
    /// What a process has.
    Explained {
        /// Its listeners.
        listeners: Vec<Listening>,
        /// How many connections with other machines, and within this one.
        connections: [usize; 2],
    },
    /// What was kept of the sends that were followed.
    Traced(Option<Box<Course>>),
    /// What has changed, and the limits that hold now.
    Reloaded(Box<(Changes, Limits)>),
    /// As asked.
    Done,
}

/// A connection that came by a ticket.
#[derive(Debug, Clone, Copy)]
pub struct Claimed {
    /// Its name.
    pub conn: ConnId,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// The process has it by this alone.
    pub is_new: bool,
}

/// The facts of a connection, and how long it is known.
pub type Facts = Option<(tcp::ConnInfo, core::time::Duration)>;

/// Why the fast half does not do what was asked.
#[derive(Debug)]
pub enum Refused {
    /// For this reason.
    Errno(Errno),
    /// The engine is about to end.
    Stopping,
    /// The session has broken the rules before it asked.
    Breach(EndReason),
    /// What the steering said.
    Steering(std::io::Error),
    /// There are as many captures as there may be.
    TooManyCaptures,
    /// Sends are followed for somebody already. The room that was brought is to be freed.
    TracedAlready(Box<Course>),
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// Number, process, counts and core, if it has named one, of a session.
pub type OfSession = (u32, u32, SessionCounters, Option<usize>, Option<Profile>);

/// All counts of a worker at one time.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The worker's.
    pub worker: Counters,
    /// The TCP's.
    pub tcp: tcp::Counters,
    /// The devices'.
    pub device: netdev::Counters,
    /// Those of each receive queue of each interface.
    pub queues: Vec<((NicId, u32), netdev::Counters)>,
    /// The steering's, by what became of a frame and why.
    pub steering: Vec<(&'static str, u64)>,
    /// Connections, orphans included.
    pub connections: u64,
    /// Handshakes under way.
    pub half_open: u64,
    /// Pairs in TIME-WAIT.
    pub time_wait: u64,
    /// Bytes of the largest packet that is sent.
    pub mtu: u64,
    /// The core that the worker runs on.
    pub core: u64,
    /// The profile by which it waits now.
    pub serving: Profile,
    /// Listeners.
    pub listeners: u64,
    /// Sessions that have not ended.
    pub attached: u64,
    /// Destinations remembered.
    pub paths: u64,
    /// Frames that wait for a neighbour.
    pub held_frames: u64,
    /// Bytes that sessions hold to receive into.
    pub receive_memory: u64,
    /// Bytes that they hold to send from, as far as that was looked at.
    pub send_memory: u64,
    /// Some sessions.
    pub sessions: Vec<OfSession>,
    /// Address, backlog and counts of some listeners.
    pub listening: Vec<(SocketAddr, u32, tcp::ListenerCounts)>,
}

impl Snapshot {
    /// With room for [`SESSIONS`] and [`LISTENERS`].
    pub fn with_room() -> Box<Self> {
        Box::new(Self {
            sessions: Vec::with_capacity(SESSIONS),
            listening: Vec::with_capacity(LISTENERS),
            ..Self::default()
        })
    }
}

/// An end of the wire by which one half wakes the other. It belongs to this process alone, so that
/// nobody can make its writer wait.
#[derive(Debug, Clone)]
struct Wire(Arc<OwnedFd>);

impl Wire {
    fn new() -> rustix::io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(Arc::new(eventfd(0, flags)?)))
    }

    fn ring(&self) {
        // Full is rung.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0u8; 8]);
    }
}

/// The slow half's end.
#[derive(Debug)]
pub struct ToFast {
    orders: SyncSender<Order>,
    tales: Receiver<Tale>,
    unheard: Arc<AtomicUsize>,
    wakes_fast: Wire,
    wakes_slow: Wire,
}

/// The fast half's end, and what it polls.
pub struct ToSlow {
    /// Everything that wakes the fast half but its device.
    pub poller: Poller,
    orders: Receiver<Order>,
    tales: SyncSender<Tale>,
    wakes_fast: Wire,
    wakes_slow: Wire,
    /// Tales that were not heard yet.
    unheard: Arc<AtomicUsize>,
    /// With more of them no order is taken.
    answers: usize,
}

/// Both ends, with room for all tales that there can be within `limits`.
pub fn pair(limits: &Limits) -> rustix::io::Result<(ToFast, ToSlow)> {
    let (sends_orders, orders) = sync_channel(ORDERS);
    let listeners = limits.listeners as usize;
    let files = limits.files as usize + FETCHES;
    let lent = limits.leased_ports as usize;
    let held = listeners + files + lent;
    let room = 2 * limits.control_connections as usize + held + ROOM_BESIDE_ANSWERS;
    let (sends_tales, tales) = sync_channel(room);
    let (wakes_fast, wakes_slow) = (Wire::new()?, Wire::new()?);
    let poller = Poller::new()?;
    poller.add(wakes_fast.0.as_fd(), Source::Orders)?;
    let unheard = Arc::new(AtomicUsize::new(0));
    let to_fast = ToFast {
        orders: sends_orders,
        tales,
        unheard: Arc::clone(&unheard),
        wakes_fast: wakes_fast.clone(),
        wakes_slow: wakes_slow.clone(),
    };
    let to_slow = ToSlow {
        poller,
        orders,
        tales: sends_tales,
        wakes_fast,
        wakes_slow,
        unheard,
        answers: limits.control_connections as usize,
    };
    Ok((to_fast, to_slow))
}

impl ToFast {
    /// Sends an order.
    ///
    /// # Errors
    /// There is no room, or nobody to carry it out: it comes back.
    pub fn send(&self, order: Order) -> Result<(), Unsent> {
        match self.orders.try_send(order) {
            Ok(()) => {
                self.wakes_fast.ring();
                Ok(())
            }
            Err(TrySendError::Full(order)) => Err(Unsent::NoRoom(order)),
            Err(TrySendError::Disconnected(order)) => Err(Unsent::Ended(order)),
        }
    }

    /// The next tale; `Err` if the fast half has ended.
    pub fn hear(&self) -> Result<Option<Tale>, Ended> {
        let heard = self.tales.try_recv().or_else(|_| {
            // What comes after this wakes again.
            self.wakes_slow.clear();
            self.tales.try_recv()
        });
        match heard {
            Ok(tale) => {
                self.unheard.fetch_sub(1, Ordering::Relaxed);
                Ok(Some(tale))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Ended),
        }
    }

    /// Readable when there is a tale.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakes_slow.0.as_fd()
    }
}

/// An order that was not sent.
#[derive(Debug)]
pub enum Unsent {
    /// There is no room for it now.
    NoRoom(Order),
    /// The fast half has ended.
    Ended(Order),
}

/// The other half has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended;

impl ToSlow {
    /// The next order, if there is one, and room for its answer.
    pub fn order(&mut self) -> Option<Order> {
        if self.unheard.load(Ordering::Relaxed) >= self.answers {
            return None;
        }
        self.orders.try_recv().ok().or_else(|| {
            // What comes after this wakes again.
            self.wakes_fast.clear();
            self.orders.try_recv().ok()
        })
    }

    /// Tells the slow half something. Never waits.
    pub fn tell(&mut self, tale: Tale) {
        // There is room, unless the slow half has ended: then nobody needs to know.
        self.unheard.fetch_add(1, Ordering::Relaxed);
        let told = self.tales.try_send(tale);
        debug_assert!(!matches!(told, Err(TrySendError::Full(_))), "room for all");
        self.wakes_slow.ring();
    }
}

impl Drop for ToSlow {
    fn drop(&mut self) {
        let (_, nothing) = sync_channel(0);
        let orders = core::mem::replace(&mut self.orders, nothing);
        self.tell(Tale::Undone(orders));
        // The slow half hears that nobody is here any more, once this is gone.
        let (nobody, _) = sync_channel(0);
        self.tales = nobody;
        self.wakes_slow.ring();
    }
}
