//! What can be said on the command line.

use std::net::SocketAddr;

/// Answer every message with as many bytes
#[derive(clap::Args)]
pub struct Args {
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) at: SocketAddr,
    /// How
    #[arg(long)]
    pub(super) way: Way,
    /// Bytes of a message
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=64 << 10))]
    pub(super) size: u32,
    /// Look for what has come all the time, and never sleep
    #[arg(long)]
    pub(super) poll: bool,
    /// Connections that the engine may hand over before one is accepted (native)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(super) eager: u32,
    /// Set a connection up in the step that accepts it (native)
    #[arg(long)]
    pub(super) setup: bool,
    /// Take the first data in that step, too (native)
    #[arg(long)]
    pub(super) with_data: bool,
}

/// How it is received and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// By socket calls, of the kernel or of the interposer.
    Sockets,
    /// Natively, copying both ways; nothing else is done until the engine has handed an answer to the wire.
    Synchronous,
    /// Natively, copying both ways.
    Asynchronous,
    /// Natively, copying what comes, and answering from registered memory.
    Registered,
    /// Natively, looking at what has come where it is, and answering from there (pull).
    Pull,
    /// Natively, into posted buffers, and answering from them (push).
    Push,
}
