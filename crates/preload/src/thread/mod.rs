//! A thread in this library.
//!
//! - [`inside`][]: whether it may hold locks, and what that means for signals
//! - [`signals`][]: whether its calls go on after one
//! - [`handlers`][]: which handlers the program has
//! - [`mask`][]: when none comes
//! - [`due`][]: whether it is to be cancelled
//! - [`counted`][]: where it is counted while it sleeps

pub mod counted;
pub mod due;
pub mod handlers;
pub mod inside;
pub mod mask;
pub mod signals;
