//! Two stacks against each other, the script being the link, the clock and the applications. When
//! it is over, an honest link takes its place: then everything that was sent arrives, and nothing is
//! left.

use core::time::Duration;
use std::collections::VecDeque;

use sim::offers::Offers;
use tcp::{Config, ConnOption, ConnOptions, Instant, KeepAlive, ListenSpec, Request, Stack};
use wire::ethernet;
use wire::icmp::{Reason, TcpError};
use wire::segment::{self, ChecksumPolicy};

use super::node::Node;
use super::{ALGORITHMS, Bytes};

/// Steps of a script, at most.
const STEPS: usize = 2_000;
/// Bytes that a side sends, at most.
const MOST: u64 = 300_000;
/// Steps of the honest ending: far more than the longest takes.
const ENDING: usize = 300_000;

/// A frame under way. One is damaged once only: two wrong bits might make a right checksum.
#[derive(Clone)]
struct Frame {
    bytes: Vec<u8>,
    damaged: bool,
}

struct Scene {
    now: Instant,
    nodes: [Node; 2],
    /// What is under way from each node.
    ways: [VecDeque<Frame>; 2],
}

pub fn run(script: &[u8]) {
    let mut script = Bytes(script);
    let mut scene = Scene::new(&mut script);
    for _ in 0..STEPS {
        let Some(step) = script.next() else { break };
        scene.step(step, &mut script);
        scene.settle();
    }
    scene.end();
}

fn config(script: &mut Bytes<'_>) -> Config {
    let bits = script.byte();
    Config {
        mtu: [1500, 1280, 576, 9000][usize::from(bits & 3)],
        window_scaling: bits & 4 == 0,
        timestamps: bits & 8 == 0,
        selective_acks: bits & 16 == 0,
        // A handshake by cookies may leave its client alone in the end.
        syn_cookies: false,
        ..Config::default()
    }
}

fn options(script: &mut Bytes<'_>) -> ConnOptions {
    let bits = script.byte();
    ConnOptions {
        congestion: ALGORITHMS[usize::from(bits & 1 | bits >> 3 & 2)],
        no_delay: bits & 2 != 0,
        receive_buffer: [65_535, 3_000, 20_000, 262_144][usize::from(bits >> 2 & 3)],
        // Who waits for a peer that has gone finds out.
        keep_alive: KeepAlive {
            enabled: true,
            idle: 600,
            interval: 75,
            count: 9,
        },
        ..ConnOptions::default()
    }
}

impl Scene {
    fn new(script: &mut Bytes<'_>) -> Scene {
        let now = Instant::from_secs(1_000);
        let v6 = script.bit();
        let addresses = if v6 {
            [1, 2].map(|host| [0xfd00, 0, 0, 0, 0, 0, 0, host].into())
        } else {
            [1, 2].map(|host| [10, 0, 0, host as u8].into())
        };
        let mut client = Node::new(addresses[0], config(script), 1);
        let mut server = Node::new(addresses[1], config(script), 2);
        for node in [&mut client, &mut server] {
            node.device.offers = Some(Offers::default());
        }
        let local = (addresses[0], 40_000).into();
        let remote = (addresses[1], 80).into();
        client.conn = client
            .stack
            .connect(now, local, remote, &options(script))
            .ok();
        let spec = ListenSpec {
            addr: None,
            port: 80,
            backlog: 4,
            max_half_open: 4,
            v6_only: false,
            options: options(script),
        };
        // Both may open at once.
        if script.byte() == 0xff {
            server.conn = server.stack.connect(now, remote, local, &spec.options).ok();
        } else {
            server.listen(spec);
        }
        let mut scene = Scene {
            now,
            nodes: [client, server],
            ways: Default::default(),
        };
        scene.settle();
        scene
    }

    fn step(&mut self, step: u8, script: &mut Bytes<'_>) {
        let side = usize::from(step & 1);
        let now = self.now;
        match step >> 1 & 0x1f {
            0..=7 => {
                for _ in 0..=script.byte() % 16 {
                    self.deliver(side);
                }
            }
            8 | 9 => drop(self.ways[side].pop_front()),
            10 => {
                let front = self.ways[side].front().cloned();
                self.ways[side].extend(front);
            }
            11 | 12 => {
                let front = self.ways[side].pop_front();
                self.ways[side].extend(front);
            }
            13 => self.damage(side, script),
            14..=16 => drop(self.pass_time()),
            17 => self.now += Duration::from_micros(u64::from(script.word()) * 10),
            18..=20 => {
                let node = &mut self.nodes[side];
                let len = (u64::from(script.word()) + 1).min(MOST.saturating_sub(node.submitted));
                if len > 0 {
                    node.send(now, len as u32, script.bit());
                }
            }
            21 | 22 => self.nodes[side].consume(now),
            23 => drop(self.nodes[side].request(now, Request::ShutdownWrite)),
            24 => drop(self.nodes[side].request(now, Request::Close)),
            25 if script.byte() == 0 => drop(self.nodes[side].request(now, Request::Abort)),
            26 => self.ways[side].clear(),
            27 => self.refuse_as_too_big(side, script),
            28 => {
                if let Some(conn) = self.nodes[side].conn {
                    let bytes = u32::from(script.word()) * 4;
                    self.nodes[side].stack.set_receive_buffer(now, conn, bytes);
                }
            }
            _ => {
                let on = script.bit();
                let option = match script.byte() % 5 {
                    0 => ConnOption::NoDelay(on),
                    1 => ConnOption::Cork(on),
                    2 => ConnOption::QuickAck(on),
                    3 => ConnOption::MaxSegment(100 + script.word() % 2_000),
                    _ => ConnOption::Congestion(ALGORITHMS[usize::from(script.byte() & 3)]),
                };
                self.nodes[side].request(now, Request::SetOption(option));
            }
        }
    }

