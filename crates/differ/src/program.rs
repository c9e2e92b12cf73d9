//! A program: what its processes and threads call, what their peer does, and in which order.
//!
//! One step is taken at a time. That makes what comes back comparable: the only freedom left is
//! that of the wire, and of who of several waiting for the same thing gets it.

use serde::{Deserialize, Serialize};

/// A thread of the program: the number that the program gives it. 0 is there from the beginning.
pub type Actor = u8;
/// The program's own name for a descriptor. A forked child has its parent's names.
pub type Slot = u8;
/// A connection between the program and its peer.
pub type Connection = u8;

/// Actors that a program may have.
pub const ACTORS: usize = 8;
/// Connections that a program may have.
pub const CONNECTIONS: usize = 12;
/// Ports that a program may listen on.
pub const PORTS: usize = 8;

/// What is run, once on the kernel and once on the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// What it shows, for those that are kept; otherwise where it comes from.
    pub about: String,
    /// In the order in which they are taken.
    pub steps: Vec<Step>,
}

/// A step of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// An actor makes a call. Skipped while the actor is in another, stopped or dead.
    Do(Actor, Call),
    /// The peer does something.
    Peer(Peer),
    /// The actor's process gets a signal.
    Signal(Actor, Signal),
    /// The engine stands still from now on, or goes on. The kernel has none.
    Engine(Engine),
    /// What the peer has of every connection is looked at, once nothing more comes.
    Observe,
}

/// What the peer does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Peer {
    /// Connects to a port of the program.
    Connect {
        /// The name of the new connection.
        connection: Connection,
        /// Which of the program's ports.
        port: u8,
        /// Over which IP.
        family: Family,
    },
    /// Sends as many bytes, of a text that tells each place in it from every other.
    Send(Connection, u32),
    /// Says that no more comes.
    Shutdown(Connection),
    /// Closes.
    Close(Connection),
    /// Closes by a reset.
    Reset(Connection),
}

impl Peer {
    /// The connection that it concerns.
    pub fn connection(&self) -> Connection {
        match self {
            Self::Send(connection, _)
            | Self::Shutdown(connection)
            | Self::Close(connection)
            | Self::Reset(connection)
            | Self::Connect { connection, .. } => *connection,
        }
    }
}

/// A signal to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signal {
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Continue,
    /// SIGKILL.
    Kill,
    /// SIGUSR1, which the program catches and, unless it [says otherwise](Call::Handle), does nothing about, without
    /// SA_RESTART.
    Interrupt,
}

/// Whether the engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// It stands still at the beginning of each step that follows, and runs once that does not come to an end without it.
    Stop,
    /// It runs.
    Continue,
}

/// What the handler of SIGUSR1 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Handler {
    /// Nothing.
    Nothing,
    /// It reads at most so many bytes, of which there are no more than [`Self::MOST`].
    Receive(Slot, u8),
    /// It writes so many bytes.
    Send(Slot, u8),
}

impl Handler {
    /// The most bytes that it reads at once.
    pub const MOST: u8 = 16;
}

/// The call by which a program is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartBy {
    /// posix_spawn.
    Spawn,
    /// system.
    System,
    /// popen, and pclose.
    Popen,
}

/// The version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// AF_INET.
    V4,
    /// AF_INET6.
    V6,
}

/// The address of a `bind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Port {
    /// Whatever the kernel finds.
    Any,
    /// One of the program's own.
    Own(u8),
}

/// Whether a `bind` names the interface's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Address {
    /// The wildcard address.
    Any,
    /// The server's address on the interface.
    Interface,
}

/// Where a `connect` goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Destination {
    /// To the peer, which listens for this connection alone.
    Peer(Connection),
    /// To a port of the peer's where nobody listens.
    Nobody,
}

/// How long a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until something happens.
    Forever,
    /// So many milliseconds.
    Milliseconds(u16),
}

/// The call by which a connection is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcceptBy {
    /// accept.
    Accept,
    /// accept4 without flags.
    Accept4,
    /// accept4 with SOCK_NONBLOCK.
    Accept4Nonblocking,
    /// accept4 with SOCK_CLOEXEC.
    Accept4CloseOnExec,
}

/// The call by which bytes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceiveBy {
    /// read.
    Read,
    /// readv, into two pieces.
    Readv,
    /// recv.
    Recv,
    /// recvfrom, with an address.
    Recvfrom,
    /// recvmsg, into two pieces.
    Recvmsg,
    /// recvmmsg, one message.
    Recvmmsg,
    /// preadv2, into two pieces, without a position; of the flags it has MSG_DONTWAIT.
    Preadv2,
}

/// The call by which bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SendBy {
    /// write.
    Write,
    /// writev, from two pieces.
    Writev,
    /// send.
    Send,
    /// sendto, without an address.
    Sendto,
    /// sendmsg, from two pieces.
    Sendmsg,
    /// sendmmsg, one message.
    Sendmmsg,
    /// pwritev2, from two pieces, without a position; of the flags it has MSG_DONTWAIT.
    Pwritev2,
}

