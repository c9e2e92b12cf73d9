//! Random strangers, and what the fuzzer found interesting: `cargo xtask fuzz strangers` looks for more.

#[path = "strangers/mod.rs"]
mod harness;
mod world;

use std::path::Path;

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

#[test]
fn whatever_strangers_do_who_works_goes_on() {
    for seed in 0..100u32 {
        println!("random script {seed}");
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&seed.to_le_bytes());
        let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut script = vec![0; random.next_u32() as usize % 1500];
        random.fill_bytes(&mut script);
        harness::run(&script);
    }
}

#[test]
fn the_corpus_does_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/strangers");
    let mut scripts = 0;
    for file in std::fs::read_dir(corpus).expect("the corpus is committed") {
        let path = file.expect("a directory that can be read").path();
        println!("{}", path.display());
        harness::run(&std::fs::read(path).expect("a file that can be read"));
        scripts += 1;
    }
    assert!(scripts > 0, "an empty corpus");
}
