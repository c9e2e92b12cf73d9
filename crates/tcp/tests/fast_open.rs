//! TCP Fast Open (RFC 7413), on both sides.

mod common;

use common::*;
use tcp::{Config, ConnOptions, Failure, Request, Stack, State};
use wire::tcp::FastOpenCookie;

fn config() -> Config {
    Config {
        fast_open_client: true,
        fast_open_server: true,
        pacing_burst: 0,
        ..plain()
    }
}

fn options(fast_open: u32) -> ConnOptions {
    ConnOptions {
        fast_open,
        ..ConnOptions::default()
    }
}

/// A listener, and the cookie that it gives the peer.
fn server(limit: u32) -> (Bench, FastOpenCookie) {
    let mut b = Bench::listening(config(), options(limit));
    b.inject(b.offer.fast_open(FastOpenCookie::REQUEST).port(39_999));
    let cookie = b.expect("S. 0:0 ack 1").options.fast_open.unwrap();
    assert_eq!(cookie.as_slice().len(), 8);
    b.inject(seg(1, 0).flags(RST).port(39_999));
    (b, cookie)
}

/// A SYN with 500 bytes and the cookie.
fn syn(b: &Bench, cookie: FastOpenCookie) -> Seg {
    let mut syn = b.offer.fast_open(cookie);
    syn.len = 500;
    syn
}

fn accept(b: &mut Bench) {
    b.conn = b.stack.accept(b.listener.unwrap());
    assert!(b.conn.is_some(), "nothing to accept");
    b.events();
}

/// A connection that a SYN has opened, accepted, with its SYN-ACK on the way.
fn pending() -> (Bench, FastOpenCookie) {
    let (mut b, cookie) = server(4);
    b.inject(syn(&b, cookie));
    let syn_ack = b.expect("S. 0:0 ack 501");
    assert_eq!(syn_ack.options.fast_open, None);
    accept(&mut b);
    (b, cookie)
}

//~ RFC 7413 §4.2.2
#[test]
fn a_syn_is_answered_before_its_handshake_is_complete() {
    let (mut b, _) = pending();
    assert_eq!((b.update.connected, b.update.received), (true, 500));
    assert_eq!(b.info().state, State::SynReceived);
    b.send(1200);
    b.expect(". 1:1001 ack 501");
    b.expect("P. 1001:1201 ack 501");
    b.quiet();
    assert_eq!(b.info().bytes_sent, 1200);
    // The acknowledgement of the SYN, and of the first segment.
    b.inject(seg(501, 0).ack(1001));
    b.quiet();
    let info = b.info();
    assert_eq!((info.state, info.in_flight), (State::Established, 200));
    assert!(info.fast_open && info.srtt.is_some());
    assert_eq!(b.update.acked, 1000);
    b.inject(seg(501, 0).ack(1201));
    assert_eq!(b.update.acked, 1200);
    let counters = b.stack.counters();
    assert_eq!((counters.passive_opens, counters.fast_opens_in), (1, 1));
    assert_eq!(counters.fast_open_cookies, 1);
}

#[test]
fn what_was_sent_before_is_repaired_after_the_handshake() {
    let (mut b, _) = pending();
    b.send(1000);
    b.expect("P. 1:1001 ack 501");
    // Until the handshake is complete the SYN-ACK alone is sent again.
    b.advance(ms(3_100));
    assert_eq!(b.all(), ["S. 0:0 ack 501"; 2]);
    b.inject(seg(501, 0).ack(1));
    b.quiet();
    assert_eq!(b.info().state, State::Established);
    b.advance(secs(4));
    b.expect("P. 1:1001 ack 501");
    b.inject(seg(501, 0).ack(1001));
    assert_eq!(b.update.acked, 1000);
}

#[test]
fn the_syn_again_brings_the_syn_ack_again() {
    let (mut b, cookie) = pending();
    b.inject(syn(&b, cookie));
    b.expect("S. 0:0 ack 501");
    b.inject(b.offer);
    b.expect("S. 0:0 ack 501");
    b.quiet();
    assert_eq!(
        (b.info().receive_queue, b.info().state),
        (500, State::SynReceived)
    );
    // Something else is acknowledged: RST.
    b.inject(seg(501, 0).ack(7));
    b.expect("R 7:7");
}

