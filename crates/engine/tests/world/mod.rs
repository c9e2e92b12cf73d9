//! A world in one thread under virtual time: a worker over one end of a simulated link, a TCP of
//! the same make at the other end as the network's side, and hosts that speak the shared memory
//! by hand, so that they can also lie.

#![allow(
    dead_code,
    reason = "the fuzzer and each test binary use their own part of the world"
)]

mod host;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::clock::Clock;
use engine::config::Config;
use engine::exchange;
use engine::fast::common::Common;
use engine::fast::handoff::Handoff;
use engine::fast::worker::Worker;
use engine::network::FixedNetwork;
use engine::slow::control::Control;
use engine::slow::desk::{Desk, Facts, KernelSockets};
use netdev::Device;
use netdev::sim::{LinkConfig, SimDevice, link};
use netdev::syscalls::netns_cookie;
use queue_pair::control::{Channel, Fds, Reply, Request, VERSION};
use queue_pair::{ConnRef, Submission, Versions};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use tcp::{ConnId, ConnUpdate, Event, Extent, FrameSink, Instant, Outgoing, SinkFull, Stack};
use wire::checksum::Sum;
use wire::ethernet::{MacAddr, Vlan};
use wire::segment::{ChecksumPolicy, Headers, Link, TcpChecksum, parse};
use wire::seq::SeqNumber;

pub use host::Host;

/// The address of the engine's interface.
pub const ENGINE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
/// The address at the other end.
pub const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
/// Its hardware address.
pub const ENGINE_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The hardware address at the other end.
pub const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// Whom the second link leads to, where there is one.
pub const BEYOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 77));
/// The engine's address there, of an interface with the same hardware address.
pub const ENGINE_BEYOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 70));

/// The time within a turn.
static STANDSTILL: AtomicU64 = AtomicU64::new(0);

/// What the network's side keeps of a connection.
#[derive(Debug, Default)]
pub struct PeerConn {
    /// Bytes received, those out of order at their place.
    pub bytes: Vec<u8>,
    /// Where the connection stands.
    pub update: ConnUpdate,
    /// The TCP has forgotten it.
    pub released: bool,
}

/// Where an IPv4 packet in an Ethernet frame has its type of service.
const TYPE_OF_SERVICE: usize = 14 + 1;
/// The same of its time to live.
const TIME_TO_LIVE: usize = 14 + 8;

/// The network's side: a TCP with its memory.
pub struct Peer {
    pub stack: Stack,
    pub conns: HashMap<ConnId, PeerConn>,
    /// One for each link of each worker of the engine.
    devices: Vec<SimDevice>,
    /// The worker to whose queue it sends.
    pub sends_to: usize,
    /// The device that it takes nothing from.
    pub deaf_on: Option<usize>,
    sent: Vec<u8>,
    /// The type of service of the last packet from the engine.
    pub type_of_service: u8,
    /// Its hop limit.
    pub hop_limit: u8,
    /// A connection whose next segment with payload never arrives, however often it is sent.
    pub hole_in: Option<ConnId>,
    hole_at: Option<SeqNumber>,
    next_port: u16,
    /// What the connections that it opens begin with.
    pub options: tcp::ConnOptions,
}

struct PeerStore<'a>(&'a mut HashMap<ConnId, PeerConn>);

impl tcp::PayloadStore for PeerStore<'_> {
    fn place(&mut self, conn: ConnId, offset: u64, bytes: &[u8]) -> usize {
        let conn = self.0.entry(conn).or_default();
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        if conn.bytes.len() < end {
            conn.bytes.resize(end, 0);
        }
        conn.bytes[start..end].copy_from_slice(bytes);
        bytes.len()
    }
}

struct PeerSink<'a> {
    device: &'a mut SimDevice,
    sent: &'a [u8],
    hole_in: Option<ConnId>,
    hole_at: &'a mut Option<SeqNumber>,
}

