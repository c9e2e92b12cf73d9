//! The messages of the control socket.

use super::admission::{AdmissionCounts, AdmissionPolicy};
use super::facts::{ConnInfo, Explanation, Metric, SocketRow};
use super::ticket::Carried;
use super::traced::Traced;
use super::way::{EngineFacts, Way};
use crate::{ConnRef, Versions};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// The newest version of these messages and of the region's layout that this side speaks.
pub const VERSION: u32 = Versions::SPOKEN.newest;

/// What a host or a command asks of the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Request {
    /// Become a session. The answer is [`Reply::Attached`].
    Attach {
        /// [`VERSION`] of the sender.
        version: u32,
        /// The oldest version that the sender speaks, if it is another. Whoever names one is told
        /// which it has become.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        oldest: Option<u32>,
        /// The program's name, for people.
        program: String,
        /// From [`Reply::Forked`], if this process came out of a fork of an attached one.
        fork_token: Option<u64>,
    },
    /// Take connections for the kernel's listening socket that comes along. The answer is
    /// [`Reply::Listening`].
    Listen {
        /// The address it is bound to; unspecified means the interface's own addresses.
        addr: SocketAddr,
        /// For an unspecified IPv6 address: without IPv4.
        v6only: bool,
        /// How many connections may wait to be accepted.
        backlog: u32,
        /// The program serves nothing that comes by the kernel: the engine takes what is new, whatever is
        /// configured of placement. Since version 14.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        pinned: bool,
    },
    /// This process no longer accepts from a listener. The answer is [`Reply::Done`].
    Unlisten {
        /// From [`Reply::Listening`].
        listener: u32,
    },
    /// The program has set options on the kernel's listening socket, which comes along, or called listen(2) again: the
    /// options that matter from the SYN on (TCP_MAXSEG, TCP_FASTOPEN) and the backlog are read from it anew. The
    /// answer is [`Reply::Done`]. Since version 7.
    Chosen {
        /// From [`Reply::Listening`].
        listener: u32,
        /// The address it is bound to.
        addr: SocketAddr,
    },
    /// From now on the engine lets connect to a listener whom this admits. All processes that accept there
    /// share it; the last word counts. The answer is [`Reply::Done`]. Since version 7.
    Admit {
        /// From [`Reply::Listening`].
        listener: u32,
        /// Who.
        policy: AdmissionPolicy,
    },
    /// What is counted of a listener. The answer is [`Reply::Admitted`]. Since version 7.
    Admitted {
        /// From [`Reply::Listening`].
        listener: u32,
    },
    /// The kernel's socket that comes along is bound to this address, and the next connection that
    /// this session opens from there uses its port; port 0 asks for the address alone. The engine
    /// holds the socket for as long as it uses the port. The answer is [`Reply::Done`].
    Bound {
        /// The address it is bound to; unspecified leaves the address to the engine.
        local: SocketAddr,
    },
    /// Whether the engine opens connections to this address, which is of this machine: it does so if
    /// it is set to and one of its listeners is there. The answer is [`Reply::Done`], or an error: it is
    /// the kernel's.
    Local {
        /// The address.
        remote: SocketAddr,
    },
    /// One more doorbell for this host. The answer is [`Reply::Waker`].
    Waker,
    /// This process is about to fork: take a reference on all it has for the child. The answer is
    /// [`Reply::Forked`]. A child that attaches with its token has every connection that its parent
    /// had, and is told of each by [`Elsewhere`](crate::Completion::Elsewhere).
    Fork,
    /// Accept in this session too, from a listener that came through a fork or exec. The answer is
    /// [`Reply::Listening`]. The listener lives as long as any session has it.
    AdoptListener {
        /// Its name in the session that it came from.
        listener: u32,
    },
    /// This process is about to pass a connection to another program, and keeps its own share of it.
    /// What it has written belongs before whatever the other will write. The answer is
    /// [`Reply::Ticket`].
    Ticket {
        /// The connection.
        conn: ConnRef,
        /// For whoever claims it.
        carried: Carried,
    },
    /// The ticket that comes along was passed to this process, which has its connection from now on,
    /// too. The answer is [`Reply::Claimed`]; what there is to know of the connection follows as for
    /// one that came through a fork.
    Claim,
    /// Who made the claim just before has not waited for its answer. What this process has by that claim alone it has
    /// no more, and the ticket is as good as before. The answer is [`Reply::Done`], or an error: the claim had given
    /// it nothing. Since version 16.
    Disclaim,
    /// What this process has submitted takes effect before the answer, which is [`Reply::Done`], and
    /// every process that it concerns is told by then.
    Settle,
    /// The file that comes along, open for reading, is one to send from. The engine opens it once more for
    /// itself, so it is one that the engine may read, too. The answer is [`Reply::File`], or an error: its
    /// bytes are for the host to read. Since version 8.
    File,
    /// The facts of a connection, as TCP_INFO has them. The answer is [`Reply::Info`].
    Info {
        /// The connection.
        conn: ConnRef,
    },
    /// What the engine is. The answer is [`Reply::Engine`]. Since version 7.
    Engine,
    /// The way to an address. The answer is [`Reply::Way`]. Since version 7.
    Way {
        /// The address.
        remote: IpAddr,
        /// The program has a reason to doubt it: the kernel is to look at it again.
        doubted: bool,
    },
    /// For `outboard explain`: what became of a socket. No answer.
    Report {
        /// Its number in this process.
        fd: i32,
        /// What it is, in a word.
        kind: String,
        /// Why it is not offloaded, or empty if it is.
        reason: String,
    },
    /// What this process says before it becomes a program that the interposed library is not in, or of one
    /// that it has started: in `outboard explain` from the moment that this connection is closed, which exec
    /// does, and until the process ends. The last such request of a connection counts; it may say nothing.
    /// No answer. Since version 7.
    LastWords(Vec<Explanation>),
    /// The first counters, as many as one message has room for. The answer is [`Reply::Stats`].
    Stats,
    /// All counters, some at a time. The answer is [`Reply::Metrics`]. Since version 7.
    Metrics {
        /// What comes next of those of the last such answer, instead of all anew.
        more: bool,
    },
    /// All offloaded sockets, some at a time. The answer is [`Reply::Sockets`].
    Sockets {
        /// From the previous answer; `None` to begin.
        after: Option<u64>,
        /// Which sockets, in the words of ss(8); empty for all.
        #[serde(default)]
        filter: String,
    },
    /// What became of the sockets of a process. The answer is [`Reply::Explained`].
    Explain {
        /// The process.
        pid: u32,
    },
    /// Send the packets that pass as pcapng to the stream socket that comes along, until it is
    /// closed. The answer is [`Reply::Done`].
    Capture {
        /// Which packets; empty for all.
        filter: String,
    },
    /// Keep, from now on, when the engine does what of the next sends of one connection: the first that sends. The
    /// answer is [`Reply::Done`]. Since version 7.
    Trace {
        /// How many sends.
        sends: u32,
    },
    /// Keep no more of that, and say what was kept. The answer is [`Reply::Traced`]; what one message has no room
    /// for is told when this is asked again. Since version 7.
    Traced,
    /// Call a program of the stateless responder for some endpoints of this engine's interface,
    /// until this connection is closed. The program comes along with the first such request; more
    /// requests add endpoints. The answer is [`Reply::Done`].
    Respond {
        /// The index of the interface that is meant.
        interface: u32,
        /// Addresses, ports, and the VLANs of both tags.
        endpoints: Vec<(IpAddr, u16, [u16; 2])>,
    },
    /// Call the program that comes along for frames that are neither the engine's nor a responder's, in the place
    /// of one that was called before. The answer is [`Reply::Done`].
    Divert {
        /// The index of the interface that is meant.
        interface: u32,
        /// What it is called.
        name: String,
        /// Its number in the kernel, for who lists it.
        program: u32,
    },
    /// Call no such program any more. The answer is [`Reply::Done`].
    Undivert,
    /// Which such program is called. The answer is [`Reply::Diverted`].
    Diverter,
    /// Read the configuration again. The answer is [`Reply::Reloaded`].
    Reload,
    /// Drain and end. The answer is [`Reply::Done`].
    Shutdown,
}

