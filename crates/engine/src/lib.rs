//! The engine: workers, sessions, control socket, neighbours and routes.

#![forbid(unsafe_code)]

pub mod capture;
pub mod clock;
pub mod config;
pub mod connections;
pub mod control;
pub mod kernel;
pub mod listeners;
pub mod memory;
pub mod network;
pub mod session;
pub mod start;
pub mod stats;
pub mod worker;

pub use config::{Config, ConfigError};
pub use start::{StartError, run};
pub use worker::Worker;
