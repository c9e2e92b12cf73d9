//! How much one user can have of what all users share.

/// One in so many is for root alone, who has to be able to look at an engine that others keep busy.
pub const ROOTS_SHARE: usize = 8;
/// The user who may have anything that is there.
pub const ROOT: u32 = 0;

/// How many of something root has, all others have, and one user.
struct Held {
    roots: usize,
    others: usize,
    own: usize,
}

impl Held {
    fn of(uid: u32, holders: impl Iterator<Item = u32>) -> Self {
        Self::of_users(uid, holders.map(|holder| (holder, 1)))
    }

    /// Of how many each user has.
    fn of_users(uid: u32, users: impl Iterator<Item = (u32, usize)>) -> Self {
        let (mut roots, mut others, mut own) = (0, 0, 0);
        for (user, count) in users {
            match user {
                ROOT => roots += count,
                _ => others += count,
            }
            if user == uid {
                own += count;
            }
        }
        Self { roots, others, own }
    }

    /// Whether there is one more, which is not kept for root alone.
    fn leaves_one(&self, limit: usize, uid: u32) -> bool {
        let kept = (limit / ROOTS_SHARE).max(1);
        self.left(limit) > 0 && (uid == ROOT || self.others < limit.saturating_sub(kept))
    }

    fn left(&self, limit: usize) -> usize {
        limit.saturating_sub(self.roots + self.others)
    }
}

/// Whether `uid` may have one more of something of which there are `limit`, and which these users have.
/// One user but root can have half of all; so can two, but for root's share.
pub fn has_room(limit: usize, uid: u32, holders: impl Iterator<Item = u32>) -> bool {
    has_room_among(limit, uid, holders.map(|holder| (holder, 1)))
}

/// The same where it is known how many each user has.
pub fn has_room_among(limit: usize, uid: u32, users: impl Iterator<Item = (u32, usize)>) -> bool {
    let held = Held::of_users(uid, users);
    held.leaves_one(limit, uid) && (uid == ROOT || held.own < limit / 2)
}

/// The same of what a user alone may have most of: that one user but root can have no more than half binds
/// only once a quarter is left, when others may need it.
pub fn has_room_while_scarce(limit: usize, uid: u32, holders: impl Iterator<Item = u32>) -> bool {
    let held = Held::of(uid, holders);
    let is_scarce = held.left(limit) <= limit / SCARCE;
    held.leaves_one(limit, uid) && (uid == ROOT || !is_scarce || held.own < limit / 2)
}

/// To how much more a user holds than is left it may take while nobody else has any.
const ALONE: usize = 8;

/// How much all hold of something that cannot be taken away from who holds it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    /// Root.
    pub roots: usize,
    /// All others.
    pub others: usize,
}

impl Taken {
    /// How many more of `limit` a user may take, who holds `own` of what is taken. Once a quarter is left, one but
    /// root takes no more if it holds as much as is left, so that who comes next finds half of that, or, while it is
    /// `alone`, eight times as much: a share binds while others want theirs. Root leaves them an eighth, as they do to
    /// it: what it holds, strangers made it hold who connect to where it listens.
    pub fn to_take(self, limit: usize, uid: u32, own: usize, alone: bool) -> usize {
        if uid == ROOT {
            let others = (limit / ROOTS_SHARE).max(self.others);
            return limit.saturating_sub(others + self.roots);
        }
        let roots = (limit / ROOTS_SHARE).max(self.roots);
        let left = limit.saturating_sub(roots + self.others);
        let times = if alone { ALONE } else { 1 };
        // Each that it takes brings the two nearer, from both sides.
        let share = (times * left).saturating_sub(own).div_ceil(times + 1);
        share.max(left.saturating_sub(limit / SCARCE))
    }
}

/// One in so many left, and every user is held to its share.
pub const SCARCE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_share_cannot_be_taken_by_several_users() {
        let mut taken = Vec::new();
        for uid in [1000, 1001, 1002, ROOT] {
            while has_room(16, uid, taken.iter().copied()) {
                taken.push(uid);
            }
        }
        // Half for the first; the second has what is left of all but root's.
        let of = |uid| taken.iter().filter(|taken| **taken == uid).count();
        assert_eq!([1000, 1001, 1002, ROOT].map(of), [8, 6, 0, 2]);
    }

    #[test]
    fn one_user_alone_can_have_more_than_half_as_long_as_much_is_left() {
        let mut taken = Vec::new();
        for uid in [1000, 1001, ROOT] {
            while has_room_while_scarce(32, uid, taken.iter().copied()) {
                taken.push(uid);
            }
        }
        // Who comes later still finds some, and root its own.
        let of = |uid| taken.iter().filter(|taken| **taken == uid).count();
        assert_eq!([1000, 1001, ROOT].map(of), [24, 4, 4]);
        assert!(!has_room_while_scarce(32, 1002, taken.into_iter()));
        assert!(has_room_while_scarce(1, ROOT, [].into_iter()));
    }

    /// Takes what there is for a user; how much that is.
    fn take(held: &mut Vec<(u32, usize)>, uid: u32) -> usize {
        held.push((uid, 0));
        loop {
            let of = |roots| {
                held.iter()
                    .filter(move |(user, _)| (*user == ROOT) == roots)
            };
            let sum = |roots| of(roots).map(|(_, held)| held).sum();
            let taken = Taken {
                roots: sum(true),
                others: sum(false),
            };
            let alone = held.iter().all(|(user, _)| [uid, ROOT].contains(user));
            let own = held.last().expect("just pushed").1;
            if taken.to_take(64, uid, own, alone) == 0 {
                return own;
            }
            held.last_mut().expect("just pushed").1 += 1;
        }
    }

    #[test]
    fn who_is_alone_takes_nearly_all_and_who_comes_next_half_of_what_is_left() {
        let mut held = Vec::new();
        // Of 64, 8 are root's.
        assert_eq!(take(&mut held, 1000), 50);
        assert_eq!(take(&mut held, 1001), 3);
        assert_eq!(take(&mut held, 1002), 2);
        assert_eq!(take(&mut held, 1003), 1);
        assert_eq!(take(&mut held, 1004), 0);
        assert_eq!(take(&mut held, ROOT), 8);
        let mut held = vec![(ROOT, 20)];
        assert_eq!(
            take(&mut held, 1000),
            40,
            "what root has is of its own first"
        );
        let mut held = vec![(1000, 0)];
        assert_eq!(take(&mut held, 1001), 40, "until a quarter is left");
        assert_eq!(take(&mut held, 1000), 8);
        let mut held = Vec::new();
        assert_eq!(take(&mut held, ROOT), 56, "an eighth is all others'");
        assert_eq!(take(&mut held, 1000), 8);
    }

    #[test]
    fn root_can_have_all() {
        let mut taken = Vec::new();
        while has_room(16, ROOT, taken.iter().copied()) {
            taken.push(ROOT);
        }
        assert_eq!(taken.len(), 16);
        assert!(!has_room(16, 1000, taken.into_iter()));
    }
}
