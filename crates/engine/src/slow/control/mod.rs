//! The control socket: who is connected to it.

mod file;
mod knocking;
mod lifelines;
mod proof;
mod tickets;
mod told;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use netdev::syscalls::{PeerCredentials, netns_cookie, peer_credentials};
use queue_pair::control::{
    Carried, Channel, ChannelError, Encoded, Explanation, Farewell, Fds, Reply, Request, SocketRow,
    Traced,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, chmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use rustix::time::Timespec;
use tcp::ConnId;

use crate::config::{Limits, shares};
use crate::exchange::{ClientKey, Inherited, SessionKey, WorkerId};
use crate::fast::memory::OpenFile;
use crate::fast::session::Process;
use crate::poller::{Poller, Source};
use crate::slow::kernel::processes::since_boot;
use crate::sockets::SocketFilter;

pub use file::{Shown, Unfit, look_at};
pub use proof::{Chosen, Proof, Refusal, listens_on_all_of, prove_bound, prove_listener};
pub use tickets::Issued;
use told::Told;

/// Connections that the kernel may hold until they are accepted.
const BACKLOG: i32 = 128;

/// What became of a connection to the control socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It is a client now, of this user.
    Client(u32),
    /// Nobody waits.
    Nobody,
    /// It was closed: there are as many as there may be, in all or of its user.
    BeyondLimit,
    /// It was closed: this process may have no more descriptors.
    NoDescriptor,
}

/// A control connection.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    /// The process at the other end when it connected; 0 if it is outside of our PID namespace.
    pub pid: u32,
    /// When that was, since the machine was started, or a moment later.
    pub came: Duration,
    /// Its user.
    pub uid: u32,
    /// The cookie of the network namespace that it was in.
    pub namespace: u64,
    /// Which one it is of those that had its slot.
    pub serial: u32,
    /// The session that it became.
    pub session: Option<SessionKey>,
    /// The version of the protocol that it speaks, once it is to be one.
    pub version: u32,
    /// The worker that this belongs to.
    pub home: WorkerId,
    /// It is that of a responder, whose program is called while it lasts.
    pub responds: bool,
    /// Where it listens, by its names for that; what it has from the fork that it came out of included.
    pub listens: Vec<(u32, SocketAddr)>,
    /// What it has asked for and was not answered.
    pub pending: Option<Pending>,
    /// What it has by the last ticket that it has shown, and not otherwise.
    pub claimed: Option<ConnId>,
    /// What holds once it is closed, for people.
    pub last_words: Vec<Explanation>,
    /// What of the sends that were followed for it is still to be told.
    pub traced: VecDeque<Traced>,
    /// Of its process once it is a session: readable when that ends.
    pidfd: Option<OwnedFd>,
    /// It is not read until it has been answered.
    muted: bool,
    /// It is not read until its user's time has come.
    late: bool,
    watching: (bool, bool),
}

/// A request that the fast half has not answered, and what was made for the answer.
#[derive(Debug)]
pub enum Pending {
    /// To be a session.
    Attach {
        /// Who.
        process: Process,
        /// The version that is spoken, if it is to be told.
        version: Option<u32>,
        /// The shared memory.
        region: OwnedFd,
        /// The engine's doorbell, to ring.
        doorbell: OwnedFd,
        /// Its own first doorbell, to hear.
        waker: OwnedFd,
        /// The worker that holds for it what it has inherited, until it is there, by the name of its fork.
        held_at: Option<(WorkerId, u64)>,
    },
    /// To listen there.
    Listen {
        /// Where.
        local: SocketAddr,
        /// Whatever is configured of placement, it is the engine's.
        pinned: bool,
    },
    /// To open a connection from there.
    Bound(SocketAddr),
    /// To know whether the engine is at that address of this machine.
    Local,
    /// To leave this listener.
    Unlisten(u32),
    /// To do something with this listener.
    Listener(u32),
    /// To send from this file. It is kept so that it is not closed by a worker that refuses it.
    File(Arc<OpenFile>, Governed),
    /// One more doorbell, to hear.
    Waker(OwnedFd),
    /// To fork.
    Fork {
        /// Its name.
        token: u64,
        /// The lifeline: theirs, ours.
        ends: Option<(OwnedFd, OwnedFd)>,
    },
    /// To pass a connection.
    Ticket {
        /// Its name.
        token: u64,
        /// The ticket, and our end.
        ends: (OwnedFd, OwnedFd),
        /// Of what is known of it.
        issued: Issued,
    },
    /// To have the connection of a ticket.
    Claim(Carried),
    /// To accept from the listener of this name that came through a fork.
    Adopt(u32),
    /// The facts of a connection.
    Info,
    /// Some sockets.
    Sockets {
        /// Those that are wanted.
        filter: SocketFilter,
        /// Those that were found.
        rows: Vec<SocketRow>,
        /// How often more are asked for before this is answered.
        left: u32,
    },
    /// All counters, or the first of them.
    Stats {
        /// All, some at a time.
        all: bool,
    },
    /// To follow sends.
    Trace,
    /// What was kept of sends.
    Traced,
    /// What a process has.
    Explain(u32),
    /// To call a responder's program.
    Respond,
    /// To call a program of the user's: its name and its number in the kernel.
    Divert(Option<(String, u32)>),
    /// Anything for which the answer is enough.
    Facts,
}

