//! More SYNs than there is room for: cookies (RFC 4987 §3.6), and what they keep of a handshake.

mod common;

use common::*;
use tcp::{Config, ConnOptions, DropReason, Request};
use wire::tcp::Flags;

/// A listener whose SYN queue a single SYN fills.
fn crowded(backlog: u32) -> Bench {
    let config = Config {
        max_half_open: 1,
        ..Config::default()
    };
    let mut b = Bench::new(config);
    b.listen(ConnOptions::default(), backlog);
    b.inject(b.offer.port(1));
    b.expect("S. 0:0 ack 1");
    assert_eq!(b.stack.half_open_count(), 1);
    b.offer = b.offer.mss(1460).wscale(9).sack_permitted().ts(5000, 0);
    b
}

//~ RFC 4987 §3.6
#[test]
fn a_cookie_keeps_the_options_in_the_timestamp() {
    let mut b = crowded(16);
    b.handshake();
    // Nothing was remembered of the SYN.
    assert_eq!(b.stack.half_open_count(), 1);
    let info = b.info();
    assert!(info.timestamps && info.selective_acks);
    assert_eq!(info.window_scales, Some((9, 7)));
    assert_eq!(info.send_mss, 1460 - 12);
    let c = b.stack.counters();
    assert_eq!((c.cookies_sent, c.cookies_accepted), (1, 1));
    assert_eq!((c.passive_opens, c.cookies_refused), (1, 0));
    // And it is a connection like any other; its clock goes on.
    b.send(100);
    let sent = b.expect("P. 1:101 ack 1");
    assert_eq!(sent.options.timestamps.unwrap().echo, 5000);
}

