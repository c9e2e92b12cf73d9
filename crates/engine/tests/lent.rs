//! Registered memory, views and posted buffers under random scripts, and under those that the fuzzer found
//! interesting: `cargo xtask fuzz lent` looks for more.

#[path = "lent/mod.rs"]
mod harness;
mod world;

use std::path::Path;

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

#[test]
fn what_is_lent_is_used_as_it_was_lent() {
    let mut all = harness::Seen::default();
    for seed in 0..100u32 {
        println!("random script {seed}");
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&seed.to_le_bytes());
        let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut script = vec![0; random.next_u32() as usize % 1500];
        random.fill_bytes(&mut script);
        let seen = harness::run(&script);
        all.posted += seen.posted;
        all.placed += seen.placed;
        all.viewed += seen.viewed;
        all.sent += seen.sent;
        all.violations += seen.violations;
    }
    // The scripts come to what they are for.
    println!("{all:?}");
    assert!(all.posted > 1000 && all.violations > 50, "{all:?}");
    let least = all.placed.min(all.viewed).min(all.sent);
    assert!(least > 500_000, "{all:?}");
}

#[test]
fn the_corpus_does_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/lent");
    let mut scripts = 0;
    for file in std::fs::read_dir(corpus).expect("the corpus is committed") {
        let path = file.expect("a directory that can be read").path();
        println!("{}", path.display());
        harness::run(&std::fs::read(path).expect("a file that can be read"));
        scripts += 1;
    }
    assert!(scripts > 0, "an empty corpus");
}
