//! What comes to all listeners together for which a policy decides: its rates are the server's, which may listen at
//! several addresses and in several processes.

use std::net::SocketAddr;

use crate::placement::{Lately, Looks};

/// Looks without a sum after which those before say nothing of now.
const GAP: u32 = 2;

/// What is known of what came to one of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Came {
    /// So much in the last second.
    Rate(f64),
    /// It is new, or has no number under which that is counted: it is as if nothing came. Otherwise whoever listens
    /// anew again and again would have nothing decided for anybody.
    Uncounted,
    /// That cannot be read.
    Unread,
}

/// Rates of all of them.
#[derive(Debug, Default)]
pub(super) struct Together {
    looks: Looks,
    /// At the last look that of each was known.
    is_known: bool,
    /// One whose was not.
    unread: Option<SocketAddr>,
    /// Looks in a row at which there was no sum.
    gap: u32,
}

impl Together {
    /// A look, at which so much came to each. A sum without one that cannot be read would be of less than the server.
    pub fn look(&mut self, each: impl Iterator<Item = (SocketAddr, Came)>) {
        let (mut all, mut counted, mut sum) = (0_u32, 0_u32, 0.0);
        self.unread = None;
        for (local, came) in each {
            all = all.saturating_add(1);
            match came {
                Came::Rate(rate) => {
                    counted = counted.saturating_add(1);
                    sum += rate;
                }
                Came::Uncounted => {}
                Came::Unread => self.unread = self.unread.or(Some(local)),
            }
        }
        if all == 0 {
            *self = Self::default();
            return;
        }
        self.is_known = counted > 0 && self.unread.is_none();
        if self.is_known {
            self.gap = 0;
            self.looks.add(sum);
            return;
        }
        self.gap = self.gap.saturating_add(1);
        if self.gap > GAP {
            self.looks = Looks::default();
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

    /// The one for which it is not known, if it is for one.
    pub fn unread(&self) -> Option<SocketAddr> {
        self.unread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look at listeners on the first ports.
    fn look<const N: usize>(together: &mut Together, each: [Came; N]) {
        let locals = (1_u16..).map(local);
        together.look(locals.zip(each));
    }

    fn local(port: u16) -> SocketAddr {
        ([0, 0, 0, 0], port).into()
    }

    #[test]
    fn a_sum_without_one_of_them_is_none() {
        let mut together = Together::default();
        assert_eq!(together.lately(), None);
        look(&mut together, [Came::Rate(3.0), Came::Rate(50_000.0)]);
        let lately = together.lately().expect("known");
        assert_eq!((lately.rate, lately.peak), (50_003.0, 50_003.0));
        look(&mut together, [Came::Rate(3.0), Came::Unread]);
        assert_eq!(together.lately(), None);
        assert_eq!(together.settled(), None);
        assert_eq!(together.unread(), Some(local(2)));
        for _ in 0..9 {
            look(&mut together, [Came::Rate(3.0), Came::Rate(4.0)]);
        }
        let settled = together.settled().expect("ten looks");
        assert_eq!((settled.rate, settled.peak), (7.0, 50_003.0));
        assert_eq!(together.unread(), None);
        together.look(std::iter::empty());
        assert_eq!(together.lately(), None, "nobody listens");
    }

    #[test]
    fn one_of_which_nothing_is_counted_yet_is_as_if_nothing_came_to_it() {
        let mut together = Together::default();
        look(&mut together, [Came::Uncounted]);
        assert_eq!(together.lately(), None, "nothing is known of any");
        look(&mut together, [Came::Uncounted, Came::Rate(4.0)]);
        assert_eq!(together.lately().map(|lately| lately.rate), Some(4.0));
        look(
            &mut together,
            [Came::Uncounted, Came::Rate(4.0), Came::Unread],
        );
        assert_eq!(together.lately(), None);
    }

    #[test]
    fn what_was_before_a_long_gap_is_past() {
        let mut together = Together::default();
        let known = |together: &mut Together, rate| look(together, [Came::Rate(rate)]);
        for _ in 0..10 {
            known(&mut together, 9.0);
        }
        for _ in 0..GAP {
            look(&mut together, [Came::Unread]);
        }
        known(&mut together, 1.0);
        assert_eq!(together.settled().map(|lately| lately.peak), Some(9.0));
        for _ in 0..=GAP {
            look(&mut together, [Came::Unread]);
        }
        known(&mut together, 1.0);
        assert_eq!(together.settled(), None, "ten looks are awaited anew");
        assert_eq!(together.lately().map(|lately| lately.peak), Some(1.0));
    }
}
