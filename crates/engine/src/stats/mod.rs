//! What the engine counts: above all, everything that it dropped or refused, by reason.

mod metrics;

pub use metrics::{Metrics, conn_info, pair_info, state_name};

use tcp::Histogram;
use wire::segment::Malformed;

/// Declares the reasons once: the enum, the list and the stable names.
macro_rules! reasons {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal,)+) => {
        /// Why the engine itself dropped or refused something. Frames that are no TCP segments are
        /// counted by [`Malformed`], segments that the TCP does not use by its own reasons.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Drop { $($(#[$doc])+ $variant,)+ }

        impl Drop {
            /// Every reason, in the order of their discriminants.
            pub const ALL: &'static [Drop] = &[$(Drop::$variant,)+];

            /// A stable name, for counters and captures.
            pub const fn name(self) -> &'static str {
                match self { $(Drop::$variant => $name,)+ }
            }
        }
    };
}

reasons! {
    /// A SYN from a peer that the access lists, or the rules of netfilter, do not admit.
    Denied = "denied",
    /// A segment of a connection that is there, which the rules of netfilter drop by now.
    Filtered = "filtered",
    /// A listener that is gone, while too many others are: the rules of netfilter hold no longer for connections that it
    /// may have had, of whose segments they drop some.
    CutsForgotten = "cuts_forgotten",
    /// A segment from an address that no peer can have, one of this machine's: a SYN, or any if
    /// connections within the machine are the engine's.
    Martian = "martian",
    /// A frame for another machine, which a link in promiscuous mode delivers.
    ForeignMac = "foreign_mac",
    /// A frame whose next hop is being resolved, and too many wait already.
    HeldFull = "held_full",
    /// A frame that waited for a next hop that does not answer.
    HeldUnresolved = "held_unresolved",
    /// A frame that waited for its next hop for longer than what it said was true.
    HeldTooLong = "held_too_long",
    /// A segment to where there is no route, or whose next hop does not answer.
    Unreachable = "unreachable",
    /// A segment by an interface whose link is down, while there are others.
    LinkDown = "link_down",
    /// A segment without data by an interface that had no room for it, while there are others.
    LinkFull = "link_full",
    /// A segment whose headers cannot be written.
    Unsendable = "unsendable",
    /// A segment that the device refused for good.
    DeviceRefused = "device_refused",
    /// A request of a host that the TCP refused, such as data after shutdown.
    RequestRefused = "request_refused",
    /// A connection that could not be opened because every leased port is in use to its peer.
    PortsFull = "ports_full",
    /// Times that programs were told to leave connections to the kernel for a moment, because the
    /// leased ports went round so fast that hardly any was to spare.
    PortsScarce = "ports_scarce",
    /// Times that a user's new connections were left to the kernel, because it had as many as its share.
    ConnectionsOfUser = "connections_of_user",
    /// A connection that was closed by RST, because its user had left as many as its share to end by themselves.
    OrphansOfUser = "orphans_of_user",
    /// A control connection beyond the limit.
    ControlFull = "control_full",
    /// A control connection for which the engine had no descriptor.
    NoDescriptor = "no_descriptor",
    /// A report beyond the limit.
    ReportsFull = "reports_full",
    /// Times that nothing more was taken of a program before what others wrote later, because it reads nothing of
    /// what it is told and goes on: what it had written may come after that.
    NotRead = "not_read",
    /// A program in another network namespace.
    OtherNamespace = "other_namespace",
    /// A program's doubt of a way, while too many others were looked at.
    TooManyDoubts = "too_many_doubts",
    /// A program that speaks no version of the protocol that the engine speaks.
    OtherVersion = "other_version",
    /// A program that would have been one session too many of its user.
    SessionsOfUser = "sessions_of_user",
    /// A program that would have been one session too many.
    SessionsFull = "sessions_full",
    /// Data for which there was receive memory, of which too much is in use already, of its user or in
    /// all: the peer sends it again.
    MemoryFull = "memory_full",
    /// Data for a connection that no process has accepted, or that nobody reads any more of several that have it, while
    /// there was too much of such, of its user or in all: the peer sends it again. And a connection whose process has
    /// gone, or given it back, before it accepted it, and whose data found no place by that: it ends by RST.
    UnacceptedFull = "unaccepted_full",
    /// A fork while there were too many children that had not attached, of its user or in all.
    ForksFull = "forks_full",
    /// A listener that would have been one too many, of its user or in all.
    ListenersFull = "listeners_full",
    /// Times that a control connection was not read for a while, because its user had asked for as much
    /// as one may in a second.
    RequestsDelayed = "requests_delayed",
    /// A connection that was passed to another program while too many others were under way.
    TicketsFull = "tickets_full",
    /// A frame for another worker, whose queue was full: its peer sends it again.
    HandoffFull = "handoff_full",
    /// A connection that waited to be accepted and found no place at the worker that it went to.
    MoveFailed = "move_failed",
    /// A file to send from beyond the limit, of its user or in all: its program reads it.
    FilesFull = "files_full",
    /// A client in the queue of a listening socket that went to a program which is not on the engine.
    ListenerLeft = "listener_left",
}

