//! Every way in which a connection ends: RFC 9293 3.6, TIME-WAIT, orphans, aborts.

mod common;

use common::*;
use tcp::{Config, ConnOption, ConnOptions, DropReason, Failure, Request, RequestError, State};

fn bench() -> Bench {
    Bench::established(plain(), ConnOptions::default())
}

//~ RFC 9293 MUST-13
#[test]
fn we_close_first() {
    // RFC 9293 figure 12.
    let mut b = bench();
    b.request(Request::Close);
    b.expect("F. 1:1 ack 1");
    b.inject(seg(1, 0).ack(2));
    assert_eq!(b.info().state, State::FinWait2);
    b.inject(seg(1, 0).ack(2).flags(FIN));
    b.expect(". 2:2 ack 2");
    assert_eq!(b.released.len(), 1);
    assert_eq!(
        (b.stack.connection_count(), b.stack.time_wait_count()),
        (0, 1)
    );
    b.advance(secs(59));
    assert_eq!(b.stack.time_wait_count(), 1);
    b.advance(secs(2));
    assert_eq!((b.stack.time_wait_count(), b.stack.flow_count()), (0, 0));
}

#[test]
fn fin_and_ack_in_one() {
    let mut b = bench();
    b.request(Request::Close);
    b.expect("F. 1:1 ack 1");
    b.inject(seg(1, 0).ack(2).flags(FIN));
    b.expect(". 2:2 ack 2");
    assert_eq!(b.stack.time_wait_count(), 1);
}

#[test]
fn the_peer_closes_first() {
    let mut b = bench();
    b.inject(seg(1, 0).ack(1).flags(FIN));
    b.expect(". 1:1 ack 2");
    assert!(b.update.peer_closed);
    assert_eq!(b.info().state, State::CloseWait);
    b.send(10);
    b.expect("P. 1:11 ack 2");
    b.request(Request::Close);
    b.expect("F. 11:11 ack 2");
    assert_eq!(b.info().state, State::LastAck);
    b.inject(seg(2, 0).ack(12));
    assert_eq!(b.released.len(), 1);
    assert_eq!((b.stack.time_wait_count(), b.stack.flow_count()), (0, 0));
    b.quiet();
}

#[test]
fn both_close_at_once() {
    // RFC 9293 figure 13.
    let mut b = bench();
    b.request(Request::Close);
    b.expect("F. 1:1 ack 1");
    b.inject(seg(1, 0).ack(1).flags(FIN));
    b.expect(". 2:2 ack 2");
    assert_eq!(b.info().state, State::Closing);
    b.inject(seg(2, 0).ack(2));
    assert_eq!(b.stack.time_wait_count(), 1);
    assert_eq!(b.released.len(), 1);
}

//~ RFC 9293 §3.10.6
#[test]
fn a_half_closed_connection_goes_on_receiving() {
    let mut b = bench();
    b.request(Request::ShutdownWrite);
    b.expect("F. 1:1 ack 1");
    b.inject(seg(1, 0).ack(2));
    b.inject(seg(1, 2000).ack(2));
    b.expect(". 2:2 ack 2001");
    b.request(Request::Consumed(2000));
    // However long it takes: the owner is still there.
    b.advance(secs(600));
    b.inject(seg(2001, 5).ack(2).flags(FIN));
    b.expect(". 2:2 ack 2007");
    assert_eq!((b.update.received, b.update.peer_closed), (2005, true));
    // The pair waits, the owner can still read, and lets go when it likes.
    assert_eq!(b.stack.time_wait_count(), 1);
    assert_eq!(b.info().receive_queue, 5);
    assert!(b.released.is_empty());
    b.request(Request::Close);
    assert_eq!(b.released.len(), 1);
    b.quiet();
}

//~ RFC 9293 §3.10.4
#[test]
fn fin_follows_what_is_pending() {
    let mut b = bench();
    b.inject(seg(1, 0).ack(1).window(1000));
    b.send(1500);
    b.request(Request::Close);
    assert_eq!(b.all(), [". 1:1001 ack 1"]);
    b.inject(seg(1, 0).ack(1001).window(1000));
    b.expect("FP. 1001:1501 ack 1");
    b.inject(seg(1, 0).ack(1502));
    assert_eq!(
        b.update.acked, 1500,
        "an orphan's owner learns what to free"
    );
}

