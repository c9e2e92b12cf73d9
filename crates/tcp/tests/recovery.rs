//! Loss: timeouts, fast retransmit, NewReno, selective acknowledgements.

mod common;

use common::*;
use tcp::{Algorithm, Config, ConnOptions, Failure, Instant, Request};

fn options(congestion: Algorithm) -> ConnOptions {
    ConnOptions {
        congestion,
        ..ConnOptions::default()
    }
}

fn bench() -> Bench {
    Bench::established(plain(), options(Algorithm::Reno))
}

fn selective() -> Bench {
    let config = Config {
        selective_acks: true,
        ..plain()
    };
    let mut b = Bench::listening(config, options(Algorithm::Reno));
    b.offer = b.offer.sack_permitted();
    b.handshake();
    b
}

impl Bench {
    /// An ACK with SACK blocks of our stream.
    fn sack(&mut self, ack: i64, ranges: &[(i64, i64)]) {
        let mut s = seg(1, 0).ack(ack);
        s.options.sack = blocks(ranges, self.iss.unwrap());
        self.inject(s);
    }

    fn times(&mut self, start: Instant) -> Vec<u128> {
        std::iter::from_fn(|| self.next())
            .map(|s| s.at.saturating_duration_since(start).as_millis())
            .collect()
    }
}

//~ RFC 9293 MUST-20, §3.10.8
//~ RFC 6298 §5
#[test]
fn the_timeout_backs_off_and_gives_up() {
    let mut b = bench();
    b.send(100);
    let start = b.expect("P. 1:101 ack 1").at;
    b.advance(secs(3600));
    let times = b.times(start);
    // 200 ms, doubled each time up to two minutes, fifteen times.
    // The wheel turns by the millisecond.
    let expected = [200, 600, 1400, 3000, 6200, 12_600];
    for (at, expected) in times.iter().zip(expected) {
        assert!((expected..=expected + 2).contains(at), "{times:?}");
    }
    assert_eq!(times.len(), 15);
    assert!((120_000..=120_001).contains(&(times[14] - times[13])));
    assert_eq!(b.update.failed, Some(Failure::TimedOut));
    // The kernel says nothing more either.
    b.quiet();
}

//~ RFC 9293 MUST-21
//~ RFC 5482 §3
#[test]
fn the_user_timeout_gives_up_by_time() {
    let o = ConnOptions {
        user_timeout: Some(secs(2)),
        ..options(Algorithm::Reno)
    };
    let mut b = Bench::established(plain(), o);
    b.send(100);
    b.advance(ms(1999));
    assert_eq!(b.update.failed, None);
    b.advance(ms(3));
    assert_eq!(b.update.failed, Some(Failure::TimedOut));
    // Progress starts it anew.
    let mut b = Bench::established(plain(), o);
    b.send(5000);
    for i in 1..=4 {
        b.advance(ms(1500));
        b.inject(seg(1, 0).ack(1 + i * 1000));
    }
    assert_eq!(b.update.failed, None);
}

//~ RFC 9293 MUST-56
#[test]
fn an_unreachable_network_names_the_reason() {
    let mut b = bench();
    b.send(100);
    let conn = b.conn.unwrap();
    b.stack
        .on_unreachable(b.now, conn, Failure::NetworkUnreachable);
    assert_eq!(b.update.failed, None);
    b.advance(secs(3600));
    assert_eq!(b.update.failed, Some(Failure::NetworkUnreachable));
}

//~ RFC 9293 MUST-19
#[test]
fn after_a_timeout_everything_goes_again_by_slow_start() {
    let mut b = bench();
    b.send(8000);
    assert_eq!(b.all().len(), 8);
    b.advance(ms(201));
    b.expect(". 1:1001 ack 1");
    b.quiet();
    assert_eq!(b.info().cwnd, 1000);
    assert_eq!(b.info().ssthresh, Some(4000));
    b.inject(seg(1, 0).ack(1001));
    assert_eq!(b.all(), [". 1001:2001 ack 1", ". 2001:3001 ack 1"]);
    b.inject(seg(1, 0).ack(3001));
    assert_eq!(
        b.all(),
        [
            ". 3001:4001 ack 1",
            ". 4001:5001 ack 1",
            ". 5001:6001 ack 1",
            ". 6001:7001 ack 1"
        ]
    );
    // The others had arrived: one jump ends the episode, without sending them again.
    b.inject(seg(1, 0).ack(8001));
    b.quiet();
    assert_eq!(b.update.acked, 8000);
}

