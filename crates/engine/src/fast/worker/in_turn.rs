//! What is done for several users some at a time: whoever has how much, each user's turn comes. What is one user's is
//! done in its order, so that the first need not wait for the last.

use std::collections::VecDeque;

/// What is to be done, by user.
#[derive(Debug)]
pub(super) struct InTurn<T> {
    /// Each user once, and none that has nothing.
    users: VecDeque<(u32, VecDeque<T>)>,
}

impl<T> Default for InTurn<T> {
    fn default() -> Self {
        Self {
            users: VecDeque::new(),
        }
    }
}

impl<T> InTurn<T> {
    /// Something more for a user, behind what there is.
    pub fn push(&mut self, uid: u32, what: T) {
        self.of(uid).push_back(what);
    }

    /// This goes on when it is the user's turn again.
    pub fn put_back(&mut self, uid: u32, what: T) {
        self.of(uid).push_front(what);
    }

    /// What there is of a user, who gets something more.
    fn of(&mut self, uid: u32) -> &mut VecDeque<T> {
        let known = self.users.iter().position(|(user, _)| *user == uid);
        let at = known.unwrap_or_else(|| {
            self.users.push_back((uid, VecDeque::new()));
            self.users.len() - 1
        });
        &mut self.users[at].1
    }

    /// What is done next, and for whom: the next one is another user's, if there is any.
    pub fn pop(&mut self) -> Option<(u32, T)> {
        let (uid, mut own) = self.users.pop_front()?;
        let next = own.pop_front();
        if !own.is_empty() {
            self.users.push_back((uid, own));
        }
        next.map(|next| (uid, next))
    }

    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.users.iter().flat_map(|(_, own)| own)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.users.iter_mut().flat_map(|(_, own)| own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_much_waits_for_who_has_little() {
        let mut all = InTurn::default();
        for what in ["a", "b", "c"] {
            all.push(1, what);
        }
        all.push(2, "d");
        assert_eq!(all.iter().count(), 4);
        let mut taken = Vec::new();
        // Each takes two goes.
        for go in 0..8 {
            let (uid, what) = all.pop().expect("not empty");
            if !taken.contains(&what) {
                all.put_back(uid, what);
            }
            taken.push(what);
            assert_eq!(all.is_empty(), go == 7);
        }
        assert_eq!(taken, ["a", "d", "a", "d", "b", "b", "c", "c"]);
    }
}
