//! Random strangers, and what the fuzzer found interesting: `cargo xtask fuzz strangers` looks for more.

#[path = "../strangers/mod.rs"]
mod harness;

#[test]
fn whatever_strangers_do_who_works_goes_on() {
    for seed in 0..100u32 {
        harness::run(&crate::scripts::random(seed));
    }
}

#[test]
fn the_corpus_does_no_harm() {
    crate::scripts::run_corpus("strangers", |script| {
        harness::run(script);
    });
}
