//! The kept programs of the differential fuzzer of socket calls: what the engine does must be what
//! the kernel does. `cargo xtask differ` draws others without end.
#![forbid(unsafe_code)]

use differ::bench::{Bench, Binaries, Outcome};
use differ::kept;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter, built now if it is not.
fn actor() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_outboard"));
    let directory = binary.parent().expect("a binary is in a directory");
    let mut build = Command::new(env!("CARGO"));
    // Of the workspace and beside a test, as the gate builds it: otherwise crates would have other features, and
    // nearly all would be compiled anew.
    build.args(["build", "--quiet", "--workspace"]);
    build.args(["--bin", "differ-actor", "--test", "differ"]);
    let target = directory
        .parent()
        .expect("which is in the target directory");
    build.env("CARGO_TARGET_DIR", target);
    if directory.ends_with("release") {
        build.arg("--release");
    }
    assert!(
        build.status().expect("cargo runs").success(),
        "the interpreter does not build"
    );
    directory.join("differ-actor")
}

#[test]
fn kept_programs_do_on_the_engine_what_they_do_on_the_kernel() {
    if lab::skip_without_root("kept_programs_do_on_the_engine_what_they_do_on_the_kernel") {
        return;
    }
    let mut bench = Bench::new(Binaries {
        outboard: env!("CARGO_BIN_EXE_outboard").into(),
        actor: actor(),
    })
    .expect("two private networks");
    let programs = kept::all(&kept::held()).expect("the kept programs");
    assert!(programs.len() >= 10, "only {} are kept", programs.len());
    let mut wrong = Vec::new();
    for (name, program) in &programs {
        match bench.run(program).expect("a program runs") {
            Outcome::Same(_) | Outcome::Parted => {}
            // On a busy machine the engine is a moment late, as it may be: it was not, once it had the time.
            Outcome::Once(difference) if !difference.kind.is_grave() => {}
            other => wrong.push(format!("{name}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let offloaded = bench.offloaded();
    assert!(
        offloaded >= programs.len() as f64 / 2.0,
        "only {offloaded} connections were the engine's"
    );
}
