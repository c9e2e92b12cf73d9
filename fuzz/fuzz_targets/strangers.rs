//! Strangers on the control socket and in shared memory; see the harness.
#![no_main]

#[path = "../../crates/engine/tests/strangers/mod.rs"]
mod harness;
#[path = "../../crates/engine/tests/world/mod.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|script: &[u8]| harness::run(script));
