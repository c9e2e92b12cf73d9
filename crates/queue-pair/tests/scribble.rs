//! The other side scribbles on the region: nothing panics, reads out of bounds or works without
//! end. `cargo xtask fuzz scribble` looks for more.
// miri has no memfd.
#![cfg(not(any(loom, miri)))]

#[path = "scribble/harness.rs"]
mod harness;

use harness::{engine_turn, host_turn, scribble};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use queue_pair::region;
use queue_pair::{Layout, Sizes};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The same bytes in every run.
fn random(seed: u8) -> TestRng {
    TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32])
}

#[test]
fn random_scripts_do_no_harm() {
    let mut random = random(1);
    for _ in 0..2_000 {
        let mut script = vec![0; random.next_u32() as usize % 512];
        random.fill_bytes(&mut script);
        scribble(&script);
    }
}

/// What the fuzzer found interesting once.
#[test]
fn the_corpus_does_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/scribble");
    let mut scripts = 0;
    for file in std::fs::read_dir(corpus).expect("the corpus is committed") {
        scribble(&std::fs::read(file.unwrap().path()).unwrap());
        scripts += 1;
    }
    assert!(scripts > 0, "an empty corpus");
}

/// Writes of the scribbler in each region.
const WRITES: usize = 500;

/// The other side writes while this one works, not only between its turns.
#[test]
fn scribbling_meanwhile_does_no_harm() {
    let sizes = Sizes {
        submission_entries: 8,
        completion_entries: 8,
        positions: 8,
        send_len: 8192,
        receive_len: 8192,
    };
    let layout = Layout::new(sizes).unwrap();
    let (mut violations, mut turns) = (0, 0);
    let mut random = random(2);
    for _ in 0..200 {
        let (fd, mut engine) = region::create(&layout).unwrap();
        let mut host = region::attach(&fd).unwrap();
        let over = AtomicBool::new(false);
        let seed = random.next_u32() as u8;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = self::random(seed);
                for _ in 0..WRITES {
                    // Indices that creep, entries of low kinds.
                    let at = [1024, 1408, 4096 + 32 * u64::from(random.next_u32() % 8)];
                    let at = at[random.next_u32() as usize % 3];
                    let small = random.next_u64() & random.next_u64() & 0x0f_0000_0007;
                    rustix::io::pwrite(&fd, &small.to_ne_bytes(), at).unwrap();
                }
                over.store(true, Ordering::Release);
            });
            // As long as the other side writes, and once more after its last word: whichever
            // thread gets the core first, some turns see what was written.
            let mut last = false;
            while !last {
                last = over.load(Ordering::Acquire);
                turns += 1;
                if engine_turn(&mut engine).is_err() || host_turn(&mut host).is_err() {
                    violations += 1;
                    break;
                }
            }
        });
    }
    assert!(
        violations > 0,
        "{turns} turns, and no scribbling was noticed"
    );
}
