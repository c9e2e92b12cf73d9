use super::losses::Losses;
use super::*;

const MSS: u32 = 1_000;
const RTT: u64 = 100;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn delivery(now: Instant, una: u32, bytes: u32, in_flight: u32) -> Delivery {
    Delivery {
        now,
        bytes,
        newest: Some(SeqNumber(una)),
        una: SeqNumber(una),
        lost: 0,
        rtt: Some(Nanos::from_millis(RTT as u32)),
        in_flight,
        cwnd_limited: false,
        marked: false,
        recovering: false,
    }
}

#[test]
fn a_sample_is_what_was_delivered_over_the_longer_of_two_times() {
    let mut sampler = Sampler::new();
    // Ten segments in 9 ms; they are acknowledged within 18 ms, 100 ms later.
    for i in 0..10 {
        sampler.on_sent(SeqNumber((i + 1) * MSS), MSS, i * MSS, at(u64::from(i)));
    }
    let mut last = Sample::default();
    for i in 0..10 {
        let ack = delivery(at(RTT + 2 * u64::from(i)), (i + 1) * MSS, MSS, 0);
        last = sampler.on_ack(&ack, Nanos::ZERO);
    }
    // All ten since the first had left, and 118 ms.
    assert_eq!(last.delivered, 10_000);
    assert_eq!(last.rate, 10_000 * 1_000 / 118);
    assert!(!last.app_limited);
    // What is measured in less than a round trip is no measurement.
    sampler.on_sent(SeqNumber(11_000), MSS, 0, at(200));
    let sample = sampler.on_ack(&delivery(at(210), 11_000, MSS, 0), Nanos::from_millis(100));
    assert_eq!((sample.is_valid, sample.rate), (true, 0));
}

#[test]
fn what_is_sent_without_enough_to_send_is_marked_until_it_is_delivered() {
    let mut sampler = Sampler::new();
    sampler.on_sent(SeqNumber(1_000), MSS, 0, at(0));
    sampler.on_app_limited(MSS);
    sampler.on_sent(SeqNumber(2_000), MSS, MSS, at(1));
    let first = sampler.on_ack(&delivery(at(100), 1_000, MSS, MSS), Nanos::ZERO);
    assert!(!first.app_limited, "it left before");
    let second = sampler.on_ack(&delivery(at(101), 2_000, MSS, 0), Nanos::ZERO);
    assert!(second.app_limited);
    assert!(!sampler.is_app_limited());
    sampler.on_sent(SeqNumber(3_000), MSS, 0, at(102));
    let third = sampler.on_ack(&delivery(at(202), 3_000, MSS, 0), Nanos::ZERO);
    assert!(!third.app_limited);
}

#[test]
fn what_was_lost_since_something_left_is_told_with_it() {
    let mut sampler = Sampler::new();
    for i in 0..4 {
        sampler.on_sent(SeqNumber((i + 1) * MSS), MSS, i * MSS, at(u64::from(i)));
    }
    let mut ack = delivery(at(100), 0, MSS, 2 * MSS);
    // The first is lost, the second SACKed.
    (ack.newest, ack.lost) = (Some(SeqNumber(2_000)), MSS);
    let sample = sampler.on_ack(&ack, Nanos::ZERO);
    assert_eq!((sample.lost, sample.in_flight), (1_000, 2_000));
}

/// A path of 100 ms that carries 10 segments a millisecond, and drops what is beyond `most` in flight:
/// rounds of it, each told by ten acknowledgements.
fn rounds(bbr: &mut Bbr, clock: &mut Clock, count: u32, most: u32) {
    for _ in 0..count {
        let window = bbr.window.cwnd();
        let carried = window.min(most).min(10 * MSS * RTT as u32);
        let lost = window - window.min(most);
        let begin = clock.now;
        for part in 0..10 {
            clock.seq += carried / 10;
            let now = at(begin + part * RTT / 10);
            bbr.on_sent(SeqNumber(clock.seq), carried / 10, window, now);
        }
        clock.now += RTT;
        for part in 0..10 {
            let una = clock.seq - (9 - part) * (carried / 10);
            let now = at(clock.now + u64::from(part) * RTT / 10);
            let mut ack = delivery(now, una, carried / 10, carried);
            ack.lost = lost / 10;
            ack.recovering = lost > 0;
            ack.cwnd_limited = true;
            bbr.on_delivery(&ack);
        }
    }
}

struct Clock {
    now: u64,
    seq: u32,
}

#[test]
fn much_loss_ends_the_start() {
    let mut clock = Clock { now: 1, seq: 0 };
    let mut bbr = Bbr::new(MSS as u16);
    // A path that holds little.
    rounds(&mut bbr, &mut clock, 8, 50_000);
    assert!(bbr.model.full_bw_reached);
    let limit = bbr.model.inflight_longterm;
    assert!((40_000..=110_000).contains(&limit), "{limit}");
}

