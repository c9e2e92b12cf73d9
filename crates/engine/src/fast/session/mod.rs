//! Sessions: the processes that are attached, each with its region.

mod completions;
mod patience;
mod rings;
mod table;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use queue_pair::doorbell::{Bell, Ringer};
use queue_pair::{Completion, EngineSide, Submission, Violation};
use tables::Queue;
use tcp::{ConnId, Instant};

use crate::exchange::ClientKey;
use crate::fast::memory::Files;

use patience::{NOTICES, Patience};
use rings::Posted;

pub use completions::{Ends, conn_ref};
pub use table::Sessions;

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
    /// It sent descriptors where nobody takes any.
    #[error("it has sent descriptors with a ring of its doorbell")]
    Rights,
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

/// What counts as the past of a session's submissions: what was there when that was noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// It comes before the last words of another one.
    OfLastWords,
    /// Others wait for it.
    Awaited,
    /// It waits for what is awaited.
    Waiting,
}

impl Past {
    const KINDS: usize = 3;
}

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
    /// Of those, what it was offered and has not accepted, each with the grant of its offer; what it has accepted
    /// since, or given back, may still be here.
    pub offered: Queue<(ConnId, u16)>,
    /// How many of them it has with others.
    pub shared: u32,
    /// Forks of the process that the engine was told of.
    pub forks: u32,
    /// A submission that was taken out of the ring and has to wait for its time.
    pub peeked: Option<Submission>,
    /// How far its ring was published when the [past was noted](Self::note_past), of each.
    pasts: [u32; Past::KINDS],
    /// What is kept for it though it is [not heard](Self::is_heard).
    pub patience: Patience,
    /// It has broken the rules, and ends with this turn.
    pub broken: bool,
    /// Listeners that came through a fork and were not adopted: their names in the session from which
    /// they came, and the listeners.
    pub inherited_listeners: Vec<(u32, u32)>,
    /// What was posted of connections since the last ring.
    pub told: Vec<Posted>,
    /// Something was posted that the host waits for, and may answer.
    pub asked: bool,
    /// The bells to ring for what else was posted since the last ring that the host waits for: one bit each.
    pub urgent: u64,
    /// The bells to ring for what was posted since the last ring and can wait a little: see
    /// [`ring_later`](Self::ring_later).
    pub unhurried: u64,
    /// When something was last submitted, or posted.
    pub active_at: Instant,
    /// It is looked at in every turn: see [`Sessions`].
    awake: bool,
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
        let patience = Patience::with(region.submissions.capacity());
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
            offered: Queue::new(),
            shared: 0,
            forks: 0,
            peeked: None,
            pasts: [0; Past::KINDS],
            patience,
            broken: false,
            inherited_listeners: Vec::new(),
            told: Vec::new(),
            asked: false,
            urgent: 0,
            unhurried: 0,
            active_at: Instant::ZERO,
            awake: true,
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

    /// What it has submitted by now is its past.
    ///
    /// # Errors
    /// It breaks the rules.
    pub fn note_past(&mut self, past: Past) -> Result<(), Violation> {
        self.pasts[past as usize] = self.region.submissions.end()?;
        Ok(())
    }

    /// The same of no more than so many of them.
    ///
    /// # Errors
    /// It breaks the rules.
    pub fn note_past_within(&mut self, past: Past, most: u32) -> Result<(), Violation> {
        self.pasts[past as usize] = self.region.submissions.end_within(most)?;
        Ok(())
    }

    /// As [`peek`](Self::peek), if the next submission is one of that [past](Self::note_past).
    pub fn peek_at_past(&mut self, past: Past) -> Result<Option<Submission>, Violation> {
        let is_of_it = match self.peeked {
            Some(_) => self.was_in(past),
            None => self.has_more_in(past),
        };
        match is_of_it {
            true => self.peek(),
            false => Ok(None),
        }
    }

    /// Whether what was last taken out of its ring is one of that past.
    pub fn was_in(&self, past: Past) -> bool {
        let end = self.pasts[past as usize];
        self.region.submissions.was_before(end)
    }

    /// Whether the next in its ring is one of that past.
    pub fn has_more_in(&self, past: Past) -> bool {
        let end = self.pasts[past as usize];
        self.region.submissions.is_before(end)
    }

    /// How many submissions can wait to be taken: a ring full, and the one that was taken out of it before.
    pub fn most_submitted(&self) -> usize {
        self.region.submissions.capacity() as usize + 1
    }

    /// Whether submissions are taken of it: a host that does not read its notices is not asked for more
    /// of them.
    pub fn is_heard(&self) -> bool {
        self.notices.len() < NOTICES
    }

    /// Whether what it has submitted comes before what others did later. So it does if it is not
    /// [heard](Self::is_heard), too: its calls have returned, and what others do by that may not overtake them. But
    /// a host that asks and asks and never reads makes notices without end, so there is a most: an honest one never
    /// has as many.
    ///
    /// # Errors
    /// It breaks the rules.
    pub fn is_asked_first(&mut self) -> Result<bool, Violation> {
        if !self.is_heard() {
            // It may have read meanwhile.
            self.post_notices()?;
            self.publish();
        }
        Ok(self.may_be_asked_first())
    }

    /// The same, as far as is known without a look at what it has read.
    pub fn may_be_asked_first(&self) -> bool {
        let (ready, has) = (self.ready.len(), self.connections.len());
        self.is_heard() || self.patience.is_left(ready, has)
    }

    /// It is not asked first: true if something waits in its ring that others may overtake by that, and none did
    /// since it last read.
    ///
    /// # Errors
    /// It breaks the rules.
    pub fn is_passed_over(&mut self) -> Result<bool, Violation> {
        Ok(!self.has_no_submissions()? && self.patience.ends())
    }

    /// It is told what comes of something that it has submitted, at once or much later: that is counted, or it
    /// could have more kept by submissions that are answered later. What others have it be told is not.
    pub fn tell_its_own(&mut self, notice: Completion) {
        self.notices.push_back(notice);
        self.counts_as_its_own();
    }

    /// So does the last notice.
    pub fn counts_as_its_own(&mut self) {
        self.patience.adds_one(self.notices.len());
    }

    /// Nobody reads what it is to be told.
    pub fn forget_notices(&mut self) {
        let all = self.notices.len();
        self.notices.clear();
        self.has_fewer_notices(all);
    }

    /// So many notices were read, and their memory is not kept.
    fn has_fewer_notices(&mut self, read: usize) {
        if self.notices.is_empty() && self.notices.capacity() > 2 * NOTICES {
            self.notices.shrink_to(NOTICES);
        }
        self.patience.reads(read, self.notices.len());
    }

    /// It is looked at in every turn from now on: nobody need ring.
    fn wakes(&mut self) {
        self.awake = true;
        self.region.armed.disarm(0);
    }

    /// Whether there is nothing to do for it, and its process rings if there is: it is armed for that.
    pub fn may_rest(&mut self) -> Result<bool, Violation> {
        if self.ended.is_some() {
            // Nothing of it is taken any more.
            return Ok(true);
        }
        let told = self.ready.is_empty() && self.notices.is_empty() && self.told.is_empty();
        if !told || self.urgent | self.unhurried != 0 || self.asked || self.broken {
            return Ok(false);
        }
        self.region.armed.arm(0);
        let rests = self.has_no_submissions()?;
        if !rests {
            self.region.armed.disarm(0);
        }
        Ok(rests)
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
