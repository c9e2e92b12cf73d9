//! The desk: where programs attach and people ask. It reads what control connections want, checks it,
//! makes what it takes (memory, descriptors, room for the answer) and gives the fast half an
//! [`Order`]; what that has to say it puts into words.
//!
//! A connection has one request under way at most; its next one is read when that is answered. So
//! nobody fills the queue for the others.

mod answers;
mod asking;
mod attach;
mod closing;
mod cookies;
mod crew;
#[cfg(test)]
mod crew_tests;
mod doorbells;
mod facts;
mod files;
mod ipsec;
mod last_words;
mod lifelines;
mod metrics;
mod netfilter;
mod older_tables;
mod placing;
mod ports;
mod rates;
mod readers;
mod reclaims;
mod reload;
mod requests;
mod shown;
mod sockets;
mod sums;
mod traces;
mod traffic;
mod versions;
mod vlans;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use queue_pair::Versions;
use queue_pair::control::{ChannelError, Reply};
use rustix::time::Timespec;

use crate::config::{Config, Interfaces, Limits, Reload};
use crate::exchange::{ClientKey, Ended, Order, Tale, ToFast, WorkerId};
use crate::fast::memory::OpenFile;
use crate::fast::session::{EndReason, Session};
use crate::poller::Source;
use crate::slow::control::{Accepted, Control};
use crate::slow::errands::Errands;
use crate::slow::kernel::opener::Opener;
use crate::slow::kernel::privileges::Rights;
use crate::stats::{Counters, Drop};

use self::closing::Closing;
use self::crew::{Crew, Heard};
use self::files::{FetchOf, Places};
use self::last_words::LastWords;
use self::metrics::Rests;
use self::netfilter::Netfilter;
use self::placing::Placing;
use self::rates::{Rates, cost};
use self::readers::Readers;
use self::reclaims::ReclaimOf;
use self::sockets::Followed;
use self::traffic::Traffic;
use self::versions::Strangers;
use self::vlans::Vlans;

pub use self::placing::ReadLoads;
pub use self::sockets::KernelSockets;

/// Connections that are accepted in one go.
const ACCEPT_BUDGET: usize = 64;
/// When what could not be sent to the fast half is tried again.
const AGAIN: Duration = Duration::from_millis(1);
/// When what the kernel refused is tried again.
const RESUME: Duration = Duration::from_secs(1);

/// What the desk knows of the engine.
#[derive(Debug, Clone)]
pub struct Facts {
    /// What programs call it.
    pub name: String,
    /// The names of the interfaces that it works on.
    pub interface: Interfaces,
    /// The indices of those, in the same order.
    pub indices: Vec<u32>,
    /// The cookie of the network namespace that it is in.
    pub namespace: u64,
    /// It is the wire between programs on this machine.
    pub local: bool,
    /// What one can have of it.
    pub limits: Limits,
    /// The versions of the protocol that it speaks.
    pub versions: Versions,
}

impl Facts {
    /// Of an engine with this configuration, on the interfaces with these indices, in the network namespace
    /// with this cookie.
    pub fn new(config: &Config, indices: impl IntoIterator<Item = u32>, namespace: u64) -> Self {
        Self {
            name: config.name.clone(),
            interface: config.interface.clone(),
            indices: indices.into_iter().collect(),
            namespace,
            local: config.local,
            limits: config.limits.clone(),
            versions: Versions::SPOKEN,
        }
    }

    /// The index of the first interface, and those of the others as far as a program is told of them: one that speaks
    /// an earlier version knows of one, and leaves what goes by others to the kernel.
    fn told_of(&self, version: u32) -> (u32, Vec<u32>) {
        let (first, others) = self.indices.split_first().unwrap_or((&0, &[]));
        match version {
            Reply::SEVERAL_INTERFACES_SINCE.. => (*first, others.to_vec()),
            _ => (*first, Vec::new()),
        }
    }
}