impl Drop {
    /// What an operator can do so that it does not happen again, where it is a limit that was met.
    const fn remedy(self) -> Option<&'static str> {
        match self {
            Self::HeldFull => Some("raise limits.held_frames"),
            Self::PortsFull | Self::PortsScarce => Some("raise limits.leased_ports"),
            Self::ConnectionsOfUser => Some("raise limits.connections"),
            Self::OrphansOfUser => Some("raise limits.orphans"),
            Self::ControlFull => Some("raise limits.control_connections"),
            Self::NoDescriptor => Some("raise LimitNOFILE= of the engine's unit, or ulimit -n"),
            Self::ReportsFull => Some("raise limits.reports"),
            Self::SessionsOfUser => Some("raise limits.sessions_per_user"),
            Self::SessionsFull => Some("raise limits.sessions"),
            Self::MemoryFull => Some("raise limits.receive_memory"),
            Self::UnacceptedFull => Some("raise limits.unaccepted_bytes"),
            Self::ForksFull => Some("raise limits.forks"),
            Self::TicketsFull => Some("raise limits.tickets"),
            Self::FilesFull => Some("raise limits.files, and LimitNOFILE= of the engine's unit"),
            Self::ListenersFull => Some("raise limits.listeners"),
            Self::RequestsDelayed => Some("raise limits.requests_per_second"),
            _ => None,
        }
    }
}

