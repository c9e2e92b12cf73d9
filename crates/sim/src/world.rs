//! A world: hosts joined by links, under a time of its own.
//!
//! Time stands still while anything happens, and then jumps to when something happens next: a frame
//! arrives, a stack's timer is due, an application goes on. Nothing depends on anything but the
//! seed, so a run that failed can be had again by its seed alone; a world that is dropped in a panic
//! prints it, with the last segments that were sent.

mod applications;
mod moving;
mod run;

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use tcp::{
    ConnId, ConnInfo, ConnOptions, ConnectError, Instant, ListenSpec, ListenerId, Request,
    RequestError,
};
use wire::flow::FlowKey;
use wire::segment::{Headers, Segment};

use crate::host::{Host, HostConfig, Listener};
use crate::ids::{HostId, SocketId};
use crate::link::LinkConfig;
use crate::network::{Happening, Network, frame};
use crate::rng::Rng;
use crate::socket::{Plan, Socket};
use crate::trace::Trace;

/// For how long the application of a socket whose SYN waits for data has none to give, at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

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
    /// At which of them time last moved on.
    standing_since: u64,
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
            standing_since: 0,
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

    /// Every socket that there ever was.
    pub fn sockets(&self) -> impl Iterator<Item = SocketId> + use<> {
        (0..self.sockets.len()).map(SocketId)
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
                spec,
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
            self.pump(socket);
            return Some(socket);
        }
        self.accept_from_stack(host, listener, plan)
    }

    /// How many connections to a listener [`World::accept`] would give.
    pub fn acceptable(&self, host: HostId, listener: ListenerId) -> usize {
        let host = &self.hosts[host.0];
        let accepted = host
            .listeners
            .get(&listener)
            .map_or(0, |l| l.accepted.len());
        accepted + host.stack.waiting(listener)
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
        let id = self.add_socket(host, conn, local, remote, plan);
        if self.holds_syn(id) {
            // What is there to be sent comes a while later, as of a program that connects before it writes.
            let pause = self.rng.span(LONGEST_PAUSE);
            let wake = Happening::Wake(id);
            self.network.schedule(self.now + pause, host, wake);
        } else if options.fast_open > 0 {
            // What is handed over at once may leave with the SYN.
            self.submit(id);
        }
        Ok(id)
    }

    /// Whether a socket's SYN waits for data (`ConnOptions::hold_syn`).
    pub fn holds_syn(&mut self, id: SocketId) -> bool {
        let socket = &self.sockets[id.0];
        let (host, conn) = (socket.host, socket.conn);
        self.hosts[host.0].stack.syn_room(self.now, conn) > 0
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
            Request::ShutdownRead
            | Request::Consumed(_)
            | Request::SetOption(_)
            | Request::Open => {}
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