//~ RFC 4987 §3.6
#[test]
fn without_timestamps_a_cookie_offers_what_it_can_keep() {
    let mut b = crowded(16);
    b.offer.options.timestamps = None;
    b.offer.options.mss = Some(1399);
    b.iss = None;
    b.inject(b.offer);
    let syn_ack = b.expect("S. 0:0 ack 1");
    assert_eq!(syn_ack.options.mss, Some(1460));
    assert_eq!(syn_ack.options.window_scale, None);
    assert!(!syn_ack.options.sack_permitted && syn_ack.options.timestamps.is_none());
    // The ACK may be lost: data brings the cookie as well.
    b.inject(seg(1, 10).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    b.events();
    assert_eq!(b.update.received, 10);
    assert_eq!(b.info().send_mss, 1360);
}

//~ RFC 4987 §3.6
#[test]
fn only_our_own_cookies_are_accepted() {
    let mut b = crowded(16);
    b.iss = None;
    b.inject(b.offer);
    let ts = b.expect("S. 0:0 ack 1").options.timestamps.unwrap().value;
    // Another port, another number, other options.
    for forged in [
        seg(1, 0).ack(1).ts(5001, ts).port(50_000),
        seg(1, 0).ack(2).ts(5001, ts),
        seg(2, 0).ack(1).ts(5001, ts),
        seg(1, 0).ack(1).ts(5001, ts ^ 1),
        seg(1, 0).ack(1),
    ] {
        b.inject_dropped(forged, DropReason::NoListener);
        assert!(b.next().unwrap().has(RST));
    }
    assert_eq!(b.stack.counters().cookies_refused, 5);
    assert_eq!(b.stack.connection_count(), 0);
    // A cookie is good for at most 128 seconds.
    b.advance(secs(129));
    b.discard();
    b.inject_dropped(seg(1, 0).ack(1).ts(9000, ts), DropReason::NoListener);
}

#[test]
fn a_listener_that_sent_no_cookies_looks_for_none() {
    let mut b = Bench::listening(Config::default(), ConnOptions::default());
    b.inject_dropped(seg(1, 0).ack(1), DropReason::NoListener);
    assert!(b.next().unwrap().has(RST));
    assert_eq!(b.stack.counters().cookies_refused, 0);
}

#[test]
fn a_cookie_of_its_own_does_not_shorten_what_others_have_told() {
    let mut b = crowded(16);
    let told = b.now + secs(129);
    b.stack.expect_cookies(told);
    b.inject(b.offer);
    b.discard();
    assert_eq!(b.stack.counters().cookies_sent, 1);
    assert_eq!(b.stack.cookies_until(), told);
    // What it sends later is good for longer: 128 seconds.
    b.advance(secs(10));
    b.inject(b.offer.port(2));
    b.discard();
    assert_eq!(b.stack.counters().cookies_sent, 2);
    assert_eq!(b.stack.cookies_until(), b.now + secs(128));
}

#[test]
fn a_cookie_waits_for_room_in_the_accept_queue() {
    let mut b = crowded(0);
    b.iss = None;
    b.inject(b.offer.port(2));
    let ts = b.expect("S. 0:0 ack 1").options.timestamps.unwrap().value;
    let iss = b.iss;
    b.offer = b.offer.port(3);
    b.handshake();
    b.iss = iss;
    // The queue holds one: the final ACK is dropped in silence, as the kernel does, ...
    let last = seg(1, 0).ack(1).ts(5001, ts).port(2);
    b.stack
        .give_back(b.now, b.listener.unwrap(), b.conn.unwrap());
    b.inject_dropped(last, DropReason::AcceptQueueFull);
    b.quiet();
    // ... a SYN is not answered at all, ...
    b.inject_dropped(b.offer.port(4), DropReason::AcceptQueueFull);
    b.quiet();
    // ... and the peer's data gets in when there is room.
    b.stack.accept(b.listener.unwrap()).unwrap();
    b.inject(seg(1, 7).ack(1).ts(5002, ts).port(2));
    b.conn = b.stack.accept(b.listener.unwrap());
    b.events();
    assert_eq!(b.update.received, 7);
}

#[test]
fn a_cookie_that_comes_back_late_wins_over_a_second_handshake() {
    let mut b = crowded(16);
    b.iss = None;
    b.inject(b.offer);
    let ts = b.expect("S. 0:0 ack 1").options.timestamps.unwrap().value;
    let iss = b.iss;
    // Room in the SYN queue, and the SYN again: another SYN-ACK, with another number.
    b.inject(seg(1, 0).flags(RST).port(1));
    b.inject(b.offer);
    b.expect("S. 0:0 ack 1");
    assert_eq!(b.stack.half_open_count(), 1);
    b.iss = iss;
    b.inject(seg(1, 0).ack(1).ts(5001, ts));
    assert_eq!(b.stack.half_open_count(), 0);
    assert_eq!(b.stack.waiting(b.listener.unwrap()), 1);
    b.quiet();
}

#[test]
fn a_pair_in_time_wait_is_not_taken_over_by_a_cookie() {
    let mut b = Bench::listening(
        Config {
            max_half_open: 1,
            ..Config::default()
        },
        ConnOptions::default(),
    );
    b.handshake();
    b.request(Request::Close);
    b.inject(seg(1, 0).ack(2).flags(FIN));
    b.discard();
    assert_eq!(b.stack.time_wait_count(), 1);
    b.inject(b.offer.port(1));
    b.discard();
    let mut again = b.offer;
    again.seq = 100_000;
    b.inject_dropped(again, DropReason::HalfOpenFull);
    assert_eq!(b.stack.time_wait_count(), 1);
}

/// Timestamps tell the new connection from the old one, whatever its numbers are.
//~ RFC 6191 §2
//~ RFC 4987 §3.6
#[test]
fn with_timestamps_a_cookie_takes_over_a_pair_in_time_wait() {
    let config = Config {
        max_half_open: 1,
        ..Config::default()
    };
    let mut b = Bench::new(config);
    b.listen(ConnOptions::default(), 16);
    b.offer = b.offer.mss(1460).ts(5000, 0);
    b.handshake();
    b.request(Request::Close);
    let value = b
        .all_sent()
        .last()
        .unwrap()
        .options
        .timestamps
        .unwrap()
        .value;
    b.inject(seg(1, 0).ack(2).flags(FIN).ts(5001, value));
    b.discard();
    assert_eq!(b.stack.time_wait_count(), 1);
    b.inject(b.offer.port(1));
    b.discard();
    b.advance(secs(2));
    b.discard();
    // An old SYN again does not.
    b.inject_dropped(b.offer, DropReason::TimeWait);
    b.discard();
    b.offer = b.offer.ts(7000, 0);
    b.offer.seq = 100_000;
    let before = b.stack.counters().cookies_sent;
    b.inject(b.offer);
    assert_eq!(b.stack.counters().cookies_sent, before + 1);
    assert_eq!(b.stack.time_wait_count(), 0);
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

//~ RFC 4987 §3.6
#[test]
fn a_million_syns_take_no_memory_and_keep_nobody_out() {
    let config = Config {
        max_half_open: 1000,
        ..Config::default()
    };
    let mut b = Bench::listening(config, ConnOptions::default());
    b.offer = b.offer.mss(1460).wscale(9).sack_permitted().ts(5000, 0);
    let mut settled = None;
    for attack in 0..1_000_000u32 {
        let [a, high, low, port] = attack.to_be_bytes();
        b.peer = [10 + a, high, low, 1].into();
        b.inject(b.offer.port(u16::from(port) + 1));
        assert!(b.next().unwrap().has(Flags::SYN));
        b.discard();
        if attack % 100_000 == 50_000 {
            let mut client = b.offer;
            b.peer = "198.51.100.7".parse().unwrap();
            client.src_port = (attack / 100_000) as u16 + 1;
            std::mem::swap(&mut b.offer, &mut client);
            b.handshake();
            assert_eq!(b.info().window_scales, Some((9, 7)));
            b.request(Request::Abort);
            b.discard();
            b.offer = client;
            settled = settled.or_else(|| Some(resident()));
        }
    }
    let c = b.stack.counters();
    assert_eq!((c.passive_opens, c.cookies_accepted), (10, 10));
    assert_eq!(b.stack.half_open_count(), 1000);
    assert_eq!(b.stack.flow_count(), 1000);
    let grown = resident().saturating_sub(settled.unwrap());
    assert!(grown < 1 << 20, "{grown} bytes");
}

/// While cookies are withheld, so many go to those who come again and no more.
#[test]
fn the_budget_for_those_who_come_again_is_kept() {
    let mut b = crowded(16);
    b.stack.withhold_cookies(Some(2));
    for port in 10..20 {
        b.inject_dropped(b.offer.port(port), DropReason::CookieWithheld);
    }
    b.quiet();
    for port in 10..20 {
        b.iss = None;
        b.inject(b.offer.port(port));
    }
    assert_eq!(b.all().len(), 2);
    assert_eq!(b.dropped(DropReason::CookieWithheld), 10 + 8);
}
