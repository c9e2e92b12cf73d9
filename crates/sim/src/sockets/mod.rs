//! The sockets of a virtual kernel: one host's stack under virtual time, with the calls that
//! programs know, and IP datagrams instead of a link.
//!
//! A call never waits. One that would is told [`Refusal::Wait`], and whoever made it lets time pass
//! or packets come and makes it again. Numbers of options, flags and errors are Linux's on x86-64.
//!
//! | file | what |
//! | --- | --- |
//! | `open` | socket, bind, listen, accept, connect, shutdown, close |
//! | `transfer` | send and receive |
//! | `options` | socket options |
//! | `poll` | what is ready |
//! | `settings` | Linux's names of what can be set |
//! | `info` | `TCP_INFO` |
//! | `device` | datagrams in and out |

mod device;
mod info;
mod open;
mod options;
mod poll;
pub mod settings;
mod transfer;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use core::time::Duration;

use tcp::{
    Config, ConnId, ConnOptions, ConnUpdate, Event, Failure, Instant, KeepAlive, ListenerId, Stack,
};

use crate::memory::Memory;
use crate::rng::{Chance, Rng};
use crate::script::Errno;
use device::Outbox;

/// How often things may happen at one and the same time before it counts as going in circles.
const ACTIVITY_LIMIT: usize = 100_000;

/// Why a call came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It failed.
    Error(Errno),
    /// It waits: make it again when something has happened.
    Wait,
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal::Error(errno)
    }
}

/// What a call comes to.
pub type Attempt<T> = Result<T, Refusal>;

/// A socket, to whoever opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fd(pub i32);

/// A host: its stack, its sockets, and the datagrams that have left.
pub struct Sockets {
    config: Config,
    /// What sockets begin with.
    defaults: ConnOptions,
    /// How many bytes may be written and not acknowledged.
    send_buffer: usize,
    /// Longest queue that `listen` grants.
    somaxconn: u32,
    max_half_open: u32,
    seed: [u8; 32],
    /// Made with the first socket or packet, when all is set.
    stack: Option<Stack>,
    addresses: Vec<IpAddr>,
    now: Instant,
    memory: Memory,
    table: BTreeMap<Fd, Socket>,
    next_fd: i32,
    next_port: u16,
    connections: HashMap<ConnId, Fd>,
    outbox: Outbox,
}

/// One socket.
#[derive(Debug)]
struct Socket {
    v6: bool,
    non_blocking: bool,
    bound: Option<SocketAddr>,
    role: Role,
    options: ConnOptions,
    v6_only: bool,
    /// SO_LINGER.
    linger: Option<Duration>,
    send_buffer: usize,
    /// Integers that were set and only have to be remembered, by level and name.
    remembered: BTreeMap<(i32, i32), i32>,
}

#[derive(Debug)]
enum Role {
    Fresh,
    Listener(ListenerId),
    Connection(Connection),
}

/// What the program's end of a connection knows.
#[derive(Debug)]
struct Connection {
    id: ConnId,
    remote: SocketAddr,
    update: ConnUpdate,
    /// Bytes handed to the stack.
    written: u64,
    /// Bytes read.
    consumed: u64,
    /// A failure that no call has told yet.
    error: Option<Errno>,
    /// `connect` has said that it is connected.
    told: bool,
    shut_read: bool,
    shut_write: bool,
}

impl Connection {
    fn new(id: ConnId, remote: SocketAddr) -> Connection {
        Connection {
            id,
            remote,
            update: ConnUpdate::default(),
            written: 0,
            consumed: 0,
            error: None,
            told: false,
            shut_read: false,
            shut_write: false,
        }
    }
}

impl Sockets {
    /// A host with these addresses. `seed` decides what must not be guessed.
    pub fn new(addresses: Vec<IpAddr>, seed: u64) -> Sockets {
        let mut rng = Rng::new(seed);
        let mut bytes = [0; 32];
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
        Sockets {
            config: Config::default(),
            defaults: ConnOptions {
                keep_alive: KeepAlive::default(),
                ..ConnOptions::default()
            },
            send_buffer: 4 << 20,
            somaxconn: 4096,
            max_half_open: 4096,
            seed: bytes,
            stack: None,
            addresses,
            // Not at zero, where a clock that was never set would be right by chance.
            now: Instant::from_secs(1000),
            memory: Memory::new(Chance::NEVER, rng.fork()),
            table: BTreeMap::new(),
            next_fd: 3,
            next_port: 32_768,
            connections: HashMap::new(),
            outbox: Outbox::default(),
        }
    }

