//! The worker: one thread, receive queues of the interfaces, one TCP.
//!
//! A turn takes what has come, does what follows from it, and says what came of it:
//!
//! 1. receive a batch of frames, each straight into the TCP, its payload into its session's chunk, and
//!    what other workers hand over;
//! 2. take the submissions of every session;
//! 3. run the timers that are due;
//! 4. turn the TCP's events into completions and publish them;
//! 5. transmit what is ready and flush the device;
//! 6. ring the doorbells that are armed.
//!
//! Nothing on this way allocates, searches or waits. What is rare (the orders of the slow half, the
//! kernel's notifications) is looked at between turns, by [`run`](Worker::run).

mod admission;
mod between;
mod blocked;
mod connect;
mod departures;
mod ended;
mod endings;
mod events;
mod extents;
mod facts;
mod failing;
mod fair;
mod files;
mod forks;
mod handover;
mod hearing;
mod in_turn;
mod intake;
mod kernel;
mod left;
mod lent;
mod link;
mod listen;
mod local;
mod looking;
mod moderation;
mod nics;
mod order;
mod orders;
mod payload;
mod placement;
mod pressure;
mod reclaim;
mod rejections;
mod reload;
mod rest;
mod room;
mod rota;
mod run;
mod sending;
mod sessions;
mod sharing;
mod sleep;
mod submissions;
mod sweep;
mod tickets;
mod transmit;
mod waits;
mod way;

use std::collections::{BTreeSet, VecDeque};

use netdev::{Device, Loopback};
use queue_pair::{Area, Opening, Profile, lost};
use tcp::{Instant, Stack};

use crate::capture::Captures;
use crate::clock::{Clock, CoreTime};
use crate::config::Config;
use crate::exchange::ToSlow;
use crate::fast::common::Common;
use crate::fast::connections::{Connections, SessionId};
use crate::fast::handoff::Handoff;
use crate::fast::listeners::Listeners;
use crate::fast::memory::Memory;
use crate::fast::orphans::Orphans;
use crate::fast::session::{EndReason, Sessions};
use crate::netfilter::Policy;
use crate::network::{HeldFrames, Network, NicId, Paths};
use crate::stats::Counters;
use crate::trace::Trace;

use self::endings::Ending;
use self::failing::Failing;
use self::fair::Sharing;
use self::files::Fetches;
use self::forks::Forks;
use self::kernel::Unoffering;
use self::lent::Lent;
use self::link::Served;
use self::listen::Closing;
use self::moderation::Moderation;
use self::nics::Nics;
use self::order::Held;
use self::orders::Waiting;
use self::payload::Findings;
use self::placement::Placement;
use self::rejections::Rejections;
use self::room::Until;
use self::rota::Rota;
use self::sending::{Portion, Stride};
use self::sweep::Sweep;
use self::tickets::Tickets;
use self::way::Doubts;

/// Frames taken from the device in a turn.
const RECEIVE_BUDGET: usize = 64;
/// Frames that wait beyond a turn's when a worker under a flood of SYNs is behind: enough that a
/// burst is answered, and a small part of what a device holds by default, so that there is room for
/// what comes while others have the core.
const BEHIND: usize = 1024;
/// Frames that it then takes in addition, SYNs among them unanswered.
const CATCH_UP_BUDGET: usize = 512;
/// SYNs among those that are answered all the same, because they came before.
const AGAIN_BUDGET: u32 = 32;
/// Timers in a turn.
const TIMER_BUDGET: usize = 256;
/// Flows that there is room for from the beginning, at most: 1.5 MB.
const EXPECTED_FLOWS: u32 = 16_384;
/// Bytes of the memory in which the pieces of a large send are put together.
const SCRATCH: usize = 65_536;

