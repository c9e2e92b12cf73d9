//! A peer that keeps no convention and falls silent; see the harness.
#![no_main]

#[path = "../../crates/sim/tests/fuzzed/mod.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|script: &[u8]| fuzzed::foreign::run(script));
