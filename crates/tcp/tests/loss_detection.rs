//! Loss told by time: RACK, tail loss probes, and what turns out not to have been lost.

mod common;

use common::*;
use tcp::{Algorithm, Config, ConnOptions};
use wire::seq::SeqNumber;

/// The round trip of every connection here.
const RTT: u64 = 40;

fn options() -> ConnOptions {
    ConnOptions {
        congestion: Algorithm::Reno,
        ..ConnOptions::default()
    }
}

/// A connection with SACK, over a path of 40 ms.
fn far(timestamps: bool) -> Bench {
    let config = Config {
        selective_acks: true,
        timestamps,
        // The clock stands still while a window leaves.
        pacing_burst: 0,
        ..plain()
    };
    let mut b = Bench::listening(config, options());
    b.offer = b.offer.sack_permitted();
    if timestamps {
        b.offer = b.offer.ts(1, 0).mss(1012);
    }
    b.inject(b.offer);
    let syn_ack = b.expect("S. 0:0 ack 1");
    b.advance(ms(RTT));
    let mut last = seg(1, 0).ack(1);
    if let Some(ours) = syn_ack.options.timestamps {
        last = last.ts(1, ours.value);
    }
    b.inject(last);
    b.conn = b.stack.accept(b.listener.unwrap());
    b.events();
    b.quiet();
    b
}

impl Bench {
    fn iss(&self) -> SeqNumber {
        self.iss.unwrap()
    }

    /// An ACK with SACK blocks of our stream.
    fn sack(&mut self, ack: i64, ranges: &[(i64, i64)]) {
        let mut s = seg(1, 0).ack(ack);
        s.options.sack = blocks(ranges, self.iss());
        self.inject(s);
    }
}

//~ RFC 8985 §5, §6.1, §6.2
#[test]
fn what_is_late_by_more_than_reordering_explains_is_lost() {
    let mut b = far(false);
    b.send(5000);
    b.discard();
    b.advance(ms(RTT));
    // One SACK is no reason yet: a quarter of the round trip is.
    b.sack(1, &[(1001, 2001)]);
    b.quiet();
    b.advance(ms(9));
    b.quiet();
    b.advance(ms(3));
    b.expect(". 1:1001 ack 1");
    b.quiet();
    assert_eq!(b.stack.counters().fast_recoveries, 1);
    assert_eq!(b.stack.counters().timeouts, 0);
    // Three SACKed segments at once need no waiting.
    let mut b = far(false);
    b.send(5000);
    b.discard();
    b.advance(ms(RTT));
    b.sack(1, &[(1001, 4001)]);
    b.expect(". 1:1001 ack 1");
}

//~ RFC 8985 §6.2
#[test]
fn a_path_that_reorders_is_given_time() {
    let mut b = far(false);
    b.send(4000);
    b.discard();
    b.advance(ms(RTT));
    b.sack(1, &[(1001, 2001)]);
    // The first arrives late, without having been sent again.
    assert_eq!(b.info().reordering, 3);
    b.advance(ms(1));
    b.sack(4001, &[]);
    b.quiet();
    b.send(6000);
    b.discard();
    b.advance(ms(RTT));
    // Now even three SACKed segments wait.
    b.sack(4001, &[(5001, 9001)]);
    b.quiet();
    b.advance(ms(9));
    b.quiet();
    b.advance(ms(3));
    b.expect(". 4001:5001 ack 1");
}

/// Sends eight segments from `una` on. The first of them take the old route, 40 ms, and the last, from `last`
/// on, a new one of 32. Returns where what was sent again begins.
fn overtaken(b: &mut Bench, una: i64, last: i64) -> Vec<i64> {
    let end = una + 8000;
    b.send(8000);
    b.discard();
    b.advance(ms(32));
    for right in (last + 1000..=end).step_by(1000) {
        b.sack(una, &[(last, right)]);
    }
    b.advance(ms(8));
    // They come together and are acknowledged together.
    b.sack(end, &[]);
    b.all_sent().iter().map(|again| again.seq).collect()
}

