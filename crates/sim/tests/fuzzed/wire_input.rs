//! A stack with live connections, and frames of the script's: whole ones as they are, or segments
//! that begin from the numbers of a live connection, since no fuzzer guesses those. Nothing panics,
//! no byte is placed twice, everything that is sent is well formed, and what is held stays bounded.

use core::time::Duration;

use tcp::{Config, ConnOptions, Extent, Instant, ListenSpec, Request};
use wire::flow::FlowKey;
use wire::ip::Ecn;
use wire::segment::{self, ChecksumPolicy, Headers, Link};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr, SackBlock, Timestamps};

use super::Bytes;
use super::node::{Node, frame};

const STEPS: usize = 500;
/// Connections at the beginning, in different states.
const CONNECTIONS: usize = 6;

/// A flow as the peer sees it: what it would send next.
struct Peer {
    flow: FlowKey,
    seq: SeqNumber,
    ack: SeqNumber,
    stamp: Option<u32>,
}

struct Scene {
    now: Instant,
    node: Node,
    peers: Vec<Peer>,
}

pub fn run(script: &[u8]) {
    let mut script = Bytes(script);
    let mut scene = Scene::new(script.byte());
    for _ in 0..STEPS {
        let Some(step) = script.next() else { break };
        scene.step(step, &mut script);
    }
    scene.check();
}

impl Scene {
    fn new(bits: u8) -> Scene {
        let config = Config {
            timestamps: bits & 1 == 0,
            selective_acks: bits & 2 == 0,
            window_scaling: bits & 4 == 0,
            max_half_open: 8,
            max_time_wait: 8,
            max_connections: 32,
            max_control_segments: 64,
            max_out_of_order_ranges: 16,
            ..Config::default()
        };
        let v6 = bits & 8 != 0;
        let address = |host: u8| {
            if v6 {
                [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(host)].into()
            } else {
                [10, 0, 0, host].into()
            }
        };
        let mut scene = Scene {
            now: Instant::from_secs(1_000),
            node: Node::new(address(1), config, 3),
            peers: Vec::new(),
        };
        let options = ConnOptions {
            receive_buffer: 16_384,
            ..ConnOptions::default()
        };
        scene.node.listen(ListenSpec {
            addr: None,
            port: 80,
            backlog: 8,
            max_half_open: 4,
            v6_only: false,
            options,
        });
        for number in 0..CONNECTIONS {
            let flow = FlowKey {
                local: address(2),
                remote: address(1),
                local_port: 40_000 + number as u16,
                remote_port: 80,
            };
            scene.peers.push(Peer {
                flow,
                seq: SeqNumber(u32::MAX - 500),
                ack: SeqNumber(0),
                stamp: Some(1),
            });
            scene.open(number);
        }
        scene
    }

    /// Brings connection `number` to a state of its own.
    fn open(&mut self, number: usize) {
        let options = Options {
            mss: Some(1_000),
            window_scale: Some(7),
            sack_permitted: true,
            ..Options::NONE
        };
        self.say(number, Flags::SYN, 0, options, &[]);
        self.peers[number].seq += 1;
        if number == 0 {
            return;
        }
        self.node.conn = None;
        self.say(number, Flags::ACK, 0, Options::NONE, &[]);
        let base = self.node.base;
        let send = |addr, len| Request::Send {
            extent: Extent { addr, len },
            more: false,
        };
        let asked: &[Request] = match number {
            1 => &[],
            2 => &[send(base, 20_000)],
            3 => &[send(base, 500), Request::ShutdownWrite],
            4 => &[send(base, 20_000), Request::Close],
            _ => &[Request::Close],
        };
        for &request in asked {
            self.node.request(self.now, request);
        }
        self.settle();
    }