/// Counts of one worker since it started.
#[derive(Debug, Clone)]
pub struct Counters {
    /// Turns of the worker's loop.
    pub turns: u64,
    /// Turns in which there was nothing to do.
    pub empty_turns: u64,
    /// Turns that received at least one frame.
    pub batches: u64,
    /// Frames received.
    pub frames: u64,
    /// Frames that programs on this machine sent each other.
    pub local_frames: u64,
    /// Frames and large segments sent.
    pub sent: u64,
    /// Segments that left as parts of a large one.
    pub large_sends: u64,
    /// Times that the worker went to sleep.
    pub sleeps: u64,
    /// Looks for work before the worker slept, and those of them that found none.
    pub looks: u64,
    /// See [`looks`](Self::looks).
    pub looks_in_vain: u64,
    /// Times that the worker went to the core of a program.
    pub core_moves: u64,
    /// Sleeps that the device could not interrupt for a while (receive moderation).
    pub moderated_sleeps: u64,
    /// Looks at the descriptors without sleeping.
    pub polls: u64,
    /// Doorbells rung.
    pub doorbells: u64,
    /// Sends that hosts submitted: a response can take several (its header, then a file).
    pub host_sends: u64,
    /// Sends of a host that had read something since it last sent: on a server, one for each
    /// request and its response, in however many pieces they come. Requests that are pipelined
    /// and read together count as one.
    pub host_exchanges: u64,
    /// Nanoseconds in turns that found something to do.
    pub busy_ns: u64,
    /// Nanoseconds in turns that found nothing, and in yielding the core.
    pub spin_ns: u64,
    /// Nanoseconds asleep.
    pub sleep_ns: u64,
    /// Sessions that were attached.
    pub sessions: u64,
    /// Sessions that ended because they broke the rules.
    pub violations: u64,
    /// Connections handed to processes.
    pub handed: u64,
    /// Connections that were handed over and came back.
    pub given_back: u64,
    /// Sends on connections that several processes have, since a fork.
    pub shared_sends: u64,
    /// Times that the right to read a connection went from one process to another.
    pub grants_moved: u64,
    /// Connections that a program has passed to another.
    pub tickets: u64,
    /// Times that the other took one.
    pub tickets_claimed: u64,
    /// Times that the other had not waited for it.
    pub tickets_late: u64,
    /// Connections that were passed and that nobody took.
    pub tickets_unclaimed: u64,
    /// Buffers that programs have posted to receive into, and that were used.
    pub buffers_posted: u64,
    /// Sends from files.
    pub file_sends: u64,
    /// Times that a connection had to wait for what it was to send, because it was not in memory.
    pub file_waits: u64,
    /// Connections that were reset because their file did not have any more what they were to send.
    pub files_short: u64,
    /// Bytes of receive memory that were given back to the machine.
    pub memory_given_back: u64,
    /// Connections that were offered to a process, not accepted, and offered to another.
    pub offers_retracted: u64,
    /// Frames that came to this worker and were another's.
    pub frames_handed: u64,
    /// Connections, and handshakes, that went to another worker, where somebody accepts.
    pub connections_moved: u64,
    /// How long turns, and looks between them, took, with what the core was taken away for: what a
    /// frame waits for at most that has just missed one.
    pub turn_times: Histogram,
    /// For how long of that the worker had its core; if it is measured.
    pub turn_core_times: Histogram,
    /// For how long of that it was in one call by which the kernel sends, of which a turn may make several: on
    /// a veth the peer's receiving is in it.
    pub flush_core_times: Histogram,
    /// How long the first frame had waited that was there when the worker woke.
    pub wake_ups: Histogram,
    /// How long connections waited, from the end of their handshake until a process had accepted them.
    pub accept_waits: Histogram,
    drops: [u64; Drop::ALL.len()],
    malformed: [u64; Malformed::ALL.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            turns: 0,
            empty_turns: 0,
            batches: 0,
            frames: 0,
            local_frames: 0,
            sent: 0,
            large_sends: 0,
            sleeps: 0,
            looks: 0,
            looks_in_vain: 0,
            core_moves: 0,
            moderated_sleeps: 0,
            polls: 0,
            doorbells: 0,
            host_sends: 0,
            host_exchanges: 0,
            busy_ns: 0,
            spin_ns: 0,
            sleep_ns: 0,
            sessions: 0,
            violations: 0,
            handed: 0,
            given_back: 0,
            shared_sends: 0,
            grants_moved: 0,
            tickets: 0,
            tickets_claimed: 0,
            tickets_late: 0,
            tickets_unclaimed: 0,
            buffers_posted: 0,
            file_sends: 0,
            file_waits: 0,
            files_short: 0,
            memory_given_back: 0,
            offers_retracted: 0,
            frames_handed: 0,
            connections_moved: 0,
            turn_times: Histogram::default(),
            turn_core_times: Histogram::default(),
            flush_core_times: Histogram::default(),
            wake_ups: Histogram::default(),
            accept_waits: Histogram::default(),
            drops: [0; Drop::ALL.len()],
            malformed: [0; Malformed::ALL.len()],
        }
    }
}

impl Counters {
    /// Counts something that was dropped or refused. The first time that a limit is met is told in
    /// the log, with what raises it.
    pub fn drop(&mut self, reason: Drop) {
        let count = &mut self.drops[reason as usize];
        if *count == 0
            && let Some(remedy) = reason.remedy()
        {
            tracing::warn!(dropped = reason.name(), remedy, "a limit is reached");
        }
        *count += 1;
    }

