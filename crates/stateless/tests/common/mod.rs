//! A world of virtual time: the load client on a device of its own, a link that loses, repeats and
//! reorders, and at the other end a server on our own TCP.

mod server;
mod stateless_peer;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::AtomicU8;

use netdev::{Counters, Device, LargeSend, Limits, Offloads, PartialChecksum, SendError};
use rustix::event::PollFd;
use sim::Rng;
use stateless::client::reply::{Addressing, Frames};
use stateless::client::request::{Common, Pattern, Requests};
use stateless::client::run::{Next, Plan, Runner};
use stateless::client::sources::{AddressRange, Sources};
use stateless::client::{Client, Config, Finish, Verify};
use wire::segment::Link;

pub use server::{Habits, Server};
pub use stateless_peer::Stateless;

/// Frames on their way in and out.
#[derive(Debug, Default)]
struct Queues {
    arrived: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

/// The client's device.
#[derive(Debug)]
pub struct Wire {
    queues: Rc<RefCell<Queues>>,
    buffer: Vec<u8>,
}

impl Device for Wire {
    fn receive<F: FnMut(&[u8])>(&mut self, budget: usize, mut each: F) -> usize {
        let mut count = 0;
        while count < budget {
            let Some(frame) = self.queues.borrow_mut().arrived.pop_front() else {
                break;
            };
            each(&frame);
            count += 1;
        }
        count
    }

    fn frame(&mut self) -> Option<&mut [u8]> {
        Some(&mut self.buffer)
    }

    fn submit(&mut self, len: usize, _checksum: Option<PartialChecksum>) {
        let frame = self.buffer[..len].to_vec();
        self.queues.borrow_mut().sent.push(frame);
    }

    fn send_large(
        &mut self,
        _header: &[u8],
        _payload: &[&[AtomicU8]],
        _how: LargeSend,
    ) -> Result<(), SendError> {
        Err(SendError::Unsupported)
    }

    fn flush(&mut self) -> usize {
        0
    }

    fn poll_fds<'a>(&'a self, _set: &mut Vec<PollFd<'a>>) {}

    fn offloads(&self) -> Offloads {
        Offloads::NONE
    }

    fn set_offloads(&mut self, _wanted: Offloads) -> Offloads {
        Offloads::NONE
    }

    fn limits(&self) -> Limits {
        Limits {
            mtu: 1500,
            frame: 1514,
            large: 0,
            pieces: 0,
        }
    }

    fn counters(&mut self) -> Counters {
        Counters::default()
    }
}

/// What the link does to frames, in both directions. Chances are of 1000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u64,
    pub duplication: u64,
    /// A frame is late by up to two milliseconds, and overtaken.
    pub delay: u64,
}

const LATENCY_NS: u64 = 100_000;
const LATE_NS: u64 = 2_000_000;

/// What the client does.
#[derive(Clone)]
pub struct Load {
    pub paths: Vec<String>,
    pub per_connection: u32,
    pub finish: Finish,
    pub paced: bool,
    pub timeout_us: u32,
    pub plan: Plan,
}

/// A frame on the link: when it arrives, its number, whether it goes to the server, its bytes.
type Flying = (u64, u64, bool, Vec<u8>);

/// What answers at the other end.
pub trait Peer {
    /// A frame arrives.
    fn receive(&mut self, now_ns: u64, frame: &[u8]);
    /// Frames to send.
    fn turn(&mut self, now_ns: u64) -> Vec<Vec<u8>>;
    /// When it has something to do, unless a frame comes before.
    fn next_timeout(&mut self) -> Option<u64>;
    /// What the bodies of these paths must be.
    fn verify(paths: &[String]) -> Verify;
}

/// The world. Frames on the link are ordered by their time, and then by their number.
pub struct World<S = Server> {
    pub runner: Runner<Wire>,
    pub server: S,
    queues: Rc<RefCell<Queues>>,
    link: BinaryHeap<Reverse<Flying>>,
    number: u64,
    rng: Rng,
    faults: Faults,
    pub now_ns: u64,
    /// Time at which the client stands still, and for how long.
    pub stall: Option<(u64, u64)>,
    /// When the client sent a reset.
    pub resets: Vec<u64>,
}

/// Where an IPv4 segment in an Ethernet frame has its flags, and that of a reset.
const FLAGS: (usize, u8) = (14 + 20 + 13, 0x04);

