//! Registered memory, views and posted buffers under random scripts, and under those that the fuzzer found
//! interesting: `cargo xtask fuzz lent` looks for more.

#[path = "../lent/mod.rs"]
mod harness;

#[test]
fn what_is_lent_is_used_as_it_was_lent() {
    let mut all = harness::Seen::default();
    for seed in 0..100u32 {
        let seen = harness::run(&crate::scripts::random(seed));
        all.posted += seen.posted;
        all.placed += seen.placed;
        all.viewed += seen.viewed;
        all.sent += seen.sent;
        all.read += seen.read;
        all.violations += seen.violations;
    }
    // The scripts come to what they are for.
    println!("{all:?}");
    assert!(all.posted > 1000 && all.violations > 50, "{all:?}");
    let least = all.placed.min(all.viewed).min(all.sent).min(all.read);
    assert!(least > 300_000, "{all:?}");
}

#[test]
fn the_corpus_does_no_harm() {
    crate::scripts::run_corpus("lent", |script| {
        harness::run(script);
    });
}
