//! The world that most tests need: a client and a server, and a link between them.

use core::net::{IpAddr, SocketAddr};
use core::ops::{Deref, DerefMut};
use core::time::Duration;

use tcp::{Config, ConnOptions, ConnectError, ListenSpec, ListenerId};
use wire::flow::FlowKey;
use wire::ip::Ecn;
use wire::segment::{Headers, Link};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr};

use crate::host::HostConfig;
use crate::ids::{HostId, SocketId};
use crate::link::LinkConfig;
use crate::rng::Chance;
use crate::socket::Plan;
use crate::world::World;

/// The port that the server listens on.
const PORT: u16 = 80;
/// The client's first port.
const FIRST_CLIENT_PORT: u16 = 40_000;

/// What a pair is like. Whatever a test does not say is as in ordinary life.
#[derive(Clone, Debug)]
pub struct PairConfig {
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// The client's stack.
    pub client: Config,
    /// The server's stack.
    pub server: Config,
    /// What connections start with, on both sides.
    pub options: ConnOptions,
    /// How many connections may wait to be accepted.
    pub backlog: u32,
    /// How many may be half open.
    pub max_half_open: u32,
    /// The link, in both directions.
    pub link: LinkConfig,
    /// How many segments the devices cut out of one burst.
    pub burst: usize,
    /// How likely the devices are to be full.
    pub full: Chance,
    /// How likely receive memory is to have run out.
    pub exhaustion: Chance,
    /// What the server does with connections; without a plan, they wait for [`Pair::accept`].
    pub serve: Option<Plan>,
}

impl Default for PairConfig {
    fn default() -> PairConfig {
        PairConfig {
            v6: false,
            client: Config::default(),
            server: Config::default(),
            options: ConnOptions::default(),
            backlog: 128,
            max_half_open: 256,
            link: LinkConfig::default(),
            burst: 1,
            full: Chance::NEVER,
            exhaustion: Chance::NEVER,
            serve: None,
        }
    }
}

/// A client and a server.
#[derive(Debug)]
pub struct Pair {
    world: World,
    /// The client.
    pub client: HostId,
    /// The server.
    pub server: HostId,
    /// The server's listener.
    pub listener: ListenerId,
    options: ConnOptions,
    addresses: [IpAddr; 2],
    next_port: u16,
}

impl Pair {
    /// An ordinary pair.
    pub fn new(seed: u64) -> Pair {
        Pair::with(seed, PairConfig::default())
    }

    /// A pair as described.
    pub fn with(seed: u64, config: PairConfig) -> Pair {
        let mut world = World::new(seed);
        let addresses: [IpAddr; 2] = if config.v6 {
            [
                [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
                [0xfd00, 0, 0, 0, 0, 0, 0, 2].into(),
            ]
        } else {
            [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()]
        };
        let mut host = |name, address, stack| {
            world.add_host(HostConfig {
                stack,
                burst: config.burst,
                full: config.full,
                exhaustion: config.exhaustion,
                ..HostConfig::new(name, address)
            })
        };
        let client = host("client", addresses[0], config.client);
        let server = host("server", addresses[1], config.server);
        world.join(client, server, &config.link);
        let spec = ListenSpec {
            addr: None,
            port: PORT,
            backlog: config.backlog,
            max_half_open: config.max_half_open,
            v6_only: false,
            options: config.options,
        };
        let listener = world.listen(server, spec, config.serve);
        Pair {
            world,
            client,
            server,
            listener,
            options: config.options,
            addresses,
            next_port: FIRST_CLIENT_PORT,
        }
    }

    /// Where the client begins connections that use `port`.
    pub fn client_addr(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.addresses[0], port)
    }

    /// Where the server listens.
    pub fn server_addr(&self) -> SocketAddr {
        SocketAddr::new(self.addresses[1], PORT)
    }

    /// Opens a connection from a port that was not used before.
    pub fn connect(&mut self, plan: Plan) -> SocketId {
        let port = self.next_port;
        self.next_port += 1;
        self.connect_from(port, plan)
    }

    /// Opens a connection from the given port.
    ///
    /// # Panics
    /// If the stack refuses.
    pub fn connect_from(&mut self, port: u16, plan: Plan) -> SocketId {
        let (local, remote) = (self.client_addr(port), self.server_addr());
        self.connect_between(self.client, local, remote, plan)
            .expect("to connect")
    }

    /// Opens a connection between any two ends.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn connect_between(
        &mut self,
        host: HostId,
        local: SocketAddr,
        remote: SocketAddr,
        plan: Plan,
    ) -> Result<SocketId, ConnectError> {
        self.world.connect(host, local, remote, &self.options, plan)
    }

    /// Takes the next connection that waits at the server.
    pub fn accept(&mut self, plan: Plan) -> Option<SocketId> {
        self.world.accept(self.server, self.listener, plan)
    }

    /// Opens a connection and accepts it: the client's socket and the server's.
    pub fn establish(&mut self, client: Plan, server: Plan) -> (SocketId, SocketId) {
        let client = self.connect(client);
        let (host, listener) = (self.server, self.listener);
        self.world.run_until(Duration::from_secs(60), |world| {
            world.socket(client).update.connected && world.acceptable(host, listener) > 0
        });
        (
            client,
            self.accept(server).expect("it waits to be accepted"),
        )
    }

    /// A header that the peer of `to` might send now: the next number that `to` expects, and an
    /// acknowledgement of all that it has sent.
    ///
    /// # Panics
    /// If `to` has not sent or received anything yet.
    pub fn forge(&mut self, to: SocketId, flags: Flags) -> Headers {
        let flow = self.world.flow(to);
        // What `to` itself last said is what its peer would go by.
        let last = self
            .world
            .trace()
            .iter()
            .rfind(|sent| sent.tcp.src_port == flow.local_port && sent.tcp.ack.is_some())
            .expect("a segment of the socket in the trace");
        let sent_len = last.tcp.sequence_len(last.payload_len as u32);
        let mut headers = forge(flow.reversed(), flags);
        headers.tcp.seq = last.tcp.ack.unwrap_or_default();
        headers.tcp.ack = flags
            .contains(Flags::ACK)
            .then_some(last.tcp.seq + sent_len);
        headers
    }
}

/// The headers of a segment of a flow as its sender names it, with zero for its numbers.
pub fn forge(flow: FlowKey, flags: Flags) -> Headers {
    Headers {
        link: Link::default(),
        src: flow.local,
        dst: flow.remote,
        hop_limit: 64,
        dscp: 0,
        ecn: Ecn::NotCapable,
        tcp: Repr {
            src_port: flow.local_port,
            dst_port: flow.remote_port,
            seq: SeqNumber(0),
            ack: None,
            flags,
            window: 65_535,
            options: Options::NONE,
        },
    }
}

impl Deref for Pair {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl DerefMut for Pair {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.world
    }
}
