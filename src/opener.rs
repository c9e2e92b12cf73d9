//! `outboard opener`: the process beside an engine that keeps the privileges. The engine starts it, and asks it by
//! its standard input.

use ::engine::opener::{self, Begun};
use anyhow::Result;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

/// What this program is, also if its file was replaced meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Open what takes privileges, for the engine that has started this
#[derive(clap::Args)]
pub struct Args {
    /// The indices of the engine's interfaces
    #[arg(value_name = "INDEX")]
    interfaces: Vec<u32>,
}

/// Serves the engine until it is gone.
pub fn run(args: &Args) -> Result<ExitCode> {
    // Whoever stops, or tells, all processes of an engine means the engine, which needs the opener to the end.
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    opener::run(socket, &args.interfaces)?;
    Ok(ExitCode::SUCCESS)
}

/// Starts one for the interfaces with these indices.
pub fn start(interfaces: &[u32]) -> io::Result<Begun> {
    let (socket, its) = opener::pair()?;
    let mut child = Command::new(THIS_PROGRAM)
        .arg0("outboard")
        .arg("opener")
        .args(interfaces.iter().map(u32::to_string))
        .stdin(Stdio::from(its))
        .stdout(Stdio::null())
        // What a terminal tells the engine (Ctrl-C) is not for the opener, which is needed to the end.
        .process_group(0)
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::NotFound)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
        let _ = child.kill().and_then(|()| child.wait());
    });
    let process = Some(process?);
    Ok(Begun { socket, process })
}
