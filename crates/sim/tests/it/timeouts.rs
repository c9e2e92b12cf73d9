//! Retransmission timeouts, keepalive, and when a connection is given up.

use core::time::Duration;

use sim::{Chance, Pair, PairConfig, Plan};
use tcp::{ConnOption, Failure, Request};

use crate::{SOON, ms};

/// Loses everything that the client sends from now on.
fn cut(pair: &mut Pair) {
    let (client, server) = (pair.client, pair.server);
    pair.link_mut(client, server).loss = Chance::ALWAYS;
}

#[test]
fn each_timeout_is_twice_the_last() {
    let mut pair = Pair::new(1);
    let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
    cut(&mut pair);
    pair.trace_all();
    pair.send(socket, 100);
    pair.pump(socket);
    pair.run_for(Duration::from_secs(20));
    let times: Vec<u128> = pair
        .trace()
        .iter()
        .map(|sent| u128::from(sent.at.as_micros()))
        .collect();
    let gaps: Vec<u128> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() >= 5, "{}", pair.trace());
    // The first is the timeout of a round trip of 20 ms: 20 + 200, or 4 * RTTVAR more. What goes then
    // is a tail loss probe (RFC 8985 §7.3), and the timeout follows it, the first time not backed off.
    assert!((210_000..300_000).contains(&gaps[0]), "{gaps:?}");
    assert!(gaps[0].abs_diff(gaps[1]) < 2_000, "{gaps:?}");
    for pair in gaps[1..].windows(2) {
        let ratio = pair[1] as f64 / pair[0] as f64;
        assert!((1.95..2.05).contains(&ratio), "{gaps:?}");
    }
}

#[test]
fn lost_acknowledgements_do_not_pass_for_a_long_round_trip() {
    let mut pair = Pair::new(9);
    let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
    let (client, server) = (pair.client, pair.server);
    pair.link_mut(server, client).loss = Chance::ALWAYS;
    pair.send(socket, 100);
    pair.pump(socket);
    // The data arrives the first time; what is sent again is answered with its old timestamp.
    pair.run_for(Duration::from_secs(30));
    pair.link_mut(server, client).loss = Chance::NEVER;
    pair.run_until(SOON, |world| world.socket(socket).update.acked == 100);
    pair.send(socket, 100);
    pair.pump(socket);
    pair.run_until(SOON, |world| world.socket(socket).update.acked == 200);
    let timeout = pair.info(socket).unwrap().rto;
    assert!(timeout < ms(400), "{timeout:?}");
}

#[test]
fn a_peer_that_never_answers_again_ends_the_connection() {
    let mut pair = Pair::new(2);
    let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
    cut(&mut pair);
    pair.send(socket, 100);
    pair.pump(socket);
    let begin = pair.now();
    pair.run_until(Duration::from_secs(3_600), |world| {
        world.socket(socket).update.failed.is_some()
    });
    assert_eq!(pair.socket(socket).update.failed, Some(Failure::TimedOut));
    let took = pair.now().saturating_duration_since(begin);
    // RFC 1122 4.2.3.5 asks for 100 s at least.
    assert!(
        took > Duration::from_secs(100) && took < Duration::from_secs(1_800),
        "{took:?}"
    );
}

#[test]
fn the_user_timeout_decides_if_there_is_one() {
    let mut pair = Pair::new(3);
    let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
    let timeout = ConnOption::UserTimeout(Duration::from_secs(5));
    pair.request(socket, Request::SetOption(timeout)).unwrap();
    cut(&mut pair);
    pair.send(socket, 100);
    pair.pump(socket);
    let begin = pair.now();
    pair.run_until(SOON, |world| world.socket(socket).update.failed.is_some());
    let took = pair.now().saturating_duration_since(begin);
    assert!((ms(4_500)..ms(9_000)).contains(&took), "{took:?}");
}

fn keep_alive(pair: &mut Pair, socket: sim::SocketId) {
    for option in [
        ConnOption::KeepAlive(true),
        ConnOption::KeepAliveIdle(Duration::from_secs(10)),
        ConnOption::KeepAliveInterval(Duration::from_secs(2)),
        ConnOption::KeepAliveCount(3),
    ] {
        pair.request(socket, Request::SetOption(option)).unwrap();
    }
}

#[test]
fn keepalive_probes_are_answered_by_a_peer_that_lives() {
    let mut pair = Pair::new(4);
    let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
    keep_alive(&mut pair, socket);
    pair.run_for(SOON * 4);
    assert_eq!(pair.socket(socket).update.failed, None);
    let probes = pair.host(pair.client).stack.counters().keep_alive_probes;
    assert!((10..=12).contains(&probes), "{probes}");
    // Data in between postpones them.
    pair.trace_all();
    for _ in 0..12 {
        pair.send(socket, 1);
        pair.pump(socket);
        pair.run_for(Duration::from_secs(5));
    }
    let counters = pair.host(pair.client).stack.counters();
    assert_eq!(counters.keep_alive_probes, probes, "{}", pair.trace());
}

#[test]
fn keepalive_finds_out_that_a_peer_is_gone() {
    let mut pair = Pair::new(5);
    let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
    keep_alive(&mut pair, socket);
    cut(&mut pair);
    let begin = pair.now();
    pair.run_until(SOON, |world| world.socket(socket).update.failed.is_some());
    assert_eq!(pair.socket(socket).update.failed, Some(Failure::TimedOut));
    // Ten seconds idle, and three keep-alive probes that had two seconds each.
    let took = pair.now().saturating_duration_since(begin);
    assert!((ms(15_900)..ms(16_200)).contains(&took), "{took:?}");
}

//~ RFC 9293 MUST-25
#[test]
fn without_keepalive_an_idle_connection_stays_for_ever() {
    let mut pair = Pair::with(6, PairConfig::default());
    let (socket, _) = pair.establish(Plan::BY_HAND, Plan::LISTEN);
    pair.run_for(ms(1_000));
    cut(&mut pair);
    pair.trace_all();
    pair.run_for(Duration::from_secs(86_400));
    assert_eq!(pair.trace().iter().count(), 0);
    assert_eq!(pair.socket(socket).update.failed, None);
}
