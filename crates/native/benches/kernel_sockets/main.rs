//! What a message costs a server on the kernel's sockets, by how it has them: as the library, by epoll, by io_uring.
//! `cargo bench -p outboard-native --bench kernel_sockets`.
//!
//! Each server echoes; a client in another thread sends a message on each of its connections and then takes the
//! answers. What is told is the CPU time of the server's thread for a message, in the kernel and outside: the median
//! over rounds, in which the servers take turns, and the least and the most. The client is on another core, where it
//! finds the server awake now and then, or on the same: then the server wakes when all messages are there.

mod batched;
mod client;
mod library;
mod readiness;
mod uring;

use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::Sender;
use std::time::Duration;

use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};

const CONNECTIONS: [usize; 5] = [1, 2, 4, 16, 64];
const SIZES: [usize; 2] = [64, 16 << 10];
const ROUNDS: usize = 9;
/// Bytes that are received at once at most, as programs do: more than a message has.
pub const BUFFER: usize = 64 << 10;
/// Messages of a round, all connections together, and those before them that do not count.
const MESSAGES: u64 = 20_000;
const WARM_UP: u64 = 2_000;

/// A server: it says where it listens, and returns when it has echoed all of what it was told.
type Serve = fn(&mut Work, &Sender<SocketAddr>);

const SERVERS: [(&str, Serve); 10] = [
    ("the library, epoll", library::at_once),
    ("the library, io_uring", library::together),
    ("the library, epoll, each comes back", library::coming_back),
    (
        "the library, io_uring, each comes back",
        library::coming_back_together,
    ),
    ("epoll, recv, send", readiness::serve),
    ("epoll, recv, sends together", batched::sends),
    ("epoll, recvs and sends together", batched::both),
    ("io_uring", uring::in_place),
    ("io_uring, copying", uring::copying),
    ("io_uring, copying, sends at once", uring::sending_at_once),
];

/// What a server has to do, and what that has taken.
pub struct Work {
    /// How many it has.
    pub connections: usize,
    /// Bytes of a message.
    pub size: usize,
    /// Bytes that it has received.
    received: u64,
    /// CPU time of its thread when counting began, and what was used when it ended.
    began: Option<Duration>,
    used: Option<Duration>,
}

impl Work {
    fn new(connections: usize, size: usize) -> Self {
        Self {
            connections,
            size,
            received: 0,
            began: None,
            used: None,
        }
    }

    /// Messages of a connection that do not count, and that do: of one that is alone fewer, as each waits for the
    /// one before.
    fn messages(&self) -> [u64; 2] {
        [WARM_UP, MESSAGES].map(|all| all / self.connections.max(4) as u64)
    }

    /// So many bytes were received.
    pub fn received(&mut self, bytes: usize) {
        self.received += bytes as u64;
        let [before, counted] = self.messages();
        let of = |messages: u64| messages * self.connections as u64 * self.size as u64;
        if self.began.is_none() && self.received >= of(before) {
            self.began = Some(thread_time());
        }
        if self.used.is_none() && self.received >= of(before + counted) {
            self.used = self.began.map(|began| thread_time() - began);
        }
    }

    /// Nanoseconds for a message.
    fn cost(&self) -> f64 {
        let used = self.used.expect("all messages have come");
        let counted = self.messages()[1] * self.connections as u64;
        used.as_nanos() as f64 / counted as f64
    }
}

/// CPU time of this thread.
fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// A listener of the kernel's that has told where it is, and so many connections of it.
pub fn accept(work: &Work, tell: &Sender<SocketAddr>) -> Vec<std::net::TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("its address");
    tell.send(address).expect("a client");
    let accepted = (0..work.connections).map(|_| {
        let (stream, _) = listener.accept().expect("a connection");
        stream.set_nodelay(true).expect("an option");
        stream
    });
    accepted.collect()
}

fn stay_on(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    rustix::thread::sched_setaffinity(None, &cores).expect("a core");
}

/// One round of one server; what a message cost it.
fn round(serve: Serve, connections: usize, size: usize, client_core: usize) -> f64 {
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let served = scope.spawn(move || {
            stay_on(0);
            let mut work = Work::new(connections, size);
            serve(&mut work, &tell);
            work.cost()
        });
        stay_on(client_core);
        let messages = Work::new(connections, size).messages().iter().sum();
        client::run(
            told.recv().expect("an address"),
            connections,
            size,
            messages,
        );
        served.join().expect("a server")
    })
}

fn main() {
    // `cargo test --benches` wants to know that it runs, and no figures. Other words choose: cells whose names have them.
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (flags, words): (Vec<_>, Vec<_>) = words.iter().partition(|word| word.starts_with("--"));
    let rounds = if flags.iter().any(|flag| *flag == "--bench") {
        ROUNDS
    } else {
        1
    };
    for (client_core, place) in [(1, "another core"), (0, "the same core")] {
        for size in SIZES {
            for connections in CONNECTIONS {
                let cell =
                    format!("{connections} connections, {size} bytes, the client on {place}");
                if words.iter().all(|word| cell.contains(word.as_str())) {
                    println!("{cell}:");
                    measure(rounds, (connections, size), client_core);
                }
            }
        }
    }
}

/// All servers in turns.
fn measure(rounds: usize, (connections, size): (usize, usize), client_core: usize) {
    let mut costs = SERVERS.map(|_| Vec::new());
    for turn in 0..rounds {
        for place in 0..SERVERS.len() {
            let server = (turn + place) % SERVERS.len();
            let cost = round(SERVERS[server].1, connections, size, client_core);
            costs[server].push(cost);
        }
    }
    for ((name, _), costs) in SERVERS.iter().zip(&mut costs) {
        costs.sort_by(f64::total_cmp);
        let (least, most) = (costs[0], costs[costs.len() - 1]);
        let median = costs[costs.len() / 2];
        println!("  {name:38} {median:7.0} ns ({least:.0} to {most:.0})");
    }
}
