//! Who serves a listener's next connections: examples, and properties of any course of a load.

use engine::placement::{DWELL_NS, Decider, Decision, Figure, KNOWN, LOOK_NS, Place, Why};
use netdev::steering::Load;
use policy::Band;
use proptest::prelude::*;

/// The engine pays from so many a second on.
const FROM: f64 = 2000.0;

const PAYS: Band = Band {
    offload_from_rate: Some(FROM),
    offload_below_rate: None,
};

/// A listener, its time and what has come to it.
struct Course {
    decider: Decider,
    now: u64,
    load: Load,
}

impl Course {
    fn new() -> Self {
        Self {
            decider: Decider::new(0, Figure::Arrivals),
            now: 0,
            load: Load::default(),
        }
    }

    /// A second in which so many connections come and end, each after so long and with so many requests.
    fn second(&mut self, opened: u64, requests: u64, life_ns: u64) -> Decision {
        self.now += LOOK_NS;
        // By turns the one and the other: it counts alike.
        let turn = (self.now / LOOK_NS).is_multiple_of(2);
        let (opens, sends) = match turn {
            true => (&mut self.load.opened_engine, &mut self.load.data_kernel),
            false => (&mut self.load.opened_kernel, &mut self.load.data_engine),
        };
        *opens += opened;
        *sends += opened * requests;
        self.load.ended += opened;
        self.load.lived_ns += opened * life_ns;
        self.decider.look(self.now, self.load, &PAYS)
    }

    /// So many seconds of that; the last decision.
    fn seconds(&mut self, seconds: u64, opened: u64, requests: u64) -> Decision {
        let decisions = (0..seconds).map(|_| self.second(opened, requests, 1_000_000));
        decisions.last().expect("some seconds")
    }
}

#[test]
fn a_listener_begins_on_the_engine_and_goes_to_the_kernel_when_it_is_known_to_be_quiet() {
    let mut course = Course::new();
    let decision = course.seconds(60, 0, 0);
    assert_eq!(
        (decision.place, decision.why),
        (Place::Engine, Why::Unknown)
    );
    let decision = course.seconds(3, 4, 1);
    assert_eq!(
        (decision.place, decision.why),
        (Place::Engine, Why::Unknown)
    );
    let decision = course.seconds(3, 4, 1);
    assert_eq!((decision.place, decision.why), (Place::Kernel, Why::Quiet));
    assert_eq!((decision.rate, decision.peak), (8.0, 8.0));
    assert_eq!(decision.life_ns, Some(1_000_000));
    assert_eq!(decision.carried, Some(1.0));
}

#[test]
fn it_comes_back_in_the_second_in_which_the_rate_rises_and_goes_when_the_peak_is_past() {
    let mut course = Course::new();
    assert_eq!(course.seconds(30, 100, 1).place, Place::Kernel);
    assert_eq!(course.seconds(1, 1000, 1).place, Place::Engine);
    // Ten seconds later nobody speaks of the peak any more, but it is near enough.
    assert_eq!(course.seconds(60, 600, 1).place, Place::Engine);
    assert_eq!(course.seconds(9, 400, 1).place, Place::Engine);
    assert_eq!(course.seconds(2, 400, 1).place, Place::Kernel);
    assert_eq!(course.seconds(60, 900, 1).place, Place::Kernel);
}

#[test]
fn a_decision_holds_for_ten_seconds() {
    let mut course = Course::new();
    while course.seconds(1, 100, 1).place == Place::Engine {}
    assert_eq!(course.seconds(9, 5000, 1).place, Place::Kernel);
    assert_eq!(course.seconds(1, 5000, 1).place, Place::Engine);
}

#[test]
fn connections_that_live_long_or_carry_much_begin_on_the_engine() {
    let mut course = Course::new();
    for _ in 0..60 {
        let decision = course.second(10, 1, 60_000_000_000);
        assert_eq!(decision.place, Place::Engine, "{decision:?}");
    }
    let decision = course.second(0, 0, 0);
    assert_eq!(decision.why, Why::Long, "{decision:?}");
    let mut course = Course::new();
    assert_eq!(course.seconds(60, 1, 100).why, Why::Long);
    // Between two runs of a load generator nothing is forgotten.
    let decision = course.seconds(600, 0, 0);
    assert_eq!((decision.place, decision.why), (Place::Engine, Why::Long));
    // Until others come.
    assert_eq!(course.seconds(60, 100, 1).place, Place::Kernel);
    // And back.
    assert_eq!(course.seconds(60, 1, 1000).place, Place::Engine);
}

