//! Compiles BPF programs with clang, for the build scripts of the crates that have some. Their objects
//! are part of those libraries.
//!
//! A header that programs of several crates include is in `include/` here; all others stand beside the
//! programs.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::{Command, exit};
use std::{env, fs};

const PACKAGES: &str = "on Debian: apt-get install clang libbpf-dev";

/// The headers of several crates.
const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

/// Compiles programs of the package whose build script calls this: each of these, which is in
/// `bpf/NAME.bpf.c`, to `NAME.bpf.o` in cargo's `OUT_DIR`.
///
/// If one cannot be compiled, the build ends and says what to do.
pub fn compile(names: &[&str]) {
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed={INCLUDE}");
    for name in names {
        compile_one(name);
    }
}

fn compile_one(name: &str) {
    let source = PathBuf::from(format!("bpf/{name}.bpf.c"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());

    let mut command = Command::new(&clang);
    // -g: the maps are described in BTF. -mcpu=v3: 32-bit operations and branches (Linux 5.1).
    command
        .args(["--target=bpf", "-mcpu=v3", "-O2", "-g"])
        .args(["-Wall", "-Wextra", "-Werror"])
        .args(["-I", INCLUDE])
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(out.join(format!("{name}.bpf.o")));
    if let Some(include) = multiarch_include() {
        command.arg("-isystem").arg(include);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => fail(&format!(
            "cannot run {clang}, which compiles the BPF program: {error}\n{PACKAGES}"
        )),
    };
    if output.status.success() {
        return;
    }
    let messages = String::from_utf8_lossy(&output.stderr);
    let mut message = format!("cannot compile {}:\n{messages}", source.display());
    if messages.contains("file not found") {
        message += &format!("a header is missing; {PACKAGES}");
    } else if messages.contains("unable to create target") {
        message += &format!("this {clang} cannot compile BPF; {PACKAGES}");
    }
    fail(&message)
}

/// Where Debian keeps `asm/types.h`, which clang does not look for when it compiles for BPF.
fn multiarch_include() -> Option<PathBuf> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").ok()?;
    let directory = PathBuf::from(format!("/usr/include/{arch}-linux-gnu"));
    fs::exists(&directory).ok()?.then_some(directory)
}

fn fail(message: &str) -> ! {
    for line in message.lines() {
        println!("cargo::error={line}");
    }
    exit(1);
}
