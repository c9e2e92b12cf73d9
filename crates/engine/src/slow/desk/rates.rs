//! How many requests a user may make a second.
//!
//! Who asks more often is not refused: what it asks waits, unread, until its time has come, and others
//! are served meanwhile. Root does not wait: it has to be able to look at an engine that others keep
//! busy.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::config::shares::ROOT;
use crate::exchange::ClientKey;

/// What may be asked for at once by who has asked for nothing for so long.
const BURST: Duration = Duration::from_secs(1);
/// How long a user waits who is to wait.
const MOMENT: Duration = Duration::from_millis(100);
/// The longest that a user waits for what it was served beyond its rate.
const MOST_DEBT: Duration = Duration::from_secs(2);

/// What a request costs: as many as it is worth.
pub(super) mod cost {
    /// Of most.
    pub const REQUEST: u32 = 1;
    /// A control connection that was accepted.
    pub const CONNECTION: u32 = 1;
    /// Memory is made and mapped.
    pub const ATTACH: u32 = 10;
    /// The facts of many connections, or all counts.
    pub const FACTS: u32 = 5;
}

/// What one user has asked for, by the algorithm that ATM calls generic cell rate (ITU-T I.371).
#[derive(Debug)]
struct User {
    /// When all that was served would have been, one by one at the user's rate.
    paid_at: Instant,
    /// Connections that are not read until then, in the order in which they wanted to be.
    late: VecDeque<ClientKey>,
}

/// The rates of all users.
#[derive(Debug)]
pub(super) struct Rates {
    per_second: u32,
    users: HashMap<u32, User>,
}

impl Rates {
    /// Each user may make so many requests a second.
    pub fn new(per_second: u32) -> Self {
        Self {
            per_second,
            users: HashMap::new(),
        }
    }

    /// From now on this holds.
    pub fn set_rate(&mut self, per_second: u32) {
        self.per_second = per_second;
    }

    /// A user is served something.
    pub fn charge(&mut self, uid: u32, cost: u32, now: Instant) {
        if uid == ROOT {
            return;
        }
        let price = Duration::from_secs(cost.into()) / self.per_second.max(1);
        let user = self.user(uid, now);
        user.paid_at = (user.paid_at.max(now) + price).min(now + BURST + MOST_DEBT);
    }

    /// Lets a user wait for a moment, whatever he has asked.
    pub fn hold(&mut self, uid: u32, now: Instant) {
        let user = self.user(uid, now);
        user.paid_at = user.paid_at.max(now + BURST + MOMENT);
    }

    fn user(&mut self, uid: u32, now: Instant) -> &mut User {
        self.users.entry(uid).or_insert_with(|| User {
            paid_at: now,
            late: VecDeque::new(),
        })
    }

    /// Whether a user has been served more than its rate and a burst allow.
    pub fn is_ahead(&self, uid: u32, now: Instant) -> bool {
        self.users.get(&uid).is_some_and(|user| user.is_ahead(now))
    }

    /// Whether a connection of a user has to wait: for the time, or for others that do.
    pub fn is_late(&self, uid: u32, now: Instant) -> bool {
        let user = self.users.get(&uid);
        user.is_some_and(|user| !user.late.is_empty() || user.is_ahead(now))
    }

    /// A connection of a user waits; it has been charged before.
    pub fn defer(&mut self, uid: u32, client: ClientKey) {
        if let Some(user) = self.users.get_mut(&uid) {
            user.late.push_back(client);
        }
    }

    /// The next connection whose time has come: it is read again, once.
    pub fn next_due(&mut self, now: Instant) -> Option<ClientKey> {
        let mut due = self.users.values_mut().filter(|user| !user.is_ahead(now));
        due.find_map(|user| user.late.pop_front())
    }

    /// When [`next_due`](Self::next_due) has something, if anything waits.
    pub fn wakes_at(&self) -> Option<Instant> {
        let waiting = self.users.values().filter(|user| !user.late.is_empty());
        waiting
            .map(|user| user.paid_at.checked_sub(BURST).unwrap_or(user.paid_at))
            .min()
    }

    /// Forgets who has nothing to wait for.
    pub fn forget_the_quiet(&mut self, now: Instant) {
        self.users
            .retain(|_, user| !user.late.is_empty() || user.paid_at > now);
    }
}

impl User {
    fn is_ahead(&self, now: Instant) -> bool {
        self.paid_at > now + BURST
    }
}

#[cfg(test)]
mod tests {
    use queue_pair::control::{Channel, Fds, Reply, Request};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::config::Config;
    use crate::exchange;
    use crate::slow::control::Control;
    use crate::slow::desk::{Desk, Facts};
    use crate::stats::Drop;

