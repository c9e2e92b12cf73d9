//! How clients, sessions and workers are told apart.

use crate::fast::ids::SessionId;

/// A control connection: its slot, and which one of those that had this slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientKey {
    /// The slot.
    pub slot: u32,
    /// Never reused, short of four billion connections.
    pub serial: u32,
}

/// A session: its slot, and which one of those that had this slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionKey {
    /// The slot.
    pub id: SessionId,
    /// Never reused, short of four billion attachments.
    pub number: u32,
}

/// A worker: its number, from 0 on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u16);

impl WorkerId {
    /// The one that does what one does for all: it keeps the steering's programs.
    pub const FIRST: Self = Self(0);

    /// Its place in a list.
    pub fn index(self) -> usize {
        self.0.into()
    }

    /// Its bit in a set of at most 64.
    pub fn bit(self) -> u64 {
        1 << (self.0 % 64)
    }
}
