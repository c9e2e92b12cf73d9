//! Strangers on the control socket and in shared memory: they ask and write whatever a script of bytes
//! says, while somebody else works. Run by the test `strangers` with random scripts and what the fuzzer
//! found, and by the fuzz target of the same name with scripts that it makes up.
//!
//! Whatever they do: nothing panics, everything comes to rest, who works notices nothing, and when they
//! have gone nothing of theirs is left.

mod orders;
mod questions;
mod script;

use std::collections::HashSet;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use engine::config::Config;
use netdev::sim::LinkConfig;
use queue_pair::control::{Channel, Fds, MAX_FDS, Reply, Request};
use queue_pair::{Completion, ConnRef, HostSide, position, region};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};
use tcp::ConnId;

use crate::world::{Host, World};
use questions::Known;
use script::Script;

/// How many strangers there may be at a time.
const STRANGERS: usize = 4;
/// The most descriptors that they keep to show.
const KEPT: usize = 16;
/// Long enough for whatever they left behind to end.
const AFTERWARDS: Duration = Duration::from_secs(1200);

/// Runs a script.
///
/// # Panics
/// A rule above is broken.
pub fn run(script: &[u8]) {
    let mut scene = Scene::new();
    let mut script = Script(script);
    while let Some(step) = script.next() {
        scene.step(step, &mut script);
        scene.audit();
    }
    scene.ends();
}

/// A stranger, attached or not.
struct Stranger {
    channel: Channel,
    memory: Option<HostSide>,
}

struct Scene {
    world: World,
    strangers: Vec<Stranger>,
    known: Known,
    /// What strangers may show: what they were given, and what they made.
    descriptors: Vec<OwnedFd>,
    listening: Vec<TcpListener>,
    /// Who works.
    worker: Host,
    conn: ConnRef,
    peer: ConnId,
    /// How much he has read.
    read: u64,
    /// Where the peer has said that it sends no more.
    shut: HashSet<ConnId>,
}

