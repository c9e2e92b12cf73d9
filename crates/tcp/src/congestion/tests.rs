use core::time::Duration;

use super::*;

const MSS: u16 = 1_000;

fn ack(controller: &mut Controller, now: Instant, bytes: u32) {
    acked(controller, now, bytes, true);
}

fn acked(controller: &mut Controller, now: Instant, bytes: u32, cwnd_limited: bool) {
    controller.on_ack(&Acked {
        now,
        bytes,
        srtt: Duration::from_millis(100),
        latest_rtt: None,
        cwnd_limited,
        round: false,
    });
}

fn both() -> [Controller; 2] {
    [
        Controller::new(Algorithm::Cubic, MSS),
        Controller::new(Algorithm::Reno, MSS),
    ]
}

/// Acknowledges whole windows, segment by segment, one a round trip of 100 ms, from `now` on.
fn round_trips(controller: &mut Controller, now: &mut Instant, count: u32) {
    for _ in 0..count {
        *now += Duration::from_millis(100);
        for _ in 0..controller.cwnd() / u32::from(MSS) {
            ack(controller, *now, MSS.into());
        }
    }
}

//~ RFC 6928 §2
#[test]
fn initial_windows_of_rfc_6928() {
    for (mss, window) in [
        (536, 5_360),
        (1_460, 14_600),
        (8_960, 17_920),
        (2_000, 14_600),
    ] {
        assert_eq!(
            Controller::new(Algorithm::Cubic, mss).cwnd(),
            window,
            "{mss}"
        );
    }
    // Nonsense does not break it.
    assert_eq!(Controller::new(Algorithm::Reno, 0).cwnd(), 10);
}

//~ RFC 9438 §4.10
#[test]
fn slow_start_adds_what_was_acknowledged() {
    for mut controller in both() {
        assert!(controller.in_slow_start());
        ack(&mut controller, Instant::ZERO, 1_000);
        assert_eq!(controller.cwnd(), 11_000);
        ack(&mut controller, Instant::ZERO, 2_500);
        assert_eq!(controller.cwnd(), 13_500);
        // However much at once.
        ack(&mut controller, Instant::ZERO, 50_000);
        assert_eq!(controller.cwnd(), 63_500);
        // A window that was not used up does not grow.
        acked(&mut controller, Instant::ZERO, 1_000, false);
        assert_eq!(controller.cwnd(), 63_500);
    }
}

//~ RFC 5681 §3.1
#[test]
fn reno_halves_and_adds_a_segment_a_window() {
    let mut reno = Controller::new(Algorithm::Reno, MSS);
    reno.set_cwnd(40_000);
    reno.on_congestion(Instant::ZERO, 30_000);
    assert_eq!((reno.cwnd(), reno.ssthresh()), (15_000, 15_000));
    assert!(!reno.in_slow_start());
    for _ in 0..14 {
        ack(&mut reno, Instant::ZERO, 1_000);
        assert_eq!(reno.cwnd(), 15_000);
    }
    ack(&mut reno, Instant::ZERO, 1_000);
    assert_eq!(reno.cwnd(), 16_000);
    // What recovery had in flight beyond the window does not count.
    reno.on_congestion(Instant::ZERO, 100_000);
    assert_eq!(reno.cwnd(), 8_000);
}

//~ RFC 9438 §4.6
#[test]
fn cubic_reduces_by_three_tenths() {
    let mut cubic = Controller::new(Algorithm::Cubic, MSS);
    cubic.set_cwnd(100_000);
    cubic.on_congestion(Instant::ZERO, 100_000);
    assert_eq!((cubic.cwnd(), cubic.ssthresh()), (70_000, 70_000));
}

#[test]
fn ssthresh_and_cwnd_have_a_floor() {
    for mut controller in both() {
        controller.on_congestion(Instant::ZERO, 1_000);
        assert_eq!((controller.cwnd(), controller.ssthresh()), (2_000, 2_000));
        controller.set_cwnd(0);
        assert_eq!(controller.cwnd(), 1_000);
    }
}

//~ RFC 9438 §4.8
#[test]
fn a_timeout_collapses_cwnd_and_only_the_first_lowers_ssthresh() {
    for (mut controller, ssthresh) in both().into_iter().zip([28_000, 20_000]) {
        controller.set_cwnd(40_000);
        controller.on_rto(Instant::ZERO, 40_000, true);
        assert_eq!(
            (controller.cwnd(), controller.ssthresh()),
            (1_000, ssthresh)
        );
        controller.on_rto(Instant::ZERO, 1_000, false);
        assert_eq!(
            (controller.cwnd(), controller.ssthresh()),
            (1_000, ssthresh)
        );
        assert!(controller.in_slow_start());
        // An acknowledgement of much counts for eight segments at most.
        let mut jump = controller.clone();
        ack(&mut jump, Instant::ZERO, 18_000);
        assert_eq!(jump.cwnd(), 9_000);
        // Slow start stops at ssthresh, and what is left counts for congestion avoidance.
        for _ in 0..30 {
            ack(&mut controller, Instant::ZERO, 1_000);
        }
        assert!((ssthresh..ssthresh + 1_000).contains(&controller.cwnd()));
    }
}