//~ RFC 8985 §6.2
#[test]
fn what_a_new_route_overtakes_is_not_sent_again() {
    let mut b = far(false);
    // Two that came early are not enough, and then a quarter of the round trip is.
    assert_eq!(overtaken(&mut b, 1, 6001), [0; 0]);
    assert_eq!(b.info().reordering, 8);
    // From now on no number of them is.
    for flight in 1..4 {
        let una = 1 + flight * 8000;
        assert_eq!(overtaken(&mut b, una, una + 2000), [0; 0]);
    }
    b.quiet();
    let counters = b.stack.counters();
    assert_eq!((counters.fast_recoveries, counters.timeouts), (0, 0));
    assert_eq!(b.info().ssthresh, None);
}

//~ RFC 8985 §6.2
//~ RFC 3708 §3
#[test]
fn a_new_route_is_taken_for_loss_only_once() {
    let mut b = far(false);
    // Four that came early are taken for a loss of the others, two of which are sent again at once.
    assert_eq!(overtaken(&mut b, 1, 4001), [1, 1001]);
    // Those arrive after their originals.
    b.sack(8001, &[(1, 1001)]);
    b.sack(8001, &[(1001, 2001)]);
    let counters = b.stack.counters();
    assert_eq!(counters.fast_recoveries, 1);
    assert_eq!(counters.spurious_recoveries, 1);
    assert!(b.info().cwnd >= 10_000, "{:?}", b.info());
    for flight in 1..4 {
        let una = 1 + flight * 8000;
        assert_eq!(overtaken(&mut b, una, una + 2000), [0; 0]);
    }
    assert_eq!(b.stack.counters().fast_recoveries, 1);
}

/// Flights that are acknowledged after `rtt` ms each, until that is about the smoothed round trip; no
/// step is so long that a TLP would leave. Returns SND.UNA.
fn settle(b: &mut Bench, mut una: i64, rtt: u64) -> i64 {
    for _ in 0..60 {
        let srtt = b.info().srtt.unwrap().as_millis() as u64;
        b.send(4000);
        b.discard();
        b.advance(ms(rtt.min(srtt * 3 / 2)));
        una += 4000;
        b.sack(una, &[]);
        b.quiet();
    }
    una
}

/// For how many milliseconds four SACKed segments wait for one before them, on a round trip of `rtt`.
fn patience(b: &mut Bench, una: i64, rtt: u64) -> u64 {
    b.send(5000);
    b.discard();
    b.advance(ms(rtt));
    b.sack(una, &[(una + 1000, una + 5000)]);
    for waited in 0..1000 {
        if let Some(again) = b.next() {
            assert_eq!((again.seq, again.len), (una, 1000));
            return waited;
        }
        b.advance(ms(1));
    }
    panic!("never sent again");
}

/// A connection whose path of 40 ms has shown that it reorders, and SND.UNA.
fn reordering() -> (Bench, i64) {
    let mut b = far(false);
    overtaken(&mut b, 1, 6001);
    b.quiet();
    (b, 8001)
}

//~ RFC 8985 §6.2
#[test]
fn the_reordering_window_is_a_quarter_of_the_least_round_trip() {
    let (mut b, una) = reordering();
    let waited = patience(&mut b, una, 40);
    assert!((10..=12).contains(&waited), "{waited}");
    // It falls with the path at once ...
    let (mut b, una) = reordering();
    let una = settle(&mut b, una, 8);
    let waited = patience(&mut b, una, 8);
    assert!((2..=4).contains(&waited), "{waited}");
    // ... and rises only when the old one is forgotten.
    let (mut b, una) = reordering();
    let una = settle(&mut b, una, 160);
    let waited = patience(&mut b, una, 160);
    assert!((10..=12).contains(&waited), "{waited}");
    let (mut b, una) = reordering();
    let una = settle(&mut b, una, 160);
    b.advance(secs(301));
    let una = settle(&mut b, una, 160);
    let waited = patience(&mut b, una, 160);
    assert!((40..=42).contains(&waited), "{waited}");
}

