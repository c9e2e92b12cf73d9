//! Limits that a listener's program has set: whom a SYN is refused, and what counts.

mod common;

use common::*;
use tcp::{Admission, AdmissionLimit, AdmissionPolicy, Config, ConnOptions, DropReason, Request};

fn limited(config: Config, policy: AdmissionPolicy) -> Bench {
    let mut b = Bench::listening(config, ConnOptions::default());
    let listener = b.listener.unwrap();
    let admission = Admission::new(policy, [9; 16]);
    assert!(
        b.stack
            .set_admission(listener, Some(Box::new(admission)))
            .is_none()
    );
    b
}

fn policy(all: AdmissionLimit, each: AdmissionLimit) -> AdmissionPolicy {
    AdmissionPolicy {
        all,
        each,
        bits_v4: 32,
        bits_v6: 64,
        reset: false,
    }
}

fn most(in_flight: u32) -> AdmissionLimit {
    AdmissionLimit {
        in_flight,
        ..AdmissionLimit::default()
    }
}

fn rate(per_second: u32, burst: u32) -> AdmissionLimit {
    AdmissionLimit {
        per_second,
        burst,
        in_flight: 0,
    }
}

const NONE: AdmissionLimit = AdmissionLimit {
    per_second: 0,
    burst: 0,
    in_flight: 0,
};

fn in_flight(b: &Bench) -> u32 {
    b.stack
        .listener_counts(b.listener.unwrap())
        .unwrap()
        .in_flight
}

fn refused(b: &Bench, reason: DropReason) -> u64 {
    let counts = b.stack.listener_counts(b.listener.unwrap()).unwrap();
    let mut drops = counts.drops();
    drops.find(|(why, _)| *why == reason).unwrap().1
}

#[test]
fn a_listener_has_no_more_connections_than_its_program_lets_it() {
    let mut b = limited(plain(), policy(most(2), NONE));
    for port in [1, 2] {
        b.offer = b.offer.port(port);
        b.handshake();
    }
    assert_eq!(in_flight(&b), 2);
    b.inject_dropped(b.offer.port(3), DropReason::AdmissionInFlight);
    b.quiet();
    assert_eq!(refused(&b, DropReason::AdmissionInFlight), 1);
    assert_eq!(b.stack.half_open_count(), 0, "nothing is remembered of it");
    // The program closes; it counts until the peer has closed, too.
    b.request(Request::Close);
    b.expect("F. 1:1 ack 1");
    b.inject_dropped(b.offer.port(3), DropReason::AdmissionInFlight);
    b.inject(seg(1, 0).flags(FIN).ack(2).port(2));
    assert_eq!(in_flight(&b), 1);
    b.discard();
    b.offer = b.offer.port(3);
    b.handshake();
    assert_eq!(in_flight(&b), 2);
    // One that is reset makes room at once.
    b.inject(seg(1, 0).flags(RST).port(3));
    assert_eq!(in_flight(&b), 1);
}

#[test]
fn handshakes_under_way_do_not_pass_the_limit() {
    let mut b = limited(plain(), policy(most(1), NONE));
    b.inject(b.offer.port(1));
    let first = b.expect("S. 0:0 ack 1").raw.seq;
    b.inject(b.offer.port(2));
    b.expect("S. 0:0 ack 1");
    b.inject(seg(1, 0).ack(1).port(2));
    assert_eq!(in_flight(&b), 1);
    b.iss = Some(first);
    b.inject_dropped(seg(1, 0).ack(1).port(1), DropReason::AdmissionInFlight);
    // It is completed when there is room.
    b.conn = b.stack.accept(b.listener.unwrap());
    b.request(Request::Abort);
    assert_eq!(in_flight(&b), 0);
    b.discard();
    b.inject(seg(1, 0).ack(1).port(1));
    assert_eq!(in_flight(&b), 1);
}

#[test]
fn forged_syns_use_up_nobodys_share() {
    let mut b = limited(plain(), policy(rate(1, 2), NONE));
    for port in 1..=8 {
        b.inject(b.offer.port(port));
        b.expect("S. 0:0 ack 1");
    }
    for port in [11, 12] {
        b.offer = b.offer.port(port);
        b.handshake();
    }
    b.inject_dropped(b.offer.port(13), DropReason::AdmissionRate);
    b.advance(ms(999));
    b.discard();
    b.inject_dropped(b.offer.port(13), DropReason::AdmissionRate);
    b.advance(ms(1));
    b.discard();
    b.inject(b.offer.port(13));
    b.expect("S. 0:0 ack 1");
    assert_eq!(refused(&b, DropReason::AdmissionRate), 2);
}

#[test]
fn a_prefix_that_has_its_share_leaves_others_theirs() {
    let mut b = limited(plain(), policy(NONE, most(1)));
    b.offer = b.offer.port(1);
    b.handshake();
    b.inject_dropped(b.offer.port(2), DropReason::AdmissionPrefix);
    b.peer = "198.51.100.8".parse().unwrap();
    b.offer = b.offer.port(2);
    b.handshake();
    assert_eq!(refused(&b, DropReason::AdmissionPrefix), 1);
}

#[test]
fn a_cookie_keeps_to_the_limits() {
    let config = Config {
        max_half_open: 1,
        ..Config::default()
    };
    let mut b = limited(config, policy(most(1), NONE));
    b.inject(b.offer.port(1));
    b.expect("S. 0:0 ack 1");
    b.offer = b.offer.port(2);
    b.handshake();
    assert_eq!(b.stack.counters().cookies_accepted, 1);
    assert_eq!(in_flight(&b), 1);
    b.inject_dropped(b.offer.port(3), DropReason::AdmissionInFlight);
    b.quiet();
}

#[test]
fn who_is_refused_can_be_told() {
    let mut b = limited(
        plain(),
        AdmissionPolicy {
            reset: true,
            ..policy(most(1), NONE)
        },
    );
    b.offer = b.offer.port(1);
    b.handshake();
    b.inject_dropped(b.offer.port(2), DropReason::AdmissionInFlight);
    assert!(b.next().unwrap().has(RST));
}

#[test]
fn limits_that_are_changed_count_anew() {
    let mut b = limited(plain(), policy(most(1), NONE));
    b.offer = b.offer.port(1);
    b.handshake();
    let listener = b.listener.unwrap();
    let again = Admission::new(policy(most(1), NONE), [8; 16]);
    assert!(
        b.stack
            .set_admission(listener, Some(Box::new(again)))
            .is_some()
    );
    assert_eq!(in_flight(&b), 0);
    // The end of one that counted before is not missing now.
    b.request(Request::Abort);
    b.discard();
    assert_eq!(in_flight(&b), 0);
    b.offer = b.offer.port(2);
    b.handshake();
    b.inject_dropped(b.offer.port(3), DropReason::AdmissionInFlight);
    assert!(b.stack.set_admission(listener, None).is_some());
    b.offer = b.offer.port(3);
    b.handshake();
    assert_eq!(in_flight(&b), 0);
}

#[test]
fn an_exported_connection_no_longer_counts() {
    let mut b = limited(plain(), policy(most(1), NONE));
    b.handshake();
    assert!(b.stack.export(b.now, b.conn.unwrap()).is_ok());
    assert_eq!(in_flight(&b), 0);
    b.turn();
    b.stack.unlisten(b.now, b.listener.unwrap());
    assert!(b.stack.set_admission(b.listener.unwrap(), None).is_none());
}
