//! Where `unsafe` may stand: in the crates that touch memory which the compiler cannot vouch for,
//! and nowhere else. That each block has its reason is clippy's `undocumented_unsafe_blocks`.

use crate::sources::{self, Source};
use anyhow::{Result, bail};

/// Paths under which `unsafe` may stand.
const ALLOWED: &[&str] = &[
    "crates/queue-pair/",
    "crates/netdev/",
    "crates/preload/",
    // The C interface.
    "crates/capi/",
    // Drives io_uring, to hold against it what the library does.
    "crates/native/benches/kernel_sockets/",
    // Calls libc, because that is what it is for: what is compared is what libc's names do.
    "crates/differ/actor/",
    // A C interface from end to end, for tests only.
    "crates/packetdrill-adapter/",
    "fuzz/",
];

/// Crate roots are held to `#![forbid(unsafe_code)]`, unless something under their crate may use
/// unsafe code.
const FORBID: &str = "#![forbid(unsafe_code)]";

/// Fails if a file outside the allowed places uses `unsafe`, or if a crate's root does not forbid
/// it.
pub fn check() -> Result<String> {
    let sources = sources::all()?;
    let mut wrong = Vec::new();
    let mut blocks = 0;
    let mut forbidding = 0;
    for source in sources.iter().filter(|source| source.is("rs")) {
        let path = source.path.to_string_lossy();
        let uses = uses_of_unsafe(source);
        if ALLOWED.iter().any(|allowed| path.starts_with(allowed)) {
            blocks += uses.len();
            continue;
        }
        for line in uses {
            wrong.push(format!("{path}:{line}: unsafe is not allowed here"));
        }
        if path.ends_with("src/lib.rs") || path.ends_with("src/main.rs") {
            if source.text.contains(FORBID) {
                forbidding += 1;
            } else {
                wrong.push(format!("{path}: has no {FORBID}"));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(format!(
        "{forbidding} crates forbid it, {blocks} uses in the crates that may"
    ))
}

/// The lines of `source` on which the keyword stands.
fn uses_of_unsafe(source: &Source) -> Vec<usize> {
    sources::code_only(&source.text)
        .lines()
        .enumerate()
        .filter(|(_, line)| {
            line.split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .any(|word| word == "unsafe")
        })
        .map(|(index, _)| index + 1)
        .collect()
}
