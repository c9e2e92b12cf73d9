//! Admission where no engine keeps to it: what the kernel has accepted, or an engine of an earlier version,
//! is looked at by the library, and closed with a reset if the policy does not admit it.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use host::{AdmissionLimit, AdmissionPolicy};

/// Places for prefixes, as at the engine: 192 KiB.
const PLACES: usize = 8192;

/// What was admitted and refused of a listener, by the engine and by the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// The engine keeps to the policy; otherwise the library does, for what the kernel has accepted.
    pub by_engine: bool,
    /// Connections made since the listener began, under any policy or none: at the engine when their
    /// handshake is complete, here when the program accepts them.
    pub accepts: u64,
    /// Of those made since the policy was set the ones that count now: at the engine until both directions
    /// have ended, here until they are closed. Without a policy it is 0.
    pub in_flight: u64,
    /// Refused because new connections came too fast, since the listener began, as all that is refused:
    /// SYNs at the engine, connections here.
    pub refused_by_rate: u64,
    /// Refused because there were as many as there may be.
    pub refused_by_count: u64,
    /// Refused for either reason of their prefix.
    pub refused_by_prefix: u64,
}

/// Keeps to a policy, or has none, and counts.
#[derive(Default)]
pub(crate) struct Gate {
    policy: AdmissionPolicy,
    all: Share,
    /// In places that nobody outside can choose. Two prefixes that meet in one share what one may have. Empty
    /// if prefixes have no limit.
    prefixes: Box<[Share]>,
    key: [u64; 2],
    pub(crate) counts: Admitted,
    /// Connections that were admitted before the policy have another number.
    pub(crate) number: u64,
}

/// Connections that are there, and when the next would be due if they came evenly.
#[derive(Clone, Copy, Default)]
struct Share {
    due: Option<Instant>,
    in_flight: u32,
}

fn has_room(limit: &AdmissionLimit, share: &Share) -> bool {
    limit.in_flight == 0 || share.in_flight < limit.in_flight
}

fn interval(limit: &AdmissionLimit) -> Option<Duration> {
    Duration::from_secs(1).checked_div(limit.per_second)
}

fn is_in_time(limit: &AdmissionLimit, share: &Share, now: Instant) -> bool {
    let (Some(interval), Some(due)) = (interval(limit), share.due) else {
        return true;
    };
    due.saturating_duration_since(now) <= interval.saturating_mul(burst(limit) - 1)
}

fn burst(limit: &AdmissionLimit) -> u32 {
    match limit.burst {
        0 => limit.per_second,
        burst => burst,
    }
}

fn take(limit: &AdmissionLimit, share: &mut Share, now: Instant) {
    share.in_flight += 1;
    if let Some(interval) = interval(limit) {
        share.due = Some(share.due.map_or(now, |due| due.max(now)) + interval);
    }
}

/// As [`take`], of what somebody else has admitted, perhaps by a policy of his: no more than a burst is owed.
fn take_at_most(limit: &AdmissionLimit, share: &mut Share, now: Instant) {
    take(limit, share, now);
    if let Some(interval) = interval(limit) {
        let most = now + interval.saturating_mul(burst(limit));
        share.due = share.due.map(|due| due.min(most));
    }
}

impl Gate {
    /// Another policy, under which nothing was admitted yet.
    pub(crate) fn set(&mut self, policy: AdmissionPolicy) {
        self.policy = policy;
        self.all = Share::default();
        let places = match policy.each == AdmissionLimit::default() {
            true => 0,
            false => PLACES,
        };
        self.prefixes = vec![Share::default(); places].into();
        self.key = [0, 1].map(|part: u8| RandomState::new().hash_one(part));
        self.number += 1;
        self.counts.in_flight = 0;
    }

    /// Whether one more may be had from this address now, which then counts.
    pub(crate) fn admits(&mut self, now: Instant, from: IpAddr) -> bool {
        if self.is_open() {
            self.counts.accepts += 1;
            return true;
        }
        let AdmissionPolicy { all, each, .. } = self.policy;
        if !has_room(&all, &self.all) {
            self.counts.refused_by_count += 1;
            return false;
        }
        if !is_in_time(&all, &self.all, now) {
            self.counts.refused_by_rate += 1;
            return false;
        }
        if let Some(share) = self.share(from) {
            if !has_room(&each, share) || !is_in_time(&each, share, now) {
                self.counts.refused_by_prefix += 1;
                return false;
            }
            take(&each, share, now);
        }
        take(&all, &mut self.all, now);
        self.counts.accepts += 1;
        self.counts.in_flight += 1;
        true
    }

