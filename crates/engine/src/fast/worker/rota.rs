//! Whose turn it is when there is no time for all: who was left out comes first in the next turn.

/// The order of so many slots, from turn to turn.
#[derive(Debug, Default)]
pub(super) struct Rota {
    first: u16,
}

impl Rota {
    /// All of `count` slots, in the order of this turn.
    pub fn slots(&self, count: u16) -> impl Iterator<Item = u16> + use<> {
        let first = self.first.min(count);
        (first..count).chain(0..first)
    }

    /// The turn ends before the turn of `slot`, or after all.
    pub fn ends(&mut self, before: Option<u16>) {
        self.first = before.unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_left_out_comes_first() {
        let mut rota = Rota::default();
        let slots = |rota: &Rota, count| rota.slots(count).collect::<Vec<_>>();
        assert_eq!(slots(&rota, 4), [0, 1, 2, 3]);
        rota.ends(Some(2));
        assert_eq!(slots(&rota, 4), [2, 3, 0, 1]);
        rota.ends(Some(3));
        assert_eq!(slots(&rota, 4), [3, 0, 1, 2]);
        assert_eq!(slots(&rota, 2), [0, 1], "there are fewer now");
        rota.ends(None);
        assert_eq!(slots(&rota, 3), [0, 1, 2]);
        assert!(slots(&rota, 0).is_empty());
    }
}