//~ RFC 5681 §3.2
#[test]
fn three_duplicates_cause_a_fast_retransmit() {
    let mut b = bench();
    b.send(6000);
    b.discard();
    b.inject(seg(1, 0).ack(1001));
    b.send(1000);
    b.discard();
    for _ in 0..2 {
        b.inject(seg(1, 0).ack(1001));
        b.quiet();
    }
    b.inject(seg(1, 0).ack(1001));
    b.expect(". 1001:2001 ack 1");
    b.quiet();
    assert_eq!(b.stack.counters().fast_recoveries, 1);
    // Half of what was in flight.
    assert_eq!(b.info().ssthresh, Some(3000));
    b.inject(seg(1, 0).ack(7001));
    assert_eq!(b.info().cwnd, 3000);
    b.advance(secs(5));
    b.quiet();
}

#[test]
fn a_duplicate_is_what_changes_nothing() {
    let mut b = bench();
    b.send(6000);
    b.discard();
    // Data, another window, nothing in flight: none of these is one.
    for i in 0..5 {
        b.inject(seg(1 + i * 10, 10).ack(1));
    }
    for i in 0..5 {
        b.inject(seg(51, 0).ack(1).window(60_000 - i));
    }
    assert_eq!(b.stack.counters().fast_recoveries, 0);
}

//~ RFC 3042 §2
#[test]
fn limited_transmit_sends_new_data_on_the_first_duplicates() {
    // RFC 3042.
    let mut b = bench();
    b.send(20_000);
    assert_eq!(b.all().len(), 10);
    b.inject(seg(1, 0).ack(1));
    b.expect(". 10001:11001 ack 1");
    b.inject(seg(1, 0).ack(1));
    b.expect(". 11001:12001 ack 1");
    b.inject(seg(1, 0).ack(1));
    b.expect(". 1:1001 ack 1");
    b.quiet();
}

//~ RFC 6582 §3.2
#[test]
fn partial_acknowledgements_repair_hole_after_hole() {
    // RFC 6582: segments 1 and 4 of eight are lost.
    let mut b = bench();
    b.send(8000);
    b.discard();
    for _ in 0..3 {
        b.inject(seg(1, 0).ack(1));
    }
    b.expect(". 1:1001 ack 1");
    for _ in 0..3 {
        b.inject(seg(1, 0).ack(1));
    }
    b.quiet();
    b.inject(seg(1, 0).ack(3001));
    b.expect(". 3001:4001 ack 1");
    b.quiet();
    b.inject(seg(1, 0).ack(8001));
    b.quiet();
    assert_eq!(b.stack.counters().retransmitted_segments, 2);
    assert_eq!(b.stack.counters().timeouts, 0);
    assert_eq!(b.info().cwnd, 4000);
}

#[test]
fn duplicates_after_a_timeout_mean_nothing() {
    // RFC 6582 3.2: they come from what was sent again without need.
    let mut b = bench();
    b.send(8000);
    b.advance(ms(201));
    b.discard();
    b.inject(seg(1, 0).ack(8001));
    b.send(4000);
    b.discard();
    for _ in 0..3 {
        b.inject(seg(1, 0).ack(8001));
    }
    assert_eq!(b.stack.counters().fast_recoveries, 0);
}

//~ RFC 6675 §3, §4
#[test]
fn sacks_find_every_hole_in_one_round_trip() {
    // Segments 1, 3 and 5 of ten are lost.
    let mut b = selective();
    b.send(10_000);
    b.discard();
    b.sack(1, &[(1001, 2001)]);
    b.sack(1, &[(3001, 4001), (1001, 2001)]);
    b.quiet();
    b.sack(1, &[(5001, 6001), (3001, 4001), (1001, 2001)]);
    b.expect(". 1:1001 ack 1");
    assert_eq!(b.stack.counters().fast_recoveries, 1);
    b.sack(1, &[(5001, 7001), (3001, 4001), (1001, 2001)]);
    b.sack(1, &[(5001, 8001), (3001, 4001), (1001, 2001)]);
    b.sack(1, &[(5001, 9001), (3001, 4001), (1001, 2001)]);
    b.sack(1, &[(5001, 10_001), (3001, 4001), (1001, 2001)]);
    // The window halves to five; the holes follow as the pipe empties below it.
    assert_eq!(b.all(), [". 2001:3001 ack 1", ". 4001:5001 ack 1"]);
    b.sack(2001, &[(5001, 10_001), (3001, 4001)]);
    b.sack(4001, &[(5001, 10_001)]);
    b.sack(10_001, &[]);
    b.quiet();
    assert_eq!(b.stack.counters().retransmitted_segments, 3);
    assert_eq!(b.stack.counters().timeouts, 0);
    assert_eq!(b.info().cwnd, 5000);
}

