//! The log of what runs in the foreground: on standard error, for people in colour on a terminal, or
//! for programs, a JSON object a line; or in systemd's journal, with its fields. docs/metrics.md says
//! what is at which level.

mod aside;
mod calm;

pub use aside::Rest;
pub use calm::sum_up;

use anyhow::{Context, Result, bail};
use aside::Lines;
use calm::Calm;
use std::io::IsTerminal;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// For whom it is written.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
    /// To systemd's journal, each field as one of its fields.
    Journald,
}

/// What is logged, as it is written. A word alone is a level: to the library it could be a part that is
/// logged whole, and everything else not at all.
fn named(text: &str) -> Result<EnvFilter> {
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let wrong = || {
        format!(
            "OUTBOARD_LOG={text}: write error, warn, info, debug, trace or off, or parts with their levels, \
             such as engine=warn,netdev=info"
        )
    };
    let words = text.split(',').map(str::trim);
    if words
        .clone()
        .any(|word| !word.contains('=') && !is_level(word))
    {
        bail!(wrong());
    }
    EnvFilter::try_new(text).with_context(wrong)
}

/// Begins to log what `OUTBOARD_LOG` names, or, without it, from the level `from` on.
///
/// What comes back is to be held until the end, for the last lines.
///
/// # Errors
/// There is no journal, or no thread that writes, or `OUTBOARD_LOG` names no level.
pub fn start(from: &str, format: Format) -> Result<Rest> {
    let said = std::env::var("OUTBOARD_LOG").ok();
    let filter = match said.as_deref().map(str::trim) {
        None | Some("") => EnvFilter::new(from),
        Some(said) => named(said)?,
    };
    let (writer, rest) = Lines::to(std::io::stderr()).context("the log has no thread")?;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(format == Format::Text && std::io::stderr().is_terminal())
        // It would say on standard error that it cannot write to standard error, and panic.
        .log_internal_errors(false);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().flatten_event(true).boxed(),
        Format::Journald => tracing_journald::layer()
            .context("--log-format journald: systemd's journal does not run here")?
            .with_syslog_identifier("outboard".to_owned())
            .boxed(),
    };
    let layer = layer.with_filter(Calm).with_filter(filter);
    tracing_subscriber::registry().with(layer).init();
    Ok(rest)
}
