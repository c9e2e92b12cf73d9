//! How many connections each user has, and whether new ones are the kernel's because of that.
//!
//! Connections have a table of a fixed size for all, and they cannot be taken away again. So a part of it is
//! for root alone, and another part for users that have less than an equal share, wherever there are several.
//! Who is alone may have all but root's. New connections of who may not have more are the
//! kernel's, so nobody is refused; they are so a little earlier than when nothing is left, because what is
//! under way comes all the same.

use crate::config::shares::{ROOT, ROOTS_SHARE};

/// One in so many places is left to what is under way when a user is found to have enough.
const MARGIN: usize = 32;

#[derive(Debug)]
struct User {
    uid: u32,
    held: usize,
    beyond: bool,
    /// It was named when it was counted last.
    named: bool,
}

/// The users that have connections, or might get some.
#[derive(Debug, Default)]
pub struct Users {
    limit: usize,
    of: Vec<User>,
}

impl Users {
    /// None yet, of an engine with places for `limit` connections.
    pub fn among(limit: usize) -> Self {
        let of = Vec::new();
        Self { limit, of }
    }

    /// There are places for `limit` connections, of which each user has the sum of these; who may get some
    /// is named, too. Returns of how many users new connections are the kernel's from now on, and of how many
    /// no longer.
    pub fn count(&mut self, limit: usize, held: impl Iterator<Item = (u32, usize)>) -> [usize; 2] {
        self.limit = limit;
        for user in &mut self.of {
            (user.held, user.named) = (0, false);
        }
        for (uid, held) in held {
            match self.of.iter_mut().find(|user| user.uid == uid) {
                Some(user) => {
                    user.held += held;
                    user.named = true;
                }
                None => self.of.push(User {
                    uid,
                    held,
                    beyond: false,
                    named: true,
                }),
            }
        }
        let margin = limit / MARGIN;
        let mut changed = [0; 2];
        for at in 0..self.of.len() {
            let User { uid, beyond, .. } = self.of[at];
            let left = self.left(uid);
            // Who has just ended some shall not be beyond it again at once.
            let now = uid != ROOT && left <= if beyond { 2 * margin } else { margin };
            if now != beyond {
                changed[usize::from(beyond)] += 1;
            }
            self.of[at].beyond = now;
        }
        // Who has neither connections nor listeners is none of those any more who share.
        self.of.retain(|user| user.named);
        changed
    }

    /// How many more connections a user may have.
    pub fn left(&self, uid: u32) -> usize {
        let (mut roots, mut others, mut own) = (0, 0, 0);
        for user in &self.of {
            let of = if user.uid == ROOT {
                &mut roots
            } else {
                &mut others
            };
            *of += user.held;
            if user.uid == uid {
                own = user.held;
            }
        }
        if uid == ROOT {
            return self.limit.saturating_sub(roots + others);
        }
        let kept = (self.limit / ROOTS_SHARE).max(1);
        let usable = self.limit.saturating_sub(kept.max(roots));
        let mut users = self.of.iter().filter(|user| user.uid != ROOT).count();
        users += usize::from(self.of.iter().all(|user| user.uid != uid));
        let share = usable / users;
        let for_others = if users > 1 && own >= share { kept } else { 0 };
        usable.saturating_sub(others + for_others)
    }

    /// Whether a user's new connections are the kernel's.
    pub fn is_beyond(&self, uid: u32) -> bool {
        self.of.iter().any(|user| user.uid == uid && user.beyond)
    }

    /// Whether any user's are.
    pub fn any_beyond(&self) -> bool {
        self.of.iter().any(|user| user.beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_connection_of_all_may_be_anybodys() {
        assert_eq!(Users::among(64).left(1000), 56);
    }

    /// What a user gets who takes one after the other, until new ones are the kernel's.
    fn fill(users: &mut Users, held: &mut Vec<(u32, usize)>, uid: u32) -> usize {
        held.push((uid, 0));
        for count in 0.. {
            users.count(64, held.iter().copied());
            if users.is_beyond(uid) || users.left(uid) == 0 {
                return count;
            }
            held.last_mut().expect("just pushed").1 += 1;
        }
        unreachable!("there is an end")
    }

    #[test]
    fn who_is_alone_may_have_all_but_roots_part() {
        let (mut users, mut held) = (Users::default(), Vec::new());
        // Of 64, 8 are root's, and 2 are left for what is under way.
        assert_eq!(fill(&mut users, &mut held, 1000), 54);
        assert_eq!(users.left(1000), 2);
        assert_eq!(users.left(ROOT), 10);
        assert_eq!(
            fill(&mut users, &mut held, ROOT),
            10,
            "root has all that is left"
        );
        assert!(!users.is_beyond(ROOT));
    }

    #[test]
    fn who_has_less_than_an_equal_share_finds_room() {
        let (mut users, mut held) = (Users::default(), vec![(1001, 1)]);
        // Beyond half of 56, an eighth of all is left to the others.
        assert_eq!(fill(&mut users, &mut held, 1000), 45);
        assert!(!users.is_beyond(1001));
        assert_eq!(users.left(1001), 10);
        assert_eq!(users.left(1002), 10, "who comes new");
        // The other takes what was kept.
        let more = fill(&mut users, &mut held, 1001);
        assert_eq!(more, 8);
        assert!(users.is_beyond(1000) && users.is_beyond(1001));
    }

    #[test]
    fn what_root_has_is_of_its_own_part_first() {
        let mut users = Users::default();
        users.count(64, [(ROOT, 5), (1000, 50)].into_iter());
        assert_eq!(users.left(1000), 6);
        users.count(64, [(ROOT, 12), (1000, 50)].into_iter());
        assert_eq!(users.left(1000), 2);
        users.count(64, [(ROOT, 60), (1000, 2)].into_iter());
        assert_eq!((users.left(1000), users.left(ROOT)), (2, 2));
    }

    #[test]
    fn what_changes_is_said_once_and_not_for_every_connection() {
        let mut users = Users::default();
        let mut count = |held| users.count(64, [(1000, held)].into_iter());
        assert_eq!(count(53), [0, 0]);
        assert_eq!(count(54), [1, 0]);
        assert_eq!(count(55), [0, 0]);
        assert_eq!(count(52), [0, 0], "not at once");
        assert_eq!(count(51), [0, 1]);
        assert_eq!(count(54), [1, 0]);
        assert_eq!(users.count(64, [(1000, 54), (1001, 0)].into_iter()), [1, 0]);
        assert_eq!(users.left(1001), 2, "nothing was kept in time");
        assert_eq!(users.count(64, core::iter::empty()), [0, 2]);
        assert!(!users.any_beyond());
        assert!(users.of.is_empty(), "nobody is remembered");
    }
}
