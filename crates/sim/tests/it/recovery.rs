//! Losses, and how they are made good.

use std::cell::Cell;
use std::rc::Rc;

use sim::{Chance, HostId, LinkConfig, Pair, PairConfig, Plan};
use tcp::Config;

use crate::{SOON, ms, run_until_empty};

/// Loses the given segments with payload from a host, counted from 1; returns how many went past.
fn lose(pair: &mut Pair, from: HostId, which: &'static [u32]) -> Rc<Cell<u32>> {
    let count = Rc::new(Cell::new(0));
    let seen = Rc::clone(&count);
    pair.filter(from, move |segment| {
        if segment.payload.is_empty() {
            return true;
        }
        seen.set(seen.get() + 1);
        !which.contains(&seen.get())
    });
    count
}

fn without_sack() -> PairConfig {
    let stack = Config {
        selective_acks: false,
        ..Config::default()
    };
    PairConfig {
        client: stack.clone(),
        server: stack,
        ..PairConfig::default()
    }
}

#[test]
fn one_lost_segment_is_sent_again_after_three_duplicates() {
    for config in [PairConfig::default(), without_sack()] {
        let mut pair = Pair::with(1, config);
        let client = pair.client;
        let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
        lose(&mut pair, client, &[3]);
        let begin = pair.now();
        *pair.plan_mut(socket) = Plan::transfer(14_480);
        pair.pump(socket);
        pair.run_until(SOON, |world| world.socket(socket).update.acked == 14_480);
        // Sent, missed, sent again: two round trips and no timeout.
        let took = pair.now().saturating_duration_since(begin);
        assert!(took < ms(100), "{took:?}");
        let counters = pair.host(client).stack.counters();
        assert_eq!((counters.fast_recoveries, counters.timeouts), (1, 0));
        assert_eq!(counters.retransmitted_segments, 1);
        run_until_empty(&mut pair);
    }
}

#[test]
fn several_losses_in_a_window_do_not_wait_for_the_timer() {
    for config in [PairConfig::default(), without_sack()] {
        let mut pair = Pair::with(2, config);
        let client = pair.client;
        let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
        lose(&mut pair, client, &[11, 14, 15]);
        *pair.plan_mut(socket) = Plan::transfer(100_000);
        pair.pump(socket);
        run_until_empty(&mut pair);
        pair.check_delivered(socket);
        let counters = pair.host(client).stack.counters();
        assert_eq!(counters.timeouts, 0, "{counters:?}");
        assert_eq!(counters.retransmitted_segments, 3, "{counters:?}");
    }
}

#[test]
fn a_lost_tail_waits_for_the_timer() {
    let mut pair = Pair::new(3);
    let client = pair.client;
    let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
    let count = lose(&mut pair, client, &[2]);
    *pair.plan_mut(socket) = Plan {
        then: sim::Then::Stay,
        ..Plan::transfer(2_896)
    };
    pair.pump(socket);
    pair.run_until(SOON, |world| world.socket(socket).update.acked == 2_896);
    assert_eq!(count.get(), 3);
    assert_eq!(pair.host(client).stack.counters().retransmitted_segments, 1);
}

#[test]
fn a_retransmission_that_is_lost_too_is_made_good() {
    for config in [PairConfig::default(), without_sack()] {
        let mut pair = Pair::with(4, config);
        let client = pair.client;
        let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
        let lost = Rc::new(Cell::new(None));
        let times = Rc::new(Cell::new(0));
        let (first, count) = (Rc::clone(&lost), Rc::clone(&times));
        // The fifth segment, its first three times.
        let mut seen = 0;
        pair.filter(client, move |segment| {
            if segment.payload.is_empty() {
                return true;
            }
            seen += 1;
            if seen == 5 {
                first.set(Some(segment.tcp.seq));
            }
            if first.get() == Some(segment.tcp.seq) && count.get() < 3 {
                count.set(count.get() + 1);
                return false;
            }
            true
        });
        *pair.plan_mut(socket) = Plan::transfer(200_000);
        pair.pump(socket);
        run_until_empty(&mut pair);
        pair.check_delivered(socket);
        assert_eq!(times.get(), 3);
    }
}

#[test]
fn reordering_within_three_segments_is_not_taken_for_loss() {
    let mut pair = Pair::new(5);
    let (client, server) = (pair.client, pair.server);
    let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
    // At 100 Mbit/s a segment takes 0.12 ms: late by less than two of them.
    *pair.link_mut(client, server) = LinkConfig {
        bandwidth: Some(100_000_000),
        reordering: Chance::percent(20),
        lateness: core::time::Duration::from_micros(200),
        ..LinkConfig::default()
    };
    *pair.plan_mut(socket) = Plan::transfer(1_000_000);
    pair.pump(socket);
    run_until_empty(&mut pair);
    pair.check_delivered(socket);
    let counters = pair.host(client).stack.counters();
    assert_eq!(counters.retransmitted_segments, 0, "{counters:?}");
}

#[test]
fn losses_from_one_to_ten_percent() {
    for percent in [1, 2, 5, 10] {
        for seed in 0..5 {
            let mut config = PairConfig::default();
            config.link.loss = Chance::percent(percent);
            let mut pair = Pair::with(seed, config);
            let (socket, _) = pair.establish(Plan::transfer(300_000), Plan::transfer(100_000));
            run_until_empty(&mut pair);
            pair.check_delivered(socket);
        }
    }
}

#[test]
fn a_window_is_halved_once_for_all_that_is_lost_of_it() {
    let mut config = without_sack();
    config.options.congestion = tcp::Algorithm::Reno;
    let mut pair = Pair::with(6, config);
    let client = pair.client;
    let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
    lose(&mut pair, client, &[30, 33, 36]);
    *pair.plan_mut(socket) = Plan {
        then: sim::Then::Stay,
        ..Plan::transfer(1_000_000)
    };
    pair.pump(socket);
    pair.run_until(SOON, |world| world.socket(socket).update.acked > 150_000);
    let counters = pair.host(client).stack.counters();
    assert_eq!(
        (counters.fast_recoveries, counters.timeouts),
        (1, 0),
        "{counters:?}"
    );
}

#[test]
fn what_is_shed_under_memory_pressure_is_sent_again() {
    for config in [PairConfig::default(), without_sack()] {
        let mut pair = Pair::with(7, config);
        let client = pair.client;
        let (socket, peer) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
        lose(&mut pair, client, &[3]);
        *pair.plan_mut(socket) = Plan::transfer(50_000);
        pair.pump(socket);
        // The first flight has arrived, with its hole, and nothing has been sent again.
        pair.run_for(ms(15));
        assert!(pair.shed_out_of_order(peer) > 5_000);
        run_until_empty(&mut pair);
        pair.check_delivered(socket);
    }
}