/// A flag of a send or a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flag {
    /// MSG_DONTWAIT.
    DontWait,
    /// MSG_PEEK.
    Peek,
    /// MSG_WAITALL.
    WaitAll,
    /// MSG_TRUNC.
    Truncate,
    /// MSG_MORE.
    More,
}

/// The call by which a descriptor is duplicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DupBy {
    /// dup.
    Dup,
    /// dup2, onto the number of another, or one of its own.
    Dup2(Option<Slot>),
    /// dup3 with O_CLOEXEC, likewise.
    Dup3(Option<Slot>),
    /// fcntl F_DUPFD.
    Fcntl,
    /// fcntl F_DUPFD_CLOEXEC.
    FcntlCloseOnExec,
}

/// What a shutdown ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// SHUT_RD.
    Read,
    /// SHUT_WR.
    Write,
    /// SHUT_RDWR.
    Both,
}

/// An event to wait for, or a way to wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Event {
    /// Readable.
    In,
    /// Writable.
    Out,
    /// The peer has said that no more comes.
    RdHup,
    /// Urgent data.
    Pri,
    /// An error.
    Err,
    /// Hung up.
    Hup,
    /// Not a descriptor (poll alone).
    Nval,
    /// Edge-triggered (epoll alone).
    Edge,
    /// Once (epoll alone).
    OneShot,
    /// One of several sets (epoll alone).
    Exclusive,
}

/// What `epoll_ctl` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// EPOLL_CTL_ADD.
    Add,
    /// EPOLL_CTL_MOD.
    Modify,
    /// EPOLL_CTL_DEL.
    Delete,
}

/// Whose name is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// getsockname.
    Local,
    /// getpeername.
    Remote,
}

/// A socket option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each is the option of its name")]
pub enum Opt {
    ReuseAddress,
    ReusePort,
    KeepAlive,
    Error,
    Type,
    AcceptConnections,
    Protocol,
    Domain,
    Linger,
    ReceiveTimeout,
    SendTimeout,
    ReceiveLowAt,
    NoDelay,
    Cork,
    KeepIdle,
    KeepInterval,
    KeepCount,
    UserTimeout,
    QuickAck,
    DeferAccept,
    V6Only,
    TypeOfService,
    Priority,
    MaxSegment,
    SynCount,
    Linger2,
    FreeBind,
    OutOfBandInline,
    Broadcast,
    BusyPoll,
    Zerocopy,
    NotSentLowAt,
    WindowClamp,
    Congestion,
    TrafficClass,
    Mtu,
}

/// A call of the program's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "slots, and what the call of that name takes")]
pub enum Call {
    Socket {
        new: Slot,
        family: Family,
        nonblocking: bool,
    },
    Bind {
        slot: Slot,
        address: Address,
        port: Port,
    },
    Listen {
        slot: Slot,
        backlog: i32,
    },
    Accept {
        slot: Slot,
        new: Slot,
        by: AcceptBy,
    },
    /// Waits by poll for any of several listeners, and accepts from the first that is ready.
    AcceptAny {
        slots: Vec<Slot>,
        new: Slot,
    },
    Connect {
        slot: Slot,
        to: Destination,
    },
    Receive {
        slot: Slot,
        most: u32,
        by: ReceiveBy,
        flags: Vec<Flag>,
    },
    Send {
        slot: Slot,
        length: u32,
        by: SendBy,
        flags: Vec<Flag>,
    },
    /// sendfile from a descriptor, at its position or at an offset of the call's own.
    SendFile {
        slot: Slot,
        from: Slot,
        offset: Option<u32>,
        length: u32,
    },
    /// tee from one pipe to another, without waiting.
    Tee {
        from: Slot,
        to: Slot,
        length: u32,
    },
    /// read from what is no socket, or write to it.
    ReadPlain {
        slot: Slot,
        most: u32,
    },
    WritePlain {
        slot: Slot,
        length: u32,
    },
    /// splice, without waiting if so said.
    Splice {
        from: Slot,
        to: Slot,
        length: u32,
        nonblocking: bool,
    },
    Shutdown {
        slot: Slot,
        how: How,
    },
    Close {
        slot: Slot,
    },
    Dup {
        slot: Slot,
        new: Slot,
        by: DupBy,
    },
    Pipe {
        new: [Slot; 2],
    },
    /// A file with text in it.
    File {
        new: Slot,
        length: u32,
    },
    /// A pair of connected UNIX sockets.
    Pair {
        new: [Slot; 2],
    },
    /// SCM_RIGHTS.
    Pass {
        via: Slot,
        slot: Slot,
    },
    /// The other end of [`Self::Pass`].
    Take {
        via: Slot,
        new: Slot,
    },
    EpollCreate {
        new: Slot,
    },
    EpollControl {
        set: Slot,
        change: Change,
        slot: Slot,
        events: Vec<Event>,
    },
    EpollWait {
        set: Slot,
        most: u8,
        wait: Wait,
    },
    Poll {
        slots: Vec<(Slot, Vec<Event>)>,
        wait: Wait,
    },
    Select {
        read: Vec<Slot>,
        write: Vec<Slot>,
        wait: Wait,
    },
    SetOption {
        slot: Slot,
        option: Opt,
        value: i32,
    },
    GetOption {
        slot: Slot,
        option: Opt,
    },
    Name {
        slot: Slot,
        of: End,
    },
    /// FIONREAD.
    Unread {
        slot: Slot,
    },
    /// O_NONBLOCK, by fcntl or by FIONBIO.
    SetNonblocking {
        slot: Slot,
        on: bool,
        by_ioctl: bool,
    },
    /// F_GETFL and F_GETFD.
    Flags {
        slot: Slot,
    },
    Fork {
        child: Actor,
    },
    /// A new thread of the process.
    Thread {
        new: Actor,
    },
    /// The same interpreter anew, with the descriptors that survive.
    Exec,
    /// The process ends, by `exit` or by `_exit`.
    Exit {
        at_once: bool,
    },
    /// Another program, which inherits what is not closed on exec, writes so many bytes to a descriptor and ends. It is
    /// waited for.
    Start {
        by: StartBy,
        slot: Slot,
        length: u32,
    },
    /// What the process does at SIGUSR1 from now on, with SA_RESTART or without.
    Handle {
        does: Handler,
        restart: bool,
    },
    /// What the handler's calls have returned since this was last asked.
    Handled,
}

