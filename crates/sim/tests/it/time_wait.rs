//! TIME-WAIT, and when its addresses and ports may be used again (RFC 6191, RFC 1122).

use core::time::Duration;

use sim::{Pair, PairConfig, Plan, SocketId, Then};
use tcp::Config;

use crate::{SOON, ms, run_until_empty};

/// A pair of which the server closed first, and so waits.
fn server_waits(seed: u64, config: PairConfig) -> (Pair, SocketId) {
    let mut pair = Pair::with(seed, config);
    let answer = Plan {
        then: Then::Close,
        ..Plan::transfer(3_000)
    };
    let (client, _) = pair.establish(Plan::LISTEN, answer);
    run_until_empty(&mut pair);
    pair.check_delivered(client);
    assert_eq!(pair.host(pair.server).stack.time_wait_count(), 1);
    (pair, client)
}

#[test]
fn a_new_syn_takes_over_a_pair_that_waits() {
    for timestamps in [true, false] {
        let stack = Config {
            timestamps,
            ..Config::default()
        };
        let config = PairConfig {
            client: stack.clone(),
            server: stack,
            ..PairConfig::default()
        };
        let (mut pair, _) = server_waits(1, config);
        // With timestamps, time decides; without, the sequence numbers, which go on at 250 kHz.
        pair.run_for(ms(2_000));
        let again = pair.connect_from(40_000, Plan::transfer(5_000));
        pair.run_until(SOON, |world| world.socket(again).update.connected);
        pair.run_for(ms(200));
        let server = pair.accept(Plan::LISTEN).unwrap();
        run_until_empty(&mut pair);
        pair.check_delivered(again);
        assert_eq!(pair.socket(server).consumed, 5_000);
        assert_eq!(pair.host(pair.server).stack.counters().time_wait_reused, 1);
    }
}

#[test]
fn a_client_that_waits_opens_again_from_the_same_port() {
    let mut pair = Pair::new(2);
    for round in 0..5 {
        let client = pair.connect_from(40_000, Plan::transfer(2_000));
        pair.run_until(SOON, |world| world.socket(client).update.connected);
        pair.run_for(ms(200));
        let server = pair.accept(Plan::LISTEN).unwrap();
        run_until_empty(&mut pair);
        pair.check_delivered(client);
        assert_eq!(pair.socket(server).consumed, 2_000, "round {round}");
        pair.run_for(ms(1_500));
    }
    let counters = pair.host(pair.client).stack.counters();
    assert_eq!(counters.time_wait_reused, 4);
}

#[test]
fn old_duplicates_do_not_harm_the_next_connection() {
    // The link keeps some segments for up to two seconds, while the same pair is used again and
    // again; the oracle would see a byte of an earlier connection.
    for seed in 0..20 {
        let mut config = PairConfig::default();
        config.link.duplication = sim::Chance::percent(30);
        config.link.lateness = Duration::from_secs(2);
        let mut pair = Pair::with(seed, config);
        for _ in 0..5 {
            let client = pair.connect_from(40_000, Plan::transfer(3_000));
            pair.run_until(SOON, |world| world.socket(client).update.connected);
            pair.run_for(ms(200));
            pair.accept(Plan::LISTEN).unwrap();
            run_until_empty(&mut pair);
            pair.check_delivered(client);
            pair.run_for(ms(1_100));
        }
    }
}

#[test]
fn the_table_is_bounded_and_the_oldest_make_room() {
    let stack = Config {
        max_time_wait: 10,
        ..Config::default()
    };
    let config = PairConfig {
        server: stack,
        serve: Some(Plan {
            then: Then::Close,
            ..Plan::transfer(100)
        }),
        ..PairConfig::default()
    };
    let mut pair = Pair::with(3, config);
    for _ in 0..30 {
        pair.connect(Plan::LISTEN);
    }
    run_until_empty(&mut pair);
    let stack = &pair.host(pair.server).stack;
    assert_eq!(stack.time_wait_count(), 10);
    assert_eq!(stack.counters().time_wait_recycled, 20);
    pair.run_for(Duration::from_secs(61));
    assert_eq!(pair.host(pair.server).stack.time_wait_count(), 0);
}
