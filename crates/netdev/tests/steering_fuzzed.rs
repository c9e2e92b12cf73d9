//! Frames that scripts of bytes have bent, through the steering program in the kernel's test run:
//! the committed corpus and random ones. `cargo +nightly fuzz run steering` looks for more.

mod common;
#[path = "steering/fuzzed.rs"]
mod fuzzed;

use std::path::Path;

use fuzzed::Program;

#[test]
fn bent_frames_are_steered_as_they_are_read() {
    if lab::skip_without_root("bent_frames_are_steered_as_they_are_read") {
        return;
    }
    let program = Program::load();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/steering");
    for file in std::fs::read_dir(corpus).expect("the corpus is committed") {
        let path = file.expect("a directory that can be read").path();
        program.run(&std::fs::read(path).expect("a file that can be read"));
    }
    let mut random = 1_u64;
    for _ in 0..50_000 {
        let mut script = [0; 17];
        for byte in &mut script {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *byte = (random >> 56) as u8;
        }
        let length = usize::from(script[16]) % 16;
        program.run(&script[..length]);
    }
}
