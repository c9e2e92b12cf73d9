//! Who may connect to a listener: limits that its program has set, kept before there is a connection.
//!
//! A SYN is refused while the listener, or the prefix that it comes from, has as many connections as it
//! may have, or has had too many recently. A completed handshake is charged, not its SYN, so forged SYNs
//! use up nobody's share. Handshakes that are under way when a share is used up are still completed; what
//! they take beyond the share is taken from what comes later.
//!
//! Prefixes are counted in a table of fixed size under a secret key. Two that meet in it share what one
//! may have: the limits hold, and nobody can choose whom to meet.

use core::net::IpAddr;

use wire::flow::FlowMac;

use crate::Instant;
use crate::counters::DropReason;

/// Places for prefixes: 128 KiB.
const PLACES: usize = 8192;
const SECOND: u64 = 1_000_000_000;

/// How many connections there may be, and how often a new one. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionLimit {
    /// New connections a second, in the long run.
    pub per_second: u32,
    /// New connections at once, after a pause; 0 is as many as in a second.
    pub burst: u32,
    /// Connections at one time, until both directions have ended.
    pub in_flight: u32,
}

/// What a listener's program wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionPolicy {
    /// For all together.
    pub all: AdmissionLimit,
    /// For each prefix.
    pub each: AdmissionLimit,
    /// Bits of an IPv4 address that make a prefix; more than 32 are 32.
    pub bits_v4: u8,
    /// Bits of an IPv6 address that make a prefix; more than 128 are 128.
    pub bits_v6: u8,
    /// Answer a SYN that is refused by RST. Otherwise it is dropped, and the client sends it again.
    pub reset: bool,
}

impl AdmissionPolicy {
    /// Whether it limits nothing.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.all == AdmissionLimit::default() && self.each == AdmissionLimit::default()
    }
}

/// Connections that are there, and when the next would be due if they came evenly: the generic cell
/// rate algorithm (ITU-T I.371).
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    due_ns: u64,
    in_flight: u32,
}

impl AdmissionLimit {
    fn interval_ns(&self) -> Option<u64> {
        SECOND.checked_div(self.per_second.into())
    }

    fn has_room(&self, share: &Share) -> bool {
        self.in_flight == 0 || share.in_flight < self.in_flight
    }

    fn is_in_time(&self, share: &Share, now: Instant) -> bool {
        let Some(interval) = self.interval_ns() else {
            return true;
        };
        let burst = match self.burst {
            0 => self.per_second,
            burst => burst,
        };
        let early = interval.saturating_mul(u64::from(burst) - 1);
        share.due_ns <= now.as_nanos().saturating_add(early)
    }

    fn take(&self, share: &mut Share, now: Instant) {
        share.in_flight += 1;
        if let Some(interval) = self.interval_ns() {
            share.due_ns = share.due_ns.max(now.as_nanos()).saturating_add(interval);
        }
    }
}

/// A listener's policy, and what it has admitted. It is large: whoever makes one allocates.
pub struct Admission {
    policy: AdmissionPolicy,
    all: Share,
    /// None if prefixes have no limit.
    prefixes: Box<[Share]>,
    mac: FlowMac,
}

