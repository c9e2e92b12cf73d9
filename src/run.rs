//! `outboard run`: an unmodified program on the engine.

pub mod program;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use queue_pair::{Profile, control};

/// The shared object that takes the place of libc's socket calls.
const LIBRARY: &str = "liboutboard_preload.so";

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
    let library = library()?;
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

/// Where the shared object is: `OUTBOARD_PRELOAD`, beside this executable, or in
/// `../lib/outboard` of it.
///
/// # Errors
/// It is in none of these places.
pub fn library() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("OUTBOARD_PRELOAD") {
        let path = PathBuf::from(path);
        if !path.is_file() {
            bail!(
                "OUTBOARD_PRELOAD names {}, which is no file",
                path.display()
            );
        }
        return Ok(path);
    }
    let executable = std::env::current_exe().context("cannot tell where this program is")?;
    let here = executable.parent().unwrap_or(Path::new("/"));
    let places = [
        here.join(LIBRARY),
        here.join("../lib/outboard").join(LIBRARY),
    ];
    match places.iter().find(|place| place.is_file()) {
        Some(found) => Ok(found.canonicalize()?),
        None => bail!(
            "{LIBRARY} is neither in {} nor in {}; build it (`cargo build --workspace`) or name it \
             in OUTBOARD_PRELOAD",
            here.display(),
            here.join("../lib/outboard").display(),
        ),
    }
}