    /// The peer of a connection sends a segment from where it stands, `off` further on.
    fn say(&mut self, number: usize, flags: Flags, off: i32, options: Options, payload: &[u8]) {
        let peer = &self.peers[number];
        let mut options = options;
        if let (Some(echo), None) = (peer.stamp, options.timestamps) {
            let value = (self.now.as_millis() as u32).max(1);
            options.timestamps = Some(Timestamps { value, echo });
        }
        let headers = Headers {
            link: Link::default(),
            src: peer.flow.local,
            dst: peer.flow.remote,
            hop_limit: 64,
            dscp: 0,
            ecn: Ecn::NotCapable,
            tcp: Repr {
                src_port: peer.flow.local_port,
                dst_port: peer.flow.remote_port,
                seq: SeqNumber(peer.seq.0.wrapping_add(off as u32)),
                ack: flags.contains(Flags::ACK).then_some(peer.ack),
                flags,
                window: 1_000,
                options,
            },
        };
        let frame = frame(&headers, payload);
        self.node.receive(self.now, &frame);
        self.settle();
    }

    fn step(&mut self, step: u8, script: &mut Bytes<'_>) {
        let number = usize::from(step) % CONNECTIONS;
        match step >> 3 & 7 {
            0..=4 => self.segment(number, script),
            5 => {
                let length = usize::from(script.byte());
                let frame = script.take(length);
                if let Ok(segment) = segment::parse(frame, ChecksumPolicy::Ignore) {
                    let node = &mut self.node;
                    let _ = node.stack.on_segment(self.now, &segment, &mut node.memory);
                }
            }
            6 => {
                if let Some(next) = self.node.stack.next_timeout() {
                    self.now = self.now.max(next);
                    self.node.stack.on_timeout(self.now, 100);
                }
            }
            _ => self.now += Duration::from_millis(script.word().into()),
        }
        self.settle();
    }

    /// A segment like those that belong here, but not quite.
    fn segment(&mut self, number: usize, script: &mut Bytes<'_>) {
        let flags = Flags::from_bits(script.byte());
        let shape = script.byte();
        let off = if shape & 1 == 0 {
            0
        } else {
            i32::from(script.word() as i16)
        };
        let mut options = Options::NONE;
        if shape & 2 != 0 {
            let length = usize::from(script.byte() % 41);
            options = Options::parse(script.take(length));
        }
        if shape & 4 != 0 {
            let ack = self.peers[number].ack;
            let mut edge = || SeqNumber(ack.0.wrapping_add(i32::from(script.word() as i16) as u32));
            let (left, right) = (edge(), edge());
            options.sack.push(SackBlock { left, right });
        }
        let before = self.peers[number].ack;
        if shape & 8 != 0 {
            let moved = i32::from(script.word() as i16);
            self.peers[number].ack = SeqNumber(before.0.wrapping_add(moved as u32));
        }
        if shape & 16 != 0 {
            self.peers[number].stamp = None;
        }
        let payload = vec![7; usize::from(script.byte()) * usize::from(shape >> 5)];
        self.say(number, flags, off, options, &payload);
        if shape & 1 == 0 && shape & 32 != 0 {
            // It goes on from there.
            self.peers[number].seq += payload.len() as u32 + u32::from(flags.contains(Flags::FIN));
        }
    }

    fn settle(&mut self) {
        self.node.settle(self.now);
        for frame in self.node.device.frames.drain(..) {
            let sent = segment::parse(&frame, ChecksumPolicy::Verify);
            let sent = sent.expect("what is sent is well formed");
            let flow = sent.flow();
            if let Some(peer) = self.peers.iter_mut().find(|peer| peer.flow == flow) {
                peer.ack = sent.tcp.seq + sent.sequence_len();
                peer.stamp = sent.tcp.options.timestamps.map(|t| t.value);
            }
        }
    }

    fn check(&mut self) {
        let stack = &self.node.stack;
        assert!(stack.connection_count() <= 32);
        assert!(stack.half_open_count() <= 8);
        assert!(stack.time_wait_count() <= 8);
        assert!(stack.flow_count() <= 48);
    }
}