/// An engine's worker over a device and a network.
pub struct Worker<D, N> {
    config: Config,
    nics: Nics<D>,
    /// The wire between programs on this machine, if the engine is set to be it.
    local: Option<Loopback>,
    network: N,
    stack: Stack,
    connections: Connections,
    memory: Memory,
    paths: Paths,
    held: HeldFrames,
    failing: Failing,
    sessions: Sessions,
    forks: Forks,
    tickets: Tickets,
    doubts: Doubts,
    listeners: Listeners,
    closing: Closing,
    lent: Lent,
    slow: ToSlow,
    /// An order that waits for what was submitted before it.
    waiting: Option<Waiting>,
    counters: Counters,
    /// For how long it has its core in turns.
    core_time: CoreTime,
    moderation: Moderation,
    placement: Placement,
    scratch: Area,
    captures: Captures,
    trace: Trace,
    /// Connections whose route has just been found to carry less than the link.
    narrow: Vec<(tcp::ConnId, u16)>,
    /// Connections of which something has left, or was submitted, whose programs mind how much.
    leaving: Vec<tcp::ConnId>,
    /// How much is sent between two looks at the clock, and how much of it leaves at a time.
    stride: Stride,
    portion: Portion,
    /// What sending has found out about files.
    findings: Findings,
    /// What of files is being brought into memory.
    fetches: Fetches,
    /// Connections that programs have closed and the TCP sees to, by user.
    orphans: Orphans,
    /// Connections for whose data there was no memory in this turn.
    starved: Vec<tcp::ConnId>,
    /// How often there was memory that may not be touched, as far as that is counted.
    memory_refused: u64,
    /// The same of what no process has been handed.
    unaccepted_refused: u64,
    /// Whose memory is seen to next.
    reclaim_hand: u16,
    /// The time and the secrets of the engine.
    common: Common,
    /// The other workers, if there are any.
    handoff: Option<Handoff>,
    /// Connections that were offered and of which it is not known whether they were accepted.
    unheard: VecDeque<tcp::ConnId>,
    /// The slow half says when a socket that was shown as proof listens no longer.
    proofs_followed: bool,
    /// Those that are bound to an interface by now.
    confined: BTreeSet<u64>,
    /// What the rules of netfilter say, as far as they are followed.
    netfilter: Box<Policy>,
    /// Whose submissions are taken first in the next turn.
    rota: Rota,
    /// Questions about mixed ports that were asked so far.
    questions: u64,
    /// How often workers have been away, as far as what the listeners say takes it into account.
    absences: u64,
    /// Listeners whose connections wait for memory of the processes that accept from them.
    lacking_memory: Vec<u32>,
    /// Listeners that had more to offer than is offered in a turn, in the order in which they go on.
    offering: VecDeque<u32>,
    /// Chunks of all sessions that were free when they were last tried.
    lacked_at: u64,
    /// Where the search for something to let go of goes on.
    shed_hand: u32,
    /// The time of this turn.
    now: Instant,
    /// Begins with each turn.
    turn_clock: Clock,
    /// How long the turn had lasted when that was last looked at, in nanoseconds: after something was done, since a
    /// turn that finds nothing looks at no clock.
    so_far: u64,
    /// Until when submissions are taken.
    taking: Until,
    /// How often a page of a session's memory was missing, as far as that was looked at.
    pages_lost: u64,
    /// Sessions that broke the rules in this turn.
    breaches: Vec<(SessionId, EndReason)>,
    /// Sessions whose connections are being ended.
    endings: VecDeque<Ending>,
    /// What listeners that have ended had offered.
    unoffering: VecDeque<Unoffering>,
    /// What is done with all connections, some at a time.
    sweep: Sweep,
    /// Sessions that have connections together with others.
    sharers: Vec<SessionId>,
    /// Submissions that may still be taken before their session's turn, in this turn.
    catch_up_left: usize,
    /// Whose submissions wait for those.
    held_back: Held,
    /// Only what was submitted when that was [noted](Self::note_past) is taken before.
    only_past: bool,
    stopping: bool,
    /// There is no such interface any more.
    interface_gone: Option<NicId>,
    /// Who opens connections, as programs were told.
    told_opening: Opening,
    /// How users share the table of connections.
    sharing: Sharing,
    /// What refused peers are to be told.
    rejections: Rejections,
    /// How to wait, for the program that was served last.
    serving: Profile,
    /// Whether it is woken again and again, which costs less on the core of a program.
    near_is_better: bool,
    /// A program was told something in this turn that it may answer.
    asked: bool,
}

