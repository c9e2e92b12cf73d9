//! Connections that programs have closed, and of which the TCP sees to the rest, by user: who opens many, with peers
//! that never close, would have all others' reset.

use super::accounts::{AccountId, Accounts};

/// On whose account a connection is one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftBy(AccountId);

impl LeftBy {
    /// It is none.
    const NOBODY: Self = Self(0);
}

/// All of them.
#[derive(Debug)]
pub struct Orphans(Accounts);

impl Orphans {
    /// So many at most.
    pub fn with_limit(limit: u32) -> Self {
        Self(Accounts::of_total(limit))
    }

    /// There may be so many from now on. Those that are there stay.
    pub fn set_limit(&mut self, limit: u32) {
        self.0.set_total(limit);
    }

    /// A user's program is about to close a connection, or to close one again; false if the user has its share.
    pub fn begin(&mut self, of: &mut LeftBy, uid: u32) -> bool {
        if *of != LeftBy::NOBODY {
            return true;
        }
        let account = self.0.open(uid);
        if self.0.left(account) == 0 {
            return false;
        }
        if account != 0 {
            self.0.take(account);
        }
        *of = LeftBy(account);
        true
    }

    /// The TCP has forgotten a connection, which may be one of them.
    pub fn end(&mut self, of: &mut LeftBy) {
        let LeftBy(account) = core::mem::take(of);
        if account != 0 {
            self.0.give(account);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counts_once_until_it_ends() {
        let mut orphans = Orphans::with_limit(32);
        let mut conns = [LeftBy::NOBODY; 32];
        let all = conns
            .iter_mut()
            .filter_map(|of| orphans.begin(of, 1000).then_some(of));
        assert_eq!(all.count(), 25);
        assert!(orphans.begin(&mut conns[24], 1000), "again");
        assert!(!orphans.begin(&mut conns[25], 1000));
        orphans.end(&mut conns[25]);
        assert!(!orphans.begin(&mut conns[25], 1000), "it was none");
        assert!(orphans.begin(&mut conns[25], 1001));
        assert!(orphans.begin(&mut conns[26], 0));
        orphans.set_limit(0);
        assert!(!orphans.begin(&mut conns[27], 0));
        conns.iter_mut().for_each(|of| orphans.end(of));
        orphans.set_limit(32);
        let all = conns
            .iter_mut()
            .filter_map(|of| orphans.begin(of, 1001).then_some(of));
        assert_eq!(all.count(), 25);
    }
}
