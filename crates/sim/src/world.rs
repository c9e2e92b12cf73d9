//! A world: hosts joined by links, under a time of its own.
//!
//! Time stands still while anything happens, and then jumps to when something happens next: a frame
//! arrives, a stack's timer is due, an application goes on. Nothing depends on anything but the
//! seed, so a run that failed can be had again by its seed alone; a world that is dropped in a panic
//! prints it, with the last segments that were sent.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use tcp::{
    ConnId, ConnInfo, ConnOptions, ConnectError, Event, Extent, Instant, ListenSpec, ListenerId,
    Request, RequestError,
};
use wire::flow::FlowKey;
use wire::segment::{Headers, Segment};

use crate::host::{Host, HostConfig, Listener};
use crate::link::LinkConfig;
use crate::network::{Happening, Network, frame};
use crate::pattern;
use crate::rng::Rng;
use crate::socket::{Plan, Reading, Socket, Then};
use crate::trace::Trace;

/// A host of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub(crate) usize);

/// An application's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketId(pub(crate) usize);

/// How often things may happen at one and the same time before it counts as going in circles.
const ACTIVITY_LIMIT: usize = 1_000_000;

/// Hosts, links, and what is under way.
#[derive(Debug)]
pub struct World {
    seed: u64,
    now: Instant,
    rng: Rng,
    hosts: Vec<Host>,
    sockets: Vec<Socket>,
    /// The last socket between two addresses and ports, the local one first.
    ends: BTreeMap<(SocketAddr, SocketAddr), SocketId>,
    network: Network,
    /// How often the world was moved on: frames, timers and applications.
    steps: u64,
}