    /// The engine has admitted one, and counts it: here it takes the place of one that would be admitted.
    pub(crate) fn begins(&mut self, now: Instant, from: IpAddr) {
        let AdmissionPolicy { all, each, .. } = self.policy;
        take_at_most(&all, &mut self.all, now);
        if let Some(share) = self.share(from) {
            take_at_most(&each, share, now);
        }
    }

    /// Whether there is no policy: what is admitted does not count as in flight.
    pub(crate) fn is_open(&self) -> bool {
        self.policy.is_open()
    }

    /// One that was admitted under the policy of this number is closed. `by_engine`: it was not admitted here.
    pub(crate) fn ended(&mut self, number: u64, from: IpAddr, by_engine: bool) {
        if number != self.number {
            return;
        }
        self.all.in_flight = self.all.in_flight.saturating_sub(1);
        if !by_engine {
            self.counts.in_flight = self.counts.in_flight.saturating_sub(1);
        }
        if let Some(share) = self.share(from) {
            share.in_flight = share.in_flight.saturating_sub(1);
        }
    }

    /// What those of an address's prefix share, if prefixes have a limit.
    fn share(&mut self, from: IpAddr) -> Option<&mut Share> {
        let mut hasher = DefaultHasher::new();
        (self.key, self.prefix(from)).hash(&mut hasher);
        let place = (hasher.finish() as usize).checked_rem(self.prefixes.len())?;
        self.prefixes.get_mut(place)
    }

