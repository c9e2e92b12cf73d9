//! The stack: all connections of one core, and the lists of what is ready.
//!
//! | file | what |
//! | --- | --- |
//! | `arrive` | a segment arrives: who gets it |
//! | `handshake` | SYN and the ACK that completes a passive open |
//! | `cookies` | the same without memory, when there are too many SYNs |
//! | `fast_open` | SYNs that open a connection by themselves (RFC 7413) |
//! | `icmp` | ICMP errors |
//! | `moving` | connections out to another stack, and in |
//! | `unattended` | the same for handshakes that peers have begun, and TIME-WAIT |
//! | `listening` | listeners, accept, give back |
//! | `queries` | what anybody may ask |
//! | `lists` | what is ready to be sent or told, and timers |
//! | `settle` | what follows when a connection has changed; TIME-WAIT; release |
//! | `transmit` | from the ready list and the control queue to the sink |
//! | `timeout` | timers that are due |
//! | `control` | segments that belong to no connection; rate limits |

mod arrive;
mod audit;
mod control;
mod cookies;
mod fast_open;
mod handshake;
mod icmp;
mod link;
mod listening;
mod lists;
mod moving;
mod queries;
mod settle;
mod timeout;
mod transmit;
mod unattended;

pub(crate) use control::RateLimit;

use core::net::{IpAddr, SocketAddr};

use wire::flow::{FlowKey, FlowMac};

use crate::config::{Config, ConnOptions};
use crate::connection::{Common, Connection, Context};
use crate::counters::Counters;
use crate::event::{Event, Failure};
use crate::fast_open::FastOpens;
use crate::flow_table::{FlowHash, FlowTable};
use crate::isn::Isn;
use crate::listener::Listeners;
use crate::listener::cookie::Cookies;
use crate::listener::half_open::{HalfOpens, half_opens};
use crate::listener::withheld::Withheld;
use crate::path_mtus::PathMtus;
use crate::request::{ConnectError, Request, RequestError};
use crate::slab::Slab;
use crate::time_wait::TimeWaitTable;
use crate::{ConnId, Instant};

use control::ControlQueue;
use lists::{Lists, Note};

/// What the flow table finds: the kind in the two high bits, the slot in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Connection(u32),
    HalfOpen(u32),
    TimeWait(u32),
}

impl Flow {
    const SLOT: u32 = (1 << 30) - 1;

    fn pack(self) -> u32 {
        match self {
            Flow::Connection(slot) => slot,
            Flow::HalfOpen(slot) => slot | 1 << 30,
            Flow::TimeWait(slot) => slot | 2 << 30,
        }
    }

    fn unpack(word: u32) -> Flow {
        let slot = word & Self::SLOT;
        match word >> 30 {
            0 => Flow::Connection(slot),
            1 => Flow::HalfOpen(slot),
            _ => Flow::TimeWait(slot),
        }
    }
}

/// A connection's slot, and the hash of its flow.
#[derive(Clone, Copy)]
struct Recent {
    index: u32,
    hash: FlowHash,
}

/// A TCP for any number of connections. See the [crate's documentation](crate) for the contract.
pub struct Stack {
    common: Common,
    flows: FlowTable,
    connections: Slab<Connection>,
    /// The connection that got the last segment.
    recent: Recent,
    half_opens: HalfOpens,
    time_wait: TimeWaitTable,
    listeners: Listeners,
    lists: Lists,
    control: ControlQueue,
    resets: RateLimit,
    orphans: u32,
    isn: Isn,
    cookies: Cookies,
    /// When the last cookie is void that this stack has sent or expects.
    cookies_until: Instant,
    /// The same of those that other stacks send.
    cookies_elsewhere_until: Instant,
    /// SYNs that cookies were withheld from.
    withheld: Withheld,
    /// While cookies are withheld: to how many that come again one may still go.
    withholding: Option<u32>,
}

