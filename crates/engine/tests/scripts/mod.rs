//! Scripts for what the fuzzer drives as well: random ones, and those that it found interesting.

use std::path::Path;

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// The script of a seed.
pub fn random(seed: u32) -> Vec<u8> {
    println!("random script {seed}");
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut script = vec![0; random.next_u32() as usize % 1500];
    random.fill_bytes(&mut script);
    script
}

/// Runs each script of the corpus of a fuzz target; there is one at least.
pub fn run_corpus(target: &str, mut run: impl FnMut(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut scripts = 0;
    for file in std::fs::read_dir(corpus.join(target)).expect("the corpus is committed") {
        let path = file.expect("a directory that can be read").path();
        println!("{}", path.display());
        run(&std::fs::read(path).expect("a file that can be read"));
        scripts += 1;
    }
    assert!(scripts > 0, "an empty corpus");
}
