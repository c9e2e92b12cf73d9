//! Every way in which a connection ends in peace.

use core::time::Duration;

use sim::{Chance, Pair, PairConfig, Plan, Reading, SocketId, Then};
use tcp::{Request, State};

use crate::{SOON, ms, run_until_empty, sent_without_windows};

fn open(seed: u64) -> (Pair, SocketId, SocketId) {
    let mut pair = Pair::new(seed);
    let (client, server) = pair.establish(Plan::BY_HAND, Plan::BY_HAND);
    pair.run_for(ms(1_000));
    pair.trace_all();
    (pair, client, server)
}

fn state(pair: &Pair, socket: SocketId) -> State {
    pair.info(socket).unwrap().state
}

fn time_waits(pair: &Pair) -> (u32, u32) {
    let count = |host| pair.host(host).stack.time_wait_count();
    (count(pair.client), count(pair.server))
}

#[test]
fn one_side_closes_and_then_the_other() {
    let (mut pair, client, server) = open(1);
    pair.request(client, Request::ShutdownWrite).unwrap();
    pair.run_for(ms(5));
    assert_eq!(state(&pair, client), State::FinWait1);
    pair.run_until(SOON, |world| {
        world.info(client).unwrap().state == State::FinWait2
    });
    assert_eq!(state(&pair, server), State::CloseWait);
    assert!(pair.socket(server).update.peer_closed);
    pair.request(server, Request::Close).unwrap();
    pair.request(client, Request::Close).unwrap();
    pair.run_until(SOON, |world| {
        world.socket(server).released && world.socket(client).released
    });
    let lines = sent_without_windows(&pair);
    let fins = [
        "client F. 1:1(0) ack 1",
        "server F. 1:1(0) ack 2",
        "client . 2:2(0) ack 2",
    ];
    for fin in fins {
        assert!(lines.iter().any(|line| line == fin), "{lines:?}");
    }
    // Who closed first waits.
    assert_eq!(time_waits(&pair), (1, 0));
    pair.check_empty();
    pair.run_for(Duration::from_secs(61));
    assert_eq!(time_waits(&pair), (0, 0));
}

#[test]
fn both_close_at_once() {
    let (mut pair, client, server) = open(2);
    pair.request(client, Request::Close).unwrap();
    pair.request(server, Request::Close).unwrap();
    run_until_empty(&mut pair);
    assert_eq!(
        sent_without_windows(&pair),
        [
            "client F. 1:1(0) ack 1",
            "server F. 1:1(0) ack 1",
            "client . 2:2(0) ack 2",
            "server . 2:2(0) ack 2",
        ]
    );
    assert_eq!(time_waits(&pair), (1, 1));
}

#[test]
fn a_fin_goes_with_the_last_data() {
    let (mut pair, client, _) = open(3);
    *pair.plan_mut(client) = Plan {
        then: Then::ShutdownWrite,
        ..Plan::transfer(100)
    };
    pair.pump(client);
    pair.run_for(ms(5));
    let lines = sent_without_windows(&pair);
    assert!(
        lines.len() <= 2 && lines.last().unwrap().contains('F'),
        "{lines:?}"
    );
}

#[test]
fn a_lost_fin_is_sent_again() {
    let (mut pair, client, server) = open(4);
    let (host, peer) = (pair.client, pair.server);
    pair.link_mut(host, peer).loss = Chance::ALWAYS;
    pair.request(client, Request::ShutdownWrite).unwrap();
    pair.run_for(ms(100));
    pair.link_mut(host, peer).loss = Chance::NEVER;
    pair.run_until(SOON, |world| world.socket(server).update.peer_closed);
}

#[test]
fn a_lost_last_ack_is_given_again_from_time_wait() {
    let (mut pair, client, server) = open(5);
    pair.request(client, Request::Close).unwrap();
    pair.run_until(SOON, |world| world.socket(server).update.peer_closed);
    pair.request(server, Request::Close).unwrap();
    pair.run_for(ms(5));
    let (host, peer) = (pair.client, pair.server);
    pair.link_mut(host, peer).loss = Chance::ALWAYS;
    pair.run_for(ms(30));
    assert_eq!(time_waits(&pair), (1, 0));
    assert!(!pair.socket(server).released);
    pair.link_mut(host, peer).loss = Chance::NEVER;
    pair.run_until(SOON, |world| world.socket(server).released);
}

#[test]
fn an_orphan_still_delivers_everything() {
    let mut config = PairConfig::default();
    config.link.loss = Chance::percent(5);
    config.options.receive_buffer = 8_192;
    let mut pair = Pair::with(6, config);
    // The client closes as soon as it has handed over; the server reads slowly.
    let send = Plan {
        then: Then::Close,
        send_buffer: 1 << 20,
        ..Plan::transfer(200_000)
    };
    let slow = Plan {
        reading: Reading::Slow(5_000, ms(10)),
        ..Plan::LISTEN
    };
    let (client, server) = pair.establish(send, slow);
    pair.run_for(ms(1));
    assert!(pair.socket(client).closed && !pair.socket(client).released);
    run_until_empty(&mut pair);
    pair.check_delivered(client);
    assert_eq!(pair.socket(server).consumed, 200_000);
}

#[test]
fn an_orphan_does_not_wait_for_ever_for_the_peer_to_close() {
    let (mut pair, client, server) = open(7);
    pair.request(client, Request::Close).unwrap();
    pair.run_for(Duration::from_secs(10));
    assert!(!pair.socket(client).released);
    pair.run_for(Duration::from_secs(60));
    assert!(pair.socket(client).released);
    // The peer that sends after all is told.
    pair.send(server, 10);
    pair.pump(server);
    pair.run_until(SOON, |world| world.socket(server).update.failed.is_some());
}

#[test]
fn a_half_closed_side_that_has_not_let_go_waits_as_long_as_it_likes() {
    let (mut pair, client, server) = open(8);
    pair.request(client, Request::ShutdownWrite).unwrap();
    pair.run_for(Duration::from_secs(7_200));
    assert_eq!(state(&pair, client), State::FinWait2);
    pair.send(server, 1_000);
    pair.pump(server);
    pair.run_until(SOON, |world| world.socket(client).consumed == 1_000);
}

#[test]
fn closing_before_the_connection_is_open_ends_it() {
    let mut pair = Pair::new(9);
    let client = pair.connect(Plan::BY_HAND);
    pair.run_for(ms(5));
    pair.request(client, Request::Close).unwrap();
    pair.run_for(Duration::from_secs(120));
    assert!(pair.socket(client).released);
    pair.run_for(Duration::from_secs(120));
    while let Some(socket) = pair.accept(Plan::LISTEN) {
        pair.pump(socket);
    }
    pair.run_for(Duration::from_secs(300));
    pair.check_empty();
}

#[test]
fn data_and_fin_before_accept_are_not_lost() {
    let mut pair = Pair::new(10);
    let client = pair.connect(Plan::transfer(5_000));
    pair.run_for(ms(5_000));
    let server = pair.accept(Plan::LISTEN).unwrap();
    run_until_empty(&mut pair);
    assert_eq!(pair.socket(server).consumed, 5_000);
    pair.check_delivered(client);
}