impl Stack {
    /// A stack without connections. Everything that must not be guessed follows from the seed, so
    /// a run can be repeated; outside of tests it comes from the system's generator.
    #[must_use]
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        // One key for each purpose, of which none tells anything of another.
        let keys: [[u8; 16]; KEYS] = core::array::from_fn(|purpose| key_for(&seed, purpose as u64));
        Self {
            flows: FlowTable::with_capacity(keys[0], config.expected_flows as usize),
            connections: Slab::new(),
            recent: Recent {
                index: 0,
                hash: FlowHash::NONE,
            },
            half_opens: half_opens(&config),
            time_wait: TimeWaitTable::new(config.time_wait, config.max_time_wait),
            listeners: Listeners::new(config.max_listeners),
            lists: Lists::new(),
            control: ControlQueue::new(config.max_control_segments),
            resets: RateLimit::new(config.resets_per_second),
            orphans: 0,
            isn: Isn::new(keys[1]),
            cookies: Cookies::new(keys[2]),
            cookies_until: Instant::ZERO,
            cookies_elsewhere_until: Instant::ZERO,
            withheld: Withheld::new(keys[0]),
            withholding: None,
            common: Common {
                counters: Counters::default(),
                flights: crate::recovery::Pool::default(),
                challenges: RateLimit::hidden(config.challenge_acks_per_second, keys[3]),
                out_of_order_ranges: 0,
                fast_opens: FastOpens::new(keys[4], config.max_fast_open_cookies),
                path_mtus: PathMtus::new(config.max_path_mtus),
                parts: Vec::new(),
                config,
            },
        }
    }

    /// Opens a connection. The SYN leaves with the next [`poll_transmit`](Self::poll_transmit).
    ///
    /// # Errors
    /// Nothing has changed, for the reason given.
    //= RFC 9293 MUST-43, §3.10.1
    pub fn connect(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        options: &ConnOptions,
    ) -> Result<ConnId, ConnectError> {
        //= RFC 9293 MUST-45
        let key = flow(local, remote).ok_or(ConnectError::BadAddress)?;
        let (mut iss, ts_offset) = self.isn.begin(now, &key);
        let hash = self.flows.hash(&key);
        let occupant = self.flows.get_hashed(&key, hash).map(Flow::unpack);
        if let Some(occupant) = occupant {
            let Flow::TimeWait(index) = occupant else {
                return Err(ConnectError::AddressInUse);
            };
            match self.time_wait.get(index) {
                Some(pair) if pair.may_reopen(now) => iss = iss.max(pair.least_successor()),
                _ => return Err(ConnectError::AddressInUse),
            }
        }
        if self.connections.len() >= self.common.config.max_connections {
            return Err(ConnectError::TooManyConnections);
        }
        if let Some(Flow::TimeWait(index)) = occupant {
            self.time_wait.remove(index);
            self.common.counters.time_wait_reused += 1;
        }
        let mut c = Connection::active(now, key, iss, ts_offset, options, &self.common.config);
        if options.hold_syn {
            c.hold_syn(now, &mut self.common);
        }
        let id = self.add_connection(now, hash, c);
        self.common.counters.active_opens += 1;
        self.settle(id);
        Ok(id)
    }

    /// Asks something of a connection.
    ///
    /// # Errors
    /// The connection is as before, for the reason given.
    pub fn on_request(
        &mut self,
        now: Instant,
        id: ConnId,
        request: Request,
    ) -> Result<(), RequestError> {
        let may_orphan = self.orphans < self.common.config.max_orphans;
        self.with_connection(now, id, |c, cx| c.on_request(request, may_orphan, cx))
            .unwrap_or(Err(RequestError::UnknownConnection))
    }

    /// Says that the path to a peer is broken: the neighbour does not answer, there is no route.
    pub fn on_unreachable(&mut self, now: Instant, id: ConnId, failure: Failure) {
        self.with_connection(now, id, |c, cx| c.on_unreachable(failure, cx));
    }

    /// Changes how much of the peer's stream may wait for the owner, and fixes it there. What was
    /// offered already stays offered.
    pub fn set_receive_buffer(&mut self, now: Instant, id: ConnId, bytes: u32) {
        let bytes = bytes.min(self.common.config.max_receive_buffer);
        self.with_connection(now, id, |c, _| c.set_receive_buffer(bytes));
    }

    /// What a connection was to send and [had to be fetched](crate::FrameSink::awaits_payload) is there.
    pub fn payload_is_there(&mut self, id: ConnId) {
        if let Some(c) = self.connections.get_mut(id.index, id.generation) {
            c.payload_is_there();
            self.settle(id);
        }
    }

    /// What a connection was to send cannot be had: it is reset, and its owner told so
    /// ([`Failure::Aborted`]).
    pub fn payload_is_lost(&mut self, now: Instant, id: ConnId) {
        self.with_connection(now, id, |c, cx| {
            if c.state != crate::State::Closed {
                c.reset(&mut cx.common.counters);
            }
        });
    }

    /// Under memory pressure: lets go of what a connection holds out of order, and returns how many
    /// bytes that were. The owner may reuse their memory; the peer sends them again.
    pub fn shed_out_of_order(&mut self, id: ConnId) -> u64 {
        let Some(c) = self.connections.get_mut(id.index, id.generation) else {
            return 0;
        };
        let bytes = c.shed_out_of_order();
        self.common.counters.out_of_order_shed += bytes;
        self.settle(id);
        bytes
    }

    /// The next event. See [`Event`] for why the list cannot overflow.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.lists.events.is_empty() {
            return None;
        }
        self.next_event()
    }

    #[inline]
    fn next_event(&mut self) -> Option<Event> {
        loop {
            match self.lists.events.pop_front()? {
                Note::Released(id) => {
                    self.connections.reuse(id.index);
                    return Some(Event::Released(id));
                }
                Note::Listener(id) => {
                    if let Some(listener) = self.listeners.get_mut(id) {
                        listener.in_events = false;
                        return Some(Event::Acceptable(id));
                    }
                }
                Note::Connection(id) => {
                    if let Some(c) = self.connections.get_mut(id.index, id.generation) {
                        c.in_events = false;
                        c.changed = false;
                        let update = c.update(&self.common.config);
                        return Some(Event::Connection(id, update));
                    }
                }
            }
        }
    }

    /// Runs `f` on a connection and does what follows from it.
    fn with_connection<R>(
        &mut self,
        now: Instant,
        id: ConnId,
        f: impl FnOnce(&mut Connection, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let c = self.connections.get_mut(id.index, id.generation)?;
        let was_orphan = c.orphan;
        let common = &mut self.common;
        let result = f(c, &mut Context { now, id, common });
        if c.orphan && !was_orphan {
            self.orphans += 1;
        }
        if !self.lists.settle(id, c, &mut self.common) {
            self.settle_over(now, id);
        }
        Some(result)
    }
}