/// A fork whose child has not attached, or a ticket.
#[derive(Debug)]
struct Lifeline {
    token: u64,
    /// The worker that knows of it.
    home: WorkerId,
    /// The user of the process that has it made.
    uid: u32,
    fd: OwnedFd,
    ticket: Option<Issued>,
    /// All that the child of the fork inherits, if that is listeners alone.
    inherits: Option<Vec<Inherited>>,
    /// Where it listens with all of it, by its parent's names for that.
    listens: Vec<(u32, SocketAddr)>,
}

/// Whether a policy has something to say of a file that the engine is to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Governed {
    /// None has.
    No,
    /// One has, once the load is known.
    NotYet,
    /// It has said so.
    Yes,
}

/// What is heard on a lifeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The child has closed something.
    Said(Farewell),
    /// Nothing, for now.
    Quiet,
    /// The child of this fork has ended, or become another program.
    Ended(u64),
    /// All copies of this ticket are closed.
    TicketEnded(u64),
    /// A process of this user cannot reach the control socket, and has brought a connection of its own. What
    /// became of that.
    Knocked(u32, Result<Accepted, Errno>),
}

impl Client {
    /// Its connection, with all that was sent on it and not read.
    pub fn into_connection(self) -> OwnedFd {
        self.channel.into_socket()
    }

    /// It listens there, by this name.
    pub fn begins_to_listen(&mut self, name: u32, local: SocketAddr) {
        self.listens.retain(|(other, _)| *other != name);
        self.listens.push((name, local));
    }

    /// It has a listener of its parent's by a name of its own.
    pub fn adopts(&mut self, parents: u32, name: u32) {
        let inherited = self.listens.iter_mut().find(|(other, _)| *other == parents);
        if let Some(inherited) = inherited {
            inherited.0 = name;
        }
    }
}

/// The control socket and its connections.
pub struct Control {
    /// What is polled.
    pub poller: Poller,
    socket: Option<(OwnedFd, PathBuf)>,
    /// Given up for a moment when there is no other descriptor, to turn a connection away by.
    spare: Option<OwnedFd>,
    /// The kernel refuses to accept for a reason that takes time to pass.
    paused: bool,
    clients: Vec<Option<Client>>,
    serials: u32,
    lifelines: Vec<Option<Lifeline>>,
    reports: HashMap<u32, Told>,
    max_clients: usize,
    max_reports: usize,
    /// Connections that are not taken on, and their users: to be closed by who has time.
    turned_away: Vec<(u32, OwnedFd)>,
}

impl Control {
    /// Without a socket: connections come by [`add_client`](Self::add_client) only.
    pub fn without_socket(limits: &Limits) -> rustix::io::Result<Self> {
        Ok(Self {
            poller: Poller::new()?,
            socket: None,
            spare: None,
            paused: false,
            clients: Vec::new(),
            serials: 0,
            lifelines: Vec::new(),
            reports: HashMap::new(),
            max_clients: limits.control_connections as usize,
            max_reports: limits.reports as usize,
            turned_away: Vec::new(),
        })
    }

    /// From now on these limits hold; who is there stays.
    pub fn set_limits(&mut self, limits: &Limits) {
        self.max_clients = limits.control_connections as usize;
        self.max_reports = limits.reports as usize;
    }