impl FrameSink for PeerSink<'_> {
    fn burst_limit(&mut self, _: ConnId, mss: u16) -> usize {
        mss.into()
    }

    fn emit(&mut self, _: Instant, out: &Outgoing<'_>) -> Result<(), SinkFull> {
        if self.hole_in.is_some() && self.hole_in == out.conn && out.payload_len > 0 {
            let hole = *self.hole_at.get_or_insert(out.tcp.seq);
            if out.tcp.seq == hole {
                return Ok(());
            }
        }
        let headers = Headers {
            link: Link {
                src: PEER_MAC,
                dst: ENGINE_MAC,
                vlan: Vlan::None,
            },
            src: out.src,
            dst: out.dst,
            hop_limit: 64,
            dscp: 0,
            ecn: out.ecn,
            tcp: out.tcp,
        };
        let frame = self.device.frame().ok_or(SinkFull)?;
        let start = headers.len();
        let mut at = start;
        for Extent { addr, len } in out.payload {
            let bytes = &self.sent[*addr as usize..][..*len as usize];
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
        let sum = Sum::of(&frame[start..at]);
        headers
            .emit(out.payload_len, TcpChecksum::Complete(sum), frame)
            .expect("fits");
        self.device.submit(at, None);
        Ok(())
    }
}

impl Peer {
    /// Opens a connection to a port of the engine's.
    pub fn connect(&mut self, now: Instant, port: u16) -> ConnId {
        self.next_port += 1;
        self.connect_from(now, self.next_port, port)
    }

    /// The same from this port.
    pub fn connect_from(&mut self, now: Instant, from: u16, port: u16) -> ConnId {
        let local = SocketAddr::new(PEER, from);
        let remote = SocketAddr::new(ENGINE, port);
        let conn = self
            .stack
            .connect(now, local, remote, &self.options)
            .expect("a new pair");
        self.conns.insert(conn, PeerConn::default());
        conn
    }

    /// Listens on a port.
    pub fn listen(&mut self, port: u16) -> tcp::ListenerId {
        self.listen_with(port, tcp::ConnOptions::default())
    }

    /// The same, with options for what connects.
    pub fn listen_with(&mut self, port: u16, options: tcp::ConnOptions) -> tcp::ListenerId {
        self.listen_at(PEER, port, options)
    }

    /// The same at this address.
    pub fn listen_at(
        &mut self,
        own: IpAddr,
        port: u16,
        options: tcp::ConnOptions,
    ) -> tcp::ListenerId {
        let spec = tcp::ListenSpec {
            addr: Some(own),
            port,
            backlog: 1024,
            max_half_open: 1024,
            v6_only: false,
            options,
        };
        self.stack.listen(spec).expect("a new listener")
    }

    /// Sends bytes on a connection.
    pub fn send(&mut self, now: Instant, conn: ConnId, bytes: &[u8]) {
        let extent = Extent {
            addr: self.sent.len() as u64,
            len: bytes.len() as u32,
        };
        self.sent.extend_from_slice(bytes);
        self.request(
            now,
            conn,
            tcp::Request::Send {
                extent,
                more: false,
            },
        );
    }

    /// Asks something of a connection.
    pub fn request(&mut self, now: Instant, conn: ConnId, request: tcp::Request) {
        self.stack.on_request(now, conn, request).expect("accepted");
    }

    /// Puts raw bytes on the wire.
    pub fn inject(&mut self, frame: &[u8]) {
        let device = &mut self.devices[self.sends_to];
        let buffer = device.frame().expect("room");
        buffer[..frame.len()].copy_from_slice(frame);
        device.submit(frame.len(), None);
        device.flush();
    }

    /// Sends what is ready, and takes nothing; how many emissions it was.
    pub fn only_sends(&mut self, now: Instant) -> usize {
        let mut sink = PeerSink {
            device: &mut self.devices[self.sends_to],
            sent: &self.sent,
            hole_in: self.hole_in,
            hole_at: &mut self.hole_at,
        };
        let sent = self.stack.poll_transmit(now, &mut sink, 1024);
        self.devices[self.sends_to].flush();
        sent
    }

