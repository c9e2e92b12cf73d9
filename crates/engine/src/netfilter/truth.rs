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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(from: u128, to: u128) -> Truth {
        Truth::Of(Ranges::of([(from, to)]))
    }

    #[test]
    fn truths_are_joined_as_if_peer_by_peer() {
        use Truth::{Maybe, No, Yes};
        for (a, b, and, or) in [
            (Yes, Yes, Yes, Yes),
            (Yes, No, No, Yes),
            (No, No, No, No),
            (Yes, Maybe, Maybe, Yes),
            (No, Maybe, No, Maybe),
            (Maybe, Maybe, Maybe, Maybe),
            (of(1, 5), Yes, of(1, 5), Yes),
            (of(1, 5), No, No, of(1, 5)),
            (of(1, 5), of(4, 9), of(4, 5), of(1, 9)),
            (of(1, 5), Maybe, Maybe, Maybe),
        ] {
            assert_eq!(a.clone().and(b.clone()), and, "{a:?} and {b:?}");
            assert_eq!(b.clone().and(a.clone()), and, "{b:?} and {a:?}");
            assert_eq!(a.clone().or(b.clone()), or, "{a:?} or {b:?}");
            assert_eq!(b.clone().or(a.clone()), or, "{b:?} or {a:?}");
        }
    }

    #[test]
    fn the_opposite_is_of_all_others() {
        let rest = Ranges::of([(0, 0), (6, u32::MAX.into())]);
        assert_eq!(of(1, 5).not(32), Truth::Of(rest));
        assert_eq!(Truth::Yes.not_if(true, 32), Truth::No);
        assert_eq!(Truth::No.not(32), Truth::Yes);
        assert_eq!(Truth::Yes.not_if(false, 32), Truth::Yes);
        assert_eq!(Truth::Maybe.not(32), Truth::Maybe);
    }

    #[test]
    fn what_is_so_of_each_is_so() {
        assert_eq!(Truth::of_each([true, true]), Truth::Yes);
        assert_eq!(Truth::of_each([false, false, false]), Truth::No);
        assert_eq!(Truth::of_each([true, true, false]), Truth::Maybe);
        assert_eq!(Truth::of_each([]), Truth::Maybe);
    }
}
