//! A thread in this library.
//!
//! - [`inside`][]: whether it may hold locks, and what that means for signals
//! - [`jumps`][]: calls that it has jumped out of
//! - [`signals`][]: whether its calls go on after one
//! - [`handlers`][]: which handlers the program has
//! - [`due`][]: whether it is to be cancelled

pub mod due;
pub mod handlers;
pub mod inside;
pub mod jumps;
pub mod signals;
