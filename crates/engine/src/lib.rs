//! The engine: workers, sessions, control socket, neighbours and routes.

#![forbid(unsafe_code)]

pub mod config;
pub mod kernel;

pub use config::{Config, ConfigError};
