//! The log of what runs in the foreground: on standard error, for people in colour on a terminal, or
//! for programs, a JSON object a line. docs/metrics.md says what is at which level.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// For whom it is written.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// Begins to log what `OUTBOARD_LOG` names, or, without it, from the level `from` on.
pub fn start(from: &str, format: Format) {
    let filter = EnvFilter::try_from_env("OUTBOARD_LOG").unwrap_or_else(|_| EnvFilter::new(from));
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(format == Format::Text && std::io::stderr().is_terminal())
        .with_env_filter(filter)
        // It would say on standard error that it cannot write to standard error, and panic.
        .log_internal_errors(false);
    match format {
        Format::Text => log.init(),
        Format::Json => log.json().flatten_event(true).init(),
    }
}
