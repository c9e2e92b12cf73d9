use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const TICK: u64 = super::TICK.get();

fn drain(wheel: &mut TimerWheel, now: Instant) -> Vec<u32> {
    std::iter::from_fn(|| wheel.pop_expired(now)).collect()
}

#[test]
fn a_deadline_fires_at_its_tick_and_not_before() {
    let mut wheel = TimerWheel::new(Instant::ZERO);
    let deadline = Instant::from_nanos(3 * TICK - 1);
    wheel.schedule(5, deadline);
    assert_eq!(wheel.scheduled(5), Some(deadline));
    assert_eq!(wheel.next(), Some(Instant::from_nanos(3 * TICK)));
    assert_eq!(wheel.pop_expired(Instant::from_nanos(3 * TICK - 1)), None);
    assert_eq!(wheel.pop_expired(Instant::from_nanos(3 * TICK)), Some(5));
    assert_eq!(
        (wheel.scheduled(5), wheel.next(), wheel.len()),
        (None, None, 0)
    );
}

#[test]
fn a_deadline_in_the_past_has_expired() {
    let mut wheel = TimerWheel::new(Instant::from_secs(9));
    wheel.schedule(0, Instant::from_secs(1));
    assert!(wheel.next() <= Some(Instant::from_secs(9)));
    assert_eq!(wheel.pop_expired(Instant::from_secs(9)), Some(0));
}

#[test]
fn moved_and_cancelled_deadlines_do_not_fire() {
    let mut wheel = TimerWheel::new(Instant::ZERO);
    for key in 0..10 {
        wheel.schedule(key, Instant::from_millis(50));
    }
    wheel.schedule(3, Instant::from_secs(5));
    wheel.cancel(0);
    wheel.cancel(9);
    wheel.cancel(9);
    wheel.cancel(1_000);
    assert_eq!(wheel.len(), 8);
    assert_eq!(
        drain(&mut wheel, Instant::from_millis(60)),
        [1, 2, 4, 5, 6, 7, 8]
    );
    assert_eq!(drain(&mut wheel, Instant::from_secs(6)), [3]);
    assert!(wheel.is_empty());
}

#[test]
fn an_expired_key_can_be_cancelled_or_moved_before_it_is_taken_out() {
    let mut wheel = TimerWheel::new(Instant::ZERO);
    for key in 0..4 {
        wheel.schedule(key, Instant::from_millis(1));
    }
    assert_eq!(wheel.pop_expired(Instant::from_millis(10)), Some(0));
    wheel.cancel(2);
    wheel.schedule(1, Instant::from_millis(100));
    assert_eq!(drain(&mut wheel, Instant::from_millis(10)), [3]);
}

#[test]
fn time_jumps_over_years_of_nothing() {
    let mut wheel = TimerWheel::new(Instant::ZERO);
    let year = 365 * 86_400;
    wheel.schedule(0, Instant::from_secs(500 * year));
    wheel.schedule(1, Instant::MAX);
    let mut looks = 0;
    let mut fired = None;
    while fired.is_none() {
        looks += 1;
        fired = wheel.pop_expired(wheel.next().unwrap());
    }
    assert_eq!(fired, Some(0));
    assert!(looks <= LEVELS, "{looks}");
    // The end of time never comes.
    assert_eq!(wheel.scheduled(1), Some(Instant::MAX));
    assert_eq!(wheel.pop_expired(Instant::MAX), None);
    assert_eq!(wheel.next(), Some(Instant::MAX));
}

#[test]
fn a_key_costs_24_bytes() {
    assert_eq!(size_of::<Entry>(), 24);
}

#[derive(Clone, Debug)]
enum Step {
    Schedule(u32, u64),
    Cancel(u32),
    Advance(u64),
    JumpToNext,
}

fn step() -> impl Strategy<Value = Step> {
    // Spans of all magnitudes, from below a tick to beyond a year.
    let span = (0..55_u32, any::<u64>()).prop_map(|(bits, n)| n & ((1 << bits) - 1));
    prop_oneof![
        4 => (0..30_u32, span.clone()).prop_map(|(key, span)| Step::Schedule(key, span)),
        1 => (0..30_u32).prop_map(Step::Cancel),
        1 => span.prop_map(Step::Advance),
        2 => Just(Step::JumpToNext),
    ]
}

proptest! {
    /// Against a map of ticks: the same keys expire at the same looks, `next` is never late, and
    /// following it always gets on.
    #[test]
    fn it_behaves_like_a_sorted_map(
        start in 0..1_u64 << 50,
        steps in proptest::collection::vec(step(), 0..300),
    ) {
        let mut now = Instant::from_nanos(start);
        let mut wheel = TimerWheel::new(now);
        let mut model = BTreeMap::new();
        for step in steps {
            match step {
                Step::Schedule(key, span) => {
                    let deadline = Instant::from_nanos(now.as_nanos().saturating_add(span));
                    wheel.schedule(key, deadline);
                    model.insert(key, deadline);
                }
                Step::Cancel(key) => {
                    wheel.cancel(key);
                    model.remove(&key);
                }
                Step::Advance(span) => {
                    now = Instant::from_nanos(now.as_nanos().saturating_add(span));
                }
                Step::JumpToNext => now = wheel.next().map_or(now, |next| next.max(now)),
            }
            let tick = now.as_nanos() >> TICK_BITS;
            let mut due: Vec<u32> = model
                .iter()
                .filter(|(_, deadline)| deadline.as_nanos().div_ceil(TICK) <= tick)
                .map(|(&key, _)| key)
                .collect();
            model.retain(|key, _| !due.contains(key));
            let mut fired = drain(&mut wheel, now);
            fired.sort_unstable();
            due.sort_unstable();
            prop_assert_eq!(fired, due);
            prop_assert_eq!(wheel.len(), model.len());
            let earliest = model.values().min().map(|at| start_of(at.as_nanos().div_ceil(TICK)));
            match (wheel.next(), earliest) {
                (Some(next), Some(earliest)) => prop_assert!(next <= earliest && next > now),
                (None, None) => {}
                other => prop_assert!(false, "{other:?}"),
            }
            for key in 0..30 {
                prop_assert_eq!(wheel.scheduled(key), model.get(&key).copied());
            }
        }
    }
}
