//! Names that the outside holds for things inside the [`Stack`](crate::Stack).
//!
//! A name is a slot and the generation of its occupant, so a name that outlives what it named
//! finds nothing instead of finding somebody else.

use core::fmt;

/// Names a connection from the moment it is accepted or opened until it is
/// [released](crate::Event::Released).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    /// The slot. Slots are dense and reused, so an owner may keep its own state in an array by it.
    pub index: u32,
    /// Which occupant of the slot it is, counted from its first.
    pub generation: u32,
}

/// Names a listener from [`listen`](crate::Stack::listen) to [`unlisten`](crate::Stack::unlisten).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId {
    /// The slot.
    pub index: u32,
    /// Which occupant of the slot it is, counted from its first.
    pub generation: u32,
}

impl fmt::Debug for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conn {}.{}", self.index, self.generation)
    }
}

impl fmt::Debug for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "listener {}.{}", self.index, self.generation)
    }
}
