//! Who has how much of something that cannot be taken away again, and of which each user has a
//! [share](Taken::to_take).

use crate::config::shares::{ROOT, Taken};

/// The user of what is nobody's: no user can have that number.
const NOBODY: u32 = u32::MAX;
/// Accounts that there can be; what is beyond them is nobody's.
const MOST: usize = if cfg!(test) { 1 << 9 } else { 1 << 15 };

/// The number of a user's account: 0 is nobody's, and all are below 32,768.
pub type AccountId = u16;

/// What one user has.
#[derive(Debug)]
struct Account {
    uid: u32,
    held: u32,
    /// Of who holds none yet and may want some.
    waiting: u32,
}

impl Account {
    fn of(uid: u32) -> Self {
        Self {
            uid,
            held: 0,
            waiting: 0,
        }
    }

    fn is_over(&self) -> bool {
        self.held == 0 && self.waiting == 0
    }

    /// Whether it is of a user but root that has or wants some.
    fn is_a_users(&self) -> bool {
        !self.is_over() && ![ROOT, NOBODY].contains(&self.uid)
    }
}

/// What all users have, of so much.
#[derive(Debug)]
pub struct Accounts {
    total: u32,
    taken: Taken,
    /// By number.
    of: Vec<Account>,
    /// How many of them [are a user's](Account::is_a_users).
    users: u32,
}

impl Accounts {
    /// Of so much.
    pub fn of_total(total: u32) -> Self {
        Self {
            total,
            taken: Taken::default(),
            of: vec![Account::of(NOBODY)],
            users: 0,
        }
    }

    /// There is so much from now on. Who holds more than its share of that keeps it.
    pub fn set_total(&mut self, total: u32) {
        self.total = total;
    }

    /// The account of a user, which it keeps for as long as something is taken or waited for there.
    pub fn open(&mut self, uid: u32) -> AccountId {
        let own = self.of.iter().position(|account| account.uid == uid);
        // There are fewer than the number has room for.
        own.or_else(|| self.begin(uid)).unwrap_or_default() as AccountId
    }

    fn begin(&mut self, uid: u32) -> Option<usize> {
        let mut free = self.of.iter().enumerate().skip(1);
        let free = free.find_map(|(at, account)| account.is_over().then_some(at));
        let at = free.unwrap_or(self.of.len());
        if at == MOST {
            return None;
        }
        if at == self.of.len() {
            self.of.push(Account::of(uid));
        } else {
            self.of[at] = Account::of(uid);
        }
        Some(at)
    }

    /// How much more may be taken.
    pub fn left(&self, account: AccountId) -> u32 {
        let own = self.account(account);
        let alone = self.users == u32::from(own.is_a_users());
        let (total, held) = (self.total as usize, own.held as usize);
        // No more than there is.
        self.taken.to_take(total, own.uid, held, alone) as u32
    }

    /// Whether it holds less than an equal share.
    pub fn has_little(&self, account: AccountId) -> bool {
        let own = self.account(account);
        // One part is root's.
        let parts = u64::from(self.users) + 1;
        u64::from(own.held) * parts < u64::from(self.total)
    }

    /// How many hold none yet and may want some.
    pub fn waiting(&self, account: AccountId) -> u32 {
        self.account(account).waiting
    }

    /// So many do.
    pub fn set_waiting(&mut self, account: AccountId, count: u32) {
        self.change(account, |own| own.waiting = count);
    }

    /// One is taken.
    pub fn take(&mut self, account: AccountId) {
        self.change(account, |own| own.held += 1);
        *self.taken_like(account) += 1;
    }

    /// One is given back.
    pub fn give(&mut self, account: AccountId) {
        let held = self.account(account).held;
        debug_assert!(held > 0, "given back by who has not taken it");
        self.change(account, |own| own.held = held.saturating_sub(1));
        let all = self.taken_like(account);
        *all = all.saturating_sub(1);
    }

    fn account(&self, account: AccountId) -> &Account {
        &self.of[usize::from(account)]
    }

    fn change(&mut self, account: AccountId, change: impl FnOnce(&mut Account)) {
        let own = &mut self.of[usize::from(account)];
        let before = own.is_a_users();
        change(own);
        self.users += u32::from(own.is_a_users());
        self.users -= u32::from(before);
    }

    /// What is taken by root, or by all others.
    fn taken_like(&mut self, account: AccountId) -> &mut usize {
        match self.account(account).uid {
            ROOT => &mut self.taken.roots,
            _ => &mut self.taken.others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes what there is; how much that is.
    fn exhaust(accounts: &mut Accounts, account: AccountId) -> u32 {
        let mut count = 0;
        while accounts.left(account) > 0 {
            accounts.take(account);
            count += 1;
        }
        count
    }

    #[test]
    fn a_share_binds_while_little_is_left_and_others_want_some() {
        let mut accounts = Accounts::of_total(64);
        let first = accounts.open(1000);
        accounts.set_waiting(first, 1);
        let other = accounts.open(1001);
        accounts.set_waiting(other, 1);
        assert_eq!(accounts.open(1000), first);
        // What is nobody's wants nothing.
        accounts.set_waiting(0, 9);
        assert_eq!(exhaust(&mut accounts, first), 40, "all but a quarter");
        accounts.set_waiting(other, 0);
        assert_eq!(exhaust(&mut accounts, first), 10);
        assert_eq!(exhaust(&mut accounts, other), 3, "half of what is left");
        assert!(accounts.has_little(other) && !accounts.has_little(first));
        let root = accounts.open(ROOT);
        assert_eq!(exhaust(&mut accounts, root), 3 + 8);
        accounts.set_total(128);
        assert_eq!(accounts.left(root), 64);
    }

    #[test]
    fn the_account_of_who_has_nothing_is_anothers() {
        let mut accounts = Accounts::of_total(64);
        let first = accounts.open(1000);
        accounts.set_waiting(first, 1);
        let other = accounts.open(1001);
        accounts.take(other);
        assert_eq!(accounts.users, 2);
        accounts.set_waiting(first, 0);
        assert_eq!(accounts.open(1002), first);
        assert_ne!(accounts.open(1003), other);
        accounts.give(other);
        assert_eq!(accounts.left(other), 50, "everything is as it was");
    }

    #[test]
    fn there_are_no_more_accounts_than_numbers() {
        let mut accounts = Accounts::of_total(1 << 20);
        for uid in 1..MOST as u32 {
            let account = accounts.open(uid);
            accounts.take(account);
            assert_eq!(accounts.users, uid);
        }
        assert_eq!(accounts.open(1 << 20), 0);
        for account in 1..MOST as u16 {
            accounts.give(account);
        }
        assert_eq!(accounts.users, 0);
    }
}