#[test]
fn a_lost_retransmission_is_noticed_by_what_follows_it() {
    let mut b = selective();
    b.send(30_000);
    assert_eq!(b.all().len(), 10);
    b.sack(1, &[(1001, 4001)]);
    // The first segment goes again, and is lost again.
    assert_eq!(b.next().unwrap().brief(), ". 1:1001 ack 1");
    b.discard();
    b.now += ms(10);
    b.sack(1, &[(1001, 10_001)]);
    // New data follows it.
    let new = b.all();
    assert_eq!(new[0], ". 10001:11001 ack 1");
    assert!(new.len() >= 3);
    // Of that the first arrives, a round trip after it was sent: RACK needs no more.
    b.now += ms(10);
    b.sack(1, &[(1001, 11_001)]);
    assert_eq!(b.all()[0], ". 1:1001 ack 1");
    // Not a second time for the same evidence.
    b.sack(1, &[(1001, 13_001)]);
    assert!(b.all().iter().all(|s| s != ". 1:1001 ack 1"));
    assert_eq!(b.stack.counters().timeouts, 0);
}

#[test]
fn sacks_let_new_data_go() {
    // Limited transmit: what is SACKed has left the network.
    let mut b = selective();
    b.send(20_000);
    assert_eq!(b.all().len(), 10);
    b.sack(1, &[(1001, 2001)]);
    b.expect(". 10001:11001 ack 1");
    b.sack(1, &[(1001, 3001)]);
    b.expect(". 11001:12001 ack 1");
    b.quiet();
}

//~ RFC 2018 §5
#[test]
fn a_timeout_spares_what_was_sacked() {
    let mut b = selective();
    b.send(3000);
    b.discard();
    b.sack(1, &[(1001, 2001)]);
    // What was sent before it is lost when it is later than reordering explains.
    b.advance(ms(20));
    b.expect(". 1:1001 ack 1");
    b.quiet();
    b.advance(ms(250));
    b.expect(". 1:1001 ack 1");
    b.sack(2001, &[]);
    b.expect("P. 2001:3001 ack 1");
    b.sack(3001, &[]);
    assert_eq!(b.update.acked, 3000);
}

//~ RFC 2018 §8
#[test]
fn a_peer_may_renege() {
    // RFC 2018 8: what was SACKed may be dropped again.
    let mut b = selective();
    b.send(4000);
    b.discard();
    b.sack(1, &[(1001, 4001)]);
    b.discard();
    // The first segment arrives, and the others are gone.
    b.sack(1001, &[]);
    b.advance(ms(100));
    let mut again = b.all();
    b.inject(seg(1, 0).ack(2001));
    again.extend(b.all());
    b.advance(ms(100));
    again.extend(b.all());
    for lost in ["1001:2001", "2001:3001", "3001:4001"] {
        assert!(again.iter().any(|s| s.contains(lost)), "{again:?}");
    }
}

//~ RFC 2883 §5
#[test]
fn nonsense_sacks_are_ignored() {
    let mut b = selective();
    b.send(5000);
    b.discard();
    b.sack(1, &[(9001, 10_001), (3001, 2001), (-500, 1), (1, 1)]);
    b.sack(1, &[(4001, 6001)]);
    b.quiet();
    assert_eq!(b.info().in_flight, 5000);
    assert_eq!(b.stack.counters().fast_recoveries, 0);
}

#[test]
fn fin_is_recovered_like_data() {
    let mut b = selective();
    b.send(4000);
    b.request(Request::ShutdownWrite);
    b.discard();
    // Everything but the first segment, FIN included.
    b.sack(1, &[(1001, 4002)]);
    b.expect(". 1:1001 ack 1");
    b.sack(4002, &[]);
    b.advance(secs(10));
    b.quiet();
    // And FIN itself is lost.
    let mut b = selective();
    b.send(4000);
    b.request(Request::ShutdownWrite);
    b.discard();
    b.sack(4001, &[]);
    b.advance(ms(250));
    b.expect("F. 4001:4001 ack 1");
}

#[test]
fn the_timeout_follows_the_round_trip() {
    let mut b = bench();
    for i in 0..50 {
        b.send(100);
        b.advance(ms(100));
        b.inject(seg(1, 0).ack(101 + i * 100));
    }
    let info = b.info();
    assert_eq!(info.srtt.unwrap().as_millis(), 99);
    assert!(info.rto >= ms(299) && info.rto <= ms(320));
    b.discard();
    b.send(100);
    let start = b.next().unwrap().at;
    b.advance(secs(1));
    let first = b.times(start)[0];
    assert!((299..=320).contains(&first), "{first}");
}