/// How many purposes a stack has for keys, from 0 on.
const KEYS: usize = 5;

/// A secret key derived from a seed, another one for each purpose; none tells anything about another. Both
/// halves of the seed count. A program that has purposes beside a stack with the same seed takes numbers
/// from 16 on.
#[must_use]
pub fn key_for(seed: &[u8; 32], purpose: u64) -> [u8; 16] {
    let mut key = [0; 16];
    for (half, bytes) in seed.chunks_exact(16).zip(key.chunks_exact_mut(8)) {
        let mut secret = [0; 16];
        secret.copy_from_slice(half);
        bytes.copy_from_slice(&FlowMac::new(secret).number(0, purpose).to_be_bytes());
    }
    key
}

/// The flow between two ends, if there can be a connection between them.
fn flow(local: SocketAddr, remote: SocketAddr) -> Option<FlowKey> {
    let sound = is_endpoint(local) && is_endpoint(remote) && local.is_ipv4() == remote.is_ipv4();
    sound.then(|| FlowKey {
        local: local.ip(),
        remote: remote.ip(),
        local_port: local.port(),
        remote_port: remote.port(),
    })
}

/// Whether a connection can begin or end there.
//= RFC 9293 MUST-46
fn is_endpoint(addr: SocketAddr) -> bool {
    addr.port() != 0 && is_unicast(addr.ip())
}

fn is_unicast(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !ip.is_unspecified() && !ip.is_multicast() && !broadcast
}
