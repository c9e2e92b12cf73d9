//! The other side of a region scribbles on it; see the harness.
#![no_main]

#[path = "../../crates/queue-pair/tests/scribble/harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|script: &[u8]| harness::scribble(script));
