//! What the fuzzers found interesting, and random scripts: nothing panics, no assertion fails.
//! `cargo xtask fuzz wire_input` (or `foreign`, `stacks`, `options`, `reader`) looks for more.

#[path = "fuzzed/mod.rs"]
#[allow(dead_code)]
mod fuzzed;

use std::path::Path;

use sim::Rng;

/// Runs the committed corpus of a target, then random scripts.
fn replay(target: &str, random: u64, longest: u64, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut files = 0;
    for file in std::fs::read_dir(corpus.join(target)).expect("the corpus is committed") {
        let path = file.expect("a directory that can be read").path();
        println!("{}", path.display());
        run(&std::fs::read(path).expect("a file that can be read"));
        files += 1;
    }
    assert!(files > 0, "an empty corpus");
    for seed in 0..random {
        println!("random script {seed}");
        let mut rng = Rng::new(seed);
        let length = rng.below(longest) as usize;
        let script: Vec<u8> = (0..length).map(|_| rng.next_u64() as u8).collect();
        run(&script);
    }
}

#[test]
fn segments_from_the_wire() {
    replay("wire_input", 2_000, 600, fuzzed::wire_input::run);
}

#[test]
fn two_stacks_and_a_hostile_link() {
    replay("stacks", 2_000, 800, fuzzed::stacks::run);
}

#[test]
fn a_peer_without_conventions() {
    replay("foreign", 3_000, 600, fuzzed::foreign::run);
}

#[test]
fn options_of_any_bytes() {
    replay("options", 20_000, 44, fuzzed::options::run);
}

#[test]
fn scripts_of_any_text() {
    replay("reader", 2_000, 200, fuzzed::reader::run);
}
