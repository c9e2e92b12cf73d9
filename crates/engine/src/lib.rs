//! The engine: a TCP beside the kernel's, for the programs that attach to it.
//!
//! [`run`] opens an interface and drives a [`Worker`] until it is told to stop. What a worker
//! consists of, in the order in which a packet meets it:
//!
//! | module | what |
//! | --- | --- |
//! | [`worker`] | the loop: receive, submissions, timers, completions, transmit, doorbells |
//! | [`memory`] | where received bytes lie, and where bytes to send come from |
//! | [`connections`] | whose each connection is, and what its owner has not been told |
//! | [`family`] | the processes that have a connection together |
//! | [`session`] | the attached processes and their shared memory |
//! | [`listeners`] | which processes accept where, and how many connections each wants |
//! | [`network`] | next hops, own addresses, steering; asked of the [`kernel`] |
//! | [`control`] | the control socket, and everything else that is rare and polled |
//! | [`capture`], [`stats`] | what people see |
//! | [`config`] | what can be set, and every limit |
//!
//! Hosts are not trusted: what they submit is copied, then checked, and a breach ends their session
//! alone. Peers are not trusted: whatever they can make the engine hold has a limit, and whatever
//! is dropped is counted by its reason.

#![forbid(unsafe_code)]

pub mod capture;
pub mod clock;
pub mod config;
pub mod connections;
pub mod control;
pub mod family;
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