    /// The largest datagram that the host's interface carries. Before the first socket or packet.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.config.mtu = mtu;
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The next datagram that left, and when.
    pub fn take_packet(&mut self) -> Option<(Instant, Vec<u8>)> {
        self.outbox.take()
    }

    /// Whether a datagram has left and was not taken.
    pub fn has_packet(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// When something happens next by itself, if ever.
    pub fn next_timer(&mut self) -> Option<Instant> {
        let now = self.now;
        let next = self.stack.as_mut()?.next_timeout()?;
        Some(next.max(now))
    }

    /// Lets happen what is due at the time of the next timer, if that is not after `limit`; returns
    /// whether it was not. Otherwise it is `limit` now.
    pub fn step(&mut self, limit: Instant) -> bool {
        match self.next_timer() {
            Some(next) if next <= limit => {
                self.now = next;
                self.stack().on_timeout(next, usize::MAX);
                self.settle();
                true
            }
            _ => {
                self.now = self.now.max(limit);
                false
            }
        }
    }

    /// Lets time pass, every timer at its own time.
    pub fn advance(&mut self, to: Instant) {
        let mut at_once = 0;
        loop {
            let before = self.now;
            if !self.step(to) {
                return;
            }
            at_once = if before == self.now { at_once + 1 } else { 0 };
            assert!(at_once < ACTIVITY_LIMIT, "timers fire for ever");
        }
    }

    /// A datagram arrives.
    pub fn deliver(&mut self, datagram: &[u8]) {
        let now = self.now;
        let (config, seed) = (&self.config, self.seed);
        let stack = self
            .stack
            .get_or_insert_with(|| Stack::new(config.clone(), seed));
        let ends = (&mut self.memory, &mut self.outbox);
        device::deliver(stack, now, datagram, ends);
        self.settle();
    }

    /// Connections that the stack knows, those that their programs have closed among them.
    pub fn connection_count(&self) -> u32 {
        self.stack.as_ref().map_or(0, Stack::connection_count)
    }

    fn stack(&mut self) -> &mut Stack {
        let (config, seed) = (&self.config, self.seed);
        self.stack
            .get_or_insert_with(|| Stack::new(config.clone(), seed))
    }

    fn socket(&mut self, fd: Fd) -> Result<&mut Socket, Errno> {
        self.table.get_mut(&fd).ok_or(Errno::EBADF)
    }

    fn add(&mut self, socket: Socket) -> Fd {
        let fd = Fd(self.next_fd);
        self.next_fd += 1;
        self.table.insert(fd, socket);
        fd
    }

    /// Sends what is to be sent, and hears what is to be heard.
    fn settle(&mut self) {
        let now = self.now;
        for _ in 0..ACTIVITY_LIMIT {
            let Some(stack) = &mut self.stack else {
                return;
            };
            let sent = stack.poll_transmit(now, &mut self.outbox, 64);
            let mut heard = false;
            while let Some(event) = self.stack.as_mut().and_then(Stack::poll_event) {
                heard = true;
                self.hear(event);
            }
            if sent == 0 && !heard {
                let audit = self.stack.as_ref().map_or(Ok(()), Stack::audit);
                assert_eq!(audit, Ok(()), "after {now:?}");
                return;
            }
        }
        panic!("the stack has always something more to say");
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Acceptable(_) => {}
            Event::Released(id) => {
                self.outbox.release(id);
                self.memory.release(id);
                self.connections.remove(&id);
            }
            Event::Connection(id, update) => {
                self.outbox.acknowledge(id, update.acked);
                let Some(fd) = self.connections.get(&id) else {
                    return;
                };
                let Some(Socket {
                    role: Role::Connection(connection),
                    ..
                }) = self.table.get_mut(fd)
                else {
                    return;
                };
                if connection.update.failed.is_none()
                    && let Some(failure) = update.failed
                {
                    // As Linux: a reset after the peer's FIN is a broken pipe to who could still write.
                    let half_closed = update.peer_closed && !connection.shut_write;
                    let broken = failure == Failure::Reset && half_closed;
                    connection.error = Some(if broken {
                        Errno::EPIPE
                    } else {
                        errno_of(failure)
                    });
                }
                connection.update = update;
            }
        }
    }
}

fn errno_of(failure: Failure) -> Errno {
    match failure {
        Failure::Refused => Errno::ECONNREFUSED,
        Failure::Reset => Errno::ECONNRESET,
        Failure::TimedOut => Errno::ETIMEDOUT,
        Failure::HostUnreachable => Errno::EHOSTUNREACH,
        Failure::NetworkUnreachable => Errno::ENETUNREACH,
        Failure::Aborted => Errno::ECONNABORTED,
    }
}