    /// What another has counted, too.
    pub fn add(&mut self, other: &Self) {
        let Self {
            turns,
            empty_turns,
            batches,
            frames,
            local_frames,
            sent,
            large_sends,
            sleeps,
            looks,
            looks_in_vain,
            core_moves,
            moderated_sleeps,
            polls,
            doorbells,
            host_sends,
            host_exchanges,
            busy_ns,
            spin_ns,
            sleep_ns,
            sessions,
            violations,
            handed,
            given_back,
            shared_sends,
            grants_moved,
            tickets,
            tickets_claimed,
            tickets_late,
            tickets_unclaimed,
            buffers_posted,
            file_sends,
            file_waits,
            files_short,
            memory_given_back,
            offers_retracted,
            frames_handed,
            connections_moved,
            turn_times,
            turn_core_times,
            flush_core_times,
            wake_ups,
            accept_waits,
            drops,
            malformed,
        } = other;
        for (count, more) in [
            (&mut self.turns, turns),
            (&mut self.empty_turns, empty_turns),
            (&mut self.batches, batches),
            (&mut self.frames, frames),
            (&mut self.local_frames, local_frames),
            (&mut self.sent, sent),
            (&mut self.large_sends, large_sends),
            (&mut self.sleeps, sleeps),
            (&mut self.looks, looks),
            (&mut self.looks_in_vain, looks_in_vain),
            (&mut self.core_moves, core_moves),
            (&mut self.moderated_sleeps, moderated_sleeps),
            (&mut self.polls, polls),
            (&mut self.doorbells, doorbells),
            (&mut self.host_sends, host_sends),
            (&mut self.host_exchanges, host_exchanges),
            (&mut self.busy_ns, busy_ns),
            (&mut self.spin_ns, spin_ns),
            (&mut self.sleep_ns, sleep_ns),
            (&mut self.sessions, sessions),
            (&mut self.violations, violations),
            (&mut self.handed, handed),
            (&mut self.given_back, given_back),
            (&mut self.shared_sends, shared_sends),
            (&mut self.grants_moved, grants_moved),
            (&mut self.tickets, tickets),
            (&mut self.tickets_claimed, tickets_claimed),
            (&mut self.tickets_late, tickets_late),
            (&mut self.tickets_unclaimed, tickets_unclaimed),
            (&mut self.buffers_posted, buffers_posted),
            (&mut self.file_sends, file_sends),
            (&mut self.file_waits, file_waits),
            (&mut self.files_short, files_short),
            (&mut self.memory_given_back, memory_given_back),
            (&mut self.offers_retracted, offers_retracted),
            (&mut self.frames_handed, frames_handed),
            (&mut self.connections_moved, connections_moved),
        ] {
            *count += more;
        }
        self.turn_times.add(turn_times);
        self.turn_core_times.add(turn_core_times);
        self.flush_core_times.add(flush_core_times);
        self.wake_ups.add(wake_ups);
        self.accept_waits.add(accept_waits);
        for (count, more) in self.drops.iter_mut().zip(drops) {
            *count += more;
        }
        for (count, more) in self.malformed.iter_mut().zip(malformed) {
            *count += more;
        }
    }

    /// Adds what another counted as dropped or refused.
    pub fn add_drops(&mut self, other: &Self) {
        for (count, more) in self.drops.iter_mut().zip(other.drops) {
            *count += more;
        }
        self.tickets_unclaimed += other.tickets_unclaimed;
    }

    /// Counts a frame that is no segment.
    pub fn malformed(&mut self, reason: Malformed) {
        self.malformed[reason as usize] += 1;
    }

    /// How often something was dropped for this reason.
    pub fn dropped(&self, reason: Drop) -> u64 {
        self.drops[reason as usize]
    }

    /// How many frames were refused for this reason.
    pub fn refused_frames(&self, reason: Malformed) -> u64 {
        self.malformed[reason as usize]
    }
}
