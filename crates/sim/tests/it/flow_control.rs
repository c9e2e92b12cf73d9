//! The receiver's window: closing, probing, opening, and no silly segments.

use core::time::Duration;

use sim::{Chance, Pair, PairConfig, Plan, Reading, Then};

use crate::{SOON, ms, run_until_empty};

fn small_buffer() -> PairConfig {
    let mut config = PairConfig::default();
    config.options.receive_buffer = 16_384;
    config
}

/// A pair of sockets of which the server's does not read, after the client has filled its window.
fn filled(seed: u64) -> (Pair, sim::SocketId, sim::SocketId) {
    let mut pair = Pair::with(seed, small_buffer());
    let unread = Plan {
        reading: Reading::Never,
        ..Plan::BY_HAND
    };
    let (client, server) = pair.establish(Plan::transfer(100_000), unread);
    pair.run_for(ms(2_000));
    let received = pair.socket(server).update.received;
    // The scale of the window (128 bytes) is rounded up.
    assert!((16_000..16_384 + 128).contains(&received), "{received}");
    (pair, client, server)
}

#[test]
fn a_sender_stops_at_the_window_and_goes_on_when_it_opens() {
    let (mut pair, client, server) = filled(1);
    *pair.plan_mut(server) = Plan::LISTEN;
    pair.pump(server);
    run_until_empty(&mut pair);
    pair.check_delivered(client);
}

#[test]
fn a_closed_window_is_probed_for_ever_with_growing_pauses() {
    let (mut pair, client, server) = filled(2);
    let probes = |pair: &Pair| pair.host(pair.client).stack.counters().window_probes;
    pair.run_for(Duration::from_secs(60));
    let early = probes(&pair);
    assert!((3..20).contains(&early), "{early}");
    // A peer that answers keeps the connection alive however long its window stays closed
    // (RFC 9293 3.8.6.1).
    pair.run_for(Duration::from_secs(36_000));
    let late = probes(&pair) - early;
    assert!((200..700).contains(&late), "{late}");
    assert_eq!(pair.socket(client).update.failed, None);
    *pair.plan_mut(server) = Plan::LISTEN;
    pair.pump(server);
    run_until_empty(&mut pair);
    pair.check_delivered(client);
}

#[test]
fn a_lost_window_update_is_made_good_by_a_zero_window_probe() {
    let (mut pair, client, server) = filled(3);
    let host = pair.server;
    let client_host = pair.client;
    pair.link_mut(host, client_host).loss = Chance::ALWAYS;
    *pair.plan_mut(server) = Plan::LISTEN;
    pair.pump(server);
    pair.run_for(ms(50));
    pair.link_mut(host, client_host).loss = Chance::NEVER;
    run_until_empty(&mut pair);
    pair.check_delivered(client);
}

#[test]
fn a_slow_reader_makes_no_silly_segments() {
    let mut pair = Pair::with(4, small_buffer());
    // A hundred bytes at a time: without avoidance every one would be announced and filled.
    let slow = Plan {
        reading: Reading::Slow(100, ms(1)),
        ..Plan::LISTEN
    };
    let (client, _) = pair.establish(Plan::transfer(100_000), slow);
    run_until_empty(&mut pair);
    pair.check_delivered(client);
    let counters = pair.host(pair.client).stack.counters();
    let average = counters.bytes_out / counters.segments_out;
    assert!(average > 700, "{average} bytes a segment: {counters:?}");
}

#[test]
fn a_fin_waits_for_the_window_as_well() {
    let (mut pair, client, server) = filled(5);
    // What is left is small, and FIN behind it.
    assert!(pair.socket(client).shut_down);
    assert!(!pair.socket(server).update.peer_closed);
    *pair.plan_mut(server) = Plan {
        then: Then::ShutdownWrite,
        ..Plan::LISTEN
    };
    pair.pump(server);
    run_until_empty(&mut pair);
    assert!(pair.socket(server).update.peer_closed);
}

#[test]
fn windows_beyond_64_kilobytes_are_used() {
    let mut config = PairConfig::default();
    config.options.receive_buffer = 1 << 20;
    config.link.delay = ms(50);
    let mut pair = Pair::with(6, config);
    let plan = Plan {
        send_buffer: 4 << 20,
        ..Plan::transfer(20_000_000)
    };
    let (client, _) = pair.establish(plan, Plan::LISTEN);
    let begin = pair.now();
    run_until_empty(&mut pair);
    pair.check_delivered(client);
    // A megabyte a round trip of 100 ms, after slow start: 64 KB would take thirty seconds.
    let took = pair.now().saturating_duration_since(begin);
    assert!(took < SOON / 6, "{took:?}");
}
