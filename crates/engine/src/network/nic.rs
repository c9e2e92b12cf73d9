//! Which of the engine's interfaces something is about.

/// One of the engine's interfaces, by its place in the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NicId(pub u8);

impl NicId {
    /// The one in this place. There are never so many that it would not fit.
    pub const fn at(place: usize) -> Self {
        Self(place as u8)
    }

    /// Its place.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An address on the link of one of them: of a neighbour, or of the station that it is. Two links may have the
/// same address, and mean two machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OnLink<A> {
    /// On whose link.
    pub nic: NicId,
    /// The address.
    pub address: A,
}
