//! Explicit congestion notification over a link that marks.

use core::time::Duration;

use sim::{LinkConfig, Pair, PairConfig, Plan};
use tcp::{Algorithm, EcnPolicy};

use crate::run_until_empty;

const BYTES: u64 = 20_000_000;

/// Sends over 50 Mbit/s with a queue that marks from 60 KB on; returns how many segments went
/// again, and megabits a second.
fn transfer(ecn: EcnPolicy, algorithm: Algorithm) -> (u64, f64) {
    let mut config = PairConfig {
        link: LinkConfig {
            delay: Duration::from_millis(10),
            bandwidth: Some(50_000_000),
            queue: 400_000,
            marking: Some(60_000),
            ..LinkConfig::default()
        },
        ..PairConfig::default()
    };
    config.client.ecn = ecn;
    config.options.congestion = algorithm;
    config.options.receive_buffer = 4 << 20;
    let mut pair = Pair::with(1, config);
    let plan = Plan {
        send_buffer: 4 << 20,
        ..Plan::transfer(BYTES)
    };
    let (client, server) = pair.establish(plan, Plan::LISTEN);
    let begin = pair.now();
    pair.run_until(Duration::from_secs(600), |world| {
        world.socket(server).consumed == BYTES
    });
    let took = pair.now().saturating_duration_since(begin);
    run_until_empty(&mut pair);
    pair.check_delivered(client);
    let again = pair.host(pair.client).stack.counters();
    (
        again.retransmitted_segments,
        BYTES as f64 * 8.0 / took.as_secs_f64() / 1e6,
    )
}

//~ RFC 3168 §6.1.2, §6.1.3
#[test]
fn where_routers_mark_nothing_need_be_lost() {
    for algorithm in [Algorithm::Cubic, Algorithm::Reno] {
        let (again, goodput) = transfer(EcnPolicy::On, algorithm);
        assert_eq!(again, 0, "{algorithm:?}");
        assert!(goodput > 40.0, "{algorithm:?}: {goodput}");
    }
    // The same without: the queue overflows instead.
    let (again, _) = transfer(EcnPolicy::Off, Algorithm::Reno);
    assert!(again > 0);
}
