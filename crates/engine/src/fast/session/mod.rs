//! Sessions: the processes that are attached, each with its region.

mod completions;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use queue_pair::doorbell::{Bell, Ringer};
use queue_pair::parked::News;
use queue_pair::{Completion, EngineSide, Submission, Violation};
use tables::Queue;
use tcp::ConnId;

use crate::exchange::ClientKey;
use crate::fast::connections::SessionId;
use crate::fast::memory::Files;

pub use completions::{Ends, conn_ref};

/// The most wakers of a session: one bit each in its armed word.
pub const MAX_WAKERS: usize = 64;

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndReason {
    /// Its process has ended, or closed its control connection.
    #[error("the process has gone")]
    Gone,
    /// It broke the protocol of the shared memory.
    #[error("{0}")]
    Violation(#[from] Violation),
    /// It named a connection that is not its own.
    #[error("connection {index}.{generation} is not its own")]
    ForeignConnection {
        /// The slot that it named.
        index: u32,
        /// The generation that it named.
        generation: u32,
    },
    /// It claims to have consumed what it was not given, or takes back what it consumed.
    #[error("{consumed} bytes consumed of {announced} announced, after {before}")]
    Consumed {
        /// What it claims.
        consumed: u64,
        /// What it was given.
        announced: u64,
        /// What it claimed before.
        before: u64,
    },
    /// It named a listener that it does not have.
    #[error("listener {0} is not its own")]
    ForeignListener(u32),
    /// It named a file that it does not have.
    #[error("file {0} is not one that it has shown")]
    ForeignFile(u16),
    /// It named bytes that no file has.
    #[error("{len} bytes at {offset:#x} are beyond the end of any file")]
    BeyondFiles {
        /// The first of them.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// The kernel had no page to give where its memory was touched.
    #[error("a page of its memory is missing, and the kernel has none to give")]
    MemoryLost,
    /// The engine is being stopped.
    #[error("the engine is being stopped")]
    Stopping,
}

impl EndReason {
    /// Whether the process broke the rules, so that nothing of what it left may be sent.
    pub fn is_breach(&self) -> bool {
        !matches!(self, Self::Gone | Self::Stopping)
    }
}

/// Notices that wait for room in the ring before a session is not heard any more.
const NOTICES: usize = 256;

/// Who is attached.
#[derive(Debug, Clone)]
pub struct Process {
    /// Its number in the engine's PID namespace.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// What it calls itself.
    pub program: Arc<str>,
}

/// An attached process, or what is left of one until its connections have ended.
#[derive(Debug)]
pub struct Session {
    /// For people; never reused.
    pub number: u32,
    /// Its control connection.
    pub client: ClientKey,
    /// Who it is.
    pub process: Process,
    /// The engine's side of the shared memory.
    pub region: EngineSide,
    /// The engine's doorbell.
    pub bell: Bell,
    /// The host's doorbells, by bit of its armed word.
    pub wakers: Vec<Ringer>,
    /// Connections with something to tell.
    pub ready: Queue<ConnId>,
    /// Completions that belong to no connection any more, or not yet.
    pub notices: VecDeque<Completion>,
    /// The last connections that were not to be had, as it was told.
    pub failed_opens: VecDeque<Completion>,
    /// Connections whose memory lies in the region: it stays until there are none.
    pub held: u32,
    /// Pieces of its send memory that are under way.
    pub extents: u64,
    /// The files that it had, once it has ended: to be closed with it.
    pub files: Files,
    /// Connections that it has, alone or with others, and has not closed: in a tree, which grows by
    /// nodes and not by copying all.
    pub connections: BTreeSet<ConnId>,
    /// How many of them it has with others.
    pub shared: u32,
    /// Forks of the process that the engine was told of.
    pub forks: u32,
    /// A submission that was taken out of the ring and has to wait for its time.
    pub peeked: Option<Submission>,
    /// It has broken the rules, and ends with this turn.
    pub broken: bool,
    /// Listeners that came through a fork and were not adopted: their names in the session from which
    /// they came, and the listeners.
    pub inherited_listeners: Vec<(u32, u32)>,
    /// The places of connections of which something was posted since the last ring, and what.
    pub told: Vec<(u32, News)>,
    /// Something was posted that the host waits for, and may answer.
    pub asked: bool,
    /// The bells to ring for what else was posted since the last ring that the host waits for: one bit each.
    pub urgent: u64,
    /// The bells to ring for what was posted since the last ring and can wait a little: see
    /// [`ring_later`](Self::ring_later).
    pub unhurried: u64,
    /// Why it ended, if it did; it is only being drained then.
    pub ended: Option<EndReason>,
    /// Submissions taken and completions posted.
    pub counters: SessionCounters,
}

impl Session {
    /// That of a process which has just attached.
    pub fn new(
        number: u32,
        client: ClientKey,
        process: Process,
        region: EngineSide,
        bell: Bell,
        waker: Ringer,
    ) -> Self {
        let mut wakers = Vec::with_capacity(MAX_WAKERS);
        wakers.push(waker);
        Self {
            number,
            client,
            process,
            region,
            bell,
            wakers,
            ready: Queue::new(),
            notices: VecDeque::new(),
            failed_opens: VecDeque::new(),
            held: 0,
            extents: 0,
            files: Files::default(),
            connections: BTreeSet::new(),
            shared: 0,
            forks: 0,
            peeked: None,
            broken: false,
            inherited_listeners: Vec::new(),
            told: Vec::new(),
            asked: false,
            urgent: 0,
            unhurried: 0,
            ended: None,
            counters: SessionCounters::default(),
        }
    }

    /// The next submission.
    pub fn next_submission(&mut self) -> Result<Option<Submission>, Violation> {
        match self.peeked.take() {
            None => self.region.take_submission(),
            peeked => Ok(peeked),
        }
    }

    /// The next submission, which stays the next.
    pub fn peek(&mut self) -> Result<Option<Submission>, Violation> {
        if self.peeked.is_none() {
            self.peeked = self.region.take_submission()?;
        }
        Ok(self.peeked)
    }

    /// Whether submissions are taken of it: a host that does not read its notices is not asked for more
    /// of them.
    pub fn is_heard(&self) -> bool {
        self.notices.len() < NOTICES
    }

    /// Whether nothing has been submitted that was not taken.
    pub fn has_no_submissions(&mut self) -> Result<bool, Violation> {
        Ok(self.peeked.is_none() && self.region.submissions.is_empty()?)
    }
}

/// What is counted of each session.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionCounters {
    /// Submissions taken.
    pub submissions: u64,
    /// Completions posted.
    pub completions: u64,
    /// Doorbells rung.
    pub doorbells: u64,
    /// Requests that the TCP refused.
    pub refused: u64,
}

/// All sessions, by slot.
#[derive(Debug)]
pub struct Sessions {
    slots: Vec<Option<Box<Session>>>,
    live: usize,
}

impl Sessions {
    /// None yet, and room for `limit`.
    pub fn with_room(limit: usize) -> Self {
        Self {
            slots: Vec::with_capacity(limit),
            live: 0,
        }
    }

    /// The slot that [`insert`](Self::insert) will use, if there are fewer than `limit`.
    pub fn vacancy(&self, limit: usize) -> Option<SessionId> {
        let slot = self.slots.iter().position(Option::is_none);
        let slot = slot.unwrap_or(self.slots.len());
        (self.live < limit).then_some(SessionId(u16::try_from(slot).ok()?))
    }

    /// Puts a session in a vacant slot.
    pub fn insert(&mut self, id: SessionId, session: Box<Session>) {
        while self.slots.len() <= id.index() {
            self.slots.push(None);
        }
        debug_assert!(self.slots[id.index()].is_none(), "a vacant slot");
        self.slots[id.index()] = Some(session);
        self.live += 1;
    }

    /// Takes a session out.
    pub fn remove(&mut self, id: SessionId) -> Option<Box<Session>> {
        let session = self.slots.get_mut(id.index())?.take()?;
        self.live -= 1;
        Some(session)
    }

    /// The session in a slot.
    #[inline]
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.slots.get_mut(id.index())?.as_deref_mut()
    }

    /// The session in a slot.
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.slots.get(id.index())?.as_deref()
    }

    /// How many slots there are, taken or not.
    pub fn slots(&self) -> u16 {
        // Never more than `u16::MAX`, since `vacancy` gives no slot beyond.
        self.slots.len() as u16
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// All sessions, the drained ones too.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(slot, session)| Some((SessionId(slot as u16), session.as_deref()?)))
    }
}
