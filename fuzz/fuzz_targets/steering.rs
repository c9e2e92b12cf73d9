//! The steering program in the kernel's test run (as root); see the harness.
#![no_main]

#[path = "../../crates/netdev/tests/common/mod.rs"]
mod common;
#[path = "../../crates/netdev/tests/steering/fuzzed.rs"]
mod fuzzed;

thread_local! {
    static PROGRAM: fuzzed::Program = fuzzed::Program::load();
}

libfuzzer_sys::fuzz_target!(|script: &[u8]| PROGRAM.with(|program| program.run(script)));
