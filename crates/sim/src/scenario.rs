//! Whole runs that follow from a seed: what link, what settings, which connections, and what their
//! applications do.

use core::fmt;
use core::time::Duration;

use tcp::{Algorithm, Config, ConnOptions};

use crate::link::LinkConfig;
use crate::pair::{Pair, PairConfig};
use crate::rng::{Chance, Rng};
use crate::socket::{Plan, Reading, Then};
use crate::world::SocketId;

/// How long the connections of a scenario may take, in its own time. Even a tenth of all segments
/// lost both ways does not stop a connection that long.
const LIMIT: Duration = Duration::from_secs(3_600);

/// A run, before it has begun.
#[derive(Clone, Debug)]
pub struct Scenario {
    seed: u64,
    /// The pair of hosts.
    pub pair: PairConfig,
    /// When each connection begins, and what its two applications do.
    pub connections: Vec<(Duration, Plan, Plan)>,
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
    /// The scenario of a seed: every setting at random, faults of every kind together, some of them
    /// absent.
    pub fn random(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed ^ 0x5ce7_a210);
        let options = options(&mut rng);
        let pair = PairConfig {
            v6: rng.happens(Chance::percent(30)),
            client: stack(&mut rng),
            server: stack(&mut rng),
            options,
            link: link(&mut rng),
            burst: rng.pick(&[1, 1, 4, 44]),
            full: rng.pick(&[Chance::NEVER, Chance::percent(5)]),
            exhaustion: rng.pick(&[Chance::NEVER, Chance::NEVER, Chance::percent(2)]),
            ..PairConfig::default()
        };
        let count = rng.pick(&[1, 1, 2, 5]);
        let connections = (0..count)
            .map(|_| {
                let begin = rng.span(Duration::from_millis(500));
                let (client, server) = (plan(&mut rng), plan(&mut rng));
                match rng.below(4) {
                    // One side has nothing to say; the other closes without waiting for it to.
                    0 => (
                        begin,
                        Plan {
                            then: Then::Close,
                            ..client
                        },
                        Plan { send: 0, ..server },
                    ),
                    1 => (begin, Plan { send: 0, ..client }, server),
                    _ => (begin, client, server),
                }
            })
            .collect();
        Scenario {
            seed,
            pair,
            connections,
        }
    }

    /// Runs it to its end, and checks that every byte was delivered and that nothing is left.
    ///
    /// # Panics
    /// If that is not so. The seed and the last segments are printed.
    pub fn run(self) -> Outcome {
        let mut pair = Pair::with(self.seed, self.pair);
        let begin = pair.now();
        let mut waiting = self.connections;
        waiting.sort_by_key(|(at, ..)| *at);
        let (mut clients, mut plans) = (Vec::new(), Vec::new());
        for (at, client, server) in waiting {
            let wait = (begin + at).saturating_duration_since(pair.now());
            pair.run_for(wait);
            clients.push(pair.connect(client));
            plans.push(server);
        }
        let servers = accept_all(&mut pair, &clients, &plans);
        let end = pair.now() + LIMIT;
        while !clients
            .iter()
            .chain(&servers)
            .all(|&socket| pair.socket(socket).released)
        {
            assert!(
                pair.now() < end,
                "the connections are not over after {LIMIT:?}"
            );
            assert!(
                pair.step(),
                "nothing happens any more, but connections are not over"
            );
        }
        let time = pair.now().saturating_duration_since(begin);
        for &client in &clients {
            pair.check_delivered(client);
        }
        // A SYN that was late or doubled may have opened another one half, for a while.
        let server = pair.server;
        pair.run_until(LIMIT, |world| {
            world.host(server).stack.half_open_count() == 0
        });
        pair.check_empty();
        let counters =
            [pair.client, pair.server].map(|host| pair.host(host).stack.counters().clone());
        Outcome {
            time,
            bytes: clients
                .iter()
                .chain(&servers)
                .map(|&s| pair.socket(s).consumed)
                .sum(),
            segments: counters.iter().map(|c| c.segments_out).sum(),
            retransmitted: counters.iter().map(|c| c.retransmitted_segments).sum(),
        }
    }
}

/// Accepts the connection of each client, in whatever order they arrive, and gives it its plan.
fn accept_all(pair: &mut Pair, clients: &[SocketId], plans: &[Plan]) -> Vec<SocketId> {
    let end = pair.now() + LIMIT;
    let mut servers = Vec::new();
    while servers.len() < clients.len() {
        match pair.accept(Plan::BY_HAND) {
            Some(server) => {
                let client = pair.peer(server);
                let at = clients.iter().position(|&id| Some(id) == client);
                *pair.plan_mut(server) = plans[at.expect("a client of this scenario")];
                pair.pump(server);
                servers.push(server);
            }
            None => {
                assert!(
                    pair.now() < end,
                    "the connections are not open after {LIMIT:?}"
                );
                assert!(
                    pair.step(),
                    "nothing happens any more, but connections are not open"
                );
            }
        }
    }
    servers
}

fn link(rng: &mut Rng) -> LinkConfig {
    let percent = |rng: &mut Rng, choices: &[u32]| Chance::percent(rng.pick(choices));
    LinkConfig {
        delay: rng.pick(&[20, 500, 5_000, 50_000, 150_000].map(Duration::from_micros)),
        jitter: rng.pick(&[0, 0, 100, 10_000].map(Duration::from_micros)),
        bandwidth: rng.pick(&[None, None, Some(2_000_000), Some(100_000_000)]),
        queue: rng.pick(&[20_000, 100_000, 1 << 20]),
        loss: percent(rng, &[0, 0, 1, 3, 10]),
        duplication: percent(rng, &[0, 0, 2, 20]),
        reordering: percent(rng, &[0, 0, 2, 20]),
        lateness: rng.pick(&[1_000, 20_000, 200_000].map(Duration::from_micros)),
        corruption: percent(rng, &[0, 0, 0, 2]),
        mtu: 65_535,
    }
}

fn stack(rng: &mut Rng) -> Config {
    let mostly = Chance::percent(80);
    Config {
        mtu: rng.pick(&[1_500, 1_500, 1_280, 9_000]),
        window_scaling: rng.happens(mostly),
        timestamps: rng.happens(mostly),
        selective_acks: rng.happens(mostly),
        // Enough for a link that loses a tenth.
        syn_retries: 12,
        syn_ack_retries: 12,
        orphan_retries: 15,
        ..Config::default()
    }
}

fn options(rng: &mut Rng) -> ConnOptions {
    ConnOptions {
        congestion: rng.pick(&[Algorithm::Cubic, Algorithm::Cubic, Algorithm::Reno]),
        no_delay: rng.happens(Chance::percent(50)),
        receive_buffer: rng.pick(&[4_096, 16_384, 65_535, 262_144, 1 << 20]),
        max_segment: rng.pick(&[None, None, None, Some(200), Some(1_000)]),
        ..ConnOptions::default()
    }
}

fn plan(rng: &mut Rng) -> Plan {
    let largest = rng.pick(&[100, 5_000, 100_000]);
    Plan {
        chunk: rng.between(1, largest) as u32,
        send_buffer: rng.pick(&[3_000, 50_000, 400_000]),
        more: rng.happens(Chance::percent(20)),
        reading: match rng.below(4) {
            0 => Reading::Slow(
                rng.between(500, 50_000),
                rng.span(Duration::from_millis(100)),
            ),
            _ => Reading::Eager,
        },
        ..Plan::transfer(rng.magnitude(400_000))
    }
}
