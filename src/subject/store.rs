//! A key-value store over the native interface, until it is killed: the example of that interface as it is.

use anyhow::{Result, anyhow};
use std::net::SocketAddr;

#[allow(dead_code, reason = "it is a program of its own, too")]
#[path = "../../crates/native/examples/store_by_completions.rs"]
mod program;

/// Keep values, by memcached's text protocol
#[derive(clap::Args)]
pub struct Args {
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT")]
    at: SocketAddr,
}

/// Serves. It returns only with an error.
pub fn run(args: &Args) -> Result<()> {
    program::serve(args.at).map_err(|error| anyhow!("{error}"))
}
