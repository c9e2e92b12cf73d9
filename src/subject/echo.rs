//! Answers every message with as many bytes, in one of the ways that are compared, until it is killed.

mod args;
mod native;
mod sockets;

use anyhow::Result;

pub use args::{Args, Way};

/// Serves. It returns only with an error.
pub fn run(args: &Args) -> Result<()> {
    match args.way {
        Way::Sockets => sockets::run(args),
        _ => native::Server::new(args)?.run(),
    }
}
