//! Compiles the BPF programs with clang. Their objects are part of the library.

use std::path::PathBuf;
use std::process::{Command, exit};
use std::{env, fs};

const PACKAGES: &str = "on Debian: apt-get install clang libbpf-dev";

/// The programs, each in `bpf/NAME.bpf.c`.
const PROGRAMS: &[&str] = &["steering", "claim", "responder", "reflect", "witness"];

fn main() {
    println!("cargo::rerun-if-env-changed=CLANG");
    for name in PROGRAMS {
        compile(name);
    }
}

fn compile(name: &str) {
    let source = PathBuf::from(format!("bpf/{name}.bpf.c"));
    println!("cargo::rerun-if-changed=bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());

    let mut command = Command::new(&clang);
    // -g: the maps are described in BTF. -mcpu=v3: 32-bit operations and branches (Linux 5.1).
    command
        .args(["--target=bpf", "-mcpu=v3", "-O2", "-g"])
        .args(["-Wall", "-Wextra", "-Werror"])
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