    /// Takes what has come and sends what is ready; whether there was anything.
    pub fn turn(&mut self, now: Instant) -> bool {
        let (stack, conns) = (&mut self.stack, &mut self.conns);
        let type_of_service = &mut self.type_of_service;
        let hop_limit = &mut self.hop_limit;
        let mut received = 0;
        let deaf_on = self.deaf_on;
        let all = self.devices.iter_mut().enumerate();
        for (_, device) in all.filter(|(place, _)| Some(*place) != deaf_on) {
            received += device.receive(256, |frame| {
                *type_of_service = frame[TYPE_OF_SERVICE];
                *hop_limit = frame[TIME_TO_LIVE];
                // Bursts cut by the simulated device carry whole checksums.
                let segment =
                    parse(frame, ChecksumPolicy::Verify).expect("the engine sends segments");
                let _ = stack.on_segment(now, &segment, &mut PeerStore(conns));
            });
        }
        if stack.next_timeout().is_some_and(|at| at <= now) {
            stack.on_timeout(now, 1024);
        }
        let sent = self.only_sends(now);
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Connection(id, update) => {
                    self.conns.entry(id).or_default().update = update;
                    // What arrives is taken at once.
                    let consumed = tcp::Request::Consumed(update.received);
                    let _ = self.stack.on_request(now, id, consumed);
                }
                Event::Released(id) => self.conns.entry(id).or_default().released = true,
                Event::Acceptable(_) => {}
            }
        }
        received + sent > 0
    }
}

/// The kernel's sockets, as tests state them.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    /// The cookies of those that listen, and the interface that each is bound to, if that is told.
    pub listening: Arc<Mutex<Option<HashMap<u64, u32>>>>,
    /// How many connections there are on each port.
    pub connections: Arc<Mutex<HashMap<u16, usize>>>,
    /// How many SYN cookies it has sent.
    pub cookies: Arc<Mutex<u64>>,
    /// How often it was asked for connections.
    pub looks: Arc<Mutex<u64>>,
}

impl Kernel {
    /// So many connections it has on a port.
    pub fn set_connections(&self, port: u16, count: usize) {
        let mut connections = self.connections.lock().expect("no panic");
        connections.insert(port, count);
    }
}

impl KernelSockets for Kernel {
    fn listening(&mut self) -> Option<HashMap<u64, u32>> {
        self.listening.lock().expect("no panic").clone()
    }

    fn connections(&mut self, port: u16) -> usize {
        *self.looks.lock().expect("no panic") += 1;
        let connections = self.connections.lock().expect("no panic");
        connections.get(&port).copied().unwrap_or(0)
    }

    fn cookies_sent(&mut self) -> Option<u64> {
        Some(*self.cookies.lock().expect("no panic"))
    }
}

/// Both ends of a control connection.
fn pair_of_sockets() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("descriptors")
}

/// The whole of it.
pub struct World {
    pub worker: Worker<SimDevice, FixedNetwork>,
    /// The other workers, where there are several.
    pub others: Vec<Worker<SimDevice, FixedNetwork>>,
    pub desk: Desk,
    pub peer: Peer,
    pub now: Instant,
    /// What the engine hears of the kernel's sockets.
    pub kernel: Kernel,
}

/// What a process that speaks this version alone asks to attach; the token is that of a fork.
pub fn attach_request(version: u32, fork_token: Option<u64>) -> Request {
    Request::Attach {
        version,
        oldest: None,
        program: "test".to_owned(),
        fork_token,
    }
}

impl World {
    /// With the engine's defaults, but less memory.
    pub fn new() -> Self {
        Self::with(Config::default(), LinkConfig::default())
    }

