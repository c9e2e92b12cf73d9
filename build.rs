//! Tells the program which version it is, and of which commit.
//!
//! The commit is that of `OUTBOARD_COMMIT`, as who builds from a tarball sets it, or git's. Builds
//! for development leave it out: it would have them made anew for every commit.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=OUTBOARD_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = std::env::var("OUTBOARD_COMMIT").ok().or_else(|| {
        let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
        is_release.then(git_commit).flatten()
    });
    let version = match commit.filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo:rustc-env=OUTBOARD_VERSION={version}");
}

fn git_commit() -> Option<String> {
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let clean = git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if clean { commit } else { commit + ", changed" })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
