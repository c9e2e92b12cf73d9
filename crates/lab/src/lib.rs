//! Experiments on one machine: private networks, programs that are looked after, samplers of what
//! they cost, and honest statistics over interleaved rounds.
//!
//! A [`World`] is two network namespaces joined by a veth pair. It cleans up after itself however
//! its owner ends: on drop, on Ctrl-C, on SIGKILL.
#![forbid(unsafe_code)]

mod apache;
mod caches;
pub mod catalogue;
pub mod clock;
pub mod connections;
pub mod cores;
pub mod cycles;
pub mod experiment;
pub mod faults;
pub mod flood;
pub mod goodput;
pub mod growing;
mod guardian;
pub mod installed;
mod kept;
pub mod key_value;
pub mod load;
pub mod machine;
mod namespace;
pub mod nginx;
pub mod outboard;
mod postgres;
pub mod process;
pub mod programs;
pub mod receiving;
pub mod respond;
pub mod sampler;
pub mod slowed;
pub mod stateless;
pub mod statistics;
pub mod table;
pub mod tool;
pub mod whole_file;
pub mod workload;
pub mod world;
pub mod zeromq;

pub use kept::Made;
pub use process::{Process, Program};
pub use world::{Side, World};

/// Whether this process may make network namespaces. A test that needs to says so by
/// [`skip_without_root`].
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// For the first line of a test that needs root: `true`, and a line that says so, without it.
pub fn skip_without_root(test: &str) -> bool {
    !is_root() && skip(test, "root")
}

/// For the first line of a test that needs root and these programs: `true`, and a line that says
/// what is missing, without them.
pub fn skip_without(test: &str, programs: &[&str]) -> bool {
    let is_missing = |program: &&&str| tool::find(program).is_none();
    skip_without_root(test)
        || programs
            .iter()
            .find(is_missing)
            .is_some_and(|missing| skip(test, missing))
}

/// Where `binary` is, a program of ours, if what is installed beside it was built, too: `cargo test` alone
/// builds no library for LD_PRELOAD. `None`, and a line that says what to build, without it.
pub fn built_beside<'a>(test: &str, binary: &'a str) -> Option<&'a std::path::Path> {
    let built = std::path::Path::new(binary).parent()?;
    let missing = ["liboutboard_preload.so", "liboutboard.a"]
        .into_iter()
        .find(|library| !built.join(library).is_file());
    if let Some(missing) = missing {
        skip(test, &format!("{missing}: cargo build --workspace"));
        return None;
    }
    Some(built)
}

/// Says that a test is skipped for want of something, past the test harness, which swallows what tests print with macros;
/// `true`.
pub fn skip(test: &str, needed: &str) -> bool {
    use std::io::Write;
    let line = format!("SKIPPED (needs {needed}): {test}\n");
    // Whether anyone reads it is not the test's business.
    let _ = std::io::stderr().write_all(line.as_bytes());
    true
}
