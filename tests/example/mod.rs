//! Programs that are examples of the interposer's crate.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The example called `name`, built now if it is not.
pub fn build(name: &str) -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_outboard"));
    let directory = binary.parent().expect("a binary is in a directory");
    let mut build = Command::new(env!("CARGO"));
    // Of the workspace, as the gate builds it: of one package, crates would have other features, and nearly all
    // would be compiled anew.
    build.args(["build", "--quiet", "--workspace", "--example", name]);
    build.env(
        "CARGO_TARGET_DIR",
        directory
            .parent()
            .expect("which is in the target directory"),
    );
    if directory.ends_with("release") {
        build.arg("--release");
    }
    assert!(
        build.status().expect("cargo runs").success(),
        "the example does not build"
    );
    directory.join("examples").join(name)
}