//~ RFC 9293 MUST-18
//~ RFC 6298 §3
#[test]
fn what_was_sent_twice_is_not_timed() {
    // Karn: the answer might belong to the first transmission.
    let mut b = bench();
    b.send(100);
    b.advance(ms(1000));
    b.discard();
    b.inject(seg(1, 0).ack(101));
    assert!(b.info().srtt.unwrap() < ms(1));
    // The back-off stays until a round trip is measured.
    assert_eq!(b.info().backoff, 2);
    b.send(100);
    b.inject(seg(1, 0).ack(201));
    assert_eq!(b.info().backoff, 0);
}

//~ RFC 7323 §4.1
#[test]
fn timestamps_time_even_what_was_sent_twice() {
    let mut b = Bench::listening(Config::default(), options(Algorithm::Reno));
    b.offer = b.offer.ts(1, 0);
    b.handshake();
    b.send(100);
    b.advance(ms(210));
    let again = std::iter::from_fn(|| b.next()).last().unwrap();
    b.now += ms(30);
    b.inject(
        seg(1, 0)
            .ack(101)
            .ts(2, again.options.timestamps.unwrap().value),
    );
    let rtt = b.info().srtt.unwrap();
    assert!(rtt > ms(3) && rtt < ms(50), "{rtt:?}");
    assert_eq!(b.info().backoff, 0);
}

//~ RFC 7661 §4.3, §4.4
//~ RFC 5681 §4.1
#[test]
fn a_window_is_kept_for_five_minutes_of_idleness() {
    let mut b = bench();
    let mut acked = 1;
    for _ in 0..5 {
        b.send(10_000);
        acked += 10_000;
        b.inject(seg(1, 0).ack(acked));
    }
    b.discard();
    let window = b.info().cwnd;
    assert!(window > 15_000);
    b.advance(secs(60));
    b.send(window);
    assert_eq!(b.all().len() as u32, window / 1000);
    b.inject(seg(1, 0).ack(acked + i64::from(window)));
    b.discard();
    // Then it is halved, and again, but not below the initial window.
    b.advance(secs(3600));
    b.send(30_000);
    assert_eq!(b.all().len(), 10);
}

#[test]
fn both_algorithms_move_a_lossy_transfer() {
    for algorithm in [Algorithm::Reno, Algorithm::Cubic] {
        let mut b = Bench::established(plain(), options(algorithm));
        b.send(1_000_000);
        let mut have = std::collections::BTreeSet::new();
        let mut next = 1;
        let mut n = 0;
        while next < 1_000_001 {
            let mut arrived = Vec::new();
            while let Some(s) = b.next() {
                n += 1;
                if n % 50 != 0 {
                    arrived.push((s.seq, s.seq + s.len as i64));
                }
            }
            if arrived.is_empty() {
                b.advance(ms(250));
                continue;
            }
            b.now += ms(10);
            for (from, to) in arrived {
                have.insert((from, to));
                while let Some(&(_, to)) = have.iter().find(|&&(f, t)| f <= next && t > next) {
                    next = to;
                }
                b.inject(seg(1, 0).ack(next));
            }
        }
        assert_eq!(b.update.acked, 1_000_000);
        let counters = b.stack.counters();
        assert!(counters.fast_recoveries > 5, "{counters:?}");
    }
}

/// What an ACK SACKs has arrived even if another one has overtaken it.
//~ RFC 6675 §3
#[test]
fn sack_blocks_of_an_overtaken_ack_count() {
    let mut b = selective();
    b.send(10_000);
    b.discard();
    b.sack(3001, &[]);
    b.quiet();
    b.sack(2001, &[(4001, 7001)]);
    b.expect(". 3001:4001 ack 1");
    // What it SACKs may have been acknowledged meanwhile: that says nothing.
    let counters = b.stack.counters().clone();
    b.sack(1, &[(1001, 3001)]);
    b.sack(1, &[(2001, 5001)]);
    b.quiet();
    let same = b.stack.counters();
    assert_eq!(same.dsacks_in, counters.dsacks_in);
    assert_eq!(b.info().sacked, 3000);
}

/// A window that has shrunk to nothing does not keep the first segment from being repaired.
//~ RFC 9293 MUST-34
#[test]
fn the_first_segment_is_repaired_beyond_a_window_that_shrank() {
    let mut b = bench();
    b.send(3000);
    b.discard();
    b.inject(seg(1, 0).ack(1).window(0));
    b.advance(secs(2));
    b.expect(". 1:1001 ack 1");
    assert_eq!(b.info().send_window, 0);
}