/// W_max = 1,000 segments, so that after the reduction K = cbrt(300 / 0.4) = 9.086 s.
//~ RFC 9438 §4.1, §4.2, §4.4, §4.5
#[test]
fn cubic_is_back_at_w_max_after_k() {
    let mut cubic = Controller::new(Algorithm::Cubic, MSS);
    cubic.set_cwnd(1_000_000);
    cubic.on_congestion(Instant::ZERO, 1_000_000);
    let mut now = Instant::ZERO;
    // The epoch begins at the first acknowledgement, at 0.1 s.
    round_trips(&mut cubic, &mut now, 46);
    // At t = 4.5 s: 0.4 * (4.5 + 0.1 - 9.086)^3 + 1000 = 963.9 is the target for the next round
    // trip, nearly reached by the end of this one.
    let window = cubic.cwnd();
    assert!((960_000..964_000).contains(&window), "{window}");
    round_trips(&mut cubic, &mut now, 46);
    // At t = 9.1 s, the turning point.
    let window = cubic.cwnd();
    assert!((999_000..1_001_000).contains(&window), "{window}");
    round_trips(&mut cubic, &mut now, 50);
    // At t = 14.1 s: 0.4 * (14.1 + 0.1 - 9.086)^3 + 1000 = 1053.5.
    let window = cubic.cwnd();
    assert!((1_048_000..1_054_000).contains(&window), "{window}");
}

//~ RFC 9438 §4.3
#[test]
fn cubic_follows_reno_where_reno_is_faster() {
    // A small window and a short round trip: the cubic, at 20 segments, would take
    // K = cbrt(6 / 0.4) = 2.47 s to come back; Reno's estimate is there after
    // 6 segments / (9/17 a round trip) = 11.3 round trips = 1.13 s.
    let mut cubic = Controller::new(Algorithm::Cubic, MSS);
    cubic.set_cwnd(20_000);
    cubic.on_congestion(Instant::ZERO, 20_000);
    assert_eq!(cubic.cwnd(), 14_000);
    let mut now = Instant::ZERO;
    round_trips(&mut cubic, &mut now, 13);
    let window = cubic.cwnd();
    assert!((19_500..21_500).contains(&window), "{window}");
}

//~ RFC 9438 §4.7
#[test]
fn cubic_converges_fast_when_others_took_the_room() {
    let mut cubic = Controller::new(Algorithm::Cubic, MSS);
    cubic.set_cwnd(100_000);
    cubic.on_congestion(Instant::ZERO, 100_000);
    // Below W_max = 100,000 again: the new W_max is 0.85 * 70,000.
    cubic.on_congestion(Instant::ZERO, 70_000);
    let Controller::Cubic(state) = &cubic else {
        panic!("not cubic")
    };
    assert!(format!("{state:?}").contains("w_max: 59500"), "{state:?}");
    assert_eq!(cubic.cwnd(), 49_000);
}

#[test]
fn time_in_which_the_window_was_not_the_limit_does_not_count() {
    let mut cubic = Controller::new(Algorithm::Cubic, MSS);
    cubic.set_cwnd(1_000_000);
    cubic.on_congestion(Instant::ZERO, 1_000_000);
    let mut now = Instant::ZERO;
    round_trips(&mut cubic, &mut now, 10);
    let mut idle = cubic.clone();
    let mut idle_now = now;
    for _ in 0..100 {
        idle_now += Duration::from_secs(1);
        acked(&mut idle, idle_now, 1_000, false);
    }
    assert_eq!(idle.cwnd(), cubic.cwnd());
    round_trips(&mut cubic, &mut now, 5);
    round_trips(&mut idle, &mut idle_now, 5);
    assert!(idle.cwnd().abs_diff(cubic.cwnd()) < 2_000);
}

#[test]
fn no_acknowledgement_overflows() {
    for mut controller in both() {
        controller.set_cwnd(u32::MAX);
        controller.on_congestion(Instant::ZERO, u32::MAX);
        for step in 0..200_u64 {
            let now = Instant::from_secs(step * step * 1_000_000);
            ack(&mut controller, now, u32::MAX);
            assert!(controller.cwnd() <= MAX_WINDOW);
        }
        ack(&mut controller, Instant::MAX, u32::MAX);
    }
}

#[test]
fn the_algorithm_can_change_under_way() {
    let mut controller = Controller::new(Algorithm::Cubic, MSS);
    controller.set_cwnd(50_000);
    controller.on_congestion(Instant::ZERO, 50_000);
    controller.set_algorithm(Algorithm::from_name("reno").unwrap());
    assert_eq!(controller.algorithm().name(), "reno");
    assert_eq!((controller.cwnd(), controller.ssthresh()), (35_000, 35_000));
    controller.set_algorithm(Algorithm::Bbr);
    assert_eq!(
        (controller.cwnd(), controller.ssthresh()),
        (35_000, u32::MAX)
    );
    controller.set_algorithm(Algorithm::Cubic);
    assert_eq!(controller.cwnd(), 35_000);
    assert_eq!(Algorithm::from_name("bbr2"), None);
}

#[test]
fn a_controller_is_small() {
    assert!(size_of::<Controller>() <= 72, "{}", size_of::<Controller>());
}
