//! What an engine tells programs of itself, and of the way to a destination.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What a program can know of an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineFacts {
    /// Its name.
    pub name: String,
    /// Bytes of the largest packet that its interface carries.
    pub mtu: u32,
    /// Connections that it has, orphans included.
    pub connections: u64,
    /// How many it may have.
    pub most_connections: u64,
    /// Connections of one listener that may wait to be accepted.
    pub accept_backlog: u32,
    /// Congestion control: `reno`, `cubic` or `bbr`.
    pub congestion: String,
}

/// What is known of the first machine on the way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Neighbour {
    /// It is being asked for, or has not been.
    #[default]
    Unknown,
    /// It answers.
    Reachable,
    /// It has not been heard from for a while.
    Stale,
    /// It was asked for, and nobody answered.
    Failed,
}

/// The way to a destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// The address that connections come from.
    pub source: IpAddr,
    /// The first machine on the way.
    pub next_hop: IpAddr,
    /// What is known of it.
    pub neighbour: Neighbour,
    /// Its hardware address, if that is known.
    pub hardware: Option<[u8; 6]>,
    /// Bytes of the largest packet on this way.
    pub mtu: u32,
}
