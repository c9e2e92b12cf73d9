//! Data both ways.

use sim::{Chance, LinkConfig, Pair, PairConfig, Plan, Then};
use tcp::Algorithm;

use crate::{SOON, ms, run_until_empty, sent_without_windows};

fn transfer(seed: u64, config: PairConfig, up: u64, down: u64) -> Pair {
    let mut pair = Pair::with(seed, config);
    let (client, _) = pair.establish(Plan::transfer(up), Plan::transfer(down));
    run_until_empty(&mut pair);
    pair.check_delivered(client);
    pair
}

#[test]
fn nothing_at_all() {
    transfer(1, PairConfig::default(), 0, 0);
}

#[test]
fn a_byte_each_way() {
    transfer(2, PairConfig::default(), 1, 1);
}

#[test]
fn megabytes_each_way() {
    let pair = transfer(3, PairConfig::default(), 5_000_000, 3_000_000);
    let counters = pair.host(pair.client).stack.counters();
    assert_eq!(counters.retransmitted_segments, 0);
    assert_eq!(counters.drops().map(|(_, count)| count).sum::<u64>(), 0);
}

#[test]
fn both_algorithms_with_one_percent_lost() {
    for congestion in [Algorithm::Cubic, Algorithm::Reno] {
        let mut config = PairConfig::default();
        config.link.loss = Chance::percent(1);
        config.options.congestion = congestion;
        transfer(4, config, 1_000_000, 1_000_000);
    }
}

#[test]
fn a_device_that_cuts_large_segments_is_given_large_ones() {
    let config = PairConfig {
        burst: 44,
        ..PairConfig::default()
    };
    let pair = transfer(5, config, 2_000_000, 0);
    let counters = pair.host(pair.client).stack.counters();
    assert!(counters.segments_out > 1_300, "{counters:?}");
    assert!(
        counters.emissions * 5 < counters.segments_out,
        "{counters:?}"
    );
}

#[test]
fn a_device_that_is_often_full_delays_but_loses_nothing() {
    let config = PairConfig {
        full: Chance::percent(50),
        ..PairConfig::default()
    };
    let pair = transfer(6, config, 300_000, 300_000);
    assert_eq!(
        pair.host(pair.client)
            .stack
            .counters()
            .retransmitted_segments,
        0
    );
}

#[test]
fn memory_that_runs_out_is_survived() {
    let config = PairConfig {
        exhaustion: Chance::percent(10),
        ..PairConfig::default()
    };
    transfer(7, config, 300_000, 300_000);
}

#[test]
fn sequence_numbers_wrap() {
    // Enough bytes that with thirty initial numbers one wraps; and cheaply.
    let mut wrapped = false;
    for seed in 0..400 {
        let mut pair = Pair::new(seed);
        pair.trace_all();
        let (client, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
        let first = pair.trace().iter().next().unwrap().tcp.seq;
        // Only those that begin within 50 MB of the end.
        if first.0 < u32::MAX - 50_000_000 {
            continue;
        }
        let until_wrap = u64::from(u32::MAX - first.0);
        *pair.plan_mut(client) = Plan::transfer(until_wrap + 100_000);
        pair.pump(client);
        run_until_empty(&mut pair);
        pair.check_delivered(client);
        wrapped = true;
        break;
    }
    assert!(wrapped);
}

#[test]
fn half_closed_connections_go_on_in_the_other_direction() {
    let mut pair = Pair::new(8);
    let (client, server) = pair.establish(Plan::transfer(10_000), Plan::BY_HAND);
    pair.run_until(SOON, |world| world.socket(server).update.peer_closed);
    assert_eq!(pair.socket(server).consumed, 10_000);
    pair.run_for(ms(60_000));
    pair.send(server, 500_000);
    pair.plan_mut(server).then = Then::Close;
    pair.pump(server);
    run_until_empty(&mut pair);
    pair.check_delivered(client);
    assert_eq!(pair.socket(client).consumed, 500_000);
}

#[test]
fn a_request_and_its_answer_take_one_segment_each() {
    let mut pair = Pair::new(9);
    let (client, server) = pair.establish(Plan::BY_HAND, Plan::BY_HAND);
    pair.trace_all();
    pair.send(client, 100);
    pair.pump(client);
    pair.run_until(SOON, |world| world.socket(server).consumed == 100);
    pair.send(server, 1_000);
    pair.pump(server);
    pair.run_until(SOON, |world| world.socket(client).consumed == 1_000);
    let lines = sent_without_windows(&pair);
    let data: Vec<_> = lines.iter().filter(|line| !line.contains("(0)")).collect();
    assert_eq!(
        data,
        [
            "client P. 1:101(100) ack 1",
            "server P. 1:1001(1000) ack 101"
        ]
    );
}

#[test]
fn corrupted_segments_are_lost_segments() {
    let mut config = PairConfig::default();
    config.link.corruption = Chance::percent(3);
    let pair = transfer(10, config, 500_000, 500_000);
    let malformed = |host| pair.host(host).malformed.values().sum::<u64>();
    assert!(malformed(pair.client) > 0 && malformed(pair.server) > 0);
}

#[test]
fn every_fault_at_once() {
    for seed in 0..20 {
        let link = LinkConfig {
            loss: Chance::percent(3),
            duplication: Chance::percent(3),
            reordering: Chance::percent(5),
            corruption: Chance::percent(1),
            jitter: ms(2),
            bandwidth: Some(50_000_000),
            queue: 60_000,
            ..LinkConfig::default()
        };
        transfer(
            seed,
            PairConfig {
                link,
                ..PairConfig::default()
            },
            100_000,
            100_000,
        );
    }
}