#[test]
fn off_there_is_none() {
    for (config, limit) in [(plain(), 4), (config(), 0)] {
        let (_, cookie) = server(4);
        let mut b = Bench::listening(config, options(limit));
        for cookie in [FastOpenCookie::REQUEST, cookie] {
            b.inject(syn(&b, cookie));
            assert_eq!(b.expect("S. 0:0 ack 1").options.fast_open, None);
            b.inject(seg(1, 0).flags(RST));
        }
        b.connect(ConnOptions::default());
        b.send(100);
        assert_eq!(b.expect("S 0:0").options.fast_open, None);
    }
    let mut b = Bench::new(plain());
    b.connect(options(1));
    b.send(100);
    assert_eq!(b.expect("S 0:0").options.fast_open, None);
}

//~ RFC 7413 §4.1.2
#[test]
fn a_strange_cookie_is_replaced_and_an_old_one_renewed() {
    let (mut b, cookie) = server(4);
    let mut strange = *cookie.as_slice().first_chunk::<8>().unwrap();
    strange[3] ^= 1;
    let strange = FastOpenCookie::new(&strange).unwrap();
    b.inject(syn(&b, strange));
    assert_eq!(b.expect("S. 0:0 ack 1").options.fast_open, Some(cookie));
    b.inject(seg(1, 0).flags(RST));
    // Half an hour past the hour.
    b.now = tcp::Instant::from_secs(3600 + 1800);
    b.advance(secs(200));
    b.discard();
    b.inject(syn(&b, cookie));
    let renewed = b.expect("S. 0:0 ack 501").options.fast_open.unwrap();
    assert_ne!(renewed, cookie);
    b.inject(seg(501, 0).ack(1));
    b.inject(syn(&b, renewed).port(40_001));
    assert_eq!(b.expect("S. 0:0 ack 501").options.fast_open, None);
}

//~ RFC 7413 §5.1
#[test]
fn pending_connections_are_bounded_and_resets_count() {
    let (mut b, cookie) = server(2);
    for port in [1, 2] {
        b.inject(syn(&b, cookie).port(port));
        b.expect("S. 0:0 ack 501");
    }
    let second = b.iss;
    // A third one gets the ordinary handshake.
    b.inject(syn(&b, cookie).port(3));
    b.expect("S. 0:0 ack 1");
    assert_eq!(b.stack.counters().fast_opens_refused, 1);
    b.inject(seg(501, 0).flags(RST).port(1));
    accept(&mut b);
    assert_eq!(b.update.failed, Some(Failure::Reset));
    b.inject(syn(&b, cookie).port(4));
    b.expect("S. 0:0 ack 1");
    // What is complete does not count.
    b.iss = second;
    b.inject(seg(501, 0).ack(1).port(2));
    b.inject(syn(&b, cookie).port(5));
    b.expect("S. 0:0 ack 501");
    b.quiet();
    b.request(Request::Close);
}

#[test]
fn who_never_completes_the_handshake_is_forgotten() {
    let (mut b, _) = pending();
    b.send(100);
    b.request(Request::Consumed(500));
    b.request(Request::Close);
    assert_eq!(b.info().state, State::SynReceived);
    b.advance(secs(200));
    assert_eq!(b.stack.connection_count(), 0);
    let again = b.all().iter().filter(|sent| sent.starts_with("S.")).count();
    assert_eq!(again, 5);
}

#[test]
fn closing_waits_for_the_handshake() {
    let (mut b, _) = pending();
    b.send(100);
    b.request(Request::Consumed(500));
    b.request(Request::Close);
    b.expect("P. 1:101 ack 501");
    b.quiet();
    b.inject(seg(501, 0).ack(101));
    b.expect("F. 101:101 ack 501");
    b.inject(seg(501, 0).flags(FIN).ack(102));
    b.expect(". 102:102 ack 502");
    assert_eq!(b.stack.connection_count(), 0);
    // What was not read ends by RST.
    let (mut b, _) = pending();
    b.request(Request::Close);
    b.expect("R. 1:1 ack 501");
}

#[test]
fn no_more_is_taken_than_there_is_room_for() {
    let (mut b, cookie) = server(4);
    b.store.room = Some(200);
    b.inject(syn(&b, cookie));
    b.expect("S. 0:0 ack 201");
    b.store.room = None;
    accept(&mut b);
    b.inject(seg(201, 300).ack(1));
    assert_eq!(b.update.received, 500);
}

/// A client that has a cookie and so many bytes to send. Its SYN is to be expected.
fn client(bytes: u32) -> (Bench, FastOpenCookie) {
    let mut b = Bench::new(config());
    let cookie = FastOpenCookie::new(&[1, 2, 3, 4, 5, 6]).unwrap();
    b.connect(options(1));
    b.send(10);
    let syn = b.expect("S 0:0");
    assert_eq!(syn.options.fast_open, Some(FastOpenCookie::REQUEST));
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000).fast_open(cookie));
    b.expect("P. 1:11 ack 1");
    b.inject(seg(1, 0).ack(11).flags(RST));
    b.request(Request::Close);
    b.iss = None;
    b.connect(options(1));
    if bytes > 0 {
        b.send(bytes);
    }
    (b, cookie)
}