/// The desk.
pub struct Desk {
    facts: Facts,
    control: Control,
    crew: Crew,
    /// Sessions whose memory has not come back, of each user.
    sessions: HashMap<u32, usize>,
    /// The number of the last session.
    numbers: u32,
    /// Makes fork tokens that nobody can guess.
    tokens: RandomState,
    forked: u64,
    counters: Counters,
    /// How much each user has asked for.
    rates: Rates,
    /// Programs of other versions.
    strangers: Strangers,
    /// What is said of programs that are not here.
    last_words: LastWords,
    /// Counters that were not asked for yet.
    rests: Rests,
    /// What the kernel is asked about its sockets.
    followed: Followed,
    /// Which listeners' new connections go to the kernel.
    placing: Placing,
    /// The program of the user's that is called: its name and its number in the kernel.
    diverter: Option<(String, u32)>,
    /// Reads the configuration again.
    reread: Option<Reload>,
    /// What the rules of netfilter say.
    netfilter: Netfilter,
    /// Whether frames of VLANs look like those of none.
    traffic: Traffic,
    vlans: Vlans,
    /// What the engine may do, if that is known.
    rights: Option<Rights>,
    /// Who does what takes more.
    opener: Opener,
    /// Memory that goes back to the machine.
    reclaims: Errands<ReclaimOf>,
    /// Where files count that are sent from.
    places: Places,
    /// Who was to read them.
    readers: Readers,
    /// What of them is brought into memory.
    fetches: Errands<FetchOf>,
    /// The files of which something is being fetched.
    fetched: HashMap<(WorkerId, u64), Arc<OpenFile>>,
    /// Descriptors of programs.
    closing: Closing,
    /// Answers that wait until what was shown is closed.
    shown: Vec<shown::Waiting>,
}

impl Desk {
    /// With what `control` brings, in front of the fast half behind `fast`.
    ///
    /// # Errors
    /// It cannot be polled.
    pub fn new(facts: Facts, control: Control, fast: ToFast) -> rustix::io::Result<Self> {
        Self::of_workers(facts, control, vec![fast])
    }

    /// The same in front of several workers, 64 at most, from the first on.
    ///
    /// # Errors
    /// It cannot be polled.
    pub fn of_workers(
        facts: Facts,
        control: Control,
        workers: Vec<ToFast>,
    ) -> rustix::io::Result<Self> {
        let crew = Crew::of(workers, &control.poller)?;
        let reclaims = Errands::new()?;
        control.poller.add(reclaims.as_fd(), Source::Reclaimed)?;
        let fetches = Errands::new()?;
        control.poller.add(fetches.as_fd(), Source::Fetched)?;
        let closing = Closing::new()?;
        control.poller.add(closing.wire(), Source::Closed)?;
        Ok(Self {
            rates: Rates::new(facts.limits.requests_per_second),
            facts,
            control,
            crew,
            sessions: HashMap::new(),
            numbers: 0,
            tokens: RandomState::new(),
            forked: 0,
            counters: Counters::default(),
            strangers: Strangers::default(),
            last_words: LastWords::default(),
            rests: Rests::default(),
            followed: Followed::default(),
            placing: Placing::default(),
            diverter: None,
            reread: None,
            netfilter: Netfilter::default(),
            traffic: Traffic::default(),
            vlans: Vlans::default(),
            rights: None,
            opener: Opener::default(),
            reclaims,
            places: Places::default(),
            readers: Readers::default(),
            fetches,
            fetched: HashMap::new(),
            closing,
            shown: Vec::new(),
        })
    }

    /// Of an engine that has these rights.
    #[must_use]
    pub fn with(mut self, rights: Rights) -> Self {
        self.rights = Some(rights);
        self
    }

    /// Asks this one for what takes privileges, and tells if it goes.
    #[must_use]
    pub fn opening_by(mut self, opener: Opener) -> Self {
        if let Some(process) = opener.process()
            && let Err(error) = self.control.poller.add(process, Source::Opener)
        {
            tracing::warn!(%error, "nobody tells at once if the opener goes");
        }
        self.opener = opener;
        self
    }

    /// Whether the rules could not be read, and can be asked for again.
    fn rules_may_be_told(&self) -> bool {
        self.netfilter.is_silent() && self.opener.is_there()
    }

    fn opener_ended(&mut self) {
        if let Some(process) = self.opener.process() {
            self.control.poller.remove(process);
        }
        self.opener.ended();
    }