/// What the engine answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Reply {
    /// This process is a session. With it come, in this order: the region, the engine's doorbell
    /// (to ring), and the doorbell of waker 0 (to hear).
    Attached {
        /// The session's number, for people.
        session: u32,
        /// The engine's name.
        engine: String,
        /// The index of the interface that it works on: what goes another way is the kernel's.
        interface: u32,
        /// Those of further ones. None for who speaks a version before
        /// [`SEVERAL_INTERFACES_SINCE`](Self::SEVERAL_INTERFACES_SINCE): he leaves what goes by them to the kernel.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<u32>,
        /// What stays on this machine may be the engine's, too; [`Request::Local`] asks for each.
        local: bool,
        /// The version that both sides speak from now on, for who has named several; else it is that
        /// which was named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u32>,
    },
    /// The listener is offloaded.
    Listening {
        /// Names it in this session from now on: two listening sockets of one address have two
        /// names.
        listener: u32,
    },
    /// What is counted of a listener.
    Admitted(AdmissionCounts),
    /// One more doorbell comes along.
    Waker {
        /// Its bit in the host's armed word.
        waker: u32,
    },
    /// The references are taken. A *lifeline* comes along, a descriptor that the parent closes
    /// after the fork and the child keeps, close-on-exec, until it has attached. If all copies of
    /// it are closed before that, the child has died or become another program, and the engine
    /// drops the references. (A parent does not learn the child's number in time for a pidfd.) On
    /// it a child that has not attached says what it [closes](super::Farewell).
    Forked {
        /// For the child's [`Request::Attach`].
        token: u64,
    },
    /// A [ticket](super::ticket) comes along.
    Ticket {
        /// The connection's grant. An older one may still be under way that says that nobody else has
        /// it.
        grant: u16,
    },
    /// The connection of a ticket is this process's, too.
    Claimed {
        /// Its name.
        conn: ConnRef,
        /// This end.
        local: SocketAddr,
        /// The other end.
        peer: SocketAddr,
        /// From the program that passed it.
        carried: Carried,
    },
    /// The file can be [sent from](crate::Submission::SendFile).
    File {
        /// Names it in this session from now on, until it is
        /// [forgotten](crate::Submission::ForgetFile).
        file: u16,
        /// A policy has decided that, for now: it is to be shown anew after some seconds. Since version 15.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        by_policy: bool,
    },
    /// A policy leaves the file to the program, to read it itself, and with it all others of these sizes that are on
    /// a disk: for some seconds none of them need be shown. Since version 15.
    Left {
        /// The least of them, in bytes.
        first: u64,
        /// The greatest.
        last: u64,
    },
    /// The facts of a connection.
    Info(Box<ConnInfo>),
    /// What the engine is.
    Engine(EngineFacts),
    /// The way to an address.
    Way(Way),
    /// The first counters.
    Stats(#[serde(with = "super::families")] Vec<Metric>),
    /// Some of the counters, all of one time. What counters of one name share is said at the first of them.
    Metrics {
        /// The counters.
        #[serde(with = "super::families")]
        metrics: Vec<Metric>,
        /// There are more to ask for.
        more: bool,
    },
    /// Some of the sockets.
    Sockets {
        /// The sockets.
        rows: Vec<SocketRow>,
        /// What to ask for the rest, if there is any.
        next: Option<u64>,
    },
    /// What became of the sockets of a process.
    Explained(Vec<Explanation>),
    /// When the engine did what of some sends, in the order in which it did it.
    Traced {
        /// The moments.
        moments: Vec<Traced>,
        /// There are more to ask for.
        more: bool,
    },
    /// The name of the program of the user's that is called, and its number in the kernel.
    Diverted(Option<(String, u32)>),
    /// The configuration was read and is right. Settings by their full names.
    Reloaded {
        /// What has changed.
        changed: Vec<String>,
        /// What differs, and only a new start changes.
        at_start: Vec<String>,
    },
    /// As asked.
    Done,
    /// Not done.
    Error {
        /// The kernel's number for why.
        errno: i32,
        /// The same for people.
        message: String,
    },
}

impl Reply {
    /// Since this version [`Reply::Attached`] names several interfaces.
    pub const SEVERAL_INTERFACES_SINCE: u32 = 17;
}

impl Request {
    /// Whether the engine answers it.
    pub fn wants_reply(&self) -> bool {
        !matches!(self, Self::Report { .. } | Self::LastWords(_))
    }
}
