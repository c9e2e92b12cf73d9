//! Shutting down the reading side (SHUT_RD), alone and with the other: RFC 1122 4.2.2.13, RFC 9293 3.6.1.
//! What Linux does is in the packet scripts (`closing/*shutdown*`).

mod common;

use common::*;
use tcp::{ConnOptions, DropReason, Failure, Request, RequestError, Stack, State};

fn bench() -> Bench {
    Bench::established(plain(), ConnOptions::default())
}

/// In FIN-WAIT-1, shut down both ways.
fn fin_wait_1() -> Bench {
    let mut b = bench();
    b.request(Request::ShutdownRead);
    b.request(Request::ShutdownWrite);
    b.expect("F. 1:1 ack 1");
    b
}

fn fin_wait_2() -> Bench {
    let mut b = fin_wait_1();
    b.inject(seg(1, 0).ack(2));
    assert_eq!(b.info().state, State::FinWait2);
    b
}

/// `s` resets the connection, whose owner keeps what it has.
fn resets(mut b: Bench, s: Seg, rst: &str) {
    let received = b.update.received;
    b.inject_dropped(s, DropReason::DataAfterClose);
    b.expect(rst);
    b.quiet();
    assert_eq!(b.update.failed, Some(Failure::Reset));
    assert_eq!((b.update.received, b.update.peer_closed), (received, false));
    assert_eq!((b.stack.flow_count(), b.stack.time_wait_count()), (0, 0));
    assert!(b.released.is_empty(), "the owner has it still");
    let conn = b.conn.unwrap();
    for request in [Request::ShutdownRead, Request::ShutdownWrite] {
        let refused = b.stack.on_request(b.now, conn, request);
        assert_eq!(refused, Err(RequestError::Failed));
    }
    b.advance(secs(1000));
    b.quiet();
    b.request(Request::Close);
    assert_eq!(b.released.len(), 1);
    b.quiet();
}

#[test]
fn data_that_nobody_will_read_resets() {
    resets(fin_wait_2(), seg(1, 10).ack(2), "R. 2:2 ack 1");
    // Whether our FIN has arrived or not, with this segment or before it.
    resets(fin_wait_1(), seg(1, 10).ack(1), "R. 1:1 ack 1");
    resets(fin_wait_1(), seg(1, 10).ack(2), "R. 2:2 ack 1");
    // After a hole, with a FIN, and where only a part of it is new.
    resets(fin_wait_2(), seg(100, 10).ack(2), "R. 2:2 ack 1");
    resets(fin_wait_2(), seg(1, 10).ack(2).flags(FIN), "R. 2:2 ack 1");
    resets(fin_wait_2(), seg(-9, 11).ack(2), "R. 2:2 ack 1");
    // A FIN after a hole says that there is some.
    resets(fin_wait_2(), seg(2, 0).ack(2).flags(FIN), "R. 2:2 ack 1");
}

#[test]
fn the_order_of_the_two_makes_no_difference() {
    let mut b = bench();
    b.request(Request::ShutdownWrite);
    b.expect("F. 1:1 ack 1");
    b.inject(seg(1, 10).ack(2));
    b.discard();
    assert_eq!((b.update.received, b.update.failed), (10, None));
    b.request(Request::ShutdownRead);
    // What was received before is the owner's.
    b.request(Request::Consumed(4));
    b.discard();
    resets(b, seg(11, 10).ack(2), "R. 2:2 ack 11");
}

#[test]
fn what_fills_a_hole_resets() {
    let mut b = bench();
    b.inject(seg(101, 100).ack(1).flags(FIN));
    b.request(Request::ShutdownRead);
    b.request(Request::ShutdownWrite);
    b.discard();
    resets(b, seg(1, 100).ack(2), "R. 2:2 ack 1");
}

#[test]
fn a_fin_that_waits_for_the_window_is_no_excuse() {
    let mut b = bench();
    b.inject(seg(1, 0).ack(1).window(0));
    b.send(10);
    b.request(Request::ShutdownRead);
    b.request(Request::ShutdownWrite);
    assert_eq!(b.info().state, State::FinWait1);
    b.quiet();
    resets(b, seg(1, 1).ack(1).window(0), "R. 1:1 ack 1");
}

