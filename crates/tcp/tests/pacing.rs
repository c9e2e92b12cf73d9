//! Bursts, and how they are spread.

mod common;

use core::time::Duration;

use common::*;
use tcp::{Algorithm, Config, ConnOptions};

const RTT: u64 = 100;

/// A connection over a path of 100 ms that has opened its window to 40 segments and is idle.
fn opened(config: Config) -> (Bench, i64) {
    opened_over(ms(RTT), config)
}

fn opened_over(rtt: Duration, config: Config) -> (Bench, i64) {
    let options = ConnOptions {
        congestion: Algorithm::Reno,
        ..ConnOptions::default()
    };
    let mut b = Bench::listening(config, options);
    b.inject(b.offer);
    b.expect("S. 0:0 ack 1");
    b.advance(rtt);
    b.inject(seg(1, 0).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    b.events();
    let mut acked = 1;
    for len in [10_000, 20_000] {
        b.send(len);
        b.advance(rtt);
        acked += i64::from(len);
        b.inject(seg(1, 0).ack(acked));
    }
    b.discard();
    b.advance(secs(2));
    assert_eq!(b.info().cwnd, 40_000);
    (b, acked)
}

#[test]
fn the_pace_is_told() {
    // Two windows of 40,000 bytes a round trip, in slow start.
    let (b, _) = opened(plain());
    let micros = b.info().srtt.unwrap().as_micros() as u64;
    assert_eq!(b.info().pacing_rate, Some(80_000 * 1_000_000 / micros));
    let unpaced = Config {
        pacing_burst: 0,
        ..plain()
    };
    let (b, _) = opened(unpaced);
    assert_eq!(b.info().pacing_rate, None);
}

//~ RFC 7661 §4.3
#[test]
fn after_a_pause_the_window_leaves_over_half_a_round_trip() {
    let (mut b, _) = opened(plain());
    b.send(40_000);
    // Ten segments at once, as at the beginning.
    assert_eq!(b.all().len(), 10);
    let mut most = 0;
    let mut left = 30;
    for _ in 0..60 {
        b.advance(ms(1));
        let sent = b.all().len();
        most = most.max(sent);
        left -= sent;
    }
    // Two windows a round trip in slow start: the rest of this one took less than 50 ms.
    assert_eq!(left, 0);
    assert!(most <= 6, "{most} at once");
}

/// Where that is more than the segments that are always free. In slow start two windows of 40 segments leave in a
/// round trip.
#[test]
fn what_a_quarter_of_the_least_round_trip_carries_leaves_at_once() {
    let at_once = |rtt| {
        let (mut b, _) = opened_over(rtt, plain());
        b.send(40_000);
        b.all().len()
    };
    for rtt in [ms(3), ms(8)] {
        let sent = at_once(rtt);
        assert!((14..=21).contains(&sent), "{sent} at once of {rtt:?}");
    }
    // But never more than two milliseconds,
    assert_eq!(at_once(ms(20)), 10);
    let sent = at_once(ms(12));
    assert!((12..=14).contains(&sent), "{sent} at once");
    // nor less than two ticks of the timer wheel, 0.26 ms.
    let sent = at_once(Duration::from_micros(600));
    assert!((33..=38).contains(&sent), "{sent} at once");
    assert_eq!(at_once(Duration::from_micros(500)), 40);
}

/// The least round trip is the path's; what waits in a queue is on top of it.
#[test]
fn a_queue_that_stands_makes_no_burst_longer() {
    let (mut b, mut acked) = in_small_bursts(4);
    for _ in 0..40 {
        b.send(1_000);
        b.advance(ms(16));
        acked += 1_000;
        b.inject(seg(1, 0).ack(acked));
        b.discard();
    }
    let info = b.info();
    assert!(info.srtt.unwrap() > ms(14), "{info:?}");
    // Two windows a round trip: five segments a millisecond.
    b.send(40_000);
    let at_once = b.all().len();
    assert!((3..=6).contains(&at_once), "{at_once} of {info:?}");
}

/// Nor does a short path wait for a later tick than it must: 40 segments in half a millisecond.
#[test]
fn on_a_short_path_the_window_leaves_over_half_a_round_trip() {
    let (mut b, _) = opened_over(ms(1), plain());
    b.send(40_000);
    let mut left = 40;
    for _ in 0..7 {
        let sent = b.all().len();
        assert!(sent <= 22, "{sent} at once");
        left -= sent;
        b.advance(Duration::from_micros(100));
    }
    assert_eq!(left, 0);
}

//~ RFC 7661 §4.3
#[test]
fn data_held_back_by_pacing_does_not_make_cwnd_grow() {
    let (mut b, acked) = opened(plain());
    b.send(5_000);
    assert_eq!(b.all().len(), 5);
    b.advance(ms(RTT - 5));
    b.send(15_000);
    assert_eq!(b.all().len(), 10);
    b.advance(ms(5));
    b.discard();
    // More waits for its pace, but of 40 segments no more than half were ever in flight.
    b.inject(seg(1, 0).ack(acked + 5_000));
    assert_eq!(b.info().cwnd, 40_000);
    // Once they are, what was in flight is worth twice as much.
    b.advance(ms(30));
    b.send(15_000);
    b.advance(ms(30));
    b.discard();
    assert_eq!(b.info().in_flight, 30_000);
    b.inject(seg(1, 0).ack(acked + 20_000));
    assert_eq!(b.info().cwnd, 55_000);
}

#[test]
fn an_acknowledgement_of_much_lets_no_burst_go() {
    let (mut b, acked) = opened(plain());
    b.send(200_000);
    b.advance(ms(RTT));
    assert_eq!(b.all().len(), 40);
    // All of it at once.
    b.inject(seg(1, 0).ack(acked + 40_000));
    assert!(b.all().len() <= 11);
    b.advance(ms(5));
    let sent = b.all().len();
    assert!((1..=12).contains(&sent), "{sent}");
    // What waits for its pace is not forgotten.
    b.advance(ms(60));
    assert!(b.all().len() > 20);
}

#[test]
fn pacing_can_be_switched_off_and_does_not_touch_short_paths() {
    let off = Config {
        pacing_burst: 0,
        ..plain()
    };
    let (mut b, _) = opened(off);
    b.send(40_000);
    assert_eq!(b.all().len(), 40);
    // A round trip of nothing.
    let mut b = Bench::established(plain(), ConnOptions::default());
    b.send(10_000);
    b.inject(seg(1, 0).ack(10_001));
    b.discard();
    b.send(20_000);
    assert_eq!(b.all().len(), 20);
}

/// On a slow path what is free is less than a segment. One leaves all the same, in its time.
#[test]
fn a_small_burst_holds_nothing_back_for_ever() {
    let all = [
        (0, Algorithm::Bbr),
        (1, Algorithm::Bbr),
        (1, Algorithm::Cubic),
    ];
    for (pacing_burst, congestion) in all {
        let config = Config {
            pacing_burst,
            ..plain()
        };
        let options = ConnOptions {
            congestion,
            ..ConnOptions::default()
        };
        let mut b = Bench::listening(config, options);
        b.inject(b.offer);
        b.expect("S. 0:0 ack 1");
        b.advance(secs(1));
        b.inject(seg(1, 0).ack(1));
        b.conn = b.stack.accept(b.listener.unwrap());
        b.events();
        for turn in 0..3 {
            b.send(5_000);
            b.advance(secs(2));
            let acked = 1 + 5_000 * (turn + 1);
            b.inject(seg(1, 0).ack(acked));
            assert_eq!(
                b.update.acked,
                acked as u64 - 1,
                "{pacing_burst} {congestion:?}"
            );
            b.discard();
        }
    }
}

/// Bursts of two segments: 2.5 ms at the pace of two windows of 40 segments in 100 ms.
fn in_small_bursts(rtt: u64) -> (Bench, i64) {
    let config = Config {
        pacing_burst: 2,
        ..plain()
    };
    opened_over(ms(rtt), config)
}

/// Others have the core for so long; then what was due meanwhile is seen to at once.
fn be_late(b: &mut Bench, span: Duration) {
    b.now += span;
    b.advance(ms(0));
}

#[test]
fn who_is_looked_at_late_keeps_the_pace() {
    let (mut b, _) = in_small_bursts(RTT);
    b.send(40_000);
    let mut left = 40 - b.all().len();
    assert_eq!(left, 38);
    // Four segments leave in 5 ms at that pace.
    for _ in 0..10 {
        be_late(&mut b, ms(5));
        let sent = b.all().len();
        assert!(sent <= 5, "{sent} at once");
        left -= sent;
    }
    assert_eq!(left, 0);
}

#[test]
fn of_a_long_delay_little_is_made_up_for() {
    let (mut b, _) = in_small_bursts(RTT);
    b.send(40_000);
    assert_eq!(b.all().len(), 2);
    be_late(&mut b, ms(45));
    // What leaves in 10 ms, and a burst.
    assert_eq!(b.all().len(), 10);
    // On a short path it is what leaves in a quarter of a round trip, and 2 ms.
    let (mut b, _) = in_small_bursts(20);
    b.send(40_000);
    assert_eq!(b.all().len(), 8);
    be_late(&mut b, ms(15));
    assert_eq!(b.all().len(), 28);
    // On a very short one it is the window, as if nothing were paced.
    let (mut b, _) = in_small_bursts(1);
    b.send(40_000);
    let at_once = b.all().len();
    assert!(at_once < 25, "{at_once} at once");
    be_late(&mut b, ms(3));
    assert_eq!(b.all().len(), 40 - at_once);
}

#[test]
fn a_pause_of_the_sender_is_no_delay() {
    let (mut b, _) = in_small_bursts(RTT);
    b.send(4_000);
    b.advance(ms(10));
    assert_eq!(b.all().len(), 4);
    be_late(&mut b, ms(20));
    b.send(20_000);
    assert_eq!(b.all().len(), 2);
}