    /// Works until all workers have ended.
    pub fn run(mut self) {
        let mut resumed = Instant::now();
        loop {
            let limit = match () {
                () if self.crew.has_backlog() => Some(AGAIN),
                () if self.control.is_paused() || self.rules_may_be_told() => Some(RESUME),
                () => None,
            };
            let due = self.rates.wakes_at().into_iter();
            let due = due
                .chain(self.followed.due())
                .chain(self.netfilter.older.due())
                .chain(self.placing.due())
                .chain(self.reclaims.due())
                .chain(self.fetches.due())
                .chain(self.closing.due())
                .chain(self.shown_due())
                .min();
            let due = due.map(|due| due.saturating_duration_since(Instant::now()).max(AGAIN));
            let limit = limit.into_iter().chain(due).min();
            let limit = limit.map(|limit| Timespec::try_from(limit).unwrap_or_default());
            let ready = self.control.poller.wait(limit.as_ref());
            if self.see_to(&ready).is_err() {
                self.leave();
                return;
            }
            self.see_to_reclaims(Instant::now());
            self.see_to_fetches(Instant::now());
            self.see_to_closing(Instant::now());
            self.look_at_sockets(Instant::now());
            self.look_for_older_tables(Instant::now());
            self.place_listeners(Instant::now());
            if resumed.elapsed() >= RESUME {
                resumed = Instant::now();
                self.rates.forget_the_quiet(resumed);
                self.control.resume();
                if self.rules_may_be_told() && !self.netfilter.rests(resumed) {
                    self.netfilter_changed();
                }
            }
        }
    }

    /// All workers have ended. Nobody waits until all is closed that programs have sent, and not read.
    fn leave(mut self) {
        self.vlans.give_back(&self.opener);
        self.see_to_undone();
        let Self {
            mut control,
            mut closing,
            crew,
            fetches,
            fetched,
            ..
        } = self;
        // With tales that were not heard, and the files that they are about.
        drop((crew, fetched));
        for client in control.close_all() {
            closing.close(client.uid, vec![client.into_connection()]);
        }
        // The next engine may listen at its path from here on.
        control.leave_path();
        closing.leave((control, fetches));
    }

    /// Does what there is to do now, and never waits: for who drives both halves himself. True if there
    /// was anything.
    pub fn attend(&mut self) -> bool {
        self.control.resume();
        self.look_at_all_sockets();
        let ready = self.control.poller.ready();
        let heard = self.see_to(&ready);
        self.look_at_new_ports();
        self.reclaim_here();
        self.fetch_here();
        self.close_here();
        !ready.is_empty() || heard == Ok(true)
    }

    /// Takes on a control connection that was not accepted by the control socket.
    pub fn add_client(&mut self, connection: OwnedFd) -> rustix::io::Result<()> {
        self.control.add_client(connection).map(drop)
    }