    /// Listens at `path`. A socket that a dead engine left there is replaced; one that somebody
    /// still answers on is not.
    pub fn listen_at(path: &Path, limits: &Limits) -> std::io::Result<Self> {
        let mut control = Self::without_socket(limits)?;
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        if Channel::connect(path).is_ok() {
            return Err(std::io::Error::new(
                std::io::ErrorKind::AddrInUse,
                format!("another engine answers at {}", path.display()),
            ));
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        // Everybody may connect: what a process can ask for is decided by what it can show.
        chmod(path, Mode::from_raw_mode(0o666))?;
        listen(&socket, BACKLOG)?;
        control.poller.add(socket.as_fd(), Source::Listener)?;
        control.spare = Some(rustix::io::fcntl_dupfd_cloexec(&socket, 0)?);
        control.socket = Some((socket, path.to_owned()));
        Ok(control)
    }

    /// Accepts one connection that waits.
    ///
    /// # Errors
    /// Why nobody is accepted for now, after [`pause`](Self::pause).
    pub fn accept(&mut self) -> Result<Accepted, Errno> {
        self.renew_spare();
        let Some((socket, _)) = &self.socket else {
            return Ok(Accepted::Nobody);
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let connection = match accept_with(socket, flags) {
            Ok(connection) => connection,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(Accepted::Nobody),
            // Whether somebody waits is not said; who does would wait for ever.
            Err(Errno::MFILE) if self.spare.take().is_some() => {
                let Ok(connection) = accept_with(socket, flags) else {
                    self.spare = rustix::io::fcntl_dupfd_cloexec(socket, 0).ok();
                    return Ok(Accepted::Nobody);
                };
                // Not closed here: who knows what has been sent on it.
                let uid = peer_credentials(&connection).map_or(0, |peer| peer.uid);
                self.turned_away.push((uid, connection));
                return Ok(Accepted::NoDescriptor);
            }
            // Until that is closed.
            Err(Errno::MFILE) if !self.turned_away.is_empty() => {
                self.pause();
                return Ok(Accepted::Nobody);
            }
            Err(error) => {
                self.pause();
                return Err(error);
            }
        };
        self.take_on(connection)
    }

    /// Takes a descriptor to turn somebody away by, if there is none and one is to be had again: true then.
    pub fn renew_spare(&mut self) -> bool {
        if let Some((socket, _)) = &self.socket
            && self.spare.is_none()
        {
            self.spare = rustix::io::fcntl_dupfd_cloexec(socket, 0).ok();
            return self.spare.is_some();
        }
        false
    }

    /// Takes on a connection, if there is room for it.
    fn take_on(&mut self, connection: OwnedFd) -> Result<Accepted, Errno> {
        match self.add_client(connection) {
            Ok(slot) => Ok(Accepted::Client(self.client(slot).map_or(0, |c| c.uid))),
            Err(Errno::MFILE) => Ok(Accepted::BeyondLimit),
            Err(error) => Err(error),
        }
    }

    /// Does not look for connections until [`resume`](Self::resume): those that wait stay there.
    pub fn pause(&mut self) {
        self.listen_for(false);
    }

    /// Looks for connections again.
    pub fn resume(&mut self) {
        if self.paused {
            self.listen_for(true);
        }
    }

    /// Whether there is something to [`resume`](Self::resume).
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    fn listen_for(&mut self, readable: bool) {
        let Some((socket, _)) = &self.socket else {
            return;
        };
        let watched = self
            .poller
            .watch(socket.as_fd(), Source::Listener, readable, false);
        match watched {
            Ok(()) => self.paused = !readable,
            Err(error) => tracing::warn!(%error, "the control socket cannot be polled"),
        }
    }

    /// Takes on a connection; its slot.
    pub fn add_client(&mut self, connection: OwnedFd) -> Result<u32, Errno> {
        let slot = self.clients.iter().position(Option::is_none);
        let slot = slot.unwrap_or(self.clients.len());
        let peer = peer_credentials(&connection).map_err(errno);
        let uid = peer.map_or(0, |peer| peer.uid);
        let (pid, namespace) = match peer.and_then(|peer| self.check(slot, peer, &connection)) {
            Ok(checked) => checked,
            Err(error) => {
                self.turned_away.push((uid, connection));
                return Err(error);
            }
        };
        self.serials = self.serials.wrapping_add(1);
        let client = Client {
            channel: Channel::new(connection),
            pid,
            came: since_boot(),
            uid,
            namespace,
            serial: self.serials,
            session: None,
            version: 0,
            home: WorkerId::FIRST,
            responds: false,
            listens: Vec::new(),
            pending: None,
            last_words: Vec::new(),
            claimed: None,
            traced: VecDeque::new(),
            pidfd: None,
            muted: false,
            late: false,
            watching: (true, false),
        };
        if slot == self.clients.len() {
            self.clients.push(Some(client));
        } else {
            self.clients[slot] = Some(client);
        }
        Ok(slot as u32)
    }

    /// Whether there is room for a connection, which is polled from now on: its process and network namespace.
    fn check(
        &self,
        slot: usize,
        PeerCredentials { pid, uid }: PeerCredentials,
        connection: &OwnedFd,
    ) -> Result<(u32, u64), Errno> {
        let holders = self.clients.iter().flatten().map(|client| client.uid);
        if slot >= self.max_clients || !shares::has_room(self.max_clients, uid, holders) {
            return Err(Errno::MFILE);
        }
        let namespace = netns_cookie(connection).map_err(errno)?;
        let source = Source::Client(slot as u32);
        self.poller.add(connection.as_fd(), source)?;
        Ok((pid, namespace))
    }

    /// The connection in a slot.
    pub fn client(&mut self, slot: u32) -> Option<&mut Client> {
        self.clients.get_mut(slot as usize)?.as_mut()
    }

    /// The connection of this name, if it is still there.
    pub fn client_named(&mut self, key: ClientKey) -> Option<&mut Client> {
        self.client(key.slot)
            .filter(|client| client.serial == key.serial)
    }

    /// The connections that were not taken on since, and their users.
    pub fn turned_away(&mut self) -> Vec<(u32, OwnedFd)> {
        std::mem::take(&mut self.turned_away)
    }

    /// The next request of a connection. Whatever comes of it, the descriptors that came are in `fds`.
    pub fn receive(
        &mut self,
        slot: u32,
        fds: &mut Vec<OwnedFd>,
    ) -> Result<Option<Request>, ChannelError> {
        match self.client(slot) {
            Some(client) => client.channel.try_receive_with(fds),
            None => Ok(None),
        }
    }

    /// Answers a connection. One that does not read its answers is closed.
    pub fn reply(&mut self, slot: u32, reply: &Reply, fds: Fds) -> Result<(), ChannelError> {
        self.send(slot, Encoded::new(reply)?, fds)
    }

    /// Answers a connection by what was made for it before.
    pub fn send(&mut self, slot: u32, reply: Encoded, fds: Fds) -> Result<(), ChannelError> {
        let Some(client) = self.client(slot) else {
            return Ok(());
        };
        client.channel.send_encoded(reply, fds)?;
        self.watch(slot);
        Ok(())
    }

    /// Sends what waits for a connection to be writable.
    pub fn flush(&mut self, slot: u32) -> Result<(), ChannelError> {
        if let Some(client) = self.client(slot) {
            client.channel.flush()?;
        }
        self.watch(slot);
        Ok(())
    }

    /// Does not look for requests of a connection until it has been answered.
    ///
    /// # Errors
    /// `Closed`: it is gone, which is all that is still heard of it.
    pub fn mute(&mut self, slot: u32) -> Result<(), ChannelError> {
        self.still_open(slot)?;
        if let Some(client) = self.client(slot) {
            client.muted = true;
        }
        self.watch(slot);
        Ok(())
    }

    /// The same until its user's time has come; false if it is so already.
    ///
    /// # Errors
    /// As of [`mute`](Self::mute).
    pub fn delay(&mut self, slot: u32) -> Result<bool, ChannelError> {
        self.still_open(slot)?;
        let client = self.client(slot).filter(|client| !client.late);
        let delayed = client.map(|client| client.late = true).is_some();
        self.watch(slot);
        Ok(delayed)
    }

    /// The time of a connection's user has come; false if it is gone.
    pub fn is_due(&mut self, key: ClientKey) -> bool {
        let client = self.client_named(key);
        let there = client.map(|client| client.late = false).is_some();
        self.watch(key.slot);
        there
    }

    /// What is not read is heard to be gone all the same.
    fn still_open(&mut self, slot: u32) -> Result<(), ChannelError> {
        let Some(client) = self.client(slot) else {
            return Ok(());
        };
        let mut fds = [PollFd::new(&client.channel, PollFlags::empty())];
        match poll(&mut fds, Some(&Timespec::default())) {
            Ok(1) => Err(ChannelError::Closed),
            _ => Ok(()),
        }
    }

    /// Watches a connection for room exactly while something waits for it, and for requests while it
    /// may ask.
    fn watch(&mut self, slot: u32) {
        let Some(client) = self.clients.get_mut(slot as usize).and_then(Option::as_mut) else {
            return;
        };
        client.muted &= client.pending.is_some();
        let wanted = (!client.muted && !client.late, client.channel.has_unsent());
        if wanted != client.watching {
            client.watching = wanted;
            let source = Source::Client(slot);
            let fd = client.channel.as_fd();
            if let Err(error) = self.poller.watch(fd, source, wanted.0, wanted.1) {
                tracing::warn!(%error, "a control connection cannot be polled");
            }
        }
    }

    /// A connection is that of a session, which ends with the process of this descriptor.
    pub fn watch_process(&mut self, slot: u32, pidfd: OwnedFd) -> Result<(), Errno> {
        let source = Source::Process(slot);
        self.poller.add(pidfd.as_fd(), source)?;
        if let Some(client) = self.client(slot) {
            client.pidfd = Some(pidfd);
        }
        Ok(())
    }

    /// Whether the process of a session's connection has ended.
    pub fn process_has_ended(&self, slot: u32) -> bool {
        let client = self.clients.get(slot as usize).and_then(Option::as_ref);
        client
            .and_then(|client| client.pidfd.as_ref())
            .is_some_and(|pidfd| {
                let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
                poll(&mut fds, Some(&Timespec::default())) == Ok(1)
            })
    }

    /// Whether a responder is connected.
    pub fn has_responder(&self) -> bool {
        self.clients.iter().flatten().any(|client| client.responds)
    }

    /// Nobody listens there at this worker any more, whatever its programs were told: one that has taken over from
    /// others has a listener of its own. Without this a program would have ever more of them.
    pub fn end_listening(&mut self, at: WorkerId, local: SocketAddr) {
        let elsewhere = |(_, other): &(u32, SocketAddr)| *other != local;
        let clients = self.clients.iter_mut().flatten();
        // Who is still to attach has what it inherits once it has attached, and hears of its end after that.
        for client in clients.filter(|client| client.home == at && client.session.is_some()) {
            client.listens.retain(elsewhere);
        }
        let lifelines = self.lifelines.iter_mut().flatten();
        for lifeline in lifelines.filter(|lifeline| lifeline.home == at) {
            lifeline.listens.retain(elsewhere);
        }
    }

    /// Closes a connection; what it was.
    pub fn close(&mut self, slot: u32) -> Option<Client> {
        let client = self.clients.get_mut(slot as usize)?.take()?;
        // It may take a while until it is closed.
        self.poller.remove(client.channel.as_fd());
        let last = |pid| !self.clients.iter().flatten().any(|c| c.pid == pid);
        if last(client.pid) {
            self.reports.remove(&client.pid);
        }
        Some(client)
    }

    /// All that are connected are not any more.
    pub fn close_all(&mut self) -> impl Iterator<Item = Client> {
        self.clients.drain(..).flatten()
    }

    /// Nobody finds it any more. What it is found by is removed once: after that it may be another engine's.
    pub fn leave_path(&mut self) {
        if let Some((_, path)) = &mut self.socket
            && !path.as_os_str().is_empty()
        {
            // Nothing to be done if it is gone already.
            let _ = std::fs::remove_file(std::mem::take(path));
        }
    }

    /// Keeps what a process says of one of its sockets; false if there is no room.
    pub fn report(&mut self, pid: u32, explanation: Explanation) -> bool {
        let told = self.reports.entry(pid).or_default();
        told.say(pid, explanation, self.max_reports)
    }

    /// What a process has said of its sockets.
    pub fn explanations(&self, pid: u32) -> Vec<Explanation> {
        self.reports
            .get(&pid)
            .map_or_else(Vec::new, |told| told.lines(pid))
    }

    /// The descriptor of a connection.
    pub fn client_fd(&self, slot: u32) -> Option<BorrowedFd<'_>> {
        let client = self.clients.get(slot as usize)?.as_ref()?;
        Some(client.channel.as_fd())
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

impl Drop for Control {
    fn drop(&mut self) {
        self.leave_path();
    }
}

/// Whose share something is of; root's if nobody has said.
fn user_of(sender: Option<PeerCredentials>) -> u32 {
    sender.map_or(0, |sender| sender.uid)
}
