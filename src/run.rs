//! `outboard run`: an unmodified program on the engine.

pub mod library;
pub mod program;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use queue_pair::{Profile, control};

/// Run an unmodified program on the engine.
///
/// Its TCP sockets on the engine's interface are served by the engine, everything else by the
/// kernel. `outboard explain PID` says which, and why.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  outboard run -- nginx -g 'daemon off;'")]
pub struct Args {
    /// The engine's name
    #[arg(long, value_name = "NAME", default_value = "default",
          value_parser = crate::advice::engine_name)]
    engine: String,
    /// Fail, rather than leave a socket to the kernel, where the engine cannot take it
    /// (listen and connect then give EOPNOTSUPP), and execute no program that cannot be on it, such as one
    /// of Go or a static one (exec then gives EACCES)
    #[arg(long)]
    strict: bool,
    /// How the program waits, and wants to be waited for: efficient, balanced or latency [default: as the
    /// engine is set]
    #[arg(long, value_name = "PROFILE", env = queue_pair::PROFILE_VARIABLE)]
    profile: Option<Profile>,
    /// Fail, rather than warn, where the interposed library is of another build than this program
    #[arg(long, env = "OUTBOARD_SAME_BUILD", value_parser = clap::builder::FalseyValueParser::new())]
    same_build: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Becomes the program; returns only if that fails.
pub fn run(args: Args) -> Result<ExitCode> {
    let (name, arguments) = args.command.split_first().context("no program was given")?;
    let path = program::find(name)?;
    program::check(&path)?;
    let library = library::find()?;
    if let Some(wrong) = library::of_another_build(&library)? {
        if args.same_build {
            bail!("{wrong}");
        }
        crate::closed_pipe::remark(format_args!("outboard: {wrong}"));
    }
    let socket = control::socket_path(&args.engine);
    if let Err(error) = control::Channel::connect(&socket) {
        if args.strict {
            bail!(
                "no engine at {}: {error} (start one with `outboard engine -i IFACE`)",
                socket.display()
            );
        }
        crate::closed_pipe::remark(format_args!(
            "outboard: no engine at {}: {} runs on the kernel",
            socket.display(),
            path.display()
        ));
    }
    let mut preload = library.into_os_string();
    if let Some(before) = std::env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
        preload.push(":");
        preload.push(before);
    }
    let mut command = Command::new(&path);
    if let Some(profile) = args.profile {
        command.env(queue_pair::PROFILE_VARIABLE, profile.name());
    }
    let error = command
        .arg0(name)
        .args(arguments)
        .env("LD_PRELOAD", preload)
        .env("OUTBOARD_SOCKET", socket)
        .env("OUTBOARD_STRICT", if args.strict { "1" } else { "0" })
        .exec();
    Err(error).with_context(|| format!("cannot run {}", path.display()))
}
