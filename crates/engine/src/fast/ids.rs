//! The numbers of sessions, and of the pools that hold what is received.

/// Number of the pool that holds what was received: `n + 1` is that of the session in slot `n`; 0 is the engine's
/// own, and so is what has the [highest bit](Self::SHARED), with the account of a user there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolId(u16);

impl PoolId {
    /// The engine's own pool, for connections that no process has been handed.
    /// There it is on nobody's account.
    pub const ENGINE: Self = Self(0);
    const SHARED: u16 = 1 << 15;

    /// The engine's own pool, on this account.
    pub fn shared(account: u16) -> Self {
        match account {
            0 => Self::ENGINE,
            account => Self(Self::SHARED | account),
        }
    }

    /// The account, if it is the engine's own.
    #[inline]
    pub fn account(self) -> Option<u16> {
        let is_shared = self.0 & Self::SHARED != 0 || self == Self::ENGINE;
        is_shared.then_some(self.0 & !Self::SHARED)
    }

    /// The pool of a session.
    pub fn of(session: SessionId) -> Self {
        Self(session.0 + 1)
    }

    /// The session whose pool it is, if it is one's.
    pub fn session(self) -> Option<SessionId> {
        let is_one = self.account().is_none();
        is_one.then(|| SessionId(self.0 - 1))
    }

    /// Its place among all pools.
    pub fn index(self) -> usize {
        match self.account() {
            Some(_) => 0,
            None => usize::from(self.0),
        }
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
