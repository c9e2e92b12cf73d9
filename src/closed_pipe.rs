//! What a command does when nobody reads its output any more, as behind `| head -1`.
//!
//! Rust ignores SIGPIPE and makes of the failed write a panic in `println!`. A command whose work is
//! its output ends by that signal instead, as those of other suites do: without a word, and with the
//! status that shells call 141. One that serves others must not end for want of a reader: it drops
//! what it had to say.

use signal_hook::consts::SIGPIPE;
use std::fmt::Arguments;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// From now on the process ends by SIGPIPE when it writes to a pipe that nobody reads.
///
/// # Errors
/// The handler cannot be set.
pub fn ends_it() -> std::io::Result<()> {
    let always = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register_conditional_default(SIGPIPE, always).map(drop)
}

/// Says something on standard error, if anybody reads it; of errors the words, not the numbers.
pub fn remark(what: Arguments<'_>) {
    let plain = crate::advice::plain(&what.to_string());
    // Nowhere is left to say that it could not be said.
    let _ = writeln!(std::io::stderr().lock(), "{plain}");
}
