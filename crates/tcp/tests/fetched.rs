//! Payload that the owner has to fetch before it can leave ([`tcp::FrameSink::awaits_payload`]).

mod common;

use common::*;
use tcp::{ConnOptions, Failure, Request, State};

fn bench() -> Bench {
    Bench::established(plain(), ConnOptions::default())
}

/// What was to be fetched is there, and what follows need not be fetched.
fn there(b: &mut Bench) {
    b.sink.away = false;
    b.stack.payload_is_there(b.conn.expect("established"));
    b.turn();
}

#[test]
fn payload_that_is_fetched_holds_up_nothing_else() {
    let mut b = bench();
    b.send(2500);
    assert_eq!(b.all().len(), 3);
    b.sink.away = true;
    b.send(5000);
    b.quiet();
    // It waits for its owner, and not for its turn.
    assert!(!b.stack.wants_transmit());
    // What has no payload leaves all the same.
    b.inject(seg(1, 1000).ack(2501));
    assert_eq!(b.all(), [". 2501:2501 ack 1001"]);
    b.stack.audit().expect("a timer runs");
    b.sink.away = false;
    b.turn();
    b.quiet();
    there(&mut b);
    assert_eq!(b.all().len(), 5);
    b.inject(seg(1001, 0).ack(7501));
    b.quiet();
    b.stack.audit().expect("nothing is left");
}

#[test]
fn what_is_sent_again_may_have_to_be_fetched_again() {
    let mut b = bench();
    b.send(1000);
    b.expect("P. 1:1001 ack 1");
    b.sink.away = true;
    // The timers run, and find nothing that they could send.
    b.advance(secs(5));
    b.quiet();
    b.stack.audit().expect("a timer runs");
    there(&mut b);
    b.expect("P. 1:1001 ack 1");
}

/// Nothing was sent, so the peer owes no answer: however long the owner takes, the connection stays, and
/// what leaves at last has the retransmission timeout of what leaves at once.
#[test]
fn what_was_not_sent_is_not_unanswered() {
    let mut b = bench();
    b.sink.away = true;
    b.send(1000);
    b.advance(secs(7200));
    b.quiet();
    let info = b.info();
    assert_eq!(
        (b.update.failed, info.unanswered, info.backoff),
        (None, 0, 0)
    );
    there(&mut b);
    b.expect("P. 1:1001 ack 1");
    b.advance(info.rto + ms(2));
    b.expect("P. 1:1001 ack 1");
    // Then it counts.
    b.advance(secs(7200));
    assert_eq!(b.update.failed, Some(Failure::TimedOut));
}

#[test]
fn an_orphan_waits_for_its_payload_as_well() {
    let mut b = bench();
    b.sink.away = true;
    b.send(1000);
    b.request(Request::Close);
    b.advance(secs(600));
    b.quiet();
    assert_eq!(b.stack.counters().orphans_killed, 0);
    there(&mut b);
    b.expect("FP. 1:1001 ack 1");
    // And is held no longer than others once that has left.
    b.advance(secs(600));
    assert_eq!(b.released.len(), 1);
    assert_eq!(b.stack.counters().orphans_killed, 1);
}

/// The word that it is there may get lost with whoever was to bring it.
#[test]
fn payload_is_asked_for_again() {
    let mut b = bench();
    b.sink.away = true;
    b.send(1000);
    b.advance(secs(10));
    b.sink.away = false;
    b.advance(secs(10));
    assert_eq!(b.all()[0], "P. 1:1001 ack 1");
}

#[test]
fn a_retransmission_that_is_being_fetched_is_not_unanswered() {
    let mut b = bench();
    b.send(1000);
    b.expect("P. 1:1001 ack 1");
    b.sink.away = true;
    b.advance(secs(7200));
    b.quiet();
    // What was sent once is.
    assert_eq!((b.update.failed, b.info().unanswered), (None, 1));
    there(&mut b);
    b.expect("P. 1:1001 ack 1");
    b.inject(seg(1, 0).ack(1001));
    assert_eq!(b.info().unanswered, 0);
}

/// A zero-window probe carries nothing that would have to be fetched.
#[test]
fn a_closed_window_is_probed_while_payload_is_fetched() {
    let mut b = bench();
    b.sink.away = true;
    b.send(1000);
    b.inject(seg(1, 0).ack(1).window(0));
    b.advance(secs(7200));
    assert!(b.all().len() > 10);
    assert_eq!(b.update.failed, Some(Failure::TimedOut));
}

/// Neither retransmissions nor zero-window probes find out meanwhile whether the peer is alive.
#[test]
fn keepalive_probes_the_peer_while_payload_is_fetched() {
    let mut b = kept_alive();
    b.sink.away = true;
    b.send(1000);
    b.advance(secs(85));
    assert_eq!(b.all(), [". 0:0 ack 1"; 3]);
    b.advance(secs(6));
    assert_eq!(b.update.failed, Some(Failure::TimedOut));
    assert_eq!(b.info().state, State::Closed);
}