impl World {
    /// A world without hosts.
    pub fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        World {
            seed,
            // Not zero, so that nothing can take zero for a time that never was.
            now: Instant::from_secs(1_000),
            network: Network::new(rng.fork()),
            rng,
            hosts: Vec::new(),
            sockets: Vec::new(),
            ends: BTreeMap::new(),
            steps: 0,
        }
    }

    /// Adds a host.
    pub fn add_host(&mut self, config: HostConfig) -> HostId {
        let id = HostId(self.hosts.len());
        for address in &config.addresses {
            self.network.set_address(*address, id);
        }
        let rng = self.rng.fork();
        self.hosts.push(Host::new(id, config, rng));
        id
    }

    /// Joins two hosts by a link that is the same in both directions.
    pub fn join(&mut self, a: HostId, b: HostId, link: &LinkConfig) {
        self.network.connect(a, b, link.clone());
        self.network.connect(b, a, link.clone());
    }

    /// The nature of a link, to be changed under way.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn link_mut(&mut self, from: HostId, to: HostId) -> &mut LinkConfig {
        self.network.link_mut(from, to).expect("no such link")
    }

    /// Shows each segment that `from` sends to `filter`, which says whether it goes on.
    pub fn filter(&mut self, from: HostId, filter: impl FnMut(&Segment<'_>) -> bool + 'static) {
        self.network.set_filter(from, Some(Box::new(filter)));
    }

    /// Lets everything that `from` sends go on again.
    pub fn unfilter(&mut self, from: HostId) {
        self.network.set_filter(from, None);
    }

    /// What time it is.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// How often the world was moved on.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// A host.
    pub fn host(&self, id: HostId) -> &Host {
        &self.hosts[id.0]
    }

    /// A host, to do something to it that the world has no name for.
    pub fn host_mut(&mut self, id: HostId) -> &mut Host {
        &mut self.hosts[id.0]
    }

    /// A socket.
    pub fn socket(&self, id: SocketId) -> &Socket {
        &self.sockets[id.0]
    }

    /// What a socket's application means to do, to be changed under way.
    pub fn plan_mut(&mut self, id: SocketId) -> &mut Plan {
        &mut self.sockets[id.0].plan
    }

    /// What the stack knows of a socket.
    pub fn info(&self, id: SocketId) -> Option<ConnInfo> {
        let socket = self.socket(id);
        self.hosts[socket.host.0].stack.info(self.now, socket.conn)
    }

    /// The last segments that were sent, or all since [`World::trace_all`].
    pub fn trace(&self) -> &Trace {
        &self.network.trace
    }

    /// From now on, keeps all segments.
    pub fn trace_all(&mut self) {
        self.network.trace.keep_all();
    }

    /// Listens on a host. What is accepted follows `plan`; without one, connections wait for
    /// [`World::accept`].
    ///
    /// # Panics
    /// If the stack refuses.
    pub fn listen(&mut self, host: HostId, spec: ListenSpec, plan: Option<Plan>) -> ListenerId {
        let host = &mut self.hosts[host.0];
        let id = host.stack.listen(spec).expect("to listen");
        host.listeners.insert(
            id,
            Listener {
                plan,
                accepted: Vec::new(),
            },
        );
        id
    }

    /// The next connection to a listener, if there is one, and what to do with it.
    pub fn accept(&mut self, host: HostId, listener: ListenerId, plan: Plan) -> Option<SocketId> {
        let accepted = &mut self.hosts[host.0].listeners.get_mut(&listener)?.accepted;
        if !accepted.is_empty() {
            let socket = accepted.remove(0);
            self.sockets[socket.0].plan = plan;
            return Some(socket);
        }
        self.accept_from_stack(host, listener, plan)
    }

    fn accept_from_stack(
        &mut self,
        host: HostId,
        listener: ListenerId,
        plan: Plan,
    ) -> Option<SocketId> {
        let stack = &mut self.hosts[host.0].stack;
        let conn = stack.accept(listener)?;
        let info = stack
            .info(self.now, conn)
            .expect("what was accepted is there");
        Some(self.add_socket(host, conn, info.local, info.remote, plan))
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn connect(
        &mut self,
        host: HostId,
        local: SocketAddr,
        remote: SocketAddr,
        options: &ConnOptions,
        plan: Plan,
    ) -> Result<SocketId, ConnectError> {
        let conn = self.hosts[host.0]
            .stack
            .connect(self.now, local, remote, options)?;
        Ok(self.add_socket(host, conn, local, remote, plan))
    }

    fn add_socket(
        &mut self,
        host: HostId,
        conn: ConnId,
        local: SocketAddr,
        remote: SocketAddr,
        plan: Plan,
    ) -> SocketId {
        let id = SocketId(self.sockets.len());
        self.sockets
            .push(Socket::new(id, host, conn, local, remote, plan));
        self.hosts[host.0].sockets.insert(conn, id);
        self.ends.insert((local, remote), id);
        id
    }

    /// Asks something of a socket's connection.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn request(&mut self, id: SocketId, request: Request) -> Result<(), RequestError> {
        let socket = &mut self.sockets[id.0];
        let (host, conn) = (socket.host, socket.conn);
        self.hosts[host.0]
            .stack
            .on_request(self.now, conn, request)?;
        match request {
            Request::ShutdownWrite => socket.shut_down = true,
            Request::Close => {
                socket.aborted |= socket.consumed < socket.update.received;
                socket.closed = true;
            }
            Request::Abort => (socket.closed, socket.aborted) = (true, true),
            Request::Send { extent, .. } => {
                socket.submitted += u64::from(extent.len);
                socket.plan.send = socket.plan.send.max(socket.submitted);
            }
            Request::Consumed(_) | Request::SetOption(_) => {}
        }
        Ok(())
    }

    /// Lets go of what a socket has received out of order, as a host does that runs out of memory;
    /// returns how many bytes that were.
    pub fn shed_out_of_order(&mut self, id: SocketId) -> u64 {
        let Socket {
            host,
            conn,
            ref update,
            ..
        } = self.sockets[id.0];
        let host = &mut self.hosts[host.0];
        host.memory.shed(conn, update.received);
        host.stack.shed_out_of_order(conn)
    }

    /// Sends so many bytes more.
    pub fn send(&mut self, id: SocketId, bytes: u64) {
        self.sockets[id.0].plan.send += bytes;
    }

    /// Lets a segment of nobody's arrive at a host at once.
    pub fn inject(&mut self, host: HostId, headers: &Headers, payload: &[u8]) {
        let what = Happening::Frame(frame(headers, payload));
        self.network.schedule(self.now, host, what);
    }

    /// Lets any frame arrive at a host at once.
    pub fn inject_frame(&mut self, host: HostId, frame: Vec<u8>) {
        self.network
            .schedule(self.now, host, Happening::Frame(frame));
    }

    /// Whether nothing is under way; only timers may be waiting.
    pub fn is_quiet(&self) -> bool {
        self.network.is_quiet()
    }

    /// When something happens next, if ever.
    pub fn next_happening(&mut self) -> Option<Instant> {
        let timers = self
            .hosts
            .iter_mut()
            .filter_map(|host| host.stack.next_timeout())
            .min();
        self.network.next().into_iter().chain(timers).min()
    }

    /// Lets happen what can happen now, then moves on to the time of what happens next; returns
    /// whether there is anything.
    pub fn step(&mut self) -> bool {
        self.settle();
        match self.next_happening() {
            Some(next) => {
                self.now = self.now.max(next);
                self.happen();
                true
            }
            None => false,
        }
    }

    /// Lets `span` pass.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        self.settle();
        while self.next_happening().is_some_and(|next| next <= end) {
            self.step();
        }
        self.now = end;
        self.settle();
    }

    /// Goes on until `condition` holds.
    ///
    /// # Panics
    /// If it does not within `limit`, or if nothing is left that could bring it about.
    pub fn run_until(&mut self, limit: Duration, mut condition: impl FnMut(&World) -> bool) {
        let end = self.now + limit;
        self.settle();
        while !condition(self) {
            assert!(
                self.now <= end,
                "not within {limit:?}: the condition of run_until"
            );
            assert!(self.step(), "nothing is left that could bring it about");
            self.settle();
        }
    }

    /// Lets happen what happens now: all that arrives is one batch for its host.
    fn happen(&mut self) {
        self.steps += 1;
        let now = self.now;
        while let Some((host, what)) = self.network.pop(now) {
            match what {
                Happening::Frame(frame) => self.hosts[host.0].receive(now, &frame),
                Happening::Wake(id) => {
                    let socket = &mut self.sockets[id.0];
                    (socket.wake_scheduled, socket.may_read) = (false, true);
                    self.pump(id);
                }
                Happening::Room => {}
            }
        }
        for host in &mut self.hosts {
            if host.stack.next_timeout().is_some_and(|at| at <= now) {
                let budget = host.rng.pick(&[1, 16, 1_000]);
                host.stack.on_timeout(now, budget);
            }
        }
        self.settle();
    }

    /// Passes events to the applications and segments to the links until nobody has anything more
    /// to say.
    fn settle(&mut self) {
        for _ in 0..ACTIVITY_LIMIT {
            let mut active = false;
            for at in 0..self.hosts.len() {
                while let Some(event) = self.hosts[at].stack.poll_event() {
                    active = true;
                    self.on_event(HostId(at), event);
                }
                active |= self.hosts[at].transmit(self.now, &mut self.network) > 0;
            }
            if !active {
                return;
            }
        }
        panic!("the stacks never come to rest");
    }

    fn on_event(&mut self, host: HostId, event: Event) {
        match event {
            Event::Acceptable(listener) => {
                let plan = self.hosts[host.0]
                    .listeners
                    .get(&listener)
                    .and_then(|l| l.plan);
                let Some(plan) = plan else { return };
                while let Some(socket) = self.accept_from_stack(host, listener, plan) {
                    if let Some(listener) = self.hosts[host.0].listeners.get_mut(&listener) {
                        listener.accepted.push(socket);
                    }
                }
            }
            Event::Connection(conn, update) => {
                // One that nobody has accepted is told of again when somebody has.
                if let Some(&id) = self.hosts[host.0].sockets.get(&conn) {
                    self.sockets[id.0].take_update(update);
                    self.pump(id);
                }
            }
            Event::Released(conn) => {
                self.hosts[host.0].memory.release(conn);
                if let Some(id) = self.hosts[host.0].sockets.remove(&conn) {
                    self.sockets[id.0].released = true;
                }
            }
        }
    }

    /// Lets a socket's application do what it can. The world does so whenever the stack says
    /// something of the socket; a test that has changed the plan does it itself.
    pub fn pump(&mut self, id: SocketId) {
        if self.sockets[id.0].released {
            return;
        }
        self.pump_reading(id);
        while self.sockets[id.0].sendable() > 0 {
            let socket = &self.sockets[id.0];
            let len = socket.sendable() as u32;
            let extent = Extent {
                addr: socket.next_address(),
                len,
            };
            let more = socket.plan.more && socket.submitted + u64::from(len) < socket.plan.send;
            self.must(id, Request::Send { extent, more });
        }
        let socket = &self.sockets[id.0];
        if socket.closed {
            return;
        }
        let failed = socket.update.failed.is_some();
        if socket.all_submitted() && !socket.shut_down && !failed {
            match socket.plan.then {
                Then::Stay => {}
                Then::ShutdownWrite => self.must(id, Request::ShutdownWrite),
                Then::Close => return self.must(id, Request::Close),
            }
        }
        let socket = &self.sockets[id.0];
        let done = socket.all_submitted()
            && socket.update.peer_closed
            && socket.consumed == socket.update.received;
        if socket.plan.close_after_peer && (done || failed) {
            self.must(id, Request::Close);
        }
    }

    fn must(&mut self, id: SocketId, request: Request) {
        let result = self.request(id, request);
        assert_eq!(result, Ok(()), "{request:?} of {:?}", self.sockets[id.0]);
    }

    fn pump_reading(&mut self, id: SocketId) {
        let readable = self.sockets[id.0].readable();
        if readable > 0 {
            let Socket {
                host,
                conn,
                consumed,
                ..
            } = self.sockets[id.0];
            let bytes = self.hosts[host.0].memory.read(conn, readable);
            assert_eq!(
                bytes.len() as u64,
                readable,
                "what was said to be received is there"
            );
            self.check(id, &bytes);
            self.sockets[id.0].consumed += readable;
            if self.sockets[id.0].update.failed.is_none() {
                self.must(id, Request::Consumed(consumed + readable));
            }
        }
        let now = self.now;
        let socket = &mut self.sockets[id.0];
        if let Reading::Slow(_, pause) = socket.plan.reading
            && readable > 0
        {
            socket.may_read = false;
            if !socket.wake_scheduled {
                socket.wake_scheduled = true;
                self.network
                    .schedule(now + pause, socket.host, Happening::Wake(id));
            }
        }
    }

    /// Holds what was read against what the peer sent.
    fn check(&mut self, id: SocketId, bytes: &[u8]) {
        let peer = self
            .peer(id)
            .unwrap_or_else(|| panic!("{id:?} read what nobody sent"));
        let (offset, peer) = (self.sockets[id.0].consumed, &self.sockets[peer.0]);
        assert!(
            offset + bytes.len() as u64 <= peer.submitted,
            "{id:?} read {offset}+{} bytes of {}",
            bytes.len(),
            peer.submitted
        );
        if let Some(at) = pattern::first_wrong(peer.base + offset, bytes) {
            panic!("{id:?} read a wrong byte at {}", offset + at as u64);
        }
    }

    /// The other end of a socket's connection: the last one opened between those addresses and
    /// ports, when it was first asked for.
    pub fn peer(&mut self, id: SocketId) -> Option<SocketId> {
        let Socket {
            peer,
            local,
            remote,
            ..
        } = self.sockets[id.0];
        if peer.is_some() {
            return peer;
        }
        let found = *self.ends.get(&(remote, local))?;
        self.sockets[id.0].peer = Some(found);
        self.sockets[found.0].peer = Some(id);
        Some(found)
    }

    /// Checks that a connection that was ended in peace has delivered, both ways, everything that
    /// was sent.
    ///
    /// # Panics
    /// If it has not.
    pub fn check_delivered(&mut self, id: SocketId) {
        let peer = self
            .peer(id)
            .unwrap_or_else(|| panic!("{id:?} has no peer"));
        for (from, to) in [(id, peer), (peer, id)] {
            let (sender, receiver) = (&self.sockets[from.0], &self.sockets[to.0]);
            assert_eq!(sender.update.failed, None, "{from:?} has failed");
            assert!(!sender.aborted, "{from:?} was aborted");
            assert_eq!(
                receiver.consumed, sender.submitted,
                "from {from:?} to {to:?}"
            );
            assert_eq!(
                sender.submitted, sender.plan.send,
                "{from:?} did not send everything"
            );
        }
    }

    /// Checks that nothing is left on any host: no connection, no memory.
    ///
    /// # Panics
    /// If anything is.
    pub fn check_empty(&self) {
        for host in &self.hosts {
            let name = host.config.name;
            assert_eq!(
                host.stack.connection_count(),
                0,
                "connections are left at the {name}"
            );
            assert_eq!(
                host.stack.half_open_count(),
                0,
                "half-open ones are left at the {name}"
            );
            assert_eq!(host.memory.holders(), 0, "memory is held at the {name}");
            assert!(host.sockets.is_empty(), "sockets are left at the {name}");
        }
    }

    /// How the flow of a socket is called at its host.
    pub fn flow(&self, id: SocketId) -> FlowKey {
        let Socket { local, remote, .. } = self.socket(id);
        FlowKey {
            local: local.ip(),
            remote: remote.ip(),
            local_port: local.port(),
            remote_port: remote.port(),
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the seed was {}, the time {}", self.seed, self.now);
            eprint!("{}", self.network.trace);
            eprintln!("---");
        }
    }
}
