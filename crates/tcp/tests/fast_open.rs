//! TCP Fast Open (RFC 7413), as the server sees it, and what concerns both sides.

mod common;

use common::fast_open::*;
use common::*;
use tcp::{Config, ConnOptions, Event, Failure, Request, Stack, State};
use wire::tcp::FastOpenCookie;

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
fn the_syn_ack_leaves_before_what_follows_it() {
    let (mut b, cookie) = server(4);
    let _ = b.arrive(syn(&b, cookie));
    accept(&mut b);
    b.send(100);
    b.expect("S. 0:0 ack 501");
    b.expect("P. 1:101 ack 501");
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

#[test]
fn fast_open_can_be_off() {
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
fn the_owner_hears_of_it_at_once() {
    let (mut b, cookie) = server(4);
    while b.stack.poll_event().is_some() {}
    let _ = b.arrive(b.offer.fast_open(cookie));
    let events: Vec<_> = std::iter::from_fn(|| b.stack.poll_event()).collect();
    assert!(events.contains(&Event::Acceptable(b.listener.unwrap())));
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Connection(_, update) if update.connected)),
        "{events:?}"
    );
}

#[test]
fn a_stack_has_limits_of_its_own() {
    for (max_fast_opens, max_connections) in [(1, 100), (100, 1)] {
        let config = Config {
            max_fast_opens,
            max_connections,
            ..config()
        };
        let (mut b, cookie) = server_with(config, 4);
        b.inject(syn(&b, cookie));
        b.expect("S. 0:0 ack 501");
        b.inject(syn(&b, cookie).port(2));
        let other = b.all();
        assert!(!other.contains(&"S. 0:0 ack 501".to_owned()), "{other:?}");
        assert_eq!(b.stack.counters().fast_opens_refused, 1);
    }
}

#[test]
fn a_syn_brings_no_more_than_the_window() {
    let options = ConnOptions {
        receive_buffer: 300,
        ..options(4)
    };
    let mut b = Bench::listening(config(), options);
    let cookie = ask(&mut b);
    b.inject(syn(&b, cookie));
    b.expect("S. 0:0 ack 301");
    accept(&mut b);
    assert_eq!((b.update.received, b.info().data_segments_in), (300, 1));
}

#[test]
fn only_the_same_syn_is_answered_again() {
    // Without the flag, with an acknowledgement, with another number.
    let not_it = [seg(0, 0), seg(0, 0).flags(SYN).ack(1), seg(7, 0).flags(SYN)];
    for other in not_it {
        let (mut b, _) = pending();
        b.inject(other);
        let answers = b.all();
        assert!(
            !answers.iter().any(|it| it.starts_with("S.")),
            "{answers:?}"
        );
    }
    // Nor is it one after the handshake.
    let (mut b, cookie) = pending();
    b.inject(seg(501, 0).ack(1));
    b.inject(syn(&b, cookie));
    b.expect(". 1:1 ack 501");
    b.quiet();
}

#[test]
fn the_handshake_is_the_first_round_trip_unless_its_answer_left_twice() {
    let config = Config {
        selective_acks: true,
        ..config()
    };
    let (mut b, cookie) = server_with(config, 4);
    b.inject(syn(&b, cookie).sack_permitted());
    b.expect("S. 0:0 ack 501");
    accept(&mut b);
    b.send(2200);
    b.expect(". 1:1001 ack 501");
    b.expect(". 1001:2001 ack 501");
    b.expect("P. 2001:2201 ack 501");
    b.advance(ms(20));
    b.inject(seg(501, 0).ack(1));
    assert_eq!(b.stack.counters().round_trips.count(), 1);
    assert_eq!(b.info().srtt, Some(ms(20)));
    // A tail loss probe after two round trips.
    b.advance(ms(38));
    b.quiet();
    b.advance(ms(4));
    b.expect("P. 1201:2201 ack 501");

    let config = Config {
        tail_loss_probes: false,
        ..common::fast_open::config()
    };
    let (mut b, cookie) = server_with(config, 4);
    b.inject(syn(&b, cookie));
    b.expect("S. 0:0 ack 501");
    accept(&mut b);
    b.advance(ms(1_100));
    b.expect("S. 0:0 ack 501");
    b.send(100);
    b.expect("P. 1:101 ack 501");
    b.inject(seg(501, 0).ack(1));
    assert_eq!(
        (b.stack.counters().round_trips.count(), b.info().srtt),
        (0, None)
    );
    // RFC 6298 rule 5.7.
    b.advance(ms(2_990));
    b.quiet();
    b.advance(ms(20));
    b.expect("P. 1:101 ack 501");
}