impl<D: Device, N: Network> Worker<D, N> {
    /// A worker with nothing to do yet, of an engine whose workers have this in common. It has a device on each of the
    /// network's interfaces.
    pub fn new(config: Config, devices: Vec<D>, network: N, slow: ToSlow, common: Common) -> Self {
        let mut memory = Memory::new(config.limits.unaccepted_bytes as usize);
        if config.limits.receive_memory != 0 {
            memory.set_budget(config.limits.receive_memory);
        }
        let serving = config.profile;
        let sharing = Sharing::of(config.limits.connections);
        let orphans = Orphans::with_limit(config.limits.orphans);
        let sessions = Sessions::with_room(config.limits.sessions as usize);
        let nics = Nics::of(devices);
        Self {
            stack: Stack::new(stack_config(&config, nics.mtu()), common.seed),
            memory,
            paths: Paths::with_limit(config.limits.paths),
            held: HeldFrames::with_limit(config.limits.held_frames as usize),
            failing: Failing::default(),
            moderation: Moderation::new(config.moderation()),
            placement: Placement::fixed(),
            local: config.local.then(Loopback::default),
            config,
            nics,
            network,
            connections: Connections::default(),
            sessions,
            forks: Forks::default(),
            tickets: Tickets::default(),
            doubts: Doubts::default(),
            listeners: Listeners::default(),
            closing: Closing::default(),
            lent: Lent::default(),
            slow,
            waiting: None,
            counters: Counters::default(),
            core_time: CoreTime::default(),
            scratch: Area::private("scratch", SCRATCH),
            captures: Captures::default(),
            trace: Trace::default(),
            narrow: Vec::new(),
            leaving: Vec::new(),
            stride: Stride::default(),
            portion: Portion::default(),
            findings: Findings::default(),
            fetches: Fetches::default(),
            orphans,
            starved: Vec::new(),
            memory_refused: 0,
            unaccepted_refused: 0,
            reclaim_hand: 0,
            common,
            handoff: None,
            unheard: VecDeque::with_capacity(waits::UNHEARD),
            proofs_followed: false,
            confined: BTreeSet::new(),
            netfilter: Box::default(),
            rota: Rota::default(),
            questions: 0,
            absences: 0,
            lacking_memory: Vec::new(),
            offering: VecDeque::new(),
            lacked_at: 0,
            shed_hand: 0,
            now: Instant::ZERO,
            turn_clock: Clock::default(),
            so_far: 0,
            taking: Until::done(),
            pages_lost: lost::pages_lost(),
            breaches: Vec::new(),
            endings: VecDeque::new(),
            unoffering: VecDeque::new(),
            sweep: Sweep::default(),
            sharers: Vec::new(),
            catch_up_left: 0,
            held_back: Held::default(),
            only_past: false,
            stopping: false,
            interface_gone: None,
            told_opening: Opening::Engine,
            sharing,
            rejections: Rejections::default(),
            serving,
            near_is_better: true,
            asked: false,
        }
    }

    /// States how many receive queues its interfaces have, of which those are received from that are configured.
    pub fn serving_queues(mut self, there: &[u32]) -> Self {
        for (nic, there) in self.nics.ids().zip(there) {
            let all = self.config.queues.of(*there).len() >= *there as usize;
            self.nics[nic].served = Served::of(*there, all);
        }
        self.tell_opening();
        self
    }

    /// As one of several, with this place among them.
    #[must_use]
    pub fn among(mut self, handoff: Handoff) -> Self {
        self.stack.follow_flows();
        self.listeners = Listeners::of_worker(handoff.own());
        self.handoff = Some(handoff);
        self
    }

    /// With so many bytes of receive memory, of all sessions together, that may be touched. Without this
    /// it is what the limits say, and any number if they say 0.
    pub fn with_receive_memory(mut self, bytes: u64) -> Self {
        self.memory.set_budget(bytes);
        self
    }

    /// Each session may touch so many bytes of either kind in any case: 1 MiB without this.
    pub fn with_guaranteed_memory(mut self, bytes: u64) -> Self {
        self.memory.guarantee(bytes);
        self
    }

    /// One turn at the time `now`; true if there was anything to do.
    pub fn turn(&mut self, now: Instant) -> bool {
        self.turn_of(now, self.common.clock.again())
    }