    fn prefix(&self, from: IpAddr) -> IpAddr {
        match from.to_canonical() {
            IpAddr::V4(ip) => {
                let cut = 32 - u32::from(self.policy.bits_v4.min(32));
                let mask = u32::MAX.checked_shl(cut).unwrap_or(0);
                Ipv4Addr::from_bits(ip.to_bits() & mask).into()
            }
            IpAddr::V6(ip) => {
                let cut = 128 - u32::from(self.policy.bits_v6.min(128));
                let mask = u128::MAX.checked_shl(cut).unwrap_or(0);
                Ipv6Addr::from_bits(ip.to_bits() & mask).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(all: AdmissionLimit, each: AdmissionLimit) -> Gate {
        let mut gate = Gate::default();
        gate.set(AdmissionPolicy {
            all,
            each,
            bits_v4: 24,
            bits_v6: 56,
            reset: false,
        });
        // So that the same ones meet in each run.
        gate.key = [3, 5];
        gate
    }

    fn limit(per_second: u32, burst: u32, in_flight: u32) -> AdmissionLimit {
        AdmissionLimit {
            per_second,
            burst,
            in_flight,
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_burst_goes_through_and_then_the_rate_holds() {
        let now = Instant::now();
        let mut gate = gate(limit(10, 3, 0), limit(0, 0, 0));
        let admitted = (0..9).filter(|_| gate.admits(now, ip("10.0.0.1"))).count();
        assert_eq!((admitted, gate.counts.refused_by_rate), (3, 6));
        let soon = now + Duration::from_millis(99);
        assert!(!gate.admits(soon, ip("10.0.0.1")));
        let then = now + Duration::from_millis(100);
        assert!(gate.admits(then, ip("10.0.0.1")));
        assert!(!gate.admits(then, ip("10.0.0.1")));
    }

    #[test]
    fn what_others_have_admitted_faster_is_owed_no_longer_than_a_burst() {
        let now = Instant::now();
        let mut gate = gate(limit(10, 3, 0), limit(0, 0, 0));
        for _ in 0..1000 {
            gate.begins(now, ip("10.0.0.1"));
        }
        assert!(!gate.admits(now, ip("10.0.0.1")));
        assert!(gate.admits(now + Duration::from_millis(100), ip("10.0.0.1")));
    }

    #[test]
    fn one_that_is_closed_makes_room_in_all_and_in_its_prefix() {
        let now = Instant::now();
        let mut gate = gate(limit(0, 0, 3), limit(0, 0, 1));
        assert!(gate.admits(now, ip("10.0.0.1")));
        assert!(!gate.admits(now, ip("10.0.0.200")));
        assert!(gate.admits(now, ip("10.0.1.1")));
        assert!(gate.admits(now, ip("2001:db8:0:aa01::1")));
        assert!(!gate.admits(now, ip("10.9.9.9")));
        let counts = gate.counts;
        assert_eq!((counts.refused_by_prefix, counts.refused_by_count), (1, 1));
        assert_eq!((counts.accepts, counts.in_flight), (3, 3));
        gate.ended(gate.number, ip("10.0.0.1"), false);
        assert!(!gate.admits(now, ip("2001:db8:0:aaff::2")));
        assert!(gate.admits(now, ip("10.0.0.200")));
        // Of a policy before this one nothing counts.
        gate.set(gate.policy);
        gate.ended(gate.number - 1, ip("10.0.0.200"), false);
        assert_eq!(gate.counts.in_flight, 0);
        assert!(gate.admits(now, ip("10.0.0.1")));
    }

    #[test]
    fn counts_are_of_the_listener_and_what_is_in_flight_of_the_policy() {
        let now = Instant::now();
        let mut gate = Gate::default();
        assert!(gate.is_open() && gate.admits(now, ip("10.0.0.1")));
        assert_eq!((gate.counts.accepts, gate.counts.in_flight), (1, 0));
        let policy = AdmissionPolicy {
            all: limit(0, 0, 1),
            ..AdmissionPolicy::default()
        };
        gate.set(policy);
        assert!(gate.admits(now, ip("10.0.0.1")) && !gate.admits(now, ip("10.0.0.1")));
        assert_eq!((gate.counts.accepts, gate.counts.in_flight), (2, 1));
        gate.set(AdmissionPolicy::default());
        assert!(gate.admits(now, ip("10.0.0.1")));
        let counts = gate.counts;
        assert_eq!((counts.accepts, counts.in_flight), (3, 0));
        assert_eq!(counts.refused_by_count, 1);
    }

    /// What the engine has admitted leaves less for others, in all, in its prefix and in time, and is not counted
    /// twice.
    #[test]
    fn what_the_engine_has_admitted_takes_a_share() {
        let now = Instant::now();
        let mut gate = gate(limit(0, 0, 2), limit(0, 0, 1));
        gate.begins(now, ip("10.0.0.1"));
        assert_eq!((gate.counts.accepts, gate.counts.in_flight), (0, 0));
        assert!(!gate.admits(now, ip("10.0.0.2")));
        assert!(gate.admits(now, ip("10.0.1.1")) && !gate.admits(now, ip("10.0.2.1")));
        gate.ended(gate.number, ip("10.0.0.1"), true);
        assert_eq!((gate.counts.accepts, gate.counts.in_flight), (1, 1));
        assert!(gate.admits(now, ip("10.0.0.2")));
        // The engine is not asked: there may be more than there may be here.
        gate.begins(now, ip("10.0.3.1"));
        assert_eq!(gate.all.in_flight, 3);

        let mut gate = self::gate(limit(10, 3, 0), limit(0, 0, 0));
        gate.begins(now, ip("10.0.0.1"));
        let admitted = (0..9).filter(|_| gate.admits(now, ip("10.0.0.1"))).count();
        assert_eq!(admitted, 2);
    }

    /// However many there are, looked at and refused, they take the same memory, and each is still limited.
    #[test]
    fn any_number_of_prefixes_has_a_table_of_fixed_size() {
        let now = Instant::now();
        let mut gate = gate(limit(0, 0, 0), limit(0, 0, 2));
        let from = |n: u32| Ipv4Addr::from_bits(n << 8).into();
        let admitted = (0..4 * PLACES as u32)
            .flat_map(|n| [n; 3])
            .filter(|n| gate.admits(now, from(*n)))
            .count();
        assert_eq!(gate.prefixes.len(), PLACES);
        assert!(admitted <= 2 * PLACES, "{admitted}");
        assert_eq!(gate.counts.in_flight, admitted as u64);
        assert!((0..4 * PLACES as u32).all(|n| gate.share(from(n)).unwrap().in_flight <= 2));
    }

    /// Places are not the same in two listeners: who knows whom he meets in one does not know it in another.
    #[test]
    fn nobody_knows_whom_he_meets() {
        let (mut one, mut other) = (Gate::default(), Gate::default());
        for gate in [&mut one, &mut other] {
            gate.set(AdmissionPolicy {
                each: limit(0, 0, 1),
                bits_v4: 24,
                ..AdmissionPolicy::default()
            });
        }
        let now = Instant::now();
        let admits = |gate: &mut Gate| -> Vec<bool> {
            let all = (0..PLACES as u32).map(|n| Ipv4Addr::from_bits(n << 8).into());
            all.map(|from| gate.admits(now, from)).collect()
        };
        assert_ne!(admits(&mut one), admits(&mut other));
        // A policy without limits for prefixes has no table.
        one.set(AdmissionPolicy::default());
        assert!(one.prefixes.is_empty() && one.admits(now, ip("10.0.0.1")));
    }
}
