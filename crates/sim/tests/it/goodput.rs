//! Goodput by loss and buffer, as a table to review: `cargo insta review` after a change.

use core::fmt::Write;
use core::time::Duration;

use sim::{Chance, LinkConfig, Pair, PairConfig, Plan};
use tcp::Algorithm;

use crate::run_until_empty;

/// Bytes of a transfer; the goodput is an average over its whole life, slow start included.
const BYTES: u64 = 4_000_000;

/// Megabits a second over 50 Mbit/s and a round trip of 50 ms.
fn goodput(algorithm: Algorithm, loss: u32, buffer: u32, seed: u64) -> f64 {
    let mut config = PairConfig {
        link: LinkConfig {
            delay: Duration::from_millis(25),
            bandwidth: Some(50_000_000),
            queue: 300_000,
            loss: Chance::per_million(loss),
            ..LinkConfig::default()
        },
        ..PairConfig::default()
    };
    config.options.congestion = algorithm;
    config.options.receive_buffer = buffer;
    let mut pair = Pair::with(seed, config);
    let plan = Plan {
        send_buffer: 2 << 20,
        ..Plan::transfer(BYTES)
    };
    let (client, server) = pair.establish(plan, Plan::LISTEN);
    let begin = pair.now();
    pair.run_until(Duration::from_secs(3_600), |world| {
        world.socket(server).consumed == BYTES
    });
    let took = pair.now().saturating_duration_since(begin);
    run_until_empty(&mut pair);
    pair.check_delivered(client);
    BYTES as f64 * 8.0 / took.as_secs_f64() / 1e6
}

#[test]
fn goodput_by_loss_and_buffer() {
    let mut table = String::from("Mbit/s    loss   64 KB  256 KB    1 MB\n");
    for algorithm in [Algorithm::Cubic, Algorithm::Reno] {
        for (loss, name) in [
            (0, "0"),
            (100, "0.01%"),
            (1_000, "0.1%"),
            (10_000, "1%"),
            (50_000, "5%"),
        ] {
            write!(table, "{:<7} {name:>6}", algorithm.name()).unwrap();
            for buffer in [64 << 10, 256 << 10, 1 << 20] {
                let runs = [1, 2, 3].map(|seed| goodput(algorithm, loss, buffer, seed));
                let average = runs.iter().sum::<f64>() / runs.len() as f64;
                write!(table, " {average:>7.2}").unwrap();
            }
            table.push('\n');
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn connections_that_share_a_link_share_it_fairly() {
    for algorithm in [Algorithm::Cubic, Algorithm::Reno] {
        let mut config = PairConfig {
            link: LinkConfig {
                delay: Duration::from_millis(10),
                bandwidth: Some(20_000_000),
                queue: 100_000,
                ..LinkConfig::default()
            },
            ..PairConfig::default()
        };
        config.options.congestion = algorithm;
        config.options.receive_buffer = 1 << 20;
        let mut pair = Pair::with(1, config);
        let plan = Plan {
            send_buffer: 2 << 20,
            ..Plan::transfer(1 << 40)
        };
        let servers = [0, 1, 2].map(|_| {
            // Each begins when the others have taken everything.
            let (_, server) = pair.establish(plan, Plan::LISTEN);
            pair.run_for(Duration::from_secs(3));
            server
        });
        let before = servers.map(|socket| pair.socket(socket).consumed);
        pair.run_for(Duration::from_secs(60));
        let shares = [0, 1, 2].map(|at| pair.socket(servers[at]).consumed - before[at]);
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        assert!(*most < 2 * least, "{algorithm:?}: {shares:?}");
        // And together they use the link: 20 Mbit/s less headers, for a minute.
        let all: u64 = shares.iter().sum();
        assert!(all > 130_000_000, "{algorithm:?}: {shares:?}");
    }
}