#[test]
fn a_timeout_leaves_one_segment_and_an_undo_brings_the_window_back() {
    let mut bbr = Bbr::new(MSS as u16);
    let mut clock = Clock { now: 1, seq: 0 };
    rounds(&mut bbr, &mut clock, 6, u32::MAX);
    let before = bbr.window.cwnd();
    bbr.on_timeout(0);
    assert_eq!(bbr.window.cwnd(), MSS);
    bbr.undo();
    assert_eq!(bbr.window.cwnd(), before);
}

#[test]
fn a_run_of_losses_counts_as_one_where_nothing_waited() {
    let segments = |sent: u64, lost: u64, places| Losses {
        sent: sent * u64::from(MSS),
        lost: lost * u64::from(MSS),
        places,
    };
    // Two in a hundred, three deviations and two.
    assert!(!segments(200, 4 + 3 * 2 + 2, 12).are_too_much(MSS));
    assert!(segments(200, 4 + 3 * 2 + 3, 13).are_too_much(MSS));
    assert!(segments(200, 4 + 3 * 2 + 3, 13).are_too_much_in_runs(MSS));
    // The same in two places.
    assert!(!segments(200, 13, 2).are_too_much_in_runs(MSS));
    // Runs are believed up to ten.
    assert!(!segments(50, 21, 1).are_too_much_in_runs(MSS));
    assert!(segments(50, 22, 1).are_too_much_in_runs(MSS));
    // Nothing lost, and nothing known.
    assert!(!segments(0, 0, 0).are_too_much_in_runs(0));
}

/// A round in Cruise of a hundred segments with a burst of eight lost, whose round trips are of so many
/// milliseconds; what is the rate afterwards, of what it was?
fn after_a_burst(round_trip: u32) -> (u64, u64) {
    let mut clock = Clock { now: 1, seq: 0 };
    let mut bbr = Bbr::new(MSS as u16);
    rounds(&mut bbr, &mut clock, 12, u32::MAX);
    bbr.state = State::Cruise;
    let before = bbr.model.bw();
    for round in 0..2 {
        let begin = clock.now;
        for part in 0..10 {
            clock.seq += 10 * MSS;
            bbr.on_sent(SeqNumber(clock.seq), 10 * MSS, 90 * MSS, at(begin + part));
        }
        clock.now += RTT;
        for part in 0..10 {
            let una = clock.seq - (9 - part) * 10 * MSS;
            let mut ack = delivery(at(clock.now + u64::from(part)), una, 10 * MSS, 90 * MSS);
            ack.rtt = Some(Nanos::from_millis(round_trip));
            if (round, part) == (0, 5) {
                (ack.bytes, ack.lost) = (2 * MSS, 8 * MSS);
            }
            bbr.on_delivery(&ack);
        }
    }
    (before, bbr.model.bw())
}

#[test]
fn a_burst_is_chance_unless_something_waited_in_a_queue() {
    let (before, after) = after_a_burst(RTT as u32 + 6);
    assert_eq!(before, after);
    let (before, after) = after_a_burst(RTT as u32 + 7);
    assert!(after < before, "{after} of {before}");
}

/// Whether ProbeRTT is due after six seconds with a round trip of `millis` every half second, where the least was
/// of 160.
fn probe_rtt_is_due_after(millis: u32) -> (bool, Nanos) {
    let mut model = Model::new();
    model.note_rtt(Nanos::from_millis(160), at(1));
    assert!(!model.probe_rtt_expired, "it has only begun");
    let mut was_due = false;
    for half_second in 1..=12 {
        model.note_rtt(Nanos::from_millis(millis), at(1 + 500 * half_second));
        was_due |= model.probe_rtt_expired;
    }
    (was_due, model.min_rtt)
}

#[test]
fn probe_rtt_is_put_off_while_round_trips_wait_in_no_queue() {
    let least = Nanos::from_millis(160);
    assert_eq!(probe_rtt_is_due_after(160), (false, least));
    assert_eq!(probe_rtt_is_due_after(170), (false, least));
    assert_eq!(probe_rtt_is_due_after(171), (true, least));
}

#[test]
fn a_window_that_is_not_paced_has_three_bursts_on_top() {
    let window = |round_trip| {
        let mut bbr = Bbr::new(MSS as u16);
        let min_rtt = Nanos::from_micros(round_trip);
        // Ten segments a millisecond, and nothing that comes at once.
        bbr.model = Model::resume(at(1), 10_000_000, min_rtt);
        bbr.state = State::Cruise;
        bbr.window.set_cwnd(1_000_000);
        bbr.set_pacing_rate();
        let ack = delivery(at(1), 0, 0, 0);
        bbr.set_window(&ack, &Sample::default());
        bbr.window.cwnd()
    };
    // Twice what fills the pipe; the pace leaves out one in a hundred.
    assert_eq!(window(2_000), 40_000);
    assert_eq!(window(1_999), 39_980 + 3 * 9_900);
}
