//! Registered memory, views and posted buffers; see the harness.
#![no_main]

#[path = "../../crates/engine/tests/lent/mod.rs"]
mod harness;
#[path = "../../crates/engine/tests/world/mod.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    harness::run(script);
});
