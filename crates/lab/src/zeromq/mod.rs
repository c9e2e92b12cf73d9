//! Programs that use ZeroMQ, compiled where they are run: libzmq is no part of outboard.

use crate::process::Program;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

const SOURCE: &str = include_str!("zeromq.c");

/// What [`compile`] needs.
pub const NEEDS: [&str; 2] = ["cc", "/usr/include/zmq.h"];

/// Where [`compile`] puts it.
pub fn program(directory: &Path) -> PathBuf {
    directory.join("zeromq")
}

/// Compiles the one program that is all of them, into `directory`.
///
/// # Errors
/// There is no compiler, or no libzmq.
pub fn compile(directory: &Path) -> Result<PathBuf> {
    let (text, program) = (directory.join("zeromq.c"), program(directory));
    std::fs::write(&text, SOURCE)?;
    Program::new("cc")
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(&text)
        .arg("-lzmq")
        .output()
        .context("a program that uses ZeroMQ")?;
    Ok(program)
}
