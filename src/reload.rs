//! `outboard reload`, and SIGHUP: an engine reads its configuration again.

use crate::control::{Engine, PATIENCE, out_of_place};
use anyhow::Result;
use queue_pair::control::{Channel, Fds, Reply, Request};
use signal_hook::consts::SIGHUP;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

/// Have a running engine read its configuration again
///
/// The file is checked first: if it is wrong, nothing changes. What can change without cost to
/// connections changes (access lists, limits of programs, timing, what new connections start with);
/// what cannot is named. For root and the engine's own user.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo outboard reload --engine web")]
pub struct Args {
    #[command(flatten)]
    engine: Engine,
}

/// Asks, and says what came of it.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.engine.connect()?.ask(&Request::Reload)? {
        Reply::Reloaded { changed, at_start } => {
            print!("{}", said(&changed, &at_start));
            Ok(ExitCode::SUCCESS)
        }
        other => Err(out_of_place(&other)),
    }
}

fn said(changed: &[String], at_start: &[String]) -> String {
    let mut text = match changed {
        [] => "nothing changed\n".to_owned(),
        some => format!("changed: {}\n", some.join(", ")),
    };
    if !at_start.is_empty() {
        text += &format!(
            "only a new start of the engine changes: {}\n",
            at_start.join(", ")
        );
    }
    text
}

/// A stream that a byte arrives on for each SIGHUP, from now on.
///
/// # Errors
/// There are no more descriptors, or the handler cannot be set.
pub fn hangups() -> Result<UnixStream> {
    let (heard, signals) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGHUP, signals)?;
    Ok(heard)
}

/// Asks the engine at `socket` to read its configuration at each SIGHUP. The engine logs what came of
/// it.
pub fn on_hangup(mut hangups: UnixStream, socket: PathBuf) {
    let listening = std::thread::Builder::new()
        .name("hangup".into())
        .spawn(move || {
            let mut byte = [0];
            while hangups.read_exact(&mut byte).is_ok() {
                let asked = Channel::connect(&socket)
                    .map(|mut channel| channel.request(&Request::Reload, Fds::new(), PATIENCE));
                if let Err(error) = asked {
                    crate::closed_pipe::remark(format_args!("outboard: SIGHUP: {error}"));
                }
            }
        });
    if let Err(error) = listening {
        crate::closed_pipe::remark(format_args!("outboard: SIGHUP is not heard: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn what_changed_is_said_and_what_did_not() {
        let names = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(said(&[], &[]), "nothing changed\n");
        assert_eq!(
            said(&names("access tcp.hop_limit"), &names("core")),
            "changed: access, tcp.hop_limit\nonly a new start of the engine changes: core\n"
        );
    }
}