#[test]
fn fin_is_retransmitted_with_its_data() {
    let mut b = bench();
    b.send(10);
    b.request(Request::ShutdownWrite);
    assert_eq!(b.all(), ["P. 1:11 ack 1", "F. 11:11 ack 1"]);
    b.advance(ms(250));
    b.expect("FP. 1:11 ack 1");
    // The back-off stays until a round trip can be measured.
    b.inject(seg(1, 0).ack(11));
    b.advance(ms(399));
    b.quiet();
    b.advance(ms(2));
    b.expect("F. 11:11 ack 1");
    b.inject(seg(1, 0).ack(12));
    b.advance(secs(5));
    b.quiet();
}

#[test]
fn a_fin_out_of_order_waits_for_its_turn() {
    let mut b = bench();
    b.inject(seg(101, 100).ack(1).flags(FIN));
    b.expect(". 1:1 ack 1");
    assert!(!b.update.peer_closed);
    b.inject(seg(1, 100).ack(1));
    b.expect(". 1:1 ack 202");
    assert_eq!((b.update.received, b.update.peer_closed), (200, true));
    // Nothing is received beyond it.
    b.inject_dropped(seg(202, 10).ack(1), DropReason::DataAfterFin);
    assert_eq!(b.update.received, 200);
}

#[test]
fn a_stream_ends_where_its_first_fin_said() {
    let mut b = bench();
    b.inject(seg(101, 100).ack(1).flags(FIN));
    // Neither earlier nor later.
    b.inject(seg(51, 50).ack(1).flags(FIN));
    b.inject(seg(201, 50).ack(1).flags(FIN));
    b.inject(seg(1, 50).ack(1));
    assert_eq!((b.update.received, b.update.peer_closed), (200, true));
    // Nor before what is there already.
    let mut b = bench();
    b.inject(seg(101, 100).ack(1));
    b.inject(seg(51, 50).ack(1).flags(FIN));
    b.inject(seg(1, 50).ack(1));
    assert_eq!((b.update.received, b.update.peer_closed), (200, false));
    // And the stream goes on.
    b.inject(seg(201, 100).ack(1));
    assert_eq!(b.update.received, 300);
}

#[test]
fn closing_with_unread_data_resets() {
    let mut b = bench();
    b.inject(seg(1, 10).ack(1));
    b.request(Request::Close);
    b.expect("R. 1:1 ack 11");
    assert_eq!(b.released.len(), 1);
    assert_eq!(b.stack.flow_count(), 0);
}

#[test]
fn data_for_an_orphan_resets() {
    let mut b = bench();
    b.request(Request::Close);
    b.expect("F. 1:1 ack 1");
    b.inject_dropped(seg(1, 10).ack(2), DropReason::DataAfterClose);
    b.expect("R. 2:2 ack 1");
    assert_eq!(b.released.len(), 1);
}

//~ RFC 9293 §3.10.5
#[test]
fn abort_resets_and_forgets() {
    let mut b = bench();
    b.inject(seg(1, 0).ack(1).window(0));
    b.send(500);
    b.request(Request::Abort);
    b.expect("R. 1:1 ack 1");
    assert_eq!(b.released.len(), 1);
    let again = b.stack.on_request(b.now, b.conn.unwrap(), Request::Close);
    assert_eq!(again, Err(RequestError::UnknownConnection));
    b.advance(secs(300));
    b.quiet();
}

#[test]
fn every_abort_finds_room_in_the_end() {
    let config = Config {
        max_control_segments: 1,
        ..plain()
    };
    let mut b = Bench::listening(config, ConnOptions::default());
    let mut conns = Vec::new();
    for port in 1..=20 {
        b.offer = b.offer.port(port);
        b.handshake();
        conns.push(b.conn.unwrap());
    }
    b.sink.room = 0;
    for conn in conns {
        b.stack.on_request(b.now, conn, Request::Abort).unwrap();
    }
    b.turn();
    assert!(b.released.is_empty());
    b.sink.room = 100;
    b.turn();
    assert_eq!((b.all().len(), b.released.len()), (20, 20));
}