    /// The next frame from `side` arrives at the other.
    fn deliver(&mut self, side: usize) {
        if let Some(frame) = self.ways[side].pop_front() {
            self.nodes[1 - side].receive(self.now, &frame.bytes);
        }
    }

    fn damage(&mut self, side: usize, script: &mut Bytes<'_>) {
        let bit = usize::from(script.word());
        if let Some(frame) = self.ways[side].front_mut().filter(|frame| !frame.damaged) {
            frame.damaged = true;
            let at = bit / 8 % frame.bytes.len();
            frame.bytes[at] ^= 1 << (bit % 8);
        }
    }

    /// A router throws the next frame away and says so.
    fn refuse_as_too_big(&mut self, side: usize, script: &mut Bytes<'_>) {
        let mtu = u32::from(script.word() % 2_000);
        let Some(frame) = self.ways[side].pop_front() else {
            return;
        };
        if let Ok(segment) = segment::parse(&frame.bytes, ChecksumPolicy::Verify) {
            let error = TcpError {
                flow: segment.flow().reversed(),
                seq: segment.tcp.seq,
                packet_len: (frame.bytes.len() - ethernet::HEADER_LEN) as u32,
                reason: Reason::TooBig { mtu },
            };
            let _ = self.nodes[side].stack.on_icmp(self.now, &error);
        }
    }

    /// Moves on to the next timer.
    fn pass_time(&mut self) -> bool {
        let next = self
            .nodes
            .iter_mut()
            .filter_map(|node| node.stack.next_timeout());
        let Some(next) = next.min() else { return false };
        self.now = self.now.max(next);
        for node in &mut self.nodes {
            node.stack.on_timeout(self.now, 100);
        }
        true
    }

    fn settle(&mut self) {
        for side in 0..2 {
            self.nodes[side].settle(self.now);
            let frames = self.nodes[side].device.frames.drain(..);
            self.ways[side].extend(frames.map(|bytes| Frame {
                bytes,
                damaged: false,
            }));
        }
    }

    /// From now on everything arrives, applications read everything and close in the end.
    fn end(&mut self) {
        for _ in 0..ENDING {
            let mut active = false;
            for side in 0..2 {
                active |= !self.ways[side].is_empty();
                while !self.ways[side].is_empty() {
                    self.deliver(side);
                }
            }
            self.now += Duration::from_micros(50);
            for node in &mut self.nodes {
                // A buffer that was taken away would never let the rest in.
                if let Some(conn) = node.conn {
                    node.stack.set_receive_buffer(self.now, conn, 65_535);
                }
                node.consume(self.now);
                if !node.shut && !node.closed {
                    node.request(self.now, Request::ShutdownWrite);
                }
                let over = node.update.peer_closed && node.consumed == node.update.received;
                if !node.closed && (over || node.update.failed.is_some()) {
                    node.request(self.now, Request::Close);
                }
            }
            self.settle();
            if !active && !self.pass_time() {
                return self.check();
            }
            self.settle();
        }
        panic!("the stacks never come to rest");
    }

    fn check(&self) {
        for side in 0..2 {
            let (from, to) = (&self.nodes[side], &self.nodes[1 - side]);
            if let Some(conn) = to.conn {
                assert!(
                    to.update.received <= from.submitted,
                    "received what nobody sent"
                );
                to.memory.check(conn, to.update.received, from.base);
            }
            let peaceful = |node: &Node| !node.aborted && node.update.failed.is_none();
            // A side that closes early refuses what comes later.
            let whole = peaceful(from) && peaceful(to) && !to.closed_early(from);
            if whole && from.update.connected && to.update.connected {
                assert_eq!(to.update.received, from.submitted, "something is missing");
            }
            let left = [Stack::connection_count, Stack::half_open_count].map(|of| of(&from.stack));
            assert_eq!(left, [0, 0], "something is left");
        }
    }
}

impl Node {
    /// Whether it closed before it had everything: then what came was answered by RST.
    fn closed_early(&self, peer: &Node) -> bool {
        self.closed && self.update.received < peer.submitted
    }
}
