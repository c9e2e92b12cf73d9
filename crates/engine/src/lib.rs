//! The engine: a TCP beside the kernel's, for the programs that attach to it.
//!
//! [`run`] opens an interface and drives a [`Worker`] until it is told to stop.
//!
//! | module | what |
//! | --- | --- |
//! | [`fast`] | what a core does for each packet and each submission |
//! | [`slow`] | what is rare: the control socket, and what the kernel is asked |
//! | [`exchange`] | what the two halves say to each other |
//! | [`poller`] | what each half sleeps on |
//! | [`netfilter`] | what rules say that the kernel does not apply to what is steered |
//! | [`network`] | next hops, own addresses, steering; asked of the [`kernel`](slow::kernel) |
//! | [`capture`], [`stats`], [`sockets`], [`trace`] | what people see |
//! | [`config`] | what can be set, and every limit |
//!
//! Hosts are not trusted: what they submit is copied, then checked, and a breach ends their session
//! alone. Peers are not trusted: whatever they can make the engine hold has a limit, and whatever
//! is dropped is counted by its reason.

#![forbid(unsafe_code)]

mod all_or_none;
pub mod capture;
pub mod clock;
pub mod config;
pub mod exchange;
pub mod fast;
pub mod netfilter;
pub mod network;
pub mod placement;
pub mod poller;
pub mod slow;
pub mod sockets;
pub mod start;
pub mod stats;
pub mod trace;

pub use config::{Config, ConfigError};
pub use fast::worker::Worker;
pub use slow::kernel::opener;
pub use start::{StartError, find, run};