#[test]
fn closing_before_the_handshake_is_done() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.turn();
    b.expect("S 0:0");
    b.request(Request::Close);
    assert_eq!(b.released.len(), 1);
    b.quiet();
    // Shutting down only: FIN follows the handshake.
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.turn();
    b.expect("S 0:0");
    b.request(Request::ShutdownWrite);
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000));
    b.expect("F. 1:1 ack 1");
    assert_eq!(b.info().state, State::FinWait1);
}

#[test]
fn orphans_that_end_by_force_are_counted() {
    // By time in FIN-WAIT-2, by the peer's RST, by silence.
    let mut b = bench();
    b.request(Request::Close);
    b.inject(seg(1, 0).ack(2));
    b.advance(secs(61));
    assert_eq!(b.stack.counters().orphans_killed, 1);
    let mut b = bench();
    b.request(Request::Close);
    b.inject(seg(1, 0).flags(RST));
    assert_eq!(b.stack.counters().orphans_killed, 1);
    let mut b = bench();
    b.request(Request::Close);
    b.advance(secs(1000));
    assert_eq!(b.stack.counters().orphans_killed, 1);
    assert_eq!(b.released.len(), 1);
}

#[test]
fn an_orphan_does_not_wait_for_ever_in_fin_wait_2() {
    let mut b = bench();
    b.request(Request::SetOption(ConnOption::FinWait2Timeout(secs(5))));
    b.request(Request::Close);
    b.inject(seg(1, 0).ack(2));
    b.discard();
    b.advance(secs(4));
    assert!(b.released.is_empty());
    b.advance(secs(2));
    assert_eq!(b.released.len(), 1);
    // What comes later meets nobody.
    b.inject_dropped(seg(1, 0).ack(2).flags(FIN), DropReason::NoListener);
}

#[test]
fn an_orphan_gives_up_earlier() {
    let mut b = bench();
    b.send(10);
    b.request(Request::Close);
    b.advance(secs(3600));
    assert_eq!(b.released.len(), 1);
    // The first transmissions, then eight timeouts.
    assert_eq!(b.all().len(), 2 + 8);
    // Not even answers keep one alive whose peer takes nothing.
    let mut b = bench();
    b.inject(seg(1, 0).ack(1).window(0));
    b.send(10);
    b.request(Request::Close);
    for _ in 0..600 {
        b.advance(secs(1));
        b.inject(seg(1, 0).ack(1).window(0));
    }
    assert_eq!(b.released.len(), 1);
}

#[test]
fn orphans_are_bounded() {
    let config = Config {
        max_orphans: 1,
        ..plain()
    };
    let mut b = Bench::established(config, ConnOptions::default());
    b.request(Request::Close);
    b.expect("F. 1:1 ack 1");
    b.offer = b.offer.port(2);
    b.handshake();
    b.request(Request::Close);
    b.expect("R. 1:1 ack 1");
    assert_eq!(b.stack.counters().orphans_killed, 1);
    // The first one goes, another may come.
    b.offer = b.offer.port(40_000);
    b.inject(seg(1, 0).flags(RST).ack(2));
    b.offer = b.offer.port(3);
    b.handshake();
    b.request(Request::Close);
    b.expect("F. 1:1 ack 1");
}

#[test]
fn a_reset_is_told_and_the_name_stays_until_closed() {
    let mut b = bench();
    b.send(100);
    b.discard();
    b.inject(seg(1, 0).flags(RST));
    assert_eq!(b.update.failed, Some(Failure::Reset));
    assert_eq!(b.stack.flow_count(), 0);
    let extent = tcp::Extent { addr: 0, len: 1 };
    let send = Request::Send {
        extent,
        more: false,
    };
    let conn = b.conn.unwrap();
    assert_eq!(
        b.stack.on_request(b.now, conn, send),
        Err(RequestError::Failed)
    );
    assert_eq!(
        b.stack.on_request(b.now, conn, Request::ShutdownWrite),
        Err(RequestError::Failed)
    );
    assert!(b.released.is_empty());
    b.request(Request::Close);
    assert_eq!(b.released, [conn]);
    b.quiet();
}

