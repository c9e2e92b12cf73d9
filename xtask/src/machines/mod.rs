//! `cargo xtask machines`: the engine on other kernels and drivers, each in an emulated machine.
//!
//! Debian's own kernels are booted with this machine's files; a machine has two network interfaces
//! that are the ends of one wire, and a program in it (`check/`) runs engine, servers and clients.
//! Emulation is some twenty times slower than hardware: what is shown is that it works, not how fast.

mod emulator;
mod kernels;
mod report;

use crate::shell;
use anyhow::{Context, Result, bail};
use emulator::{Emulator, Nic, Outcome};
use kernels::Kernel;
use std::path::{Path, PathBuf};

/// What the machines are made with, and the Debian packages that have it.
const TOOLS: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("depmod", "kmod"),
    ("unxz", "xz-utils"),
    ("zstd", "zstd"),
    ("curl", "curl"),
    ("ethtool", "ethtool"),
    ("nginx", "nginx-light"),
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
];

/// What to try.
#[derive(clap::Args)]
pub struct Options {
    /// A kernel series of Debian's; may be repeated
    #[arg(long = "kernel", value_name = "SERIES", default_values = ["6.1", "6.12"])]
    kernels: Vec<String>,
    /// A network interface; may be repeated [default: all that the emulator has]
    #[arg(long = "nic", value_name = "NIC", value_enum)]
    nics: Vec<Nic>,
    /// Size of the file that is transferred each way, in megabytes
    #[arg(long, default_value_t = 100)]
    megabytes: u32,
    /// Write the table to docs/machines.md: for a run of everything
    #[arg(long)]
    write: bool,
}

/// Runs the check on every machine that was asked for.
pub fn run(options: &Options) -> Result<String> {
    check_tools()?;
    check_place(&shell::target_dir())?;
    shell::loud(shell::cargo().args([
        "build",
        "--release",
        "--package=outboard",
        "--package=outboard-preload",
    ]))?;
    let directory = shell::target_dir().join("machines");
    std::fs::create_dir_all(&directory)?;
    let binaries = shell::target_dir().join("release");
    let emulator = Emulator::installed()?;
    let nics = nics(options, &emulator)?;
    let mut rows = Vec::new();
    for series in &options.kernels {
        let kernel = Kernel::of_series(series, &directory)
            .with_context(|| format!("no kernel of the series {series}"))?;
        for &nic in &nics {
            println!("== {} with {}", kernel.name(), nic.name());
            let outcome = emulator::check(&kernel, nic, &binaries, options.megabytes, &directory)?;
            println!("{}", report::line(&outcome));
            rows.push(outcome);
        }
    }
    if options.write {
        let path = shell::root().join("docs/machines.md");
        let text = report::document(&rows, options.megabytes, &emulator);
        std::fs::write(&path, text)?;
    }
    let broken: Vec<_> = rows.iter().filter(|row| !row.holds()).map(name).collect();
    if !broken.is_empty() {
        let logs = directory.display();
        bail!(
            "it does not work on {}; logs are in {logs}",
            broken.join(", ")
        );
    }
    Ok(format!("it works on {} machines", rows.len()))
}

/// The interfaces that were asked for; without a word all that the emulator has.
fn nics(options: &Options, emulator: &Emulator) -> Result<Vec<Nic>> {
    let (any, asked) = (options.nics.is_empty(), options.nics.iter().copied());
    let wanted = if any {
        Nic::ALL.to_vec()
    } else {
        asked.collect()
    };
    let (there, lacking): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|nic| emulator.has(*nic));
    for nic in lacking {
        let version = &emulator.version;
        if !any {
            bail!("the emulator, QEMU {version}, has no {}", nic.name());
        }
        println!("without {}: QEMU {version} has none", nic.name());
    }
    Ok(there)
}

fn name(outcome: &Outcome) -> String {
    format!("{} with {}", outcome.value("kernel"), outcome.nic.name())
}

fn check_tools() -> Result<()> {
    let missing = |(tool, _): &&(&str, &str)| !is_there(tool);
    let missing: Vec<&str> = TOOLS.iter().filter(missing).map(|(_, of)| *of).collect();
    if !missing.is_empty() {
        bail!("missing: apt-get install {}", missing.join(" "));
    }
    Ok(())
}

/// A machine sees this one's files, but for these directories: there it has its own.
fn check_place(target: &Path) -> Result<()> {
    let own = ["/tmp", "/run", "/dev"];
    if let Some(hidden) = own.iter().find(|own| target.starts_with(own)) {
        let target = target.display();
        bail!("an emulated machine does not see {target}: it has a {hidden} of its own");
    }
    Ok(())
}

fn is_there(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = [PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")];
    std::env::split_paths(&path)
        .chain(sbin)
        .any(|directory| directory.join(tool).is_file())
}

#[cfg(test)]
mod tests {
    use super::check_place;
    use std::path::Path;

    #[test]
    fn programs_are_where_a_machine_sees_them() {
        assert!(check_place(Path::new("/home/somebody/outboard/target")).is_ok());
        assert!(check_place(Path::new("/tmpfs/target")).is_ok());
        let refused = check_place(Path::new("/tmp/target")).unwrap_err();
        assert!(refused.to_string().contains("a /tmp of its own"));
    }
}
