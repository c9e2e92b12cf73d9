//! What the client is to do.

use std::net::SocketAddr;

use super::body::Verify;
use super::request::Requests;
use super::sources::Sources;

/// How a connection ends when everything is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The last request asks the server to close.
    ByServer,
    /// The client sends FIN.
    ByClient,
    /// The client sends a reset, with the exact number.
    ByReset,
}

/// What the client is to do.
#[derive(Debug, Clone)]
pub struct Config {
    /// The server.
    pub server: SocketAddr,
    /// Where connections come from: of the server's family.
    pub sources: Sources,
    /// What is asked for.
    pub requests: Requests,
    /// Requests in each connection; none: it is opened and held.
    pub per_connection: u32,
    /// How connections end.
    pub finish: Finish,
    /// Requests in all, at most: then connections end.
    pub requests_in_all: Option<u64>,
    /// How long an answer may take, in microseconds after the request was due: then it is given up.
    pub timeout_us: u32,
    /// Requests wait for [`Client::ask`](super::Client::ask), instead of following a response at once.
    pub paced: bool,
    /// What bodies must be.
    pub verify: Verify,
    /// Connections between the oldest that is outstanding and the youngest, at most: rounded up to
    /// a power of two, and at most as many as there are places.
    pub window: usize,
    /// Responses in pieces at once, at most.
    pub partial: usize,
    /// The secret of the walk and of the initial sequence numbers.
    pub key: u64,
}

/// Why there can be no such client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Families differ.
    #[error("the server's address and the sources' are of different families")]
    MixedFamilies,
    /// More than its sequence space may be used for.
    #[error("{0} requests in a connection: with this length, at most {1} are possible")]
    TooManyRequests(u32, u32),
}
