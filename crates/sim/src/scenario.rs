//! Whole runs that follow from a seed: what link, what settings, which connections, what their
//! applications do, and what befalls them on the way.

mod disturbance;
mod settings;

use core::fmt;
use core::time::Duration;

use tcp::{ConnInfo, Failure, Instant, Request};

use crate::ids::SocketId;
use crate::pair::{Pair, PairConfig};
use crate::rng::{Chance, Rng};
use crate::socket::Plan;
use disturbance::Disturbances;

/// How long the connections of a scenario may take, in its own time. Even a tenth of all segments
/// lost both ways does not stop a connection that long. It takes hours where the peers have neither SACK
/// nor timestamps: a lost retransmission is found by the RTO alone, and as no round trip can be measured
/// (Karn's rule, RFC 6298 §3) that stays at two minutes.
const LIMIT: Duration = Duration::from_secs(24 * 3_600);

/// How often a scenario may be moved on. Those of the gate take a few thousand steps, some a hundred
/// thousand.
const STEPS: u64 = 5_000_000;

/// A run, before it has begun.
#[derive(Clone, Debug)]
pub struct Scenario {
    seed: u64,
    pair: PairConfig,
    connections: Vec<Connection>,
    /// How often something befalls the connections; never if `None`.
    unrest: Option<Duration>,
    /// How likely it is that a connection is aborted.
    aborts: Chance,
    /// Whether SYNs come from nowhere.
    floods: bool,
    /// Whether a failure prints every segment, not only the last.
    traced: bool,
}

/// A connection, before it has begun.
#[derive(Clone, Copy, Debug)]
struct Connection {
    begin: Duration,
    client: Plan,
    server: Plan,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How long it took until every connection was over.
    pub time: Duration,
    /// Bytes that were delivered.
    pub bytes: u64,
    /// Segments that both hosts sent.
    pub segments: u64,
    /// Those of them that were sent again.
    pub retransmitted: u64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes in {:?}, {} segments, {} of them again",
            self.bytes, self.time, self.segments, self.retransmitted
        )
    }
}

impl Scenario {
    /// The same, but a failure prints every segment that was sent.
    #[must_use]
    pub fn traced(self) -> Scenario {
        Scenario {
            traced: true,
            ..self
        }
    }

    /// Runs it to its end. Every byte must have been delivered, except on connections that were
    /// aborted, and nothing may be left.
    ///
    /// # Panics
    /// If that is not so. The seed and the last segments are printed.
    pub fn run(self) -> Outcome {
        let mut run = Run::new(self);
        let begin = run.pair.now();
        let mut turns = 0;
        while !run.is_over() {
            // Also of those in which nothing happens.
            turns += 1;
            assert!(
                turns < STEPS,
                "the connections are not over after {turns} turns, at {:?}",
                run.pair.now()
            );
            assert!(
                run.pair.now() < begin + LIMIT,
                "the connections are not over after {LIMIT:?}: {:#?}",
                run.left()
            );
            assert!(
                run.pair.steps() < STEPS,
                "the connections are not over after {STEPS} steps"
            );
            run.go_on();
        }
        let time = run.pair.now().saturating_duration_since(begin);
        run.check();
        let pair = &run.pair;
        let counters = [pair.client, pair.server].map(|host| pair.host(host).stack.counters());
        let sockets = run.clients.iter().chain(&run.servers);
        Outcome {
            time,
            bytes: sockets.map(|&socket| pair.socket(socket).consumed).sum(),
            segments: counters.iter().map(|c| c.segments_out).sum(),
            retransmitted: counters.iter().map(|c| c.retransmitted_segments).sum(),
        }
    }
}

/// A scenario under way.
struct Run {
    pair: Pair,
    /// Connections that have not begun, the next one last.
    waiting: Vec<(Instant, Connection)>,
    /// What the servers of those that have begun will do, in the order of `clients`.
    plans: Vec<Plan>,
    clients: Vec<SocketId>,
    servers: Vec<SocketId>,
    disturbances: Disturbances,
    rng: Rng,
}

impl Run {
    fn new(scenario: Scenario) -> Run {
        let stacks = [scenario.pair.client.clone(), scenario.pair.server.clone()];
        let mut pair = Pair::with(scenario.seed, scenario.pair);
        if scenario.traced {
            pair.trace_all();
        }
        let mut rng = Rng::new(!scenario.seed);
        let begin = pair.now();
        let mut waiting: Vec<_> = scenario
            .connections
            .into_iter()
            .map(|connection| (begin + connection.begin, connection))
            .collect();
        waiting.sort_by_key(|(at, _)| core::cmp::Reverse(*at));
        let mut disturbances =
            Disturbances::new(begin, scenario.unrest, scenario.aborts, rng.fork());
        disturbances.floods = scenario.floods;
        let cookies = stacks.iter().any(|stack| stack.syn_cookies);
        disturbances.stacks = (!cookies).then_some(stacks);
        Run {
            disturbances,
            waiting,
            plans: Vec::new(),
            clients: Vec::new(),
            servers: Vec::new(),
            pair,
            rng,
        }
    }

