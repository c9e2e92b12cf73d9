//! The queueing model of a server with and without an offload engine: formulas only.
//!
//! A planner asks three questions before moving protocol processing to an engine: what does it do
//! to the *utilisation* of the server's processor, to the *delay* of a request, and to the load at
//! which the system *saturates*? They have three different answers, and each depends on the sizes
//! of the objects served. This crate answers them from service times.
//!
//! # Units
//! Formulas do not care about the unit of time as long as there is one. Everything here takes
//! **seconds** and **requests a second**; results are in the same units. Utilisations, squared
//! coefficients of variation and probabilities have no unit.
//!
//! # The parts
//! | module | holds |
//! | --- | --- |
//! | [`distribution`] | service times with exact moments up to the third, sampling, cumulative probabilities |
//! | [`queue`] | the classical queues, each with its conditions and its source |
//! | [`offload`] | the host with and without an engine: prediction, bounds, sensitivity, the source's own formulas |
//! | [`simulate`] | a discrete-event simulator of the same systems |
//! | [`fit`] | service times and distributions from measurements; agreement of model and measurement |
//! | [`error`] | what is refused, with the value that was refused and what would be accepted |
//!
//! # Conventions
//! A formula that is exact says so; one that approximates names the approximation, its source and
//! where it is known to be good. Inputs that are negative, infinite, not a number, or that would
//! make a queue unstable are refused by [`ModelError`], never turned into a number.
#![forbid(unsafe_code)]

pub mod distribution;
pub mod error;
pub mod fit;
pub mod offload;
pub mod queue;
pub mod simulate;

pub use distribution::{Distribution, Moments};
pub use error::ModelError;
