//! `packet-script FILE…`: runs packet scripts by hand, on our stack or on Linux's.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use core::time::Duration;
use scripts::{Linux, Watch};
use sim::script::{self, Script, Version, Virtual};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Run packet scripts, on outboard's TCP under virtual time or on Linux's through a TUN device.
#[derive(Parser)]
#[command(
    name = "packet-script",
    after_help = "Example: packet-script crates/sim/scripts/handshake/passive.pkt --on linux"
)]
struct Arguments {
    /// The scripts.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The stack to run them on; Linux's needs root.
    #[arg(long, value_enum, default_value_t = On::Outboard)]
    on: On,
    /// The version of IP, for scripts that do not ask for one.
    #[arg(long, value_enum, default_value_t = Ip::V4)]
    ip: Ip,
    /// How far from its time an event may be on Linux, in milliseconds beyond what the script
    /// allows.
    #[arg(long, default_value_t = 20)]
    slack: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    Outboard,
    Linux,
}

#[derive(Clone, Copy, ValueEnum)]
enum Ip {
    V4,
    V6,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let watch = Watch::start().context("no thread to watch the machine")?;
    let mut failed = false;
    for file in &arguments.files {
        let name = file.display();
        let text = std::fs::read_to_string(file).with_context(|| format!("{name}"))?;
        let script = script::parse(&text).with_context(|| format!("{name}"))?;
        let began = Instant::now();
        match run(&script, &arguments)? {
            Ok(()) => println!("{name}: holds"),
            Err(failure) => {
                println!("{name}: {failure}");
                let stall = watch.longest_stall(began);
                if arguments.on == On::Linux && !stall.is_zero() {
                    println!("{name}: (meanwhile the machine stood still for {stall:?})");
                }
                failed = true;
            }
        }
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn run(script: &Script, arguments: &Arguments) -> Result<Result<(), script::Failure>> {
    let version = script.options.version.unwrap_or(match arguments.ip {
        Ip::V4 => Version::V4,
        Ip::V6 => Version::V6,
    });
    match arguments.on {
        On::Outboard => {
            let mut stack = Virtual::new(version, &script.options);
            Ok(script::run(script, version, &mut stack))
        }
        On::Linux => {
            let slack = Duration::from_millis(arguments.slack);
            // A thread of its own: its network is another.
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    let mut linux = Linux::new(version, &script.options, slack)?;
                    Ok(script::run(script, version, &mut linux))
                });
                match thread.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            })
        }
    }
}