#[test]
fn data_is_taken_while_we_may_still_send() {
    let mut b = bench();
    b.request(Request::ShutdownRead);
    b.quiet();
    b.inject(seg(1, 2000).ack(1));
    b.expect(". 1:1 ack 2001");
    assert_eq!((b.update.received, b.update.failed), (2000, None));
    b.send(10);
    b.expect("P. 1:11 ack 2001");
    // And what was on its way when the peer closed, too.
    b.inject(seg(2001, 5).ack(11).flags(FIN));
    b.expect(". 11:11 ack 2007");
    assert_eq!((b.update.received, b.update.peer_closed), (2005, true));
    assert_eq!(b.info().state, State::CloseWait);
}

#[test]
fn what_brings_nothing_new_is_acknowledged() {
    let mut b = fin_wait_2();
    // Keep-alive probes, without a byte and with an old one.
    b.inject(seg(0, 0).ack(2));
    b.expect(". 2:2 ack 1");
    b.inject_dropped(seg(0, 1).ack(2), DropReason::OldDuplicate);
    b.expect(". 2:2 ack 1");
    // What the window is closed for.
    b.inject_dropped(seg(70_000, 10).ack(2), DropReason::BeyondWindow);
    b.expect(". 2:2 ack 1");
    // The peer ends in peace.
    b.inject(seg(1, 0).ack(2).flags(FIN));
    b.expect(". 2:2 ack 2");
    assert_eq!((b.update.peer_closed, b.update.failed), (true, None));
    assert_eq!(b.stack.time_wait_count(), 1);
}

#[test]
fn beyond_the_peers_fin_there_is_nothing() {
    let mut b = bench();
    b.request(Request::ShutdownRead);
    b.inject(seg(1, 0).ack(1).flags(FIN));
    b.discard();
    b.inject_dropped(seg(2, 10).ack(1), DropReason::DataAfterFin);
    b.discard();
    b.request(Request::ShutdownWrite);
    b.discard();
    assert_eq!(b.info().state, State::LastAck);
    b.inject_dropped(seg(2, 10).ack(1), DropReason::DataAfterFin);
    assert_eq!(b.update.failed, None);
    b.discard();
    // The same where both close at once.
    let mut b = fin_wait_1();
    b.inject(seg(1, 0).ack(1).flags(FIN));
    b.discard();
    assert_eq!(b.info().state, State::Closing);
    b.inject_dropped(seg(2, 10).ack(1), DropReason::DataAfterFin);
    assert_eq!(b.update.failed, None);
}

#[test]
fn a_window_that_is_closed_keeps_the_connection() {
    let options = ConnOptions {
        receive_buffer: 1000,
        ..ConnOptions::default()
    };
    let mut b = Bench::established(plain(), options);
    b.inject(seg(1, 1000).ack(1));
    b.request(Request::ShutdownRead);
    b.request(Request::ShutdownWrite);
    b.discard();
    assert_eq!(b.info().receive_window, 0);
    b.inject_dropped(seg(1001, 1).ack(2), DropReason::BeyondWindow);
    b.expect(". 2:2 ack 1001");
    assert_eq!((b.update.received, b.update.failed), (1000, None));
}

#[test]
fn it_moves_with_the_connection() {
    let mut b = fin_wait_2();
    let value = b.stack.export(b.now, b.conn.unwrap()).unwrap();
    assert!(value.receive.shutdown);
    b.stack = Stack::new(plain(), [1; 32]);
    b.conn = Some(b.stack.import(b.now, &value).unwrap());
    assert_eq!(b.stack.export(b.now, b.conn.unwrap()), Ok(value.clone()));
    b.conn = Some(b.stack.import(b.now, &value).unwrap());
    b.turn();
    b.discard();
    resets(b, seg(1, 10).ack(2), "R. 2:2 ack 1");
    let mut b = bench();
    let value = b.stack.export(b.now, b.conn.unwrap()).unwrap();
    assert!(!value.receive.shutdown);
}