/// A client that has a cookie, and whose next SYN waits for data.
fn held() -> (Bench, FastOpenCookie) {
    let (mut b, cookie) = client(10);
    b.expect("S 0:10");
    b.inject(seg(0, 0).ack(11).flags(RST));
    b.request(Request::Close);
    b.iss = None;
    b.connect(ConnOptions {
        hold_syn: true,
        ..options(1)
    });
    b.advance(secs(3600));
    b.quiet();
    b.stack.audit().unwrap();
    (b, cookie)
}

fn syn_room(b: &mut Bench) -> u16 {
    b.stack.syn_room(b.now, b.conn.unwrap())
}

#[test]
fn a_syn_waits_for_data_where_there_is_a_cookie() {
    let (mut b, cookie) = held();
    // The server's MSS, less all that options could take.
    assert_eq!(syn_room(&mut b), 960);
    b.send(960);
    assert_eq!(syn_room(&mut b), 0);
    let syn = b.expect("S 0:960");
    assert_eq!(syn.options.fast_open, Some(cookie));
    b.inject(seg(0, 0).flags(SYN).ack(961).mss(1000));
    assert_eq!((b.update.connected, b.update.acked), (true, 960));
    // Who has no cookie, or may not use it, does not wait.
    for config in [config(), plain()] {
        let mut b = Bench::new(config);
        b.connect(ConnOptions {
            hold_syn: true,
            ..options(1)
        });
        assert_eq!(syn_room(&mut b), 0);
        b.turn();
        b.expect("S 0:0");
    }
}

#[test]
fn a_syn_that_waits_leaves_when_no_data_will_come_first() {
    for request in [Request::Open, Request::ShutdownWrite] {
        let (mut b, cookie) = held();
        b.request(request);
        b.turn();
        assert_eq!(b.expect("S 0:0").options.fast_open, Some(cookie));
        b.stack.audit().unwrap();
        b.advance(ms(1100));
        b.expect("S 0:0");
    }
    // Another stack does not wait.
    let (mut b, _) = held();
    let value = b.stack.export(b.now, b.conn.unwrap()).unwrap();
    b.stack = Stack::new(config(), [1; 32]);
    b.conn = Some(b.stack.import(b.now, &value).unwrap());
    b.turn();
    b.expect("S 0:0");
    // Who closes instead has never been there.
    let (mut b, _) = held();
    b.request(Request::Close);
    b.advance(secs(10));
    b.quiet();
    assert_eq!(b.stack.connection_count(), 0);
}

//~ RFC 7413 §4.2.1, §4.2.2
#[test]
fn a_cookie_lets_data_go_with_the_syn() {
    let (mut b, cookie) = client(2_000);
    // MSS, and the cookie with its two bytes: twelve of options.
    let syn = b.expect("S 0:988");
    assert_eq!(syn.options.fast_open, Some(cookie));
    b.quiet();
    b.inject(seg(0, 0).flags(SYN).ack(989).mss(1000));
    b.expect(". 989:1989 ack 1");
    b.expect("P. 1989:2001 ack 1");
    assert_eq!((b.update.connected, b.update.acked), (true, 988));
    assert!(b.info().fast_open);
    assert_eq!(b.info().retransmits, 0);
    b.inject(seg(1, 0).ack(2001));
    assert_eq!(b.update.acked, 2_000);
    assert_eq!(b.stack.counters().fast_opens_out, 1);
}

#[test]
fn what_the_server_does_not_take_follows_the_handshake() {
    let (mut b, _) = client(500);
    b.expect("S 0:500");
    // More than was sent cannot be acknowledged.
    b.inject(seg(0, 0).flags(SYN).ack(502).mss(1000));
    b.expect("R 502:502");
    b.inject(seg(0, 0).flags(SYN).ack(101).mss(1000));
    b.expect("P. 101:501 ack 1");
    b.inject(seg(1, 0).ack(501));
    assert_eq!(b.update.acked, 500);
    let (mut b, _) = client(500);
    b.expect("S 0:500");
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000));
    b.expect("P. 1:501 ack 1");
    assert!(!b.info().fast_open);
}