/// Where the server is, and the client.
pub const SERVER: &str = "10.0.0.1:80";
const CLIENT: &str = "10.0.0.64/28";

impl World {
    pub fn new(seed: u64, load: &Load, habits: Habits, faults: Faults) -> Self {
        let server = Server::new(habits, Rng::new(!seed).next_u64());
        Self::with(server, seed, load, faults)
    }
}

impl<S: Peer> World<S> {
    pub fn with(server: S, seed: u64, load: &Load, faults: Faults) -> Self {
        let mut rng = Rng::new(seed);
        let queues = Rc::new(RefCell::new(Queues::default()));
        let common = Common {
            host: "server".into(),
            ..Common::default()
        };
        let patterns: Vec<_> = load
            .paths
            .iter()
            .map(|path| Pattern {
                path: path.clone(),
                weight: 1.0,
            })
            .collect();
        let requests = Requests::new(&common, &patterns).expect("requests");
        let ranges = vec![AddressRange::parse(CLIENT).expect("a prefix")];
        let sources = Sources::new(ranges, 2000..=2999).expect("sources");
        let addressing = Addressing {
            link: Link::default(),
            server: SERVER.parse().expect("an address"),
            mss: 1460,
            window: 65_535,
            window_scale: 0,
            hop_limit: 64,
        };
        let frames = Frames::new(&addressing, &sources, &requests).expect("frames");
        let client = Client::new(Config {
            server: addressing.server,
            sources,
            requests,
            per_connection: load.per_connection,
            requests_in_all: load.plan.requests,
            finish: load.finish,
            timeout_us: load.timeout_us,
            paced: load.paced,
            verify: S::verify(&load.paths),
            window: 4096,
            partial: 64,
            key: rng.next_u64(),
        })
        .expect("a client");
        let wire = Wire {
            queues: Rc::clone(&queues),
            buffer: vec![0; 1514],
        };
        let now_ns = 5_000_000_000;
        Self {
            runner: Runner::new(wire, client, frames, load.plan.clone(), now_ns),
            server,
            queues,
            link: BinaryHeap::new(),
            number: 0,
            rng,
            faults,
            now_ns,
            stall: None,
            resets: Vec::new(),
        }
    }

    /// Puts a frame on the link.
    fn send(&mut self, to_server: bool, frame: Vec<u8>) {
        if self.rng.below(1000) < self.faults.loss {
            return;
        }
        let copies = 1 + u64::from(self.rng.below(1000) < self.faults.duplication);
        for _ in 0..copies {
            let mut at = self.now_ns + LATENCY_NS;
            if self.rng.below(1000) < self.faults.delay {
                at += self.rng.below(LATE_NS);
            }
            self.number += 1;
            let item = (at, self.number, to_server, frame.clone());
            self.link.push(Reverse(item));
        }
    }

    /// Runs until the client says that it is over; panics if that takes longer than `limit_ns`.
    pub fn run(&mut self, limit_ns: u64) {
        let end = self.now_ns + limit_ns;
        loop {
            assert!(
                self.now_ns < end,
                "no end: {:#?}",
                self.runner.client().counters()
            );
            while let Some(Reverse((at, ..))) = self.link.peek()
                && *at <= self.now_ns
            {
                let Some(Reverse((_, _, to_server, frame))) = self.link.pop() else {
                    break;
                };
                if to_server {
                    self.server.receive(self.now_ns, &frame);
                } else {
                    self.queues.borrow_mut().arrived.push_back(frame);
                }
            }
            let next = self.runner.turn(self.now_ns);
            let sent = std::mem::take(&mut self.queues.borrow_mut().sent);
            for frame in sent {
                if frame[FLAGS.0] & FLAGS.1 != 0 {
                    self.resets.push(self.now_ns);
                }
                self.send(true, frame);
            }
            for frame in self.server.turn(self.now_ns) {
                self.send(false, frame);
            }
            let wanted = match next {
                Next::Over => break,
                Next::Now => self.now_ns + 1000,
                Next::At(at) => at.max(self.now_ns + 1000),
            };
            if let Some((at, length)) = self.stall
                && wanted >= at
            {
                // Nobody runs, and what arrives meanwhile waits.
                self.stall = None;
                self.now_ns = at.max(self.now_ns) + length;
                continue;
            }
            let arrival = self.link.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            let timer = self.server.next_timeout().unwrap_or(u64::MAX);
            self.now_ns = wanted.min(arrival).min(timer).max(self.now_ns + 1);
        }
    }
}
