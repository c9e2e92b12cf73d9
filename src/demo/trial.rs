//! A trial of a server: what it was asked for, and what that cost.

use super::burden::Burden;
use super::stage::Fetched;

/// What came of trying a server.
pub struct Trial {
    /// What it has was fetched.
    pub fetched: Fetched,
    /// Connections that the engine accepted meanwhile, and those that there were.
    pub engine_connections: Option<(u64, u64)>,
    /// What a request of 1 KB cost and took.
    pub burden: Burden,
}
