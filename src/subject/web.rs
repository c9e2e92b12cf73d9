//! A small web server over the native interface, the same in each variant that is compared, until it is killed: GET of
//! the files of one directory, which it holds in memory with their heads before them. It has no clock, so its answers
//! have no Date. One path can be of what it computes.

mod args;
mod computed;
mod receive;
mod server;
mod site;

use anyhow::Result;

pub use args::Args;

/// Serves. It returns only with an error.
pub fn run(args: &Args) -> Result<()> {
    server::Server::new(args)?.run()
}