    fn is_over(&self) -> bool {
        let released = |&socket: &SocketId| self.pair.socket(socket).released;
        let server = &self.pair.host(self.pair.server).stack;
        self.waiting.is_empty()
            && self.clients.iter().chain(&self.servers).all(released)
            // A SYN that was late or doubled may have opened another one half, for a while.
            && server.half_open_count() == 0
            && server.connection_count() == 0
    }

    /// What the stacks know of connections that are not over.
    fn left(&self) -> Vec<ConnInfo> {
        let sockets = self.pair.sockets();
        sockets
            .filter_map(|socket| self.pair.info(socket))
            .collect()
    }

    /// Does what is due, then lets happen what happens next.
    fn go_on(&mut self) {
        let now = self.pair.now();
        while let Some((_, connection)) = self.waiting.pop_if(|(at, _)| *at <= now) {
            self.clients.push(self.pair.connect(connection.client));
            self.plans.push(connection.server);
        }
        // A server that is not always there at once.
        if self.rng.happens(Chance::percent(30)) {
            self.accept();
        }
        let sockets: Vec<_> = self.clients.iter().chain(&self.servers).copied().collect();
        self.disturbances.happen(&mut self.pair, &sockets);

        let next_begin = self.waiting.last().map(|(at, _)| *at);
        let next = next_begin.into_iter().chain(self.disturbances.next()).min();
        match (next, self.pair.next_happening()) {
            (Some(next), happening) if happening.is_none_or(|at| next < at) => {
                let wait = next.saturating_duration_since(now);
                self.pair.run_for(wait);
            }
            (_, Some(_)) => {
                self.pair.step();
            }
            // Nothing happens by itself until the server accepts.
            _ => {
                let before = self.servers.len();
                self.accept();
                if self.servers.len() == before && self.pair.next_happening().is_none() {
                    self.give_up_waiting();
                }
            }
        }
    }

    /// Nothing will ever happen again: the last ACK of a handshake without memory was lost, and the
    /// client, which has nothing to say, waits for a server that knows nothing of it.
    fn give_up_waiting(&mut self) {
        assert!(self.cookies() || self.is_over(), "everybody waits for ever");
        for socket in self.pair.sockets() {
            // It may have been closed or released.
            let _ = self.pair.request(socket, Request::Abort);
        }
        self.pair.run_for(Duration::ZERO);
        assert!(
            self.pair.next_happening().is_some() || self.is_over(),
            "everybody waits for ever"
        );
    }

    /// Whether the server has done handshakes without memory.
    fn cookies(&self) -> bool {
        let stack = &self.pair.host(self.pair.server).stack;
        stack.counters().cookies_sent > 0
    }

    /// Accepts what waits, and gives each connection the plan that goes with its client's.
    fn accept(&mut self) {
        let before = self.servers.len();
        while let Some(server) = self.pair.accept(Plan::BY_HAND) {
            let client = self.pair.peer(server);
            let at = self.clients.iter().position(|&id| Some(id) == client);
            *self.pair.plan_mut(server) = self.plans[at.expect("a client of this scenario")];
            self.servers.push(server);
        }
        // The stack says where they stand, and their applications begin.
        self.pair.run_for(Duration::ZERO);
        // Of one that was accepted earlier, when a stack was replaced, the stack has nothing to say.
        for at in before..self.servers.len() {
            self.pair.pump(self.servers[at]);
        }
    }

    /// Everything was delivered, and nothing is left.
    fn check(&mut self) {
        let cookies = self.cookies();
        for &client in &self.clients {
            let server = self.pair.peer(client);
            let ends = [Some(client), server].into_iter().flatten();
            let socket = |id: SocketId| self.pair.socket(id);
            if ends.clone().any(|id| socket(id).aborted) {
                continue;
            }
            // The price of handshakes without memory: when all is lost that would have brought the
            // cookie, what comes later belongs to nothing; and a late copy of what brought it begins
            // a connection that nobody wanted. Even then every byte that is read is right, and
            // nothing is left.
            let failed = |id: SocketId| socket(id).update.failed == Some(Failure::Reset);
            if cookies && (server.is_none() || ends.clone().any(failed)) {
                continue;
            }
            self.pair.check_delivered(client);
        }
        self.pair.check_empty();
    }
}
