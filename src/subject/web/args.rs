//! What can be said on the command line.

use native::{Back, Mode};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve the files of a directory over HTTP
#[derive(clap::Args)]
pub struct Args {
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) at: SocketAddr,
    /// The directory
    #[arg(long, value_name = "DIR")]
    pub(super) site: PathBuf,
    /// How
    #[arg(long)]
    pub(super) way: Way,
    /// Bytes of a file that are sent at once at most
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(super) piece: u32,
    /// Bytes of what is computed, a random number each, whenever /computed is asked for
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(super) computed: Option<u32>,
    /// Connections that the engine may hand over before one is accepted
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(super) eager: u32,
    /// Set a connection up in the step that accepts it, and take its first data along
    #[arg(long)]
    pub(super) setup: bool,
    /// How requests are received
    #[arg(long, default_value = "copying")]
    pub(super) receive: Receive,
}

/// How requests are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Receive {
    /// The library copies what has come.
    Copying,
    /// From where the engine has put what has come (pull).
    Pull,
    /// Into posted buffers (push).
    Push,
}

/// How answers are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// By the same calls over sockets of the kernel's.
    Kernel,
    /// Copying; nothing else is done until the engine has handed a send to the wire.
    Synchronous,
    /// As synchronous, from registered memory.
    SynchronousRegistered,
    /// Copying, and nothing is waited for.
    Asynchronous,
    /// As asynchronous, from registered memory.
    AsynchronousRegistered,
}

impl Way {
    /// Where its connections are.
    pub(super) fn mode(self) -> Mode {
        match self {
            Self::Kernel => Mode::Kernel,
            _ => Mode::Engine,
        }
    }

    /// Whether it sends from registered memory.
    pub(super) fn is_registered(self) -> bool {
        matches!(
            self,
            Self::SynchronousRegistered | Self::AsynchronousRegistered
        )
    }

    /// Whether a send is waited for.
    pub(super) fn is_synchronous(self) -> bool {
        matches!(self, Self::Synchronous | Self::SynchronousRegistered)
    }

    /// When a send comes back.
    pub(super) fn back(self) -> Back {
        match self.is_synchronous() {
            true => Back::Left(0),
            false => Back::Never,
        }
    }
}