    /// The same, with a clock that began with the turn.
    fn turn_of(&mut self, now: Instant, clock: Clock) -> bool {
        self.now = now;
        (self.turn_clock, self.so_far) = (clock, 0);
        self.connections.set_now(now);
        self.beat();
        let goes_on = self.go_on_offering();
        let mut received = self.receive() | self.receive_local();
        if goes_on || received {
            self.note_time();
        }
        if self.take_handed() {
            received = true;
            self.note_time();
        }
        self.catch_up_left = order::CATCH_UP;
        let submitted = self.take_submissions();
        self.hear_of_accepts();
        let timers = self.stack.next_timeout().is_some_and(|at| at <= now);
        if timers {
            self.stack.on_timeout(now, TIMER_BUDGET);
        }
        self.hand_over_again();
        let events = self.take_events();
        let told = self.post_completions();
        if submitted || timers || events || told {
            self.note_time();
        }
        let sent = self.transmit();
        self.ring();
        self.end_breached();
        let swept = self.go_on_ending()
            | self.go_on_unoffering()
            | self.go_on_forking()
            | self.go_on_failing()
            | self.go_on_sweeping();
        self.counters.turns += 1;
        let worked = goes_on || received || submitted || timers || events || sent || told || swept;
        self.counters.empty_turns += u64::from(!worked);
        worked
    }

    /// Something was done in this turn: what follows has its time from now on.
    pub(super) fn note_time(&mut self) {
        self.so_far = self.turn_clock.now().as_nanos();
    }

    pub(super) fn receive(&mut self) -> bool {
        let cookies = self.stack.counters().cookies_sent;
        let mut count = self.receive_frames(RECEIVE_BUDGET);
        let flooded = self.stack.counters().cookies_sent != cookies;
        if flooded && self.nics.waiting() > BEHIND {
            // More SYNs come than can be answered, and what overflows would be anybody's segments.
            self.stack.withhold_cookies(Some(AGAIN_BUDGET));
            count += self.receive_frames(CATCH_UP_BUDGET);
            self.stack.withhold_cookies(None);
        }
        if !self.starved.is_empty() {
            self.count_refused_memory();
            self.shed();
        }
        count != 0
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The TCP.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The network, as tests look at it.
    pub fn network(&self) -> &N {
        &self.network
    }

    /// The same, as they change it.
    pub fn network_mut(&mut self) -> &mut N {
        &mut self.network
    }

    /// How many offers are remembered, of all sessions, as tests look at it.
    pub fn offers_remembered(&self) -> usize {
        let sessions = self.sessions.iter();
        let offered: usize = sessions.map(|(_, session)| session.offered.len()).sum();
        offered + self.unoffering.iter().map(Unoffering::left).sum::<usize>()
    }

    /// How many sessions there are, those that are being drained included.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }
}

fn stack_config(config: &Config, mtu: u16) -> tcp::Config {
    let limits = &config.limits;
    tcp::Config {
        mtu,
        expected_flows: limits.connections.min(EXPECTED_FLOWS),
        max_connections: limits.connections,
        max_listeners: limits.listeners,
        max_half_open: limits.half_open,
        max_time_wait: limits.time_wait,
        max_orphans: limits.orphans,
        max_path_mtus: limits.paths,
        min_path_mtu: config.tcp.min_path_mtu,
        max_out_of_order_ranges: limits.out_of_order_ranges,
        max_out_of_order_ranges_in_total: limits.out_of_order_ranges_in_total,
        max_control_segments: limits.control_segments,
        challenge_acks_per_second: limits.challenge_acks_per_second,
        resets_per_second: limits.resets_per_second,
        max_receive_buffer: config.tcp.most_receive_buffer(),
        send_buffer: config.tcp.send_buffer,
        max_send_buffer: config.tcp.send_buffer_limit,
        ecn: config.tcp.ecn.into(),
        pacing_burst: config.tcp.pacing_burst,
        syn_retries: config.tcp.syn_retries(),
        syn_cookies: config.tcp.syn_cookies,
        fast_open_client: config.tcp.fast_open.connects(),
        fast_open_server: config.tcp.fast_open.accepts(),
        time_wait: core::time::Duration::from_secs(config.tcp.time_wait_seconds.into()),
        ..tcp::Config::default()
    }
}
