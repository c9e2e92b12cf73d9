//! What a segment costs: instructions by callgrind, nanoseconds by the clock.
//!
//! ```text
//! cargo bench -p outboard-tcp
//! cargo xtask instructions
//! ```
//!
//! The second counts what `measured` executes, and fails where it is more than
//! `benches/instructions.toml` allows.
//!
//! - `respond`: a request of 100 bytes arrives, 200 bytes leave: what a keep-alive server does.
//! - `receive`: full segments arrive in order in batches of 32; one acknowledgement leaves.
//! - `send`: bursts of 64 KB leave; each is acknowledged.
//! - `connect`: handshake, request, response, close by us, TIME-WAIT.
//! - `sack_1000`, `sack_30000`: the peer SACKs the middle of a hole, among so many of them. Which cuts it
//!   in two, and lets something leave again. What it costs is to grow as the logarithm of their number.

use std::net::IpAddr;
use std::time::{Duration, Instant as Clock};

use tcp::{
    Config, ConnId, ConnOptions, Event, Extent, FrameSink, Instant, ListenSpec, ListenerId,
    Outgoing, PayloadStore, Request, SinkFull, Stack,
};
use wire::ip::Ecn;
use wire::segment::{Link, Segment};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr, SackBlock, SackBlocks, Timestamps};

struct Store;

impl PayloadStore for Store {
    fn place(&mut self, _conn: ConnId, _offset: u64, bytes: &[u8]) -> usize {
        bytes.len()
    }
}

/// Remembers the last header and how much has left.
#[derive(Default)]
struct Sink {
    last: Option<Repr>,
    payload: usize,
}

impl FrameSink for Sink {
    fn burst_limit(&mut self, _conn: ConnId, mss: u16) -> usize {
        65_000 / usize::from(mss) * usize::from(mss)
    }

    fn emit(&mut self, _now: Instant, out: &Outgoing<'_>) -> Result<(), SinkFull> {
        self.last = Some(out.tcp);
        self.payload += out.payload_len;
        Ok(())
    }
}

struct World {
    stack: Stack,
    listener: ListenerId,
    sink: Sink,
    now: Instant,
    conn: ConnId,
    peer_port: u16,
    seq: SeqNumber,
    ack: SeqNumber,
    received: u64,
    echo: u32,
    scale: u8,
    sack: SackBlocks,
    /// What the peer is to SACK, one by one.
    to_sack: Vec<SackBlock>,
}

const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 7));

impl World {
    fn new() -> World {
        let mut stack = Stack::new(Config::default(), [3; 32]);
        let options = ConnOptions {
            no_delay: true,
            receive_buffer: 4 << 20,
            ..ConnOptions::default()
        };
        let listener = stack
            .listen(ListenSpec {
                addr: None,
                port: 80,
                backlog: 128,
                max_half_open: 128,
                v6_only: false,
                options,
            })
            .expect("nothing else listens");
        World {
            stack,
            listener,
            sink: Sink::default(),
            now: Instant::from_millis(1000),
            conn: ConnId {
                index: 0,
                generation: 0,
            },
            peer_port: 30_000,
            seq: SeqNumber(0),
            ack: SeqNumber(0),
            received: 0,
            echo: 0,
            scale: 7,
            sack: SackBlocks::EMPTY,
            to_sack: Vec::new(),
        }
    }

    fn arrive(&mut self, flags: Flags, payload: &[u8]) {
        let syn = flags.contains(Flags::SYN);
        let value = self.now.as_millis() as u32;
        let segment = Segment {
            link: Link::default(),
            src: PEER,
            dst: LOCAL,
            hop_limit: 64,
            ecn: Ecn::NotCapable,
            tcp: Repr {
                src_port: self.peer_port,
                dst_port: 80,
                seq: self.seq,
                ack: (!syn).then_some(self.ack),
                flags: flags.with(Flags::ACK, !syn),
                window: 65_535,
                options: Options {
                    mss: syn.then_some(1460),
                    window_scale: syn.then_some(self.scale),
                    sack_permitted: syn,
                    timestamps: Some(Timestamps {
                        value,
                        echo: self.echo,
                    }),
                    sack: self.sack,
                    ..Options::NONE
                },
            },
            payload,
        };
        self.seq += segment.sequence_len();
        let _ = self.stack.on_segment(self.now, &segment, &mut Store);
    }

    fn turn(&mut self) {
        self.stack.poll_transmit(self.now, &mut self.sink, 1000);
        while let Some(event) = self.stack.poll_event() {
            if let Event::Connection(_, update) = event {
                self.received = update.received;
            }
        }
        if let Some(tcp) = self.sink.last {
            self.echo = tcp.options.timestamps.map_or(0, |t| t.value);
        }
    }

    fn request(&mut self, request: Request) {
        let _ = self.stack.on_request(self.now, self.conn, request);
    }

    fn open(&mut self) {
        self.arrive(Flags::SYN, &[]);
        self.turn();
        self.ack = self.sink.last.map_or(SeqNumber(0), |tcp| tcp.seq + 1);
        self.arrive(Flags::NONE, &[]);
        self.turn();
        self.conn = self.stack.accept(self.listener).expect("it is complete");
        self.turn();
    }