#[test]
fn ten_seconds_are_known_of_a_listener_at_least() {
    let mut course = Course::new();
    // Nobody has looked for a while.
    course.now = 10 * DWELL_NS;
    let decision = course.seconds(10, 100, 1);
    assert_eq!(
        (decision.place, decision.why),
        (Place::Engine, Why::Unknown)
    );
    assert_eq!(course.seconds(1, 100, 1).place, Place::Kernel);
}

#[test]
fn counters_that_begin_anew_are_no_load() {
    let mut course = Course::new();
    assert_eq!(course.seconds(30, 100, 1).place, Place::Kernel);
    course.load = Load::default();
    let decision = course.second(0, 0, 0);
    assert_eq!((decision.place, decision.rate), (Place::Kernel, 0.0));
}

fn between(from: u32, below: u32) -> Band {
    Band {
        offload_from_rate: Some(from.into()),
        offload_below_rate: Some(below.into()),
    }
}

/// A listener that is known, of which the steady rate has been `at` for so long that nothing else counts.
fn settled(
    decider: &mut Decider,
    (now, load): (&mut u64, &mut Load),
    at: u64,
    band: &Band,
) -> Place {
    for _ in 0..30 {
        *now += LOOK_NS;
        load.opened_engine += at;
        decider.look(*now, *load, band);
    }
    decider.look(*now, *load, band).place
}

#[test]
fn a_peak_beyond_the_band_brings_nothing_back() {
    let band = between(2000, 8000);
    let mut decider = Decider::new(0, Figure::Arrivals);
    let (mut now, mut load) = (0, Load::default());
    let mut at = |rate| settled(&mut decider, (&mut now, &mut load), rate, &band);
    assert_eq!((at(5000), at(20_000)), (Place::Engine, Place::Kernel));
    // By turns beyond it and in it: the busiest second says where it would be sent next.
    for second in 0..100 {
        now += LOOK_NS;
        load.opened_engine += if second % 5 == 0 { 20_000 } else { 5000 };
        let decision = decider.look(now, load, &band);
        assert_eq!((decision.place, decision.why), (Place::Kernel, Why::Quiet));
    }
}

#[test]
fn while_the_rates_that_decide_are_not_known_nothing_changes() {
    let mut course = Course::new();
    assert_eq!(course.seconds(30, 100, 1).place, Place::Kernel);
    for _ in 0..30 {
        course.now += LOOK_NS;
        course.load.opened_engine += 9000;
        course.decider.read(course.now, course.load);
        let decision = course.decider.decide(course.now, &PAYS, None);
        assert_eq!(
            (decision.place, decision.why),
            (Place::Kernel, Why::Unknown)
        );
        assert_eq!(decision.rate, 9000.0, "its own is said all the same");
    }
    let by = course.decider.lately();
    assert_eq!(
        course.decider.decide(course.now, &PAYS, by).place,
        Place::Engine
    );
}

#[test]
fn an_upper_end_has_the_same_distance() {
    let between = between(2000, 8000);
    let mut decider = Decider::new(0, Figure::Arrivals);
    let (mut now, mut load) = (0, Load::default());
    let mut at = |rate: u64, seconds| {
        for _ in 0..seconds {
            now += LOOK_NS;
            load.opened_engine += rate;
            decider.look(now, load, &between);
        }
        decider.look(now, load, &between).place
    };
    assert_eq!(at(5000, 30), Place::Engine);
    assert_eq!(at(15_000, 30), Place::Engine);
    assert_eq!(at(17_000, 30), Place::Kernel);
    assert_eq!(at(9000, 30), Place::Kernel);
    assert_eq!(at(7000, 30), Place::Engine);
}