//~ RFC 8985 §6.2
#[test]
fn what_is_late_is_so_by_the_round_trip_of_what_came() {
    // A route that has just become longer: by the smoothed round trip it would be late already.
    let (mut b, una) = reordering();
    let waited = patience(&mut b, una, 70);
    assert!((10..=12).contains(&waited), "{waited}");
    // A route that has just become shorter: by the smoothed round trip it would have more time.
    let (mut b, una) = reordering();
    let waited = patience(&mut b, una, 20);
    assert!((10..=12).contains(&waited), "{waited}");
}

//~ RFC 8985 §6.2
#[test]
fn the_reordering_window_is_no_longer_than_a_round_trip() {
    let (mut b, mut una) = reordering();
    // Each of ten rounds tells of something that has arrived twice.
    for _ in 0..10 {
        b.send(4000);
        b.discard();
        b.advance(ms(RTT));
        una += 4000;
        b.sack(una, &[(una - 4000, una - 3000)]);
    }
    b.quiet();
    let waited = patience(&mut b, una, RTT);
    assert!((40..=42).contains(&waited), "{waited}");
}

#[test]
fn the_extent_of_reordering_can_be_asked_for() {
    let mut b = far(false);
    b.send(8000);
    b.discard();
    b.advance(ms(RTT));
    b.sack(1, &[(7001, 8001)]);
    b.advance(ms(1));
    b.sack(8001, &[]);
    assert_eq!(b.info().reordering, 8);
}

//~ RFC 8985 §6.2
//~ RFC 2883 §5
#[test]
fn dsacks_widen_the_reordering_window() {
    let mut b = far(false);
    b.send(4000);
    b.discard();
    b.advance(ms(RTT));
    b.sack(1, &[(1001, 2001)]);
    b.advance(ms(12));
    b.expect(". 1:1001 ack 1");
    // Both arrive: the peer says that it has the first twice.
    b.sack(4001, &[]);
    b.sack(4001, &[(1, 1001)]);
    assert_eq!(b.stack.counters().dsacks_in, 1);
    b.send(4000);
    b.discard();
    b.advance(ms(RTT));
    // Two quarters of the round trip from now on.
    b.sack(4001, &[(5001, 6001)]);
    b.advance(ms(18));
    assert!(b.all().iter().all(|s| s != ". 4001:5001 ack 1"));
    b.advance(ms(4));
    b.expect(". 4001:5001 ack 1");
}

//~ RFC 8985 §7.1, §7.2, §7.3
#[test]
fn a_tlp_is_sent_after_two_round_trips() {
    let mut b = far(false);
    b.send(3000);
    b.discard();
    b.advance(ms(2 * RTT - 2));
    b.quiet();
    b.advance(ms(4));
    // There is nothing new: the last segment again.
    b.expect("P. 2001:3001 ack 1");
    b.quiet();
    assert_eq!(b.stack.counters().tail_loss_probes, 1);
    // The peer SACKs it; what was sent before it is lost.
    b.advance(ms(RTT));
    b.sack(1, &[(2001, 3001)]);
    b.expect(". 1:1001 ack 1");
    b.sack(1001, &[(2001, 3001)]);
    b.expect(". 1001:2001 ack 1");
    b.sack(3001, &[]);
    assert_eq!(b.stack.counters().timeouts, 0);
    assert_eq!(b.update.acked, 3000);
}

//~ RFC 8985 §7.3
#[test]
fn a_tlp_carries_new_data_whatever_cwnd_is() {
    let mut b = far(false);
    b.send(30_000);
    assert_eq!(b.all().len(), 10);
    b.advance(ms(2 * RTT + 2));
    b.expect(". 10001:11001 ack 1");
    b.quiet();
    // One TLP; then the RTO.
    b.advance(ms(200));
    b.quiet();
    b.advance(ms(100));
    b.expect(". 1:1001 ack 1");
    assert_eq!(b.stack.counters().timeouts, 1);
}

//~ RFC 8985 §7.2, §8
#[test]
fn the_pto_allows_for_a_delayed_acknowledgement() {
    let mut b = far(false);
    b.send(100);
    b.discard();
    b.advance(ms(238));
    b.quiet();
    b.advance(ms(60));
    // SRTT + 200 ms, and it is the TLP that goes.
    b.expect("P. 1:101 ack 1");
    assert_eq!(b.stack.counters().timeouts, 0);
    assert_eq!(b.info().cwnd, 10_000);
}