    fn respond(&mut self) {
        self.now += Duration::from_micros(10);
        self.arrive(Flags::PSH, &[0; 100]);
        self.turn();
        self.request(Request::Consumed(self.received));
        let extent = Extent {
            addr: u64::from(self.ack.0),
            len: 200,
        };
        self.request(Request::Send {
            extent,
            more: false,
        });
        self.turn();
        self.ack += 200;
    }

    fn receive(&mut self) {
        self.now += Duration::from_micros(100);
        for _ in 0..32 {
            self.arrive(Flags::NONE, &[0; 1448]);
        }
        self.turn();
        self.request(Request::Consumed(self.received));
        self.turn();
    }

    fn send(&mut self) {
        self.now += Duration::from_micros(100);
        let extent = Extent {
            addr: u64::from(self.ack.0),
            len: 65_536,
        };
        self.request(Request::Send {
            extent,
            more: false,
        });
        self.sink.payload = 0;
        while self.sink.payload < 65_536 {
            let before = self.sink.payload;
            self.turn();
            self.ack += (self.sink.payload - before) as u32;
            self.arrive(Flags::NONE, &[]);
        }
        self.turn();
    }

    fn connect(&mut self) {
        self.now += Duration::from_micros(100);
        self.peer_port = self.peer_port % 20_000 + 1;
        self.open();
        self.respond();
        self.request(Request::Close);
        self.turn();
        self.ack += 1;
        self.arrive(Flags::FIN, &[]);
        self.turn();
        let next = self.stack.next_timeout();
        if next.is_some_and(|at| at <= self.now) {
            self.stack.on_timeout(self.now, 64);
        }
    }
}

/// Bytes of a full segment.
const MSS: u32 = 1_448;

impl World {
    /// A flight in which this many holes lie, of three segments each.
    fn with_holes(holes: u32) -> World {
        let mut world = World::new();
        world.scale = 14;
        world.open();
        let flight = 4 * holes * MSS;
        // Slow start takes about as much as it ends with, and then sends twice that.
        for _ in 0..flight / 10_000 {
            let addr = u64::from(world.ack.0);
            let extent = Extent { addr, len: 65_536 };
            world.request(Request::Send {
                extent,
                more: false,
            });
        }
        loop {
            world.now += Duration::from_micros(100);
            let sent = world.send_all();
            if sent >= flight {
                break;
            }
            world.ack += sent;
            world.arrive(Flags::NONE, &[]);
        }
        // Scattered over the whole flight, each place once: the step is a prime that divides neither number.
        const STEP: u64 = 617;
        let una = world.ack;
        let block = |hole: u64, segment: u32| {
            let left = una + (4 * hole as u32 + segment) * MSS;
            let right = left + MSS;
            SackBlock { left, right }
        };
        for hole in 0..u64::from(holes) {
            world.sack_one(block(hole, 3));
        }
        let inside = (0..u64::from(holes)).map(|i| block(i * STEP % u64::from(holes), 1));
        world.to_sack = inside.collect();
        world
    }

    /// Sends what may leave. Returns how much that was.
    fn send_all(&mut self) -> u32 {
        self.sink.payload = 0;
        let mut before = usize::MAX;
        while self.sink.payload != before {
            before = self.sink.payload;
            self.turn();
        }
        self.sink.payload as u32
    }

    fn sack_one(&mut self, block: SackBlock) {
        self.now += Duration::from_micros(1);
        self.sack.push(block);
        self.arrive(Flags::NONE, &[]);
        self.sack = SackBlocks::EMPTY;
        self.turn();
    }

    fn sack_next(&mut self) {
        if let Some(block) = self.to_sack.pop() {
            self.sack_one(block);
        }
    }
}

type Step = fn(&mut World);

#[inline(never)]
fn measured(world: &mut World, step: Step, rounds: u32) {
    for _ in 0..rounds {
        step(world);
    }
}

fn main() {
    let steps: [(&str, Step, u32); 4] = [
        ("respond", World::respond, 2),
        ("receive", World::receive, 33),
        ("send", World::send, 46),
        ("connect", World::connect, 9),
    ];
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    for (name, step, segments) in steps {
        if !wanted.is_empty() && !wanted.iter().any(|w| w == name) {
            continue;
        }
        let mut world = World::new();
        world.open();
        let rounds = rounds_or(20_000);
        step(&mut world);
        let start = Clock::now();
        measured(&mut world, step, rounds);
        let nanos = start.elapsed().as_nanos() as f64 / f64::from(rounds);
        println!(
            "{name:8} {nanos:8.0} ns a round, {:6.1} ns a segment",
            nanos / f64::from(segments)
        );
    }
    for (name, holes) in [("sack_1000", 1_000), ("sack_30000", 30_000)] {
        if !wanted.is_empty() && !wanted.iter().any(|w| w == name) {
            continue;
        }
        let mut world = World::with_holes(holes);
        // The first finds much that is lost at once.
        for _ in 0..100 {
            world.sack_next();
        }
        let rounds = rounds_or(holes - 100);
        let start = Clock::now();
        measured(&mut world, World::sack_next, rounds);
        let nanos = start.elapsed().as_nanos() as f64 / f64::from(rounds);
        println!("{name:10} {nanos:6.0} ns a block");
    }
}

/// Fewer rounds under a tool that makes each of them slow.
fn rounds_or(usual: u32) -> u32 {
    let rounds = std::env::var("ROUNDS").ok();
    rounds.and_then(|text| text.parse().ok()).unwrap_or(usual)
}
