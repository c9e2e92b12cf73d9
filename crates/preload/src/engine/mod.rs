//! The process and its engine.
//!
//! - [`settings`][]: which engine, from the environment
//! - [`session`][]: the session with it
//! - [`report`] and [`early`]: what is said to it
//! - [`wait`][]: sleeping until something happens
//! - [`forks`][]: whether the session is older than the process
//! - [`promises`][]: children of which an engine that does not run has not heard

pub mod early;
pub mod forks;
pub mod promises;
pub mod report;
pub mod session;
pub mod settings;
pub mod wait;
