//! Opening connections.

use sim::{Chance, LinkConfig, Pair, PairConfig, Plan};
use tcp::{Config, Failure, State};

use crate::{SOON, ms, run_until_empty, sent, sent_without_windows};

#[test]
fn three_segments_open_a_connection() {
    let mut pair = Pair::new(1);
    let (client, server) = pair.establish(Plan::BY_HAND, Plan::BY_HAND);
    assert_eq!(
        sent_without_windows(&pair),
        [
            "client S 0:0(0)",
            "server S. 0:0(0) ack 1",
            "client . 1:1(0) ack 1"
        ]
    );
    for socket in [client, server] {
        let info = pair.info(socket).unwrap();
        assert_eq!(info.state, State::Established);
        assert!(info.timestamps && info.selective_acks && info.window_scales.is_some());
        // 1500 less IPv4 and TCP headers and timestamps.
        assert_eq!(info.send_mss, 1_448);
        let round_trip = info.srtt.unwrap();
        assert!((ms(20)..ms(21)).contains(&round_trip), "{round_trip:?}");
    }
}

#[test]
fn ipv6_has_larger_headers() {
    let mut pair = Pair::with(
        2,
        PairConfig {
            v6: true,
            ..PairConfig::default()
        },
    );
    let (client, server) = pair.establish(Plan::transfer(50_000), Plan::transfer(50_000));
    assert_eq!(pair.info(client).unwrap().send_mss, 1_428);
    pair.run_until(SOON, |world| {
        world.socket(client).closed && world.socket(server).closed
    });
    pair.check_delivered(client);
}

#[test]
fn options_hold_only_if_both_sides_agree() {
    let plain = Config {
        timestamps: false,
        window_scaling: false,
        selective_acks: false,
        ..Config::default()
    };
    for client_is_plain in [true, false] {
        let mut config = PairConfig::default();
        *(if client_is_plain {
            &mut config.client
        } else {
            &mut config.server
        }) = plain.clone();
        let mut pair = Pair::with(3, config);
        let (client, server) = pair.establish(Plan::BY_HAND, Plan::BY_HAND);
        for socket in [client, server] {
            let info = pair.info(socket).unwrap();
            assert!(!info.timestamps && !info.selective_acks && info.window_scales.is_none());
            assert_eq!(info.send_mss, 1_460);
        }
    }
}

#[test]
fn the_smaller_mtu_decides_the_segment() {
    let small = Config {
        mtu: 576,
        ..Config::default()
    };
    let mut pair = Pair::with(
        4,
        PairConfig {
            server: small,
            ..PairConfig::default()
        },
    );
    let (client, server) = pair.establish(Plan::BY_HAND, Plan::BY_HAND);
    assert_eq!(pair.info(client).unwrap().send_mss, 524);
    assert_eq!(pair.info(server).unwrap().send_mss, 524);
}