//~ RFC 8985 §7.4
#[test]
fn a_loss_that_a_tlp_repaired_is_still_congestion() {
    let repaired = |duplicate: bool| {
        let mut b = far(false);
        b.send(3000);
        b.discard();
        b.advance(ms(RTT));
        b.sack(2001, &[]);
        b.advance(ms(300));
        b.expect("P. 2001:3001 ack 1");
        b.send(1000);
        b.discard();
        // The TLP is acknowledged together with what followed it.
        let twice: &[_] = if duplicate { &[(2001, 3001)] } else { &[] };
        b.sack(4001, twice);
        b.info().ssthresh
    };
    assert!(repaired(false).is_some());
    // Unless the peer says that it had it already.
    assert_eq!(repaired(true), None);
}

//~ RFC 8985 §6.3
#[test]
fn a_timeout_gives_up_what_is_old_and_not_what_has_just_left() {
    let mut b = far(false);
    b.send(2000);
    b.discard();
    b.advance(ms(230));
    // The TLP has gone; what follows it is young.
    b.discard();
    b.advance(ms(68));
    b.discard();
    let before = b.stack.counters().timeouts;
    b.send(2000);
    b.discard();
    b.advance(ms(24));
    assert_eq!(b.stack.counters().timeouts, before + 1);
    b.expect(". 1:1001 ack 1");
    b.sack(2001, &[]);
    b.advance(ms(2));
    b.quiet();
}

/// A timeout whose retransmission was not needed: the flight was held up.
fn held_up(timestamps: bool) -> (Bench, u32, u32) {
    let mut b = far(timestamps);
    b.send(8000);
    let first = b.next().unwrap().options.timestamps.map_or(0, |t| t.value);
    b.discard();
    b.advance(ms(2 * RTT + 5));
    b.discard();
    b.advance(ms(300));
    let again = b.next().unwrap();
    assert_eq!((again.seq, again.len), (1, 1000));
    b.quiet();
    assert_eq!(b.info().cwnd, 1000);
    (b, first, again.options.timestamps.map_or(0, |t| t.value))
}

//~ RFC 3522 §3.2
//~ RFC 9438 §4.9
#[test]
fn eifel_detects_a_spurious_timeout_by_timestamps() {
    let (mut b, first, _) = held_up(true);
    b.inject(seg(1, 0).ack(2001).ts(2, first));
    assert_eq!(b.stack.counters().spurious_recoveries, 1);
    let info = b.info();
    assert!(info.cwnd >= 10_000, "{info:?}");
    assert_eq!((info.ssthresh, info.backoff), (None, 0));
    // Nothing more goes again.
    b.quiet();
    b.inject(seg(1, 0).ack(8001).ts(2, first));
    b.quiet();
    // The same acknowledgement, of the retransmission.
    let (mut b, _, again) = held_up(true);
    b.inject(seg(1, 0).ack(2001).ts(2, again));
    assert_eq!(b.stack.counters().spurious_recoveries, 0);
    assert_eq!(b.all().len(), 3);
}

//~ RFC 5682 §3.1
#[test]
fn f_rto_detects_a_spurious_timeout_without_timestamps() {
    let (mut b, ..) = held_up(false);
    // The second segment is acknowledged, and only the first has been sent again.
    b.sack(2001, &[]);
    assert_eq!(b.stack.counters().spurious_recoveries, 1);
    assert!(b.info().cwnd >= 10_000);
    b.quiet();
    let (mut b, ..) = held_up(false);
    b.sack(1001, &[]);
    assert_eq!(b.stack.counters().spurious_recoveries, 0);
    assert_eq!(b.all().len(), 2);
}

