//! Random scenarios by seed. One that failed is had again by its seed:
//! `SEED=17 cargo test -p outboard-sim --test it seeds`.

use sim::scenario::Scenario;

/// How many seeds the gate runs.
const SEEDS: u64 = 2_000;

#[test]
fn scenarios_of_a_fixed_set_of_seeds_deliver_every_byte() {
    if let Some(seed) = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        println!("seed {seed}: {}", Scenario::random(seed).run());
        return;
    }
    // Two threads at most, each every other seed.
    std::thread::scope(|scope| {
        for first in 0..2 {
            scope.spawn(move || {
                for seed in (first..SEEDS).step_by(2) {
                    Scenario::random(seed).run();
                }
            });
        }
    });
}

#[test]
fn a_seed_means_the_same_run_every_time() {
    for seed in [3, 14, 15] {
        assert_eq!(Scenario::random(seed).run(), Scenario::random(seed).run());
    }
}
