//! The settings of a scenario, drawn from its seed.

use core::time::Duration;

use tcp::{Algorithm, Config, ConnOptions, EcnPolicy, KeepAlive};

use super::{Connection, Scenario};
use crate::link::{Burst, LinkConfig};
use crate::pair::PairConfig;
use crate::rng::{Chance, Rng};
use crate::socket::{Plan, Reading, Then};

/// More half-open connections than any flood here makes.
const ROOMY: u32 = 4096;

impl Scenario {
    /// The scenario of a seed: every setting at random, faults of every kind together, some of them
    /// absent.
    pub fn random(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed ^ 0x5ce7_a210);
        let aborts = rng.pick(&[Chance::NEVER, Chance::NEVER, Chance::percent(5)]);
        let mut pair = PairConfig {
            v6: rng.happens(Chance::percent(30)),
            client: stack(&mut rng),
            server: stack(&mut rng),
            options: ConnOptions {
                // Who is only read from does not find out by itself that the reader is gone.
                keep_alive: KeepAlive {
                    enabled: aborts != Chance::NEVER,
                    idle: 10,
                    interval: 5,
                    count: 10,
                },
                ..options(&mut rng)
            },
            link: link(&mut rng),
            burst: rng.pick(&[1, 1, 4, 44]),
            full: rng.pick(&[Chance::NEVER, Chance::percent(5)]),
            exhaustion: rng.pick(&[Chance::NEVER, Chance::NEVER, Chance::percent(2)]),
            backlog: rng.pick(&[0, 1, 128]),
            max_half_open: rng.pick(&[1, 3, ROOMY]),
            ..PairConfig::default()
        };
        // When the RST of an abort is lost, what is sent again brings its cookie to a connection of the
        // same numbers: then the oracle does not know who has sent what.
        pair.server.syn_cookies &= aborts == Chance::NEVER;
        // So does a SYN that comes again (RFC 7413 §2.1).
        pair.server.fast_open_server &= aborts == Chance::NEVER;
        // With little room and no cookies a flood does what it is meant to do.
        let floods = pair.server.syn_cookies || pair.max_half_open == ROOMY;
        let count = rng.pick(&[1, 1, 2, 5]);
        let connections = (0..count).map(|_| connection(&mut rng)).collect();
        let unrest = rng.pick(&[None, None, Some(3), Some(100)]);
        // Of those with Fast Open that have a cookie.
        pair.options.hold_syn = rng.happens(Chance::percent(50));
        Scenario {
            seed,
            pair,
            connections,
            unrest: unrest.map(Duration::from_millis),
            aborts,
            floods,
            traced: false,
        }
    }
}

fn connection(rng: &mut Rng) -> Connection {
    let begin = rng.span(Duration::from_millis(500));
    let (mut client, mut server) = (plan(rng), plan(rng));
    match rng.below(4) {
        // One side has nothing to say; the other closes without waiting for it to.
        0 => {
            client.then = Then::Close;
            server.send = 0;
        }
        1 => client.send = 0,
        _ => {}
    }
    Connection {
        begin,
        client,
        server,
    }
}

fn link(rng: &mut Rng) -> LinkConfig {
    let percent = |rng: &mut Rng, choices: &[u32]| Chance::percent(rng.pick(choices));
    LinkConfig {
        delay: rng.pick(&[20, 500, 5_000, 50_000, 150_000].map(Duration::from_micros)),
        jitter: rng.pick(&[0, 0, 100, 10_000].map(Duration::from_micros)),
        bandwidth: rng.pick(&[None, None, Some(2_000_000), Some(100_000_000)]),
        queue: rng.pick(&[20_000, 100_000, 1 << 20]),
        marking: rng.pick(&[None, Some(5_000), Some(50_000)]),
        loss: percent(rng, &[0, 0, 1, 3, 10]),
        bursts: bursts(rng),
        duplication: percent(rng, &[0, 0, 2, 20]),
        reordering: percent(rng, &[0, 0, 2, 20]),
        lateness: rng.pick(&[1_000, 20_000, 200_000].map(Duration::from_micros)),
        corruption: percent(rng, &[0, 0, 0, 2]),
        mtu: rng.pick(&[65_535, 65_535, 1_400]),
        icmp: rng.happens(Chance::percent(50)),
    }
}

/// Now and then half of the frames or all, for some two to twenty of them.
fn bursts(rng: &mut Rng) -> Option<Burst> {
    rng.happens(Chance::percent(25)).then(|| Burst {
        begin: Chance::per_million(rng.pick(&[1_000, 10_000])),
        end: Chance::percent(rng.pick(&[5, 20, 50])),
        loss: Chance::percent(rng.pick(&[50, 100])),
        longest: Duration::from_secs(2),
    })
}

fn stack(rng: &mut Rng) -> Config {
    let mostly = Chance::percent(80);
    Config {
        mtu: rng.pick(&[1_500, 1_500, 1_280, 9_000]),
        // Without them the oracle is stricter.
        syn_cookies: rng.happens(Chance::percent(30)),
        ecn: rng.pick(&[EcnPolicy::Off, EcnPolicy::Accept, EcnPolicy::On]),
        window_scaling: rng.happens(mostly),
        timestamps: rng.happens(mostly),
        selective_acks: rng.happens(mostly),
        fast_open_client: rng.happens(mostly),
        fast_open_server: rng.happens(mostly),
        // Enough for a link that loses a tenth, and for a place that a late copy of another SYN
        // holds for minutes.
        syn_retries: 20,
        syn_ack_retries: 12,
        orphan_retries: 15,
        ..Config::default()
    }
}

fn options(rng: &mut Rng) -> ConnOptions {
    let no_delay = rng.happens(Chance::percent(50));
    ConnOptions {
        congestion: rng.pick(&[Algorithm::Cubic, Algorithm::Bbr, Algorithm::Reno]),
        no_delay,
        receive_buffer: rng.pick(&[4_096, 16_384, 65_535, 262_144, 1 << 20]),
        // One of two; the two have nothing to do with each other.
        tune_receive_buffer: no_delay,
        fast_open: rng.pick(&[0, 0, 1, 3]),
        max_segment: rng.pick(&[None, None, None, Some(200), Some(1_000)]),
        ..ConnOptions::default()
    }
}

fn plan(rng: &mut Rng) -> Plan {
    let largest = rng.pick(&[100, 5_000, 100_000]);
    Plan {
        chunk: rng.between(1, largest) as u32,
        send_buffer: rng.pick(&[3_000, 50_000, 0]),
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
