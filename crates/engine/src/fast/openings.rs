//! The connections that processes are opening, by connection and by the token that its process gave it.

use std::collections::BTreeMap;
use std::ops::Bound;

use tcp::ConnId;

use crate::fast::ids::SessionId;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Openings {
    by_conn: BTreeMap<ConnId, (SessionId, u64)>,
    by_token: BTreeMap<(SessionId, u64), ConnId>,
}

impl Openings {
    /// A process has begun to open it. Of two with one token of one process, which breaks no rule, the later one is
    /// found by it.
    pub fn insert(&mut self, id: ConnId, whose: SessionId, token: u64) {
        self.by_conn.insert(id, (whose, token));
        self.by_token.insert((whose, token), id);
    }

    /// It is open, or over.
    pub fn remove(&mut self, id: ConnId) {
        if let Some(key) = self.by_conn.remove(&id)
            && self.by_token.get(&key) == Some(&id)
        {
            self.by_token.remove(&key);
        }
    }

    /// The one that a process names by its token.
    pub fn find(&self, whose: SessionId, token: u64) -> Option<ConnId> {
        self.by_token.get(&(whose, token)).copied()
    }

    /// The one that comes after this one, or the first.
    pub fn after(&self, last: Option<ConnId>) -> Option<ConnId> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut later = self.by_conn.range((from, Bound::Unbounded));
        later.next().map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOSE: SessionId = SessionId(3);

    fn conn(index: u32) -> ConnId {
        ConnId {
            index,
            generation: 1,
        }
    }

    #[test]
    fn one_is_found_by_the_token_of_its_process_alone() {
        let mut openings = Openings::default();
        openings.insert(conn(1), WHOSE, 7);
        openings.insert(conn(2), SessionId(4), 7);
        assert_eq!(openings.find(WHOSE, 7), Some(conn(1)));
        assert_eq!(openings.find(WHOSE, 8), None);
        openings.remove(conn(1));
        assert_eq!(openings.find(WHOSE, 7), None);
        assert_eq!(openings.after(None), Some(conn(2)));
    }

    #[test]
    fn they_are_gone_through_whatever_begins_and_ends_meanwhile() {
        let mut openings = Openings::default();
        for index in [2, 4, 6] {
            openings.insert(conn(index), WHOSE, index.into());
        }
        let first = openings.after(None);
        assert_eq!(first, Some(conn(2)));
        openings.remove(conn(2));
        openings.insert(conn(1), WHOSE, 1);
        assert_eq!(openings.after(first), Some(conn(4)));
        openings.remove(conn(6));
        assert_eq!(openings.after(Some(conn(4))), None);
    }

    #[test]
    fn the_end_of_one_leaves_another_with_its_token() {
        let mut openings = Openings::default();
        openings.insert(conn(1), WHOSE, 7);
        openings.insert(conn(2), WHOSE, 7);
        openings.remove(conn(1));
        assert_eq!(openings.find(WHOSE, 7), Some(conn(2)));
    }
}
