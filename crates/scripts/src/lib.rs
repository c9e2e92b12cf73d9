//! Packet scripts on a second implementation: Linux's TCP, in a network namespace of its own, with
//! a TUN device whose other end is the script. What holds there and on ours is no invention of
//! ours.
//!
//! Time is real here: scripts wait, and times are less exact ([`Linux::new`]).
#![forbid(unsafe_code)]

pub mod attempts;
mod calls;
mod linux;
mod watch;

pub use linux::Linux;
pub use watch::Watch;

use std::path::{Path, PathBuf};

/// Where the scripts are in the repository.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/scripts")
}

/// All scripts under a directory, by name.
///
/// # Errors
/// A directory cannot be read.
pub fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "pkt") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether this process may make network namespaces.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