#[test]
fn nothing_follows_close() {
    let mut b = bench();
    b.request(Request::Close);
    let conn = b.conn.unwrap();
    for request in [Request::Close, Request::Abort, Request::ShutdownWrite] {
        let result = b.stack.on_request(b.now, conn, request);
        assert_eq!(result, Err(RequestError::AfterClose));
    }
}

fn in_time_wait(config: Config, offer: Seg) -> Bench {
    let mut b = Bench::listening(config, ConnOptions::default());
    b.offer = offer;
    b.handshake();
    b.request(Request::Close);
    let mut fin = seg(1, 0).ack(2).flags(FIN).port(offer.src_port);
    fin.options.timestamps = offer.options.timestamps;
    b.inject(fin);
    b.discard();
    assert_eq!(b.stack.time_wait_count(), 1);
    b
}

fn offer() -> Seg {
    seg(0, 0).flags(SYN).mss(1000)
}

#[test]
fn time_wait_answers_a_repeated_fin_and_waits_anew() {
    let mut b = in_time_wait(plain(), offer());
    b.advance(secs(50));
    b.inject_dropped(seg(1, 0).ack(2).flags(FIN), DropReason::TimeWait);
    b.expect(". 2:2 ack 2");
    b.advance(secs(50));
    assert_eq!(b.stack.time_wait_count(), 1);
    // Neither RST (RFC 1337) nor an ACK disturbs it.
    b.inject_dropped(seg(2, 0).flags(RST), DropReason::TimeWait);
    b.inject_dropped(seg(2, 0).ack(2), DropReason::TimeWait);
    b.quiet();
    assert_eq!(b.stack.time_wait_count(), 1);
    b.advance(secs(11));
    assert_eq!(b.stack.time_wait_count(), 0);
}

#[test]
fn time_wait_is_taken_over_by_a_later_syn() {
    // By sequence number (RFC 1122 4.2.2.13).
    let mut b = in_time_wait(plain(), offer());
    let old = b.iss.unwrap();
    b.inject_dropped(seg(1, 0).flags(SYN), DropReason::TimeWait);
    b.expect(". 2:2 ack 2");
    b.inject(seg(50_000, 0).flags(SYN).mss(1000));
    let syn_ack = b.next().unwrap();
    assert!(syn_ack.has(SYN));
    assert_eq!(syn_ack.ack, Some(50_001));
    assert!(syn_ack.raw.seq.distance_from(old) > 65_535);
    assert_eq!(b.stack.time_wait_count(), 0);
    assert_eq!(b.stack.counters().time_wait_reused, 1);
}

//~ RFC 6191 §2
#[test]
fn time_wait_is_taken_over_by_a_later_timestamp() {
    // RFC 6191.
    let mut b = in_time_wait(Config::default(), offer().ts(1000, 0));
    b.inject_dropped(seg(-9000, 0).flags(SYN).ts(1000, 0), DropReason::TimeWait);
    b.discard();
    b.inject(seg(-9000, 0).flags(SYN).mss(1000).ts(1001, 0));
    assert!(b.next().unwrap().has(SYN));
}

#[test]
fn time_wait_is_bounded_and_the_oldest_makes_room() {
    let config = Config {
        max_time_wait: 2,
        ..plain()
    };
    let mut b = Bench::listening(config, ConnOptions::default());
    for port in 1..=5 {
        b.offer = offer().port(port);
        b.handshake();
        b.request(Request::Close);
        b.inject(seg(1, 0).ack(2).flags(FIN).port(port));
        b.discard();
    }
    assert_eq!(b.stack.time_wait_count(), 2);
    assert_eq!(b.stack.flow_count(), 2);
    assert_eq!(b.stack.counters().time_wait_recycled, 3);
}

