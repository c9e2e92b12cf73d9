//! The numbers of sessions, and of the pools that hold what is received.

/// Number of the pool that holds what was received: 0 is the engine's own, `n + 1` is that of the
/// session in slot `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolId(u16);

impl PoolId {
    /// The engine's own pool, for connections that no process has been handed.
    pub const ENGINE: Self = Self(0);

    /// The pool of a session.
    pub fn of(session: SessionId) -> Self {
        Self(session.0 + 1)
    }

    /// The session whose pool it is, if it is one's.
    pub fn session(self) -> Option<SessionId> {
        self.0.checked_sub(1).map(SessionId)
    }

    /// Its place among all pools.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The slot of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u16);

impl SessionId {
    /// Its place among the sessions.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}
