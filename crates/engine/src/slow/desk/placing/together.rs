//! What comes to all listeners together for which a policy decides: its rates are the server's, which may listen at
//! several addresses and in several processes.

use crate::placement::{Lately, Looks};

/// Rates of all of them.
#[derive(Debug, Default)]
pub(super) struct Together {
    looks: Looks,
    /// At the last look that of each was known.
    is_known: bool,
}

impl Together {
    /// A look, at which so much came to each. A sum without one of them would be of less than the server.
    pub fn look(&mut self, rates: impl Iterator<Item = Option<f64>>) {
        let mut rates = rates.peekable();
        if rates.peek().is_none() {
            *self = Self::default();
            return;
        }
        let sum: Option<f64> = rates.sum();
        self.is_known = sum.is_some();
        if let Some(sum) = sum {
            self.looks.add(sum);
        }
    }

    /// What comes to them now, if that is known.
    pub fn lately(&self) -> Option<Lately> {
        self.looks.lately().filter(|_| self.is_known)
    }

    /// The same, once there were as many looks as it takes to decide where connections go.
    pub fn settled(&self) -> Option<Lately> {
        self.lately().filter(|_| self.looks.are_enough())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_without_one_of_them_is_none() {
        let mut together = Together::default();
        assert_eq!(together.lately(), None);
        together.look([Some(3.0), Some(50_000.0)].into_iter());
        let lately = together.lately().expect("known");
        assert_eq!((lately.rate, lately.peak), (50_003.0, 50_003.0));
        together.look([Some(3.0), None].into_iter());
        assert_eq!(together.lately(), None);
        assert_eq!(together.settled(), None);
        for _ in 0..9 {
            together.look([Some(3.0), Some(4.0)].into_iter());
        }
        let settled = together.settled().expect("ten looks");
        assert_eq!((settled.rate, settled.peak), (7.0, 50_003.0));
        together.look(std::iter::empty());
        assert_eq!(together.lately(), None, "nobody listens");
    }
}
