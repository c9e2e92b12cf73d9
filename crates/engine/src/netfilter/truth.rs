//! Whether something holds of a packet of which not everything is known.

use super::ranges::Ranges;

/// Whether something holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Truth {
    /// Of every such packet.
    Yes,
    /// Of none.
    No,
    /// Of those with these peers, and of no others.
    Of(Ranges),
    /// Who knows.
    Maybe,
}

impl Truth {
    /// Whether this is so.
    pub fn is(so: bool) -> Self {
        if so { Self::Yes } else { Self::No }
    }

    /// If it is so of each of them, it is so; if of none, it is not.
    pub fn of_each(each: impl IntoIterator<Item = bool>) -> Self {
        let mut found = None;
        for so in each {
            match found {
                None => found = Some(so),
                Some(before) if before != so => return Self::Maybe,
                Some(_) => {}
            }
        }
        found.map_or(Self::Maybe, Self::is)
    }

    /// The opposite; addresses have so many bits.
    #[must_use]
    pub fn not(self, bits: u32) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Of(peers) => Self::Of(Ranges::all(bits).subtract(&peers)),
            Self::Maybe => Self::Maybe,
        }
    }

    /// The opposite, if this is said.
    #[must_use]
    pub fn not_if(self, inverted: bool, bits: u32) -> Self {
        if inverted { self.not(bits) } else { self }
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, truth) | (truth, Self::Yes) => truth,
            (Self::Of(a), Self::Of(b)) => Self::Of(a.intersect(&b)),
            (Self::Maybe, _) | (_, Self::Maybe) => Self::Maybe,
        }
    }

    /// One of both at least.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::No, truth) | (truth, Self::No) => truth,
            (Self::Of(a), Self::Of(b)) => Self::Of(a.union(&b)),
            (Self::Maybe, _) | (_, Self::Maybe) => Self::Maybe,
        }
    }
}
