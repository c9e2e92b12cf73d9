//! Experiments on one machine: private networks, programs that are looked after, samplers of what
//! they cost, and honest statistics over interleaved rounds.
//!
//! A [`World`] is two network namespaces joined by a veth pair. It cleans up after itself however
//! its owner ends: on drop, on Ctrl-C, on SIGKILL.
#![forbid(unsafe_code)]

pub mod faults;
mod guardian;
pub mod load;
pub mod machine;
pub mod nginx;
pub mod outboard;
pub mod process;
pub mod sampler;
pub mod statistics;
pub mod table;
pub mod tool;
pub mod web;
pub mod world;

pub use process::{Process, Program};
pub use world::{Side, World};

/// Whether this process may make network namespaces. A test that needs to says so by
/// [`skip_without_root`].
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// For the first line of a test that needs root: `true`, and a line that says so, without it.
///
/// The line goes past the test harness, which swallows what tests print with macros.
pub fn skip_without_root(test: &str) -> bool {
    use std::io::Write;
    if is_root() {
        return false;
    }
    let line = format!("SKIPPED (needs root): {test}\n");
    // Whether anyone reads it is not the test's business.
    let _ = std::io::stderr().write_all(line.as_bytes());
    true
}
