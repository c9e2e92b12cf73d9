//! Programs over `outboard.h` and the crate `native`: where they are, and how they are made.

#![allow(dead_code, reason = "each test uses a part")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::World;

pub fn capi() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/capi")
}

/// The static library, which `cargo build --workspace` makes beside the binary.
pub fn library() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_outboard")).parent()?;
    let library = built.join("liboutboard.a");
    if !library.is_file() {
        // Past the harness, which swallows what a test that passes prints.
        let said = "SKIPPED: liboutboard.a is not built: cargo build --workspace";
        let _ = writeln!(std::io::stderr(), "{said}");
        return None;
    }
    Some(library)
}

pub fn run(command: &mut Command) {
    let output = command.output().expect("a compiler");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// Makes `program` of these sources and the library, without a warning.
pub fn link(
    (compiler, standard): (&str, &str),
    sources: &[PathBuf],
    library: &Path,
    program: &Path,
) {
    run(Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(capi().join("include"))
        .args(sources)
        .arg(library)
        .arg("-o")
        .arg(program)
        .args(["-lpthread", "-ldl", "-lm", "-lgcc_s"]));
}

/// A program of the C interface's folder, in `world`'s scratch folder.
pub fn compile(world: &World, library: &Path, source: &str) -> PathBuf {
    let name = Path::new(source).file_stem().expect("a file's name");
    let program = world.scratch().join(name);
    link(
        ("cc", "-std=c99"),
        &[capi().join(source)],
        library,
        &program,
    );
    program
}

/// An example of the crate `native`, which `cargo build --workspace --examples` and `cargo test` make.
pub fn example(name: &str) -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_outboard")).parent()?;
    let program = built.join("examples").join(name);
    if !program.is_file() {
        let said = "SKIPPED: the examples are not built: cargo build --workspace --examples";
        let _ = writeln!(std::io::stderr(), "{said}");
        return None;
    }
    Some(program)
}
