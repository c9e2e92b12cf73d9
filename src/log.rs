//! The log of what runs in the foreground: on standard error, in colour on a terminal.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Begins to log what `OUTBOARD_LOG` names, or, without it, from the level `from` on.
pub fn start(from: &str) {
    let filter = EnvFilter::try_from_env("OUTBOARD_LOG").unwrap_or_else(|_| EnvFilter::new(from));
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        // It would say on standard error that it cannot write to standard error, and panic.
        .log_internal_errors(false)
        .init();
}