#[test]
fn both_may_open_at_once() {
    let mut pair = Pair::new(5);
    let (a, b) = (pair.client_addr(5_000), pair.server_addr());
    let b = core::net::SocketAddr::new(b.ip(), 5_000);
    let (client, server) = (pair.client, pair.server);
    let plan = Plan::transfer(20_000);
    let first = pair.connect_between(client, a, b, plan).unwrap();
    let second = pair.connect_between(server, b, a, plan).unwrap();
    pair.run_until(SOON, |world| {
        [first, second]
            .iter()
            .all(|&socket| world.socket(socket).update.connected)
    });
    assert_eq!(
        sent_without_windows(&pair)[..4],
        [
            "client S 0:0(0)",
            "server S 0:0(0)",
            "client S. 0:0(0) ack 1",
            "server S. 0:0(0) ack 1"
        ]
    );
    pair.run_until(SOON, |world| {
        world.socket(first).closed && world.socket(second).closed
    });
    pair.check_delivered(first);
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second_then_two() {
    let mut pair = Pair::new(6);
    let (client, server) = (pair.client, pair.server);
    pair.link_mut(client, server).loss = Chance::ALWAYS;
    let begin = pair.now();
    let socket = pair.connect(Plan::BY_HAND);
    pair.run_for(ms(3_500));
    let times: Vec<_> = pair
        .trace()
        .iter()
        .map(|sent| sent.at.saturating_duration_since(begin).as_millis())
        .collect();
    assert_eq!(times.len(), 3, "{}", pair.trace());
    assert!(
        (1_000..1_005).contains(&times[1]) && (3_000..3_010).contains(&times[2]),
        "{times:?}"
    );
    pair.link_mut(client, server).loss = Chance::NEVER;
    pair.run_until(SOON, |world| world.socket(socket).update.connected);
}

#[test]
fn an_open_that_nobody_answers_fails() {
    let mut pair = Pair::new(7);
    let (client, server) = (pair.client, pair.server);
    pair.link_mut(client, server).loss = Chance::ALWAYS;
    let socket = pair.connect(Plan::LISTEN);
    pair.run_until(SOON * 10, |world| {
        world.socket(socket).update.failed.is_some()
    });
    assert_eq!(pair.socket(socket).update.failed, Some(Failure::TimedOut));
    // One SYN, and as many again as the settings allow.
    let syns = 1 + Config::default().syn_retries as usize;
    assert_eq!(sent(&pair).len(), syns);
    pair.run_for(SOON);
    pair.check_empty();
}

#[test]
fn a_lost_syn_ack_is_sent_again() {
    let mut pair = Pair::new(8);
    let mut lost = 0;
    let server = pair.server;
    pair.filter(server, move |_| {
        lost += 1;
        lost > 1
    });
    let (client, _) = pair.establish(Plan::BY_HAND, Plan::BY_HAND);
    assert_eq!(pair.info(client).unwrap().state, State::Established);
    // Whichever timer came first: a SYN or a SYN-ACK went out again, not both many times.
    assert!(pair.trace().iter().count() <= 7, "{}", pair.trace());
}

#[test]
fn a_lost_last_ack_does_not_matter_once_data_follows() {
    let mut pair = Pair::new(9);
    let mut count = 0;
    let client = pair.client;
    pair.filter(client, move |_| {
        count += 1;
        count != 2
    });
    let (first, second) = pair.establish(Plan::transfer(1_000), Plan::LISTEN);
    pair.run_until(SOON, |world| world.socket(second).consumed == 1_000);
    assert!(pair.socket(first).update.connected);
}

#[test]
fn a_handshake_survives_a_bad_link() {
    for seed in 0..50 {
        let link = LinkConfig {
            loss: Chance::percent(30),
            duplication: Chance::percent(20),
            reordering: Chance::percent(20),
            ..LinkConfig::default()
        };
        let stack = Config {
            syn_retries: 20,
            syn_ack_retries: 20,
            ..Config::default()
        };
        let config = PairConfig {
            link,
            client: stack.clone(),
            server: stack,
            serve: Some(Plan::LISTEN),
            ..PairConfig::default()
        };
        let mut pair = Pair::with(seed, config);
        let client = pair.connect(Plan::transfer(1));
        pair.run_until(SOON * 100, |world| world.socket(client).released);
        pair.check_delivered(client);
    }
}

/// Counters of the client after two connections, the second of which may hold its SYN for its data.
fn second_of_two(hold_syn: bool, bytes: u64) -> tcp::Counters {
    let fast = |server: bool| tcp::Config {
        fast_open_client: !server,
        fast_open_server: server,
        ..tcp::Config::default()
    };
    let mut pair = Pair::with(
        7,
        PairConfig {
            client: fast(false),
            server: fast(true),
            options: tcp::ConnOptions {
                fast_open: 3,
                hold_syn,
                ..tcp::ConnOptions::default()
            },
            serve: Some(Plan::transfer(500)),
            ..PairConfig::default()
        },
    );
    for has_cookie in [false, true] {
        let client = pair.connect(Plan::transfer(bytes));
        let begin = pair.now();
        let held = pair.holds_syn(client);
        assert_eq!(held, hold_syn && has_cookie);
        run_until_empty(&mut pair);
        pair.check_delivered(client);
        assert!(pair.now() > begin);
    }
    pair.host(pair.client).stack.counters().clone()
}

//~ RFC 7413 §4.2.1
#[test]
fn a_syn_that_waits_for_its_data_brings_it() {
    assert_eq!(second_of_two(true, 300).fast_opens_out, 1);
    assert_eq!(second_of_two(false, 300).fast_opens_out, 1);
    // No data comes: it leaves all the same.
    assert_eq!(second_of_two(true, 0).fast_opens_out, 0);
}