impl core::fmt::Debug for Admission {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Admission")
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl Admission {
    /// A policy under which nothing was admitted yet. Nobody outside may know the key.
    #[must_use]
    pub fn new(policy: AdmissionPolicy, key: [u8; 16]) -> Self {
        let places = if policy.each == AdmissionLimit::default() {
            0
        } else {
            PLACES
        };
        Self {
            policy,
            all: Share::default(),
            prefixes: vec![Share::default(); places].into(),
            mac: FlowMac::new(key),
        }
    }

    /// Whether one more may begin from this address now.
    pub(crate) fn check(&self, now: Instant, from: IpAddr) -> Result<(), DropReason> {
        self.has_room(from)?;
        let AdmissionPolicy { all, each, .. } = &self.policy;
        if !all.is_in_time(&self.all, now) {
            return Err(DropReason::AdmissionRate);
        }
        match self.prefixes.get(self.place(from)) {
            Some(share) if !each.is_in_time(share, now) => Err(DropReason::AdmissionPrefix),
            _ => Ok(()),
        }
    }

    /// Whether there may be one more from this address, however it came.
    pub(crate) fn has_room(&self, from: IpAddr) -> Result<(), DropReason> {
        if !self.policy.all.has_room(&self.all) {
            return Err(DropReason::AdmissionInFlight);
        }
        match self.prefixes.get(self.place(from)) {
            Some(share) if !self.policy.each.has_room(share) => Err(DropReason::AdmissionPrefix),
            _ => Ok(()),
        }
    }

    /// There is one more.
    pub(crate) fn begin(&mut self, now: Instant, from: IpAddr) {
        self.policy.all.take(&mut self.all, now);
        let place = self.place(from);
        if let Some(share) = self.prefixes.get_mut(place) {
            self.policy.each.take(share, now);
        }
    }

    /// There is one less.
    pub(crate) fn end(&mut self, from: IpAddr) {
        debug_assert!(self.all.in_flight > 0, "more ended than began");
        self.all.in_flight = self.all.in_flight.saturating_sub(1);
        let place = self.place(from);
        if let Some(share) = self.prefixes.get_mut(place) {
            share.in_flight = share.in_flight.saturating_sub(1);
        }
    }

    /// How many there are.
    pub(crate) fn in_flight(&self) -> u32 {
        self.all.in_flight
    }

    /// Whether a peer that is refused is told so, by a RST.
    pub(crate) fn resets(&self) -> bool {
        self.policy.reset
    }

    fn place(&self, from: IpAddr) -> usize {
        if self.prefixes.is_empty() {
            return 0;
        }
        let hash = match from.to_canonical() {
            IpAddr::V4(ip) => {
                let cut = 32 - u32::from(self.policy.bits_v4.min(32));
                let prefix = u64::from(ip.to_bits()) >> cut;
                self.mac.number(4, prefix)
            }
            IpAddr::V6(ip) => {
                let cut = 128 - u32::from(self.policy.bits_v6.min(128));
                let prefix = ip.to_bits().checked_shr(cut).unwrap_or(0);
                let low = self.mac.number(6, prefix as u64);
                self.mac.number(7, low ^ (prefix >> 64) as u64)
            }
        };
        hash as usize % self.prefixes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(1_000_000 + millis)
    }

    fn policy(all: AdmissionLimit, each: AdmissionLimit) -> Admission {
        let policy = AdmissionPolicy {
            all,
            each,
            bits_v4: 24,
            bits_v6: 56,
            reset: false,
        };
        Admission::new(policy, [3; 16])
    }

    fn rate(per_second: u32, burst: u32) -> AdmissionLimit {
        AdmissionLimit {
            per_second,
            burst,
            in_flight: 0,
        }
    }

    fn most(in_flight: u32) -> AdmissionLimit {
        AdmissionLimit {
            in_flight,
            ..AdmissionLimit::default()
        }
    }

    fn v4(n: u32) -> IpAddr {
        core::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    #[test]
    fn a_burst_goes_through_and_then_the_rate_holds() {
        let mut admission = policy(rate(100, 5), AdmissionLimit::default());
        let mut admitted = 0;
        for _ in 0..50 {
            if admission.check(at(0), v4(1)).is_ok() {
                admission.begin(at(0), v4(1));
                admitted += 1;
            }
        }
        assert_eq!(admitted, 5);
        let refused = admission.check(at(9), v4(2));
        assert_eq!(refused, Err(DropReason::AdmissionRate));
        assert_eq!(admission.check(at(10), v4(2)), Ok(()));
        // A second without any does not add up to more than a burst.
        let burst = (0..50).filter(|_| {
            let admits = admission.check(at(5000), v4(1)).is_ok();
            if admits {
                admission.begin(at(5000), v4(1));
            }
            admits
        });
        assert_eq!(burst.count(), 5);
        // What was completed beyond the rate is missing afterwards.
        for _ in 0..10 {
            admission.begin(at(9000), v4(1));
        }
        assert!(admission.check(at(9050), v4(1)).is_err());
        assert!(admission.check(at(9060), v4(1)).is_ok());
    }

    #[test]
    fn the_burst_is_a_seconds_worth_by_default() {
        let mut admission = policy(rate(7, 0), AdmissionLimit::default());
        let mut count = 0;
        while admission.check(at(0), v4(0)).is_ok() {
            admission.begin(at(0), v4(0));
            count += 1;
        }
        assert_eq!(count, 7);
    }

    #[test]
    fn one_that_ends_makes_room() {
        let mut admission = policy(most(2), AdmissionLimit::default());
        admission.begin(at(0), v4(0));
        assert_eq!(admission.check(at(0), v4(1)), Ok(()));
        admission.begin(at(0), v4(1));
        let refused = Err(DropReason::AdmissionInFlight);
        assert_eq!(admission.check(at(0), v4(2)), refused);
        assert_eq!(admission.has_room(v4(2)), refused);
        admission.end(v4(0));
        assert_eq!(admission.in_flight(), 1);
        assert_eq!(admission.check(at(0), v4(2)), Ok(()));
    }

    #[test]
    fn a_prefix_has_its_share_and_others_theirs() {
        let mut admission = policy(AdmissionLimit::default(), most(1));
        admission.begin(at(0), v4(1));
        let refused = Err(DropReason::AdmissionPrefix);
        assert_eq!(admission.check(at(0), v4(255)), refused, "one prefix");
        assert_eq!(admission.check(at(0), v4(256)), Ok(()), "the next");
        admission.end(v4(1));
        assert_eq!(admission.check(at(0), v4(255)), Ok(()));

        let mut admission = policy(AdmissionLimit::default(), rate(1, 1));
        let one: IpAddr = "2001:db8:0:aa01::1".parse().unwrap();
        let same: IpAddr = "2001:db8:0:aaff::2".parse().unwrap();
        let other: IpAddr = "2001:db8:0:ab01::1".parse().unwrap();
        admission.begin(at(0), one);
        assert_eq!(admission.check(at(500), same), refused);
        assert_eq!(admission.check(at(500), other), Ok(()));
        assert_eq!(admission.check(at(1000), same), Ok(()));
        // An IPv4 address is the same, mapped or not.
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        admission.begin(at(0), mapped);
        assert_eq!(admission.check(at(1), v4(2)), refused);
    }

    #[test]
    fn any_number_of_bits_is_a_prefix() {
        for bits in [0, 1, 32, 33, 128, 255] {
            let policy = AdmissionPolicy {
                all: AdmissionLimit::default(),
                each: most(1),
                bits_v4: bits,
                bits_v6: bits,
                reset: true,
            };
            assert!(!policy.is_open());
            let mut admission = Admission::new(policy, [0; 16]);
            for from in [v4(9), "2001:db8::1".parse().unwrap()] {
                admission.begin(at(0), from);
                assert!(admission.check(at(0), from).is_err(), "{bits}");
            }
        }
    }
}