    /// What was counted so far: refusals, above all.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn see_to(&mut self, ready: &[Source]) -> Result<bool, Ended> {
        let heard = self.hear()?;
        self.crew.send_backlogs();
        self.see_to_undone();
        self.serve_the_late(Instant::now());
        for source in ready {
            match *source {
                Source::Listener => self.accept_clients(),
                Source::Client(slot) => self.serve_client(slot),
                Source::Process(slot) => self.process_ended(slot),
                Source::Lifeline(slot) => self.lifeline_readable(slot),
                Source::Netfilter => self.netfilter_changed(),
                Source::Interfaces => self.interfaces_changed(),
                Source::Opener => self.opener_ended(),
                // Heard already; the others are the fast half's.
                Source::Tales
                | Source::Reclaimed
                | Source::Fetched
                | Source::Closed
                | Source::Bell(_)
                | Source::Network
                | Source::Stop
                | Source::Handoff
                | Source::Orders => {}
            }
        }
        Ok(heard)
    }

    /// Hears what the fast half has to say.
    fn hear(&mut self) -> Result<bool, Ended> {
        let mut heard = false;
        while let Some(said) = self.crew.hear()? {
            heard = true;
            let (from, tale) = match said {
                Heard::Tale(from, tale) => (from, tale),
                Heard::Ended(worker) => {
                    self.worker_ended(worker);
                    continue;
                }
            };
            match tale {
                Tale::Answer(client, answer) => self.answers(from, client, answer),
                Tale::Ended(client, session, reason) => {
                    let number = session.number;
                    let pid = self.control.client_named(client).map(|client| client.pid);
                    if reason.is_breach() {
                        tracing::warn!(session = number, pid, %reason, "session ended");
                    } else {
                        tracing::info!(session = number, pid, %reason, "session ended");
                    }
                    if pid.is_some() {
                        self.close(client.slot);
                    }
                }
                Tale::Mixed { port, question } => self.mixed(from, port, question),
                Tale::Outdated(policy) => drop(policy),
                // It is closed later, as its last reference goes.
                Tale::Forgotten(file) => drop(file),
                Tale::Returned(uid, fds) => self.closing.close(uid, fds),
                Tale::Captured(capture) => self.captured(*capture),
                Tale::Fetch(fetch) => self.fetch(from, &fetch),
                Tale::Reclaim(reclaim) => self.reclaims.add(ReclaimOf(from, *reclaim)),
                Tale::Unlistened(local) => self.listens_no_longer(from, local),
                Tale::Spent(session) => self.spent(from, *session),
                Tale::Undone(orders) => {
                    for order in orders.try_iter() {
                        self.undo(from, order);
                    }
                }
            }
        }
        Ok(heard)
    }

    /// Nothing refers to a session's memory any more.
    fn spent(&mut self, from: WorkerId, session: Session) {
        let uid = session.process.uid;
        self.closing.close(uid, doorbells::unread_of(session));
        self.crew.has_session(from, false);
        if let Some(count) = self.sessions.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                self.sessions.remove(&uid);
            }
        }
    }

    /// Accepts the control connections that wait.
    fn accept_clients(&mut self) {
        for _ in 0..ACCEPT_BUDGET {
            if let Some(uid) = self.closing.is_full() {
                tracing::warn!(
                    uid,
                    "no control connection is accepted: too many descriptors cannot be closed"
                );
                self.control.pause();
                return;
            }
            match self.control.accept() {
                Ok(Accepted::Client(uid)) => {
                    self.rates.charge(uid, cost::CONNECTION, Instant::now());
                }
                Ok(Accepted::Nobody) => return,
                Ok(Accepted::BeyondLimit) => self.counters.drop(Drop::ControlFull),
                Ok(Accepted::NoDescriptor) => self.counters.drop(Drop::NoDescriptor),
                Err(error) => {
                    tracing::warn!(%error, "the control socket does not accept for a second");
                    return;
                }
            }
        }
    }

    /// Reads what a control connection asks; ends it, and its session, if it is over.
    fn serve_client(&mut self, slot: u32) {
        if let Err(error) = self.serve_in_time(slot, Instant::now()) {
            self.failed(slot, &error);
        }
    }

    fn failed(&mut self, slot: u32, error: &ChannelError) {
        if !matches!(error, ChannelError::Closed) {
            tracing::warn!(%error, "control connection closed");
        }
        let reason = match error {
            ChannelError::Violation(violation) => EndReason::Violation(*violation),
            _ => EndReason::Gone,
        };
        self.end_client(slot, reason);
    }

    /// A process has ended. Its connection may be open all the same, in its children.
    fn process_ended(&mut self, slot: u32) {
        // The slot may have a new tenant by now.
        if self.control.process_has_ended(slot) {
            self.end_client(slot, EndReason::Gone);
        }
    }

    /// Closes a control connection, and ends what was its.
    fn end_client(&mut self, slot: u32, reason: EndReason) {
        let Some(client) = self.control.client(slot) else {
            return;
        };
        let (session, responds, home) = (client.session, client.responds, client.home);
        self.close(slot);
        if let Some(session) = session {
            self.proofs_may_end();
            self.crew.order(home, Order::End(session, reason));
        }
        if responds {
            self.crew.order(WorkerId::FIRST, Order::EndResponding);
        }
    }

    fn close(&mut self, slot: u32) {
        self.hear_last_words(slot);
        if let Some(key) = self.key_of(slot) {
            self.rests.forget(key);
        }
        if let Some(mut client) = self.control.close(slot) {
            if let Some(pending) = client.pending.take() {
                self.abandon(client.home, pending);
            }
            self.closing
                .close(client.uid, vec![client.into_connection()]);
        }
    }

    fn next_token(&mut self) -> u64 {
        self.forked += 1;
        self.tokens.hash_one(self.forked)
    }

    fn key_of(&mut self, slot: u32) -> Option<ClientKey> {
        let client = self.control.client(slot)?;
        Some(ClientKey {
            slot,
            serial: client.serial,
        })
    }
}
