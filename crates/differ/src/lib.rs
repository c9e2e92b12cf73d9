//! A differential fuzzer of socket calls.
//!
//! A random [`program`] of a few processes and threads runs against a scripted peer, once on the
//! kernel and once on the engine, and everything that its calls return, and everything that its
//! peer sees, must agree, up to a reviewed list of differences (`differences.toml`).
//!
//! - [`generate`] draws a program from a seed.
//! - `actor/` is the interpreter that executes it: a process that forks and starts threads as the
//!   program says, and makes the calls through libc.
//! - [`stage`] is the other end of the interpreter's strings, and [`peer`] that of the connections.
//! - [`run`] takes the steps, one at a time, and [`judge`] compares.
//! - [`mod@bench`] has the two networks to run in, [`shrink`] makes what fails small.
//! - `programs/held` are programs that must agree; the gate runs them. `programs/open` are such
//!   that do not yet.
#![forbid(unsafe_code)]

pub mod bench;
pub mod contest;
pub mod generate;
mod halting;
pub mod happened;
pub mod judge;
pub mod kept;
pub mod outcome;
pub mod peer;
pub mod program;
pub mod run;
pub mod setting;
pub mod shrink;
pub mod stage;
mod wire;