    const USER: u32 = 1000;

    /// How many requests of a user are served at once.
    fn served(rates: &mut Rates, uid: u32, now: Instant) -> usize {
        let mut served = 0;
        while !rates.is_late(uid, now) && served < 1_000 {
            rates.charge(uid, cost::REQUEST, now);
            served += 1;
        }
        served
    }

    #[test]
    fn a_user_is_served_a_burst_and_then_its_rate() {
        let start = Instant::now();
        let mut rates = Rates::new(10);
        assert_eq!(served(&mut rates, USER, start), 11);
        assert_eq!(served(&mut rates, USER + 1, start), 11, "another user");
        let later = start + Duration::from_millis(499);
        assert_eq!(served(&mut rates, USER, later), 4);
        let rested = start + Duration::from_secs(60);
        assert_eq!(served(&mut rates, USER, rested), 11);
        assert_eq!(served(&mut rates, ROOT, start), 1_000);
    }

    #[test]
    fn what_waits_is_served_in_its_order_and_time() {
        let start = Instant::now();
        let mut rates = Rates::new(10);
        served(&mut rates, USER, start);
        assert_eq!(rates.wakes_at(), None, "nothing waits");
        let key = |slot| ClientKey { slot, serial: 1 };
        rates.defer(USER, key(1));
        rates.defer(USER, key(2));
        assert_eq!(rates.next_due(start), None);
        let due = rates.wakes_at().expect("they wait");
        assert_eq!(due - start, Duration::from_millis(100));
        assert_eq!(rates.next_due(due), Some(key(1)));
        assert!(rates.is_late(USER, due), "not before the other one");
        assert!(!rates.is_ahead(USER, due));
        assert_eq!(rates.next_due(due), Some(key(2)));
        assert_eq!(rates.next_due(due), None);
    }

    #[test]
    fn nobody_is_in_debt_for_ever_or_remembered_for_nothing() {
        let start = Instant::now();
        let mut rates = Rates::new(10);
        for _ in 0..1_000 {
            rates.charge(USER, cost::ATTACH, start);
        }
        let paid = start + MOST_DEBT;
        assert!(rates.is_ahead(USER, paid - Duration::from_millis(1)));
        assert!(!rates.is_ahead(USER, paid));
        rates.forget_the_quiet(paid);
        assert!(!rates.users.is_empty(), "its burst is not paid");
        rates.forget_the_quiet(paid + BURST);
        assert!(rates.users.is_empty());
    }

    /// The answers that have come.
    fn answers(channel: &mut Channel) -> usize {
        let mut count = 0;
        while let Ok(Some((Reply::Error { .. }, _))) = channel.try_receive() {
            count += 1;
        }
        count
    }

    #[test]
    fn requests_beyond_the_rate_wait_unread() {
        let mut config = Config::default();
        config.limits.requests_per_second = 1;
        let control = Control::without_socket(&config.limits).expect("descriptors");
        let (to_fast, _to_slow) = exchange::pair(&config.limits).expect("descriptors");
        let mut desk = Desk::new(Facts::new(&config, [1], 0), control, to_fast).expect("polled");
        let mut hosts: Vec<Channel> = Vec::new();
        for uid in [USER, USER, USER + 1, ROOT] {
            let flags = SocketFlags::CLOEXEC;
            let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
            let (ours, theirs) = pair.expect("descriptors");
            let slot = desk.control.add_client(ours).expect("room");
            desk.control.client(slot).expect("there").uid = uid;
            let mut host = Channel::new(theirs);
            for _ in 0..5 {
                host.send(&Request::Settle, Fds::new()).expect("sent");
            }
            hosts.push(host);
        }
        let start = Instant::now();
        let served = |desk: &mut Desk, hosts: &mut [Channel], now: Instant| {
            desk.serve_the_late(now);
            for slot in 0..4 {
                desk.serve_in_time(slot, now).expect("open");
            }
            hosts.iter_mut().map(answers).collect::<Vec<_>>()
        };
        assert_eq!(served(&mut desk, &mut hosts, start), [2, 0, 2, 5]);
        assert_eq!(desk.counters.dropped(Drop::RequestsDelayed), 3);
        assert_eq!(served(&mut desk, &mut hosts, start), [0; 4]);
        let later = start + Duration::from_secs(1);
        assert_eq!(served(&mut desk, &mut hosts, later), [1, 0, 1, 0]);
        // The other connection of the same user has its turn, too.
        let later = start + Duration::from_secs(2);
        assert_eq!(served(&mut desk, &mut hosts, later), [0, 1, 1, 0]);

        // Who is not read is heard to go.
        hosts.remove(0);
        assert!(desk.serve_in_time(0, later).is_err());
    }
}