impl Call {
    /// What it is called in lists and in the table of differences: the call's own name, and the
    /// option's where there is one.
    pub fn name(&self) -> String {
        match self {
            Self::SetOption { option, .. } => format!("setsockopt {option:?}"),
            Self::GetOption { option, .. } => format!("getsockopt {option:?}"),
            Self::Receive { by, .. } => format!("{by:?}").to_lowercase(),
            Self::Send { by, .. } => format!("{by:?}").to_lowercase(),
            Self::Accept { .. } | Self::AcceptAny { .. } => "accept".into(),
            Self::Start { by, .. } => format!("start {by:?}"),
            other => {
                let text = format!("{other:?}");
                let end = text.find([' ', '{', '(']).unwrap_or(text.len());
                text[..end].to_lowercase()
            }
        }
    }
}

impl Program {
    /// As it is kept: one step a line.
    pub fn to_text(&self) -> String {
        let mut text = format!("{{\"about\":{},\n\"steps\":[\n", json(&self.about));
        for (index, step) in self.steps.iter().enumerate() {
            let comma = if index + 1 == self.steps.len() {
                ""
            } else {
                ","
            };
            text.push_str(&format!("{}{comma}\n", json(step)));
        }
        text.push_str("]}\n");
        text
    }

    /// Reads what [`Self::to_text`] wrote.
    ///
    /// # Errors
    /// Says where it is no program.
    pub fn from_text(text: &str) -> anyhow::Result<Self> {
        let program: Self = serde_json::from_str(text)?;
        program.check()?;
        Ok(program)
    }
}

impl Program {
    /// Whether a call may come back because its time is over.
    pub fn sets_timeouts(&self) -> bool {
        let sets = |step: &Step| {
            let Step::Do(_, Call::SetOption { option, .. }) = step else {
                return false;
            };
            matches!(option, Opt::ReceiveTimeout | Opt::SendTimeout)
        };
        self.steps.iter().any(sets)
    }

    /// The ports of its own that it binds.
    pub fn listens_at(&self) -> Vec<u8> {
        let mut ports: Vec<u8> = self
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Do(
                    _,
                    Call::Bind {
                        port: Port::Own(port),
                        ..
                    },
                ) => Some(*port),
                _ => None,
            })
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Whether its numbers are those that there can be.
    ///
    /// # Errors
    /// Names the step that goes beyond them.
    pub fn check(&self) -> anyhow::Result<()> {
        for (index, step) in self.steps.iter().enumerate() {
            let good = match step {
                Step::Do(actor, call) => {
                    usize::from(*actor) < ACTORS
                        && match call {
                            Call::Fork { child: new } | Call::Thread { new } => {
                                usize::from(*new) < ACTORS
                            }
                            Call::Connect {
                                to: Destination::Peer(connection),
                                ..
                            } => usize::from(*connection) < CONNECTIONS,
                            Call::Bind {
                                port: Port::Own(port),
                                ..
                            } => usize::from(*port) < PORTS,
                            Call::Handle {
                                does: Handler::Receive(_, most),
                                ..
                            } => *most <= Handler::MOST,
                            _ => true,
                        }
                }
                Step::Signal(actor, _) => usize::from(*actor) < ACTORS,
                Step::Peer(Peer::Connect {
                    connection, port, ..
                }) => usize::from(*connection) < CONNECTIONS && usize::from(*port) < PORTS,
                Step::Peer(_) | Step::Engine(_) | Step::Observe => true,
            };
            anyhow::ensure!(good, "step {index} names what there is not: {step:?}");
        }
        Ok(())
    }
}

/// Plain values of ours can always be written.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_read_as_it_was_written() {
        let program = Program {
            about: "two \"steps\"".into(),
            steps: vec![
                Step::Do(0, Call::EpollCreate { new: 3 }),
                Step::Peer(Peer::Send(1, 20)),
            ],
        };
        assert_eq!(Program::from_text(&program.to_text()).unwrap(), program);
    }
}
