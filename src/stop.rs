//! The signals by which a user or a supervisor asks a command to stop.

use anyhow::Result;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::os::unix::net::UnixStream;

/// A stream that a byte arrives on for each SIGTERM and SIGINT, from now on.
///
/// # Errors
/// There are no more descriptors, or the handlers cannot be set.
pub fn signals() -> Result<UnixStream> {
    let (stop, signals) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, signals.try_clone()?)?;
    }
    Ok(stop)
}