    /// With these settings.
    pub fn with(mut config: Config, faults: LinkConfig) -> Self {
        config.limits.send_area = config.limits.send_area.min(1 << 22);
        config.limits.receive_area = config.limits.receive_area.min(1 << 22);
        let control = Control::without_socket(&config.limits).expect("descriptors");
        Self::with_control(config, faults, control)
    }

    /// Of an engine that speaks these versions of the protocol.
    pub fn speaking(versions: Versions) -> Self {
        let config = Config::default();
        let control = Control::without_socket(&config.limits).expect("descriptors");
        Self::made(config, LinkConfig::default(), control, versions)
    }

    /// With these settings, and a control socket of the caller's.
    pub fn with_control(config: Config, faults: LinkConfig, control: Control) -> Self {
        Self::made(config, faults, control, Versions::SPOKEN)
    }

    /// With so many workers, each with a link of its own.
    pub fn of_workers(count: usize) -> Self {
        Self::of_workers_with(count, Config::default())
    }

    /// The same with these settings, but less memory.
    pub fn of_workers_with(count: usize, mut config: Config) -> Self {
        config.limits.send_area = 1 << 22;
        config.limits.receive_area = 1 << 22;
        config.limits.connections = 1_024;
        let control = Control::without_socket(&config.limits).expect("descriptors");
        Self::several(
            config,
            &[LinkConfig::default()],
            control,
            (Versions::SPOKEN, count),
            Clock::told(&STANDSTILL),
        )
    }

    /// With the engine's defaults, but less memory, and this clock within a turn.
    pub fn of_clock(clock: Clock) -> Self {
        Self::of_clock_with(clock, Config::default())
    }

    /// The same with these settings.
    pub fn of_clock_with(clock: Clock, mut config: Config) -> Self {
        config.limits.send_area = 1 << 22;
        config.limits.receive_area = 1 << 22;
        let control = Control::without_socket(&config.limits).expect("descriptors");
        let speaks = (Versions::SPOKEN, 1);
        Self::several(config, &[LinkConfig::default()], control, speaks, clock)
    }

    fn made(config: Config, faults: LinkConfig, control: Control, versions: Versions) -> Self {
        // No time that a program says is one of this world's. In a turn none passes, unless the link has it pass.
        let time = faults.toll.map_or(&STANDSTILL, |toll| toll.clock);
        Self::several(config, &[faults], control, (versions, 1), Clock::told(time))
    }

    /// With a worker that has two links; the second leads to [`BEYOND`].
    pub fn of_links(links: [LinkConfig; 2]) -> Self {
        let mut config = Config::default();
        config.limits.send_area = 1 << 22;
        config.limits.receive_area = 1 << 22;
        let control = Control::without_socket(&config.limits).expect("descriptors");
        let speaks = (Versions::SPOKEN, 1);
        let clock = Clock::told(&STANDSTILL);
        Self::several(config, &links, control, speaks, clock)
    }

    fn several(
        config: Config,
        links: &[LinkConfig],
        control: Control,
        (versions, count): (Versions, usize),
        clock: Clock,
    ) -> Self {
        let kernel = Kernel::default();
        let mut network = FixedNetwork::between(ENGINE_MAC, ENGINE, PEER_MAC);
        network.beyond = vec![BEYOND];
        if links.len() > 1 {
            network.addresses.push(ENGINE_BEYOND);
            network.own_beyond.push(ENGINE_BEYOND);
        }
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let cookie = netns_cookie(&socket).expect("a cookie");
        let pairs = (0..count).map(|_| exchange::pair(&config.limits).expect("descriptors"));
        let (to_fast, to_slow): (Vec<_>, Vec<_>) = pairs.unzip();
        let facts = Facts {
            versions,
            ..Facts::new(&config, 1..=links.len() as u32, cookie)
        };
        let desk = Desk::of_workers(facts, control, to_fast).expect("descriptors");
        let seed = [7; 32];
        let common = Common { seed, clock };
        let desk = desk.asking(Box::new(kernel.clone()));
        let places = match count {
            1 => Vec::new(),
            _ => Handoff::join(count, 4_096, &seed).expect("descriptors"),
        };
        let mut places = places.into_iter();
        let mut devices = Vec::new();
        let workers = to_slow.into_iter().map(|to_slow| {
            let ends = links.iter().map(|it| link(*it).expect("descriptors"));
            let (near, far): (Vec<_>, Vec<_>) = ends.unzip();
            devices.extend(far);
            let worker = Worker::new(config.clone(), near, network.clone(), to_slow, common);
            match places.next() {
                Some(place) => worker.among(place),
                None => worker,
            }
        });
        let mut workers: Vec<_> = workers.collect();
        let worker = workers.remove(0);
        Self {
            worker,
            others: workers,
            desk,
            peer: Peer {
                stack: Stack::new(tcp::Config::default(), [9; 32]),
                conns: HashMap::new(),
                devices,
                sends_to: 0,
                deaf_on: None,
                sent: Vec::new(),
                type_of_service: 0,
                hop_limit: 0,
                hole_in: None,
                hole_at: None,
                next_port: 40_000,
                options: tcp::ConnOptions::default(),
            },
            now: Instant::from_millis(1),
            kernel,
        }
    }

