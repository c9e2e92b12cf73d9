//! What the last send found none of: memory, or room in the ring.

/// For what it waits that found none. One word, since there may be a million sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Starved(u64);

impl Starved {
    /// It found what it wanted, or there may be some again.
    pub(super) const NOT: Self = Self(0);
    /// Nobody wakes it for what it waits for.
    pub(super) const HELPLESS: Self = Self(u64::MAX);

    /// It waits for memory, until so many bytes of its own are acknowledged. `None`: it has none under way.
    pub(super) fn for_memory(until: Option<u64>) -> Self {
        // Something that is under way ends behind 0.
        until.map_or(Self::HELPLESS, Self)
    }

    pub(super) fn is(self) -> bool {
        self != Self::NOT
    }

    pub(super) fn is_helpless(self) -> bool {
        self == Self::HELPLESS
    }

    /// How many bytes have to be acknowledged for it to look again by itself, unless it is helpless: 0 if it does not
    /// starve.
    pub(super) fn until(self) -> Option<u64> {
        (!self.is_helpless()).then_some(self.0)
    }

    /// So many bytes are acknowledged: those of memory that came back by it are its own.
    pub(super) fn acknowledged(&mut self, acked: u64) {
        if !self.is_helpless() && acked >= self.0 {
            *self = Self::NOT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_has_something_under_way_waits_for_that_alone() {
        let mut starved = Starved::for_memory(Some(100));
        assert!(starved.is() && !starved.is_helpless());
        assert_eq!(starved.until(), Some(100));
        starved.acknowledged(99);
        assert!(starved.is());
        starved.acknowledged(100);
        assert_eq!((starved, starved.until()), (Starved::NOT, Some(0)));
        let mut helpless = Starved::for_memory(None);
        helpless.acknowledged(100);
        assert!(helpless.is() && helpless.until().is_none());
    }
}