#[test]
fn a_request_counts_alike_whether_it_has_a_connection_to_itself() {
    let rate = |figure, opened: u64, requests: u64| {
        let mut decider = Decider::new(0, figure);
        let mut load = Load::default();
        decider.look(0, load, &PAYS);
        load.opened_kernel = opened;
        load.data_kernel = opened * requests;
        decider.look(LOOK_NS, load, &PAYS).rate
    };
    assert_eq!(
        (
            rate(Figure::Requests, 600, 1),
            rate(Figure::Requests, 60, 10)
        ),
        (600.0, 600.0)
    );
    assert_eq!(
        (
            rate(Figure::Arrivals, 600, 1),
            rate(Figure::Arrivals, 60, 10)
        ),
        (1200.0, 660.0)
    );
}

proptest! {
    /// Whatever comes, and whenever it is looked.
    #[test]
    fn two_changes_are_never_nearer_than_a_decision_holds(
        steps in prop::collection::vec((0u64..3 * LOOK_NS, 0u64..10_000, 0u64..40), 0..400),
    ) {
        let mut decider = Decider::new(0, Figure::Arrivals);
        let (mut now, mut load) = (0, Load::default());
        let mut last = (Place::Engine, 0);
        for (elapsed, opened, requests) in steps {
            now += elapsed;
            load.opened_kernel += opened;
            load.data_engine += opened * requests;
            load.ended += opened;
            let place = decider.look(now, load, &PAYS).place;
            if place != last.0 {
                prop_assert!(now - last.1 >= DWELL_NS);
                last = (place, now);
            }
        }
    }

    #[test]
    fn a_steady_rate_has_one_place(rate in 1u64..10_000, before in any::<bool>()) {
        let mut course = Course::new();
        // Known, and then at either place.
        course.seconds(40, if before { 10 } else { 10_000 }, 0);
        let began = course.decider.look(course.now, course.load, &PAYS).place;
        course.seconds(40, rate, 0);
        let places: Vec<Place> = (0..100).map(|_| course.second(rate, 0, 1).place).collect();
        let expected = match rate as f64 {
            rate if rate >= FROM => Place::Engine,
            rate if rate < FROM / 2.0 => Place::Kernel,
            _ => began,
        };
        prop_assert!(places.iter().all(|place| *place == expected), "{expected:?}: {places:?}");
    }

    #[test]
    fn what_is_not_known_is_the_engines(gaps in prop::collection::vec(0u64..20, 0..KNOWN as usize)) {
        let mut course = Course::new();
        for gap in gaps {
            for _ in 0..gap {
                prop_assert_eq!(course.second(0, 0, 0).place, Place::Engine);
            }
            prop_assert_eq!(course.second(1, 1, 1).place, Place::Engine);
        }
    }

    /// Of all peaks those that stay are in one piece, and what came from the kernel stays.
    #[test]
    fn what_stays_is_an_interval(from in 1u32..5000, width in 1u32..10_000) {
        let band = between(from, from + width);
        let stays = |peak: u64| {
            let mut decider = Decider::new(0, Figure::Arrivals);
            let (mut now, mut load) = (0, Load::default());
            settled(&mut decider, (&mut now, &mut load), peak, &band) == Place::Engine
        };
        let (low, high) = (u64::from(from), u64::from(from + width));
        let peaks = (0..40).map(|step| (low / 4 + 1) + step * (2 * high + low) / 40);
        let mut all: Vec<bool> = peaks.map(stays).collect();
        all.dedup();
        prop_assert!(all.iter().filter(|stay| **stay).count() <= 1, "{:?}", all);
        prop_assert!(stays(low) && stays(high - 1));
    }

    /// A program that is loaded anew counts from nothing, and a clock may be anything.
    #[test]
    fn no_reading_is_too_odd(readings in prop::collection::vec(any::<(u64, [u64; 6])>(), 0..50)) {
        let mut decider = Decider::new(u64::MAX / 2, Figure::Arrivals);
        for (now, [a, b, c, d, e, f]) in readings {
            let load = Load {
                opened_engine: a,
                opened_kernel: b,
                data_engine: c,
                data_kernel: d,
                ended: e,
                lived_ns: f,
            };
            let decision = decider.look(now, load, &PAYS);
            prop_assert!(decision.rate >= 0.0 && decision.peak >= decision.rate);
        }
    }
}