impl Scene {
    fn new() -> Self {
        let mut config = Config::default();
        config.limits.requests_per_second = 1 << 30;
        let mut world = World::with(config, LinkConfig::default());
        let (worker, conn, peer) = world.connected();
        world.peer.listen(7);
        let listening: Vec<_> = ["0.0.0.0:0", "0.0.0.0:0", "[::]:0", "127.0.0.1:0"]
            .into_iter()
            .map(|at| TcpListener::bind(at).expect("a port"))
            .collect();
        let mut addresses: Vec<SocketAddr> = listening
            .iter()
            .filter_map(|it| it.local_addr().ok())
            .collect();
        addresses.push(SocketAddr::new(crate::world::PEER, 7));
        // The connection that works is no secret: its number is easy to guess.
        let known = Known {
            conns: vec![conn],
            listeners: vec![0],
            addresses,
            tokens: Vec::new(),
        };
        Self {
            world,
            strangers: Vec::new(),
            known,
            descriptors: Vec::new(),
            listening,
            worker,
            conn,
            peer,
            read: 0,
            shut: HashSet::new(),
        }
    }

    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        let kind = step % 32;
        if self.strangers.is_empty() || (kind == 0 && self.strangers.len() < STRANGERS) {
            let channel = self.world.dial();
            self.strangers.push(Stranger {
                channel,
                memory: None,
            });
        }
        let who = script.below(self.strangers.len());
        match kind {
            1 => drop(self.strangers.swap_remove(who)),
            2 => {
                let count = script.below(128);
                let bytes = script.take(count);
                let _ = rustix::net::send(&self.strangers[who].channel, bytes, SendFlags::NOSIGNAL);
            }
            3 => self.peer_acts(script),
            4 => self
                .world
                .pass(Duration::from_millis(script.below(64) as u64)),
            5 => self.rests(Duration::from_secs(script.byte().into())),
            6 => drop(script.one_of(&[0, 1, 2, 3]).and_then(|at| {
                (at < self.descriptors.len()).then(|| self.descriptors.swap_remove(at))
            })),
            7 => self.scribbles(who, script),
            8..=18 => self.asks(who, script),
            19..=22 => self.orders(who, script),
            _ => self.behaves(who),
        }
        self.world.attend();
        self.hears();
    }

    fn asks(&mut self, who: usize, script: &mut Script<'_>) {
        let mut fds = Fds::new();
        let request = questions::request(&self.known, script);
        for _ in 0..self.wanted(&request, script) {
            fds.push(self.descriptor(&request, script));
        }
        let _ = self.strangers[who].channel.send(&request, fds);
    }

    /// How many descriptors go with a request: mostly as many as it wants.
    fn wanted(&self, request: &Request, script: &mut Script<'_>) -> usize {
        match (script.below(8), request) {
            (0, _) => script.below(MAX_FDS + 1),
            (
                _,
                Request::Listen { .. }
                | Request::Chosen { .. }
                | Request::Bound { .. }
                | Request::File
                | Request::Claim
                | Request::Capture { .. }
                | Request::Respond { .. }
                | Request::Divert { .. },
            ) => 1,
            _ => 0,
        }
    }

    /// Something to show: mostly of the kind that is wanted.
    fn descriptor(&mut self, request: &Request, script: &mut Script<'_>) -> OwnedFd {
        let listens = matches!(request, Request::Listen { .. } | Request::Chosen { .. });
        let copy = |it: &dyn AsFd| it.as_fd().try_clone_to_owned().expect("descriptors");
        if listens && script.below(8) != 0 {
            // The one that is at the address, or the next.
            let address = match request {
                Request::Listen { addr, .. } | Request::Chosen { addr, .. } => Some(*addr),
                _ => None,
            };
            let its = |it: &&TcpListener| it.local_addr().ok() == address;
            let at = script.below(self.listening.len());
            let shown = self
                .listening
                .iter()
                .find(its)
                .unwrap_or(&self.listening[at]);
            return copy(shown);
        }
        if *request == Request::File && script.below(8) != 0 {
            let own = std::env::current_exe().expect("a program");
            return std::fs::File::open(own).expect("readable").into();
        }
        match script.below(8) {
            0 => memfd_create("theirs", MemfdFlags::CLOEXEC).expect("a memfd"),
            1 => eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"),
            2 => UdpSocket::bind("127.0.0.1:0").expect("a port").into(),
            3 => {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let (one, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
                    .expect("sockets");
                self.keep(other);
                one
            }
            _ => match self.descriptors.len() {
                0 => copy(&self.listening[0]),
                count => copy(&self.descriptors[script.below(count)]),
            },
        }
    }

    fn keep(&mut self, descriptor: OwnedFd) {
        if self.descriptors.len() == KEPT {
            self.descriptors.remove(0);
        }
        self.descriptors.push(descriptor);
    }

    fn orders(&mut self, who: usize, script: &mut Script<'_>) {
        let Some(memory) = &mut self.strangers[who].memory else {
            return;
        };
        let block = orders::block(script);
        let _ = memory.send.copy_in(script.number(), &block);
        for _ in 0..=script.below(4) {
            let submission = orders::submission(&self.known, script);
            // The ring may be full, or the engine gone.
            let _ = memory.submissions.post(&submission);
        }
        memory.submissions.publish();
    }

    /// Moves positions that are the engine's to grant.
    fn scribbles(&mut self, who: usize, script: &mut Script<'_>) {
        let Some(memory) = &self.strangers[who].memory else {
            return;
        };
        let conn = self.known.conn(script);
        let Some(word) = memory.positions.word(conn.index) else {
            return;
        };
        let now = position::look(word);
        match script.below(4) {
            0 => drop(position::advance(
                word,
                now.grant(),
                script.number(),
                script.number(),
            )),
            1 => drop(position::accept(word, now.grant(), conn.generation)),
            2 => position::grant(word, script.number() as u16, script.number()),
            _ => word.store(script.number(), std::sync::atomic::Ordering::Relaxed),
        }
    }

    /// A stranger does what a program does: listens, and takes what comes.
    fn behaves(&mut self, who: usize) {
        let Some(memory) = &mut self.strangers[who].memory else {
            return;
        };
        for &listener in &self.known.listeners {
            let credit = queue_pair::Submission::Credit {
                listener,
                total: 64,
                waits: true,
            };
            let _ = memory.submissions.post(&credit);
        }
        memory.submissions.publish();
    }

    /// The peer's connections, but for the one that works, in an order that does not change.
    fn peers(&self) -> Vec<ConnId> {
        let conns = &self.world.peer.conns;
        let open = |id: &ConnId| {
            *id != self.peer && conns[id].update.failed.is_none() && !conns[id].released
        };
        let mut peers: Vec<_> = conns.keys().copied().filter(open).collect();
        peers.sort_unstable_by_key(|id| (id.index, id.generation));
        peers
    }

    fn peer_acts(&mut self, script: &mut Script<'_>) {
        let peers = self.peers();
        let now = self.world.now;
        match (script.below(4), script.one_of(&peers)) {
            (0, Some(peer)) if !self.shut.contains(&peer) => {
                let bytes = &[7; 2560][..script.below(256) * 10];
                self.world.peer.send(now, peer, bytes);
            }
            (1, Some(peer)) => {
                self.shut.insert(peer);
                let _ = self
                    .world
                    .peer
                    .stack
                    .on_request(now, peer, tcp::Request::ShutdownWrite);
            }
            _ => {
                let ports: Vec<u16> = self
                    .listening
                    .iter()
                    .filter_map(|it| it.local_addr().ok())
                    .map(|it| it.port())
                    .collect();
                let port = script.one_of(&ports).expect("there are some");
                self.world.peer.connect(now, port);
            }
        }
    }

    /// Takes answers and completions.
    fn hears(&mut self) {
        let Self {
            strangers, known, ..
        } = self;
        let mut given = Vec::new();
        strangers.retain_mut(|it| it.hears(known, &mut given));
        for descriptor in given {
            self.keep(descriptor);
        }
        let bounded = |count: usize| count.saturating_sub(64);
        self.known.conns.drain(..bounded(self.known.conns.len()));
        self.known
            .listeners
            .drain(..bounded(self.known.listeners.len()));
        self.known.tokens.drain(..bounded(self.known.tokens.len()));
    }

    fn audit(&mut self) {
        if let Err(rule) = self.world.worker.stack().audit() {
            panic!("{rule}");
        }
    }

    /// Time passes, in a few steps.
    fn rests(&mut self, span: Duration) {
        let end = self.world.now + span;
        let step = (span / 200).max(Duration::from_millis(250));
        while self.world.now < end {
            self.world.now += step;
            self.world.attend();
        }
    }

    /// They have gone: who works goes on, and nothing of theirs is left.
    fn ends(mut self) {
        self.strangers.clear();
        self.descriptors.clear();
        self.world.attend();
        self.works();
        for peer in self.peers() {
            let now = self.world.now;
            let _ = self
                .world
                .peer
                .stack
                .on_request(now, peer, tcp::Request::Abort);
        }
        self.rests(AFTERWARDS);
        self.works();
        let worker = &self.world.worker;
        assert_eq!(worker.sessions(), 1, "sessions are left");
        assert_eq!(worker.stack().connection_count(), 1, "connections are left");
        assert_eq!(
            worker.stack().half_open_count(),
            0,
            "half-open connections are left"
        );
    }

    fn works(&mut self) {
        let Self { world, worker, .. } = self;
        world.peer.send(world.now, self.peer, b"still there?");
        world.settle();
        worker.collect();
        let received = worker.received(self.conn);
        assert_eq!(received[self.read as usize..], b"still there?"[..]);
        self.read = received.len() as u64;
        worker.send(self.conn, b"yes", self.read);
        world.settle();
        assert!(world.peer.conns[&self.peer].bytes.ends_with(b"yes"));
    }
}

impl Stranger {
    /// False if its connection is closed.
    fn hears(&mut self, known: &mut Known, given: &mut Vec<OwnedFd>) -> bool {
        let open = loop {
            match self.channel.try_receive::<Reply>() {
                Ok(Some((reply, mut fds))) => {
                    match reply {
                        Reply::Attached { .. } => {
                            self.memory = Some(region::attach(&fds[0]).expect("an honest engine"));
                        }
                        Reply::Listening { listener } => known.listeners.push(listener),
                        Reply::Forked { token } => known.tokens.push(token),
                        Reply::Claimed { conn, .. } => known.conns.push(conn),
                        _ => {}
                    }
                    given.extend(fds.drain(..));
                }
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        let Some(memory) = &mut self.memory else {
            return open;
        };
        while let Ok(Some(completion)) = memory.completions.take() {
            if let Completion::Accepted { conn, .. }
            | Completion::Opened { conn, .. }
            | Completion::Elsewhere { conn, .. } = completion
            {
                known.conns.push(conn);
            }
        }
        memory.completions.release();
        open
    }
}
