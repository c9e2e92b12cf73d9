//! `outboard explain PID`: what became of each socket of a process, and why.

use crate::control::{Engine, out_of_place};
use ::lab::table::Table;
use anyhow::{Result, bail};
use queue_pair::control::{Explanation, Reply, Request};
use std::process::ExitCode;

/// Say which sockets of a process are offloaded, and why the others are not
#[derive(clap::Args)]
#[command(after_help = "Example:\n  outboard explain $(pgrep -o nginx)")]
pub struct Args {
    #[command(flatten)]
    engine: Engine,
    /// The process
    #[arg(value_parser = crate::advice::process)]
    pid: u32,
}

/// Prints the explanations.
pub fn run(args: Args) -> Result<ExitCode> {
    let pid = args.pid;
    if !std::path::Path::new("/proc").join(pid.to_string()).exists() {
        bail!("there is no process {pid}");
    }
    let explanations = match args.engine.connect()?.ask(&Request::Explain { pid })? {
        Reply::Explained(explanations) => explanations,
        other => return Err(out_of_place(&other)),
    };
    if explanations.is_empty() {
        println!(
            "process {pid} has shown no socket to the engine: its sockets are the kernel's, \
             or it was not started with: outboard run"
        );
    } else {
        print!("{}", render(&explanations));
    }
    Ok(ExitCode::SUCCESS)
}

fn render(explanations: &[Explanation]) -> String {
    let mut table = Table::new(["Descriptor", "Kind", "Handled by", "Because"]);
    for explanation in explanations {
        let (by, reason) = if explanation.reason.is_empty() {
            ("engine", "")
        } else {
            ("kernel", explanation.reason.as_str())
        };
        let fd = match explanation.fd {
            Explanation::NO_DESCRIPTOR => "-".to_owned(),
            fd => fd.to_string(),
        };
        table.row([fd.as_str(), &explanation.kind, by, reason]);
    }
    for column in 1..4 {
        table.left(column);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::{Explanation, render};

    #[test]
    fn each_socket_has_its_line() {
        let explanation = |fd, kind: &str, reason: &str| Explanation {
            fd,
            kind: kind.into(),
            reason: reason.into(),
        };
        let text = render(&[
            explanation(6, "listener", ""),
            explanation(Explanation::NO_DESCRIPTOR, "2 connections", ""),
            explanation(11, "datagram", "only TCP is offloaded"),
        ]);
        let expected = "Descriptor  Kind           Handled by  Because\n\
            6           listener       engine\n\
            -           2 connections  engine\n\
            11          datagram       kernel      only TCP is offloaded\n";
        assert_eq!(text, expected);
    }
}