/// As Linux: a SYN brings the cookie also where there is no data to go with it, and asks for one.
#[test]
fn a_syn_without_data_has_the_option_all_the_same() {
    let mut b = Bench::new(config());
    b.connect(options(1));
    b.turn();
    let asks = b.expect("S 0:0").options.fast_open;
    assert_eq!(asks, Some(FastOpenCookie::REQUEST));
    let (mut b, cookie) = client(0);
    b.turn();
    assert_eq!(b.expect("S 0:0").options.fast_open, Some(cookie));
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000));
    b.expect(". 1:1 ack 1");
    b.send(10);
    b.expect("P. 1:11 ack 1");
    assert!(!b.info().fast_open);
    assert_eq!(b.stack.counters().fast_opens_out, 0);
    // The server gives it the connection at once, and who asks a cookie.
    let (mut b, cookie) = server(4);
    b.inject(b.offer.fast_open(cookie));
    assert_eq!(b.expect("S. 0:0 ack 1").options.fast_open, None);
    accept(&mut b);
    assert_eq!((b.update.connected, b.update.received), (true, 0));
    b.send(10);
    b.expect("P. 1:11 ack 1");
    b.inject(seg(1, 0).ack(11));
    assert_eq!(b.info().state, State::Established);
    assert!(!b.info().fast_open);
}

//~ RFC 7413 §4.1.3
#[test]
fn silence_ends_it_for_a_while() {
    let (mut b, _) = client(500);
    b.expect("S 0:500");
    b.advance(ms(1100));
    // Without data, and without the option.
    assert_eq!(b.expect("S 0:0").options.fast_open, None);
    // The first one may have arrived all the same.
    b.inject(seg(0, 0).flags(SYN).ack(501).mss(1000));
    b.expect(". 501:501 ack 1");
    assert_eq!(b.update.acked, 500);
    b.inject(seg(1, 0).ack(501).flags(RST));
    b.request(Request::Close);
    b.connect(options(1));
    b.iss = None;
    b.send(500);
    assert_eq!(b.expect("S 0:0").options.fast_open, None);
    b.request(Request::Abort);
    b.advance(secs(3600));
    b.iss = None;
    b.connect(options(1));
    b.turn();
    assert_eq!(
        b.expect("S 0:0").options.fast_open,
        Some(FastOpenCookie::REQUEST)
    );
}

#[test]
fn both_ends_may_be_moved_in_the_middle() {
    let (mut b, _) = pending();
    b.send(100);
    b.expect("P. 1:101 ack 501");
    let value = b.stack.export(b.now, b.conn.unwrap()).unwrap();
    b.stack.audit().unwrap();
    b.stack = Stack::new(config(), [1; 32]);
    b.conn = Some(b.stack.import(b.now, &value).unwrap());
    assert_eq!(b.stack.export(b.now, b.conn.unwrap()), Ok(value.clone()));
    b.conn = Some(b.stack.import(b.now, &value).unwrap());
    b.turn();
    b.quiet();
    b.inject(seg(501, 0).ack(101));
    assert_eq!((b.update.acked, b.info().state), (100, State::Established));

    let (mut b, _) = client(500);
    b.expect("S 0:500");
    let value = b.stack.export(b.now, b.conn.unwrap()).unwrap();
    b.stack = Stack::new(config(), [1; 32]);
    b.conn = Some(b.stack.import(b.now, &value).unwrap());
    b.inject(seg(0, 0).flags(SYN).ack(501).mss(1000));
    b.expect(". 501:501 ack 1");
    assert_eq!(b.update.acked, 500);
}

#[test]
fn what_a_cookie_opens_counts_at_once_for_who_may_connect() {
    let (mut b, cookie) = server(4);
    let listener = b.listener.unwrap();
    let policy = tcp::AdmissionPolicy {
        all: tcp::AdmissionLimit {
            in_flight: 1,
            ..tcp::AdmissionLimit::default()
        },
        each: tcp::AdmissionLimit::default(),
        bits_v4: 32,
        bits_v6: 64,
        reset: false,
    };
    let admission = tcp::Admission::new(policy, [4; 16]);
    b.stack.set_admission(listener, Some(Box::new(admission)));
    b.inject(syn(&b, cookie));
    b.expect("S. 0:0 ack 501");
    assert_eq!(b.stack.listener_counts(listener).unwrap().in_flight, 1);
    let another = syn(&b, cookie).port(2);
    b.inject_dropped(another, tcp::DropReason::AdmissionInFlight);
    accept(&mut b);
    b.request(Request::Abort);
    assert_eq!(b.stack.listener_counts(listener).unwrap().in_flight, 0);
}