    /// Runs both sides, time standing still, until neither has anything to do.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            let mut engine = self.worker.turn(self.now);
            for worker in &mut self.others {
                engine |= worker.turn(self.now);
            }
            let peer = self.peer.turn(self.now);
            if !engine && !peer {
                self.desk.attend();
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    /// Runs for a span of virtual time, in steps of a millisecond.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.settle();
            self.now += Duration::from_millis(1);
        }
        self.settle();
    }

    /// Has both halves see to the control connections, until there is nothing more to do.
    pub fn attend(&mut self) {
        for _ in 0..10_000 {
            let asked = self.desk.attend();
            self.worker.attend(self.now);
            for worker in &mut self.others {
                worker.attend(self.now);
            }
            let answered = self.desk.attend();
            if !asked && !answered {
                break;
            }
        }
        self.settle();
    }

    /// A process of another user attaches, which only root can have one do.
    pub fn attach_as(&mut self, uid: u32) -> Host {
        let channel = self.dial_as(uid).expect("room");
        self.attach_by(channel, VERSION, None)
    }

    /// A control connection of another user's, which only root can make, if there is room for it.
    pub fn dial_as(&mut self, uid: u32) -> Option<Channel> {
        // Whose a connection is, the kernel notes as it is made; and user ids are a thread's.
        let made = std::thread::spawn(move || {
            let uid = Uid::from_raw(uid);
            set_thread_res_uid(uid, uid, uid).expect("root may");
            pair_of_sockets()
        });
        let (ours, theirs) = made.join().expect("no panic");
        let added = self.desk.add_client(theirs);
        added.is_ok().then(|| Channel::new(ours))
    }

    /// A control connection to the engine.
    pub fn dial(&mut self) -> Channel {
        Channel::new(self.dial_bare())
    }

    /// The same as a socket.
    pub fn dial_bare(&mut self) -> OwnedFd {
        let (ours, theirs) = pair_of_sockets();
        self.desk.add_client(theirs).expect("room");
        ours
    }

    /// Asks on a control connection of its own.
    pub fn ask_once(&mut self, request: &Request) -> Reply {
        let mut channel = self.dial();
        self.ask(&mut channel, request, Fds::new()).0
    }

    /// Asks on a control connection.
    pub fn ask(&mut self, channel: &mut Channel, request: &Request, fds: Fds) -> (Reply, Fds) {
        channel.send(request, fds).expect("sent");
        self.attend();
        let reply = channel.try_receive::<Reply>().expect("open");
        reply.expect("answered")
    }

    /// A process attaches.
    pub fn attach(&mut self, fork_token: Option<u64>) -> Host {
        let channel = self.dial();
        self.attach_by(channel, VERSION, fork_token)
    }

    /// A process that speaks this version alone attaches.
    pub fn attach_of(&mut self, version: u32) -> Host {
        let channel = self.dial();
        self.attach_by(channel, version, None)
    }

    fn attach_by(&mut self, mut channel: Channel, version: u32, fork_token: Option<u64>) -> Host {
        let request = attach_request(version, fork_token);
        let (reply, fds) = self.ask(&mut channel, &request, Fds::new());
        assert!(matches!(reply, Reply::Attached { .. }), "{reply:?}");
        self.host(channel, fds)
    }

    /// A process that has attached, by what it was given.
    pub fn host(&self, channel: Channel, mut fds: Fds) -> Host {
        let memory = fds.remove(0);
        Host::of(channel, memory, fds.into_iter().collect())
    }

    /// Asks for a host.
    pub fn request(&mut self, host: &mut Host, request: &Request, fds: Fds) -> (Reply, Fds) {
        host.channel.send(request, fds).expect("sent");
        self.attend();
        let reply = host.channel.try_receive::<Reply>().expect("open");
        reply.expect("answered")
    }

    /// A host listens on a port of the kernel's choice and offloads it; the port and the
    /// listener's number.
    pub fn listen(&mut self, host: &mut Host) -> (u16, u32) {
        self.listen_at(host, 0)
    }

    /// The same at this port.
    pub fn listen_at(&mut self, host: &mut Host, port: u16) -> (u16, u32) {
        let kernel = TcpListener::bind(("0.0.0.0", port)).expect("a port");
        let port = kernel.local_addr().expect("bound").port();
        let listener = self.show(host, &kernel);
        host.kernel.push(kernel);
        (port, listener)
    }

    /// A host shows this socket of the kernel's for what it listens on; the listener's number.
    pub fn show(&mut self, host: &mut Host, kernel: &TcpListener) -> u32 {
        let request = Request::Listen {
            addr: kernel.local_addr().expect("bound"),
            v6only: false,
            backlog: 128,
            pinned: false,
        };
        let shown: OwnedFd = kernel.try_clone().expect("descriptors").into();
        let (reply, _) = self.request(host, &request, [shown].into_iter().collect());
        let Reply::Listening { listener } = reply else {
            panic!("not listening: {reply:?}");
        };
        listener
    }

    /// A host accepts from the listener of another, too; the listener's number.
    pub fn join(&mut self, host: &mut Host, other: &Host) -> u32 {
        self.show(host, &other.kernel[0])
    }

    /// A host with a listener and `credit`, and an open connection that it was handed.
    pub fn connected(&mut self) -> (Host, ConnRef, ConnId) {
        let mut host = self.attach(None);
        let (conn, peer) = self.serving(&mut host);
        (host, conn, peer)
    }

    /// A host gets a listener, `credit` and an open connection.
    pub fn serving(&mut self, host: &mut Host) -> (ConnRef, ConnId) {
        let (port, _) = self.listen_with_credit(host);
        self.connect(host, port)
    }

    /// A host gets a listener, and `credit` for 64 connections: where, and the listener's number.
    pub fn listen_with_credit(&mut self, host: &mut Host) -> (u16, u32) {
        let (port, listener) = self.listen(host);
        host.submit(Submission::Credit {
            listener,
            total: 64,
            waits: false,
        });
        (port, listener)
    }

    /// The peer opens one more connection to a host, which does not accept it.
    pub fn offer(&mut self, host: &mut Host, port: u16) -> (ConnRef, ConnId) {
        let peer = self.peer.connect(self.now, port);
        self.settle();
        host.collect();
        let conn = *host.accepted().last().expect("offered");
        (conn, peer)
    }

    /// The peer opens one more connection to a host.
    pub fn connect(&mut self, host: &mut Host, port: u16) -> (ConnRef, ConnId) {
        let peer = self.peer.connect(self.now, port);
        self.settle();
        host.collect_and_accept();
        let conn = *host.accepted().last().expect("handed over");
        (conn, peer)
    }
}
