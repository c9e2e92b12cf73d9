//! Listeners: queues and their limits.

use core::time::Duration;

use sim::{Pair, PairConfig, Plan};
use tcp::{Config, DropReason, Failure, ListenError, ListenSpec};

use crate::{SOON, ms, run_until_empty};

fn drops(pair: &Pair, reason: DropReason) -> u64 {
    pair.host(pair.server).stack.counters().dropped(reason)
}

#[test]
fn connections_wait_up_to_the_backlog_and_go_on_when_there_is_room() {
    let mut pair = Pair::with(
        1,
        PairConfig {
            backlog: 3,
            ..PairConfig::default()
        },
    );
    let clients: Vec<_> = (0..10).map(|_| pair.connect(Plan::transfer(100))).collect();
    pair.run_for(ms(500));
    // As in the kernel, one more than the backlog.
    let waiting = |pair: &Pair| pair.host(pair.server).stack.waiting(pair.listener);
    assert_eq!(waiting(&pair), 4);
    assert!(drops(&pair, DropReason::AcceptQueueFull) > 0);
    let mut servers = Vec::new();
    let end = pair.now() + SOON * 4;
    while servers.len() < 10 {
        match pair.accept(Plan::LISTEN) {
            Some(server) => servers.push(server),
            None => assert!(
                pair.now() < end && pair.step(),
                "{} accepted",
                servers.len()
            ),
        }
    }
    run_until_empty(&mut pair);
    for client in clients {
        pair.check_delivered(client);
    }
}

#[test]
fn half_open_connections_are_limited_and_expire() {
    let mut pair = Pair::with(
        2,
        PairConfig {
            max_half_open: 5,
            server: Config {
                syn_cookies: false,
                ..Config::default()
            },
            ..PairConfig::default()
        },
    );
    let (client, server) = (pair.client, pair.server);
    // SYNs arrive, and nothing comes back.
    pair.filter(server, |_| false);
    for _ in 0..20 {
        pair.connect(Plan::LISTEN);
    }
    pair.run_for(ms(100));
    assert_eq!(pair.host(server).stack.half_open_count(), 5);
    assert_eq!(drops(&pair, DropReason::HalfOpenFull), 15);
    pair.filter(client, |_| false);
    pair.run_for(Duration::from_secs(300));
    pair.check_empty();
    assert_eq!(pair.host(server).stack.counters().half_open_timeouts, 5);
}

#[test]
fn closing_a_listener_resets_what_waits() {
    let mut pair = Pair::new(3);
    let client = pair.connect(Plan::LISTEN);
    pair.run_for(ms(500));
    let (server, listener, now) = (pair.server, pair.listener, pair.now());
    pair.host_mut(server).stack.unlisten(now, listener);
    pair.run_until(SOON, |world| world.socket(client).update.failed.is_some());
    assert_eq!(pair.socket(client).update.failed, Some(Failure::Reset));
    let late = pair.connect(Plan::LISTEN);
    pair.run_until(SOON, |world| world.socket(late).update.failed.is_some());
    assert_eq!(pair.socket(late).update.failed, Some(Failure::Refused));
    run_until_empty(&mut pair);
}

#[test]
fn what_is_given_back_is_accepted_next() {
    let mut pair = Pair::new(4);
    let (first, second) = (
        pair.connect(Plan::transfer(10)),
        pair.connect(Plan::transfer(20)),
    );
    pair.run_for(ms(500));
    let (server, listener, now) = (pair.server, pair.listener, pair.now());
    let stack = &mut pair.host_mut(server).stack;
    let conn = stack.accept(listener).unwrap();
    assert!(stack.give_back(now, listener, conn));
    assert_eq!(stack.waiting(listener), 2);
    let socket = pair.accept(Plan::LISTEN).unwrap();
    assert_eq!(pair.socket(socket).conn, conn);
    pair.accept(Plan::LISTEN).unwrap();
    run_until_empty(&mut pair);
    assert_eq!(pair.socket(socket).consumed, 10);
    pair.check_delivered(first);
    pair.check_delivered(second);
}

//~ RFC 9293 MUST-42
#[test]
fn an_address_and_port_are_listened_on_once() {
    let mut pair = Pair::new(5);
    let server = pair.server;
    let spec = |addr: Option<&str>, v6_only| ListenSpec {
        addr: addr.map(|addr| addr.parse().unwrap()),
        port: 80,
        backlog: 1,
        max_half_open: 1,
        v6_only,
        options: Default::default(),
    };
    let stack = &mut pair.host_mut(server).stack;
    assert_eq!(
        stack.listen(spec(None, false)),
        Err(ListenError::AddressInUse)
    );
    assert_eq!(
        stack.listen(spec(Some("::"), true)),
        Err(ListenError::AddressInUse)
    );
    let other = ListenSpec {
        port: 81,
        ..spec(Some("::"), true)
    };
    stack.listen(other).unwrap();
    stack
        .listen(ListenSpec {
            addr: Some("0.0.0.0".parse().unwrap()),
            ..other
        })
        .unwrap();
}