/// CUBIC grows by time, but a pause is no time (RFC 9438 §5.8).
#[test]
fn a_window_does_not_grow_by_a_pause() {
    let config = Config {
        selective_acks: true,
        pacing_burst: 0,
        ..plain()
    };
    let mut b = Bench::listening(config, options(Algorithm::Cubic));
    b.offer = b.offer.sack_permitted();
    b.handshake();
    b.send(10_000);
    b.discard();
    b.sack(1, &[(1001, 10_001)]);
    b.sack(10_001, &[]);
    let mut at = 10_001;
    let mut round = |b: &mut Bench| {
        let window = b.info().cwnd;
        b.send(window);
        b.advance(ms(50));
        b.discard();
        at += i64::from(window);
        b.sack(at, &[]);
        b.discard();
        b.info().cwnd
    };
    round(&mut b);
    let before = round(&mut b);
    b.advance(secs(100));
    let after = round(&mut b);
    assert!(after <= before + 1000, "{before}, then {after}");
}

/// The window and the timeout after a handshake in which our SYN left so many times.
fn after_syns(times: usize) -> (usize, std::time::Duration) {
    let mut b = Bench::new(plain());
    b.connect(options(Algorithm::Reno));
    b.turn();
    while b.sink.sent.len() < times {
        b.advance(secs(1));
    }
    b.expect("S 0:0");
    b.discard();
    b.inject(seg(0, 0).flags(SYN).ack(1).mss(1000));
    b.discard();
    let timeout = b.info().rto;
    b.send(20_000);
    (b.all().len(), timeout)
}

/// The same as the side that was called.
fn after_syn_acks(times: usize) -> (usize, std::time::Duration) {
    let mut b = Bench::listening(plain(), options(Algorithm::Reno));
    b.inject(b.offer);
    while b.sink.sent.len() < times {
        b.advance(secs(1));
    }
    b.expect("S. 0:0 ack 1");
    b.discard();
    b.inject(seg(1, 0).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    b.turn();
    let timeout = b.info().rto;
    b.send(20_000);
    (b.all().len(), timeout)
}

//~ RFC 6928 §2
//~ RFC 6298 §5.7
#[test]
fn a_lost_handshake_makes_the_beginning_careful() {
    for after in [after_syns, after_syn_acks] {
        // One may have been late; two are a sign of congestion.
        assert_eq!(after(1).0, 10);
        assert_eq!(after(2), (10, secs(3)));
        assert_eq!(after(3), (1, secs(3)));
    }
}

/// A connection of which the only segment in flight was sent again for nothing, and both have arrived.
fn sent_twice() -> Bench {
    let config = Config {
        selective_acks: true,
        tail_loss_probes: false,
        ..plain()
    };
    let mut b = Bench::listening(config, options(Algorithm::Reno));
    b.offer = b.offer.sack_permitted();
    b.handshake();
    b.send(1000);
    b.expect("P. 1:1001 ack 1");
    b.advance(ms(250));
    b.expect("P. 1:1001 ack 1");
    b.inject(seg(1, 0).ack(1001));
    let info = b.info();
    assert_eq!((info.in_flight, info.recovering), (0, false));
    assert!(info.cwnd < 5_000, "{}", info.cwnd);
    b
}

//~ RFC 3708 §3
#[test]
fn a_dsack_after_the_flight_undoes_the_response_to_its_loss() {
    let mut b = sent_twice();
    b.sack(1001, &[(1, 1001)]);
    let info = b.info();
    assert!(info.cwnd >= 10_000 && info.ssthresh.is_none(), "{info:?}");
    assert_eq!(b.stack.counters().spurious_recoveries, 1);
    b.sack(1001, &[(1, 1001)]);
    assert_eq!(b.stack.counters().spurious_recoveries, 1);
}

#[test]
fn a_dsack_after_the_next_flight_is_too_late() {
    let mut b = sent_twice();
    b.send(1000);
    b.expect("P. 1001:2001 ack 1");
    b.inject(seg(1, 0).ack(2001));
    b.sack(2001, &[(1, 1001)]);
    assert!(b.info().cwnd < 5_000);
    assert_eq!(b.stack.counters().spurious_recoveries, 0);
    // Nor does a range that it was not about.
    let mut b = sent_twice();
    b.sack(1001, &[(1, 501)]);
    assert_eq!(b.stack.counters().spurious_recoveries, 0);
}