//~ RFC 3708 §3
#[test]
fn dsacks_of_every_retransmission_undo_the_response() {
    let mut b = far(false);
    b.send(7000);
    b.discard();
    b.advance(ms(RTT));
    b.sack(1, &[(1001, 4001)]);
    b.expect(". 1:1001 ack 1");
    // The first was late, not lost.
    b.advance(ms(5));
    b.sack(6001, &[]);
    assert_eq!(b.info().ssthresh, Some(3500));
    b.advance(ms(RTT - 5));
    b.sack(6001, &[(1, 1001)]);
    assert_eq!(b.stack.counters().spurious_recoveries, 1);
    assert_eq!(b.info().ssthresh, None);
    assert!(b.info().cwnd >= 10_000);
}

//~ RFC 6937 §3
#[test]
fn a_recovery_sends_its_share_for_each_acknowledgement() {
    let mut b = far(false);
    b.send(100_000);
    assert_eq!(b.all().len(), 10);
    b.advance(ms(RTT));
    b.sack(10_001, &[]);
    assert_eq!(b.all().len(), 20);
    b.advance(ms(RTT));
    // The first of twenty is lost. Limited transmit, then the repair, then one for every two.
    let mut sent = Vec::new();
    for i in 2..=20 {
        b.sack(10_001, &[(11_001, 10_001 + i * 1000)]);
        sent.push(b.all().len());
    }
    assert_eq!(sent[..3], [1, 1, 1]);
    assert!(
        sent[3..].windows(2).all(|two| two[0] + two[1] <= 1 + 1),
        "{sent:?}"
    );
    let total: usize = sent[3..].iter().sum();
    assert!((7..=10).contains(&total), "{sent:?}");
    b.sack(32_001, &[]);
    assert_eq!(b.info().cwnd, b.info().ssthresh.unwrap());
}

//~ RFC 5681 §4.3
#[test]
fn a_retransmission_that_is_lost_counts_twice() {
    let mut b = far(false);
    b.send(100_000);
    b.discard();
    b.advance(ms(RTT));
    b.sack(1, &[(1001, 10_001)]);
    assert_eq!(b.all()[0], ". 1:1001 ack 1");
    assert_eq!(b.info().ssthresh, Some(5000));
    b.advance(ms(RTT));
    b.sack(1, &[(1001, 11_001)]);
    let last = std::iter::from_fn(|| b.next()).last().expect("new data");
    b.advance(ms(RTT));
    b.sack(1, &[(1001, last.seq + 1000)]);
    assert!(b.info().ssthresh.unwrap() < 5000);
}

//~ RFC 2883 §4, §4.1, §4.2
#[test]
fn what_arrives_twice_gets_a_dsack() {
    let sack_blocks = |b: &mut Bench| {
        let sack = b.next().expect("an ACK").options.sack;
        let relative = |n: SeqNumber| i64::from(n.distance_from(SeqNumber(PEER_ISS)));
        sack.as_slice()
            .iter()
            .map(|block| (relative(block.left), relative(block.right)))
            .collect::<Vec<_>>()
    };
    let mut b = far(false);
    b.inject(seg(1, 1000).ack(1));
    b.inject(seg(1001, 1000).ack(1));
    b.discard();
    // All of it.
    b.inject(seg(1, 1000).ack(1));
    assert_eq!(sack_blocks(&mut b), [(1, 1001)]);
    // Once is enough.
    b.inject(seg(3001, 1000).ack(1));
    assert_eq!(sack_blocks(&mut b), [(3001, 4001)]);
    // A part, together with what is new.
    b.inject(seg(1501, 1000).ack(1));
    assert_eq!(sack_blocks(&mut b), [(1501, 2001), (3001, 4001)]);
    // Inside what is held: the range around it comes second.
    b.inject(seg(5001, 1000).ack(1));
    b.discard();
    b.inject(seg(3201, 500).ack(1));
    assert_eq!(
        sack_blocks(&mut b),
        [(3201, 3701), (3001, 4001), (5001, 6001)]
    );
    // A peer without SACK gets none.
    let mut b = Bench::established(plain(), options());
    b.inject(seg(1, 1000).ack(1));
    b.discard();
    b.inject(seg(1, 1000).ack(1));
    assert_eq!(sack_blocks(&mut b), []);
}