#[test]
fn a_pair_in_time_wait_can_be_opened_again_by_us() {
    let mut b = Bench::new(Config::default());
    b.connect(ConnOptions::default());
    b.turn();
    b.expect("S 0:0");
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000).ts(5, 1));
    b.discard();
    b.request(Request::Close);
    b.inject(seg(1, 0).ack(2).flags(FIN).ts(5, 1));
    b.discard();
    let remote = std::net::SocketAddr::new(b.peer, 40_000);
    let options = ConnOptions::default();
    assert!(b.stack.connect(b.now, b.local, remote, &options).is_err());
    b.advance(secs(1));
    assert!(b.stack.connect(b.now, b.local, remote, &options).is_ok());
    assert_eq!(b.stack.time_wait_count(), 0);
}

#[test]
fn ports_are_reused_at_once_by_a_client_that_hurries() {
    // One client, few ports, a server that closes first: each port comes back while its pair is
    // still in TIME-WAIT.
    let mut b = Bench::listening(Config::default(), ConnOptions::default());
    let mut base: i64 = 0;
    for round in 0..200u32 {
        let port = 1 + (round % 4) as u16;
        let ts = 1000 + round;
        b.iss = None;
        let at = |n: i64| seg(base + n, 0).port(port).ts(ts, 0);
        b.inject(at(0).flags(SYN).mss(1000));
        let syn_ack = b.next().unwrap();
        assert!(syn_ack.has(SYN), "round {round}: {}", syn_ack.brief());
        b.inject(at(1).ack(1));
        b.conn = b.stack.accept(b.listener.unwrap());
        b.request(Request::Close);
        b.inject(at(1).ack(2).flags(FIN));
        b.discard();
        b.now += ms(1);
        base += 1000;
    }
    assert_eq!(b.stack.time_wait_count(), 4);
    assert_eq!(b.stack.counters().time_wait_reused, 196);
    assert_eq!(b.released.len(), 200);
}

/// A RST that lies beyond what the peer offers is not believed.
//~ RFC 5961 §3.2
#[test]
fn a_reset_is_numbered_as_the_peer_expects_it() {
    // The peer's window has shrunk below what was sent.
    let mut b = bench();
    b.send(5000);
    b.discard();
    b.inject(seg(1, 0).ack(1).window(1000));
    b.discard();
    b.request(Request::Abort);
    b.expect("R. 1001:1001 ack 1");
    // What was sent before has not arrived when data comes that nobody will read.
    let mut b = bench();
    b.send(100);
    b.request(Request::Close);
    b.discard();
    b.inject_dropped(seg(1, 10).ack(1), DropReason::DataAfterClose);
    b.expect("R. 1:1 ack 1");
    assert_eq!(b.released.len(), 1);
}

//~ RFC 6191 §2
#[test]
fn time_wait_is_not_taken_over_by_an_older_timestamp() {
    let config = Config {
        timestamps: true,
        ..plain()
    };
    let mut b = in_time_wait(config, offer().ts(1000, 0));
    // A higher number does not make it younger.
    let syn = seg(50_000, 0).flags(SYN).mss(1000);
    b.inject_dropped(syn.ts(999, 0), DropReason::TimeWait);
    b.discard();
    // Within a tick of the peer's clock it does.
    b.inject_dropped(seg(-9000, 0).flags(SYN).ts(1000, 0), DropReason::TimeWait);
    b.inject(syn.ts(1000, 0));
    assert!(b.next().unwrap().has(SYN));
}

#[test]
fn a_syn_ack_takes_no_pair_over() {
    let mut b = in_time_wait(plain(), offer());
    let syn_ack = seg(50_000, 0).flags(SYN).ack(2).mss(1000);
    b.inject_dropped(syn_ack, DropReason::TimeWait);
    b.expect(". 2:2 ack 2");
    assert_eq!(b.stack.time_wait_count(), 1);
}

/// What is not of a pair in TIME-WAIT is answered, but not every time.
//~ RFC 5961 §7
#[test]
fn a_pair_in_time_wait_is_answered_twice_a_second() {
    let mut b = in_time_wait(plain(), offer());
    for _ in 0..10 {
        b.inject_dropped(seg(1, 0).flags(SYN), DropReason::TimeWait);
    }
    assert_eq!(b.all(), [". 2:2 ack 2"]);
    b.advance(ms(500));
    b.inject_dropped(seg(1, 0).flags(SYN), DropReason::TimeWait);
    assert_eq!(b.all(), [". 2:2 ack 2"]);
}
