//! Listeners: where SYNs may go, and the queue of connections that nobody has accepted.

pub(crate) mod admission;
pub(crate) mod cookie;
pub(crate) mod half_open;
pub(crate) mod withheld;

use std::collections::{BTreeMap, VecDeque};

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::config::ListenSpec;
use crate::counters::DropReason;
use crate::request::ListenError;
use crate::slab::Slab;
use crate::{ConnId, Instant, ListenerId};
use admission::Admission;

/// What is counted of one listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerCounts {
    /// Connections made there, since it began.
    pub accepts: u64,
    /// Connections that wait now to be accepted.
    pub waiting: u32,
    /// Handshakes under way now.
    pub half_open: u32,
    /// Connections that its [admission policy](crate::AdmissionPolicy) counts now.
    pub in_flight: u32,
    /// SYNs of peers that were not admitted, since it began.
    pub denied: u64,
    drops: [u64; ListenerCounts::REASONS.len()],
}

impl ListenerCounts {
    /// Why a listener refuses a peer that wants to connect.
    const REASONS: [DropReason; 7] = [
        DropReason::AcceptQueueFull,
        DropReason::HalfOpenFull,
        DropReason::CookieWithheld,
        DropReason::ConnectionsFull,
        DropReason::AdmissionRate,
        DropReason::AdmissionInFlight,
        DropReason::AdmissionPrefix,
    ];

    /// Those of another, too.
    pub fn add(&mut self, other: &Self) {
        let Self {
            accepts,
            waiting,
            half_open,
            in_flight,
            denied,
            drops,
        } = other;
        self.accepts += accepts;
        self.waiting += waiting;
        self.half_open += half_open;
        self.in_flight += in_flight;
        self.denied += denied;
        for (count, more) in self.drops.iter_mut().zip(drops) {
            *count += more;
        }
    }

    /// Segments that it refused, by reason, since it began.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        Self::REASONS.into_iter().zip(self.drops)
    }
}

pub(crate) struct Listener {
    pub(crate) spec: ListenSpec,
    /// Half-open connections that lead here.
    pub(crate) half_open: u32,
    /// Until when a cookie of this listener may come back.
    pub(crate) cookies_until: Instant,
    /// Complete connections that wait to be accepted.
    pub(crate) queue: VecDeque<Waiting>,
    /// On the event list.
    pub(crate) in_events: bool,
    /// Who may connect, and the number by which connections know under what they came.
    admission: Option<(u32, Box<Admission>)>,
    accepts: u64,
    denied: u64,
    drops: [u64; ListenerCounts::REASONS.len()],
}

/// A complete connection that nobody has accepted.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) conn: ConnId,
    pub(crate) since: Instant,
}

impl Listener {
    /// As in the kernel, the queue is full when it holds more than the backlog.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() > self.spec.backlog as usize
    }

    /// A connection is complete, and waits.
    pub(crate) fn complete(&mut self, conn: ConnId, now: Instant) {
        self.accepts += 1;
        self.queue.push_back(Waiting { conn, since: now });
    }

    /// Who may connect, if that is limited.
    pub(crate) fn admission(&self) -> Option<&Admission> {
        self.admission.as_ref().map(|(_, admission)| &**admission)
    }

    /// The number of its admission, and how many connections count there.
    pub(crate) fn admitted(&self) -> Option<(u32, u32)> {
        let (number, admission) = self.admission.as_ref()?;
        Some((*number, admission.in_flight()))
    }

    /// A connection from there counts from now on: the number by which it [ends](Listeners::ended); 0 if
    /// none does.
    pub(crate) fn admit(&mut self, now: Instant, from: IpAddr) -> u32 {
        let Some((number, admission)) = &mut self.admission else {
            return 0;
        };
        admission.begin(now, from);
        *number
    }

    /// Counts somebody who could not connect; returns the reason.
    pub(crate) fn refuse(&mut self, reason: DropReason) -> DropReason {
        let place = ListenerCounts::REASONS.iter().position(|r| *r == reason);
        debug_assert!(place.is_some(), "{reason:?} is no reason of a listener's");
        if let Some(place) = place {
            self.drops[place] += 1;
        }
        reason
    }

    /// Counts a SYN of a peer that is not admitted.
    pub(crate) fn deny(&mut self) {
        self.denied += 1;
    }

    pub(crate) fn counts(&self) -> ListenerCounts {
        ListenerCounts {
            accepts: self.accepts,
            // Limits are of 32 bits.
            waiting: self.queue.len() as u32,
            half_open: self.half_open,
            in_flight: self.admission().map_or(0, Admission::in_flight),
            denied: self.denied,
            drops: self.drops,
        }
    }
}

/// Which addresses a listener answers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    One(IpAddr),
    AnyV4,
    AnyV6,
}

impl Scope {
    /// The scopes of a listener; `None` for an address that nobody can connect to.
    fn of(spec: &ListenSpec) -> Option<Vec<Scope>> {
        match spec.addr {
            None => Some(vec![Scope::AnyV4, Scope::AnyV6]),
            Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) => Some(vec![Scope::AnyV4]),
            Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) if spec.v6_only => Some(vec![Scope::AnyV6]),
            Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => Some(vec![Scope::AnyV4, Scope::AnyV6]),
            Some(addr) if addr.is_multicast() => None,
            Some(addr) => Some(vec![Scope::One(addr)]),
        }
    }
}

pub(crate) struct Listeners {
    slab: Slab<Listener>,
    /// Nobody on the network chooses what is in it, so a secret hash would buy nothing.
    by_scope: BTreeMap<(u16, Scope), ListenerId>,
    /// Listeners by the numbers of their admissions.
    by_admission: BTreeMap<u32, ListenerId>,
    admissions: u32,
    limit: u32,
}

impl Listeners {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            slab: Slab::new(),
            by_scope: BTreeMap::new(),
            by_admission: BTreeMap::new(),
            admissions: 0,
            limit,
        }
    }

    //= RFC 9293 MUST-42
    pub(crate) fn insert(&mut self, spec: ListenSpec) -> Result<ListenerId, ListenError> {
        if spec.port == 0 {
            return Err(ListenError::BadAddress);
        }
        let scopes = Scope::of(&spec).ok_or(ListenError::BadAddress)?;
        let taken = |scope| self.by_scope.contains_key(&(spec.port, scope));
        if scopes.iter().copied().any(taken) {
            return Err(ListenError::AddressInUse);
        }
        if self.slab.len() >= self.limit {
            return Err(ListenError::TooManyListeners);
        }
        let (index, generation) = self.slab.insert(Listener {
            spec,
            half_open: 0,
            cookies_until: Instant::ZERO,
            queue: VecDeque::new(),
            in_events: false,
            admission: None,
            accepts: 0,
            denied: 0,
            drops: Default::default(),
        });
        let id = ListenerId { index, generation };
        for scope in scopes {
            self.by_scope.insert((spec.port, scope), id);
        }
        Ok(id)
    }

    pub(crate) fn remove(&mut self, id: ListenerId) -> Option<Listener> {
        self.get(id)?;
        self.by_scope.retain(|_, listener| *listener != id);
        self.by_admission.retain(|_, listener| *listener != id);
        self.slab.remove(id.index)
    }

    /// From now on these limits hold, or none; what is there already does not count. Returns those before.
    pub(crate) fn set_admission(
        &mut self,
        id: ListenerId,
        admission: Option<Box<Admission>>,
    ) -> Option<Box<Admission>> {
        // 0 is no admission, and the number of one that connections still have is not given again, short
        // of four billion of them.
        self.admissions = self.admissions.checked_add(1).unwrap_or(1);
        let number = self.admissions;
        let listener = self.get_mut(id)?;
        let limits = admission.is_some();
        let new = admission.map(|admission| (number, admission));
        let former = core::mem::replace(&mut listener.admission, new);
        if let Some((number, _)) = &former {
            self.by_admission.remove(number);
        }
        if limits {
            self.by_admission.insert(number, id);
        }
        former.map(|(_, admission)| admission)
    }

    /// A connection that was admitted under this number has ended.
    pub(crate) fn ended(&mut self, number: u32, from: IpAddr) {
        let listener = self.by_admission.get(&number).copied();
        if let Some(listener) = listener.and_then(|id| self.get_mut(id))
            && let Some((_, admission)) = &mut listener.admission
        {
            admission.end(from);
        }
    }

    pub(crate) fn get(&self, id: ListenerId) -> Option<&Listener> {
        self.slab.get(id.index, id.generation)
    }

    pub(crate) fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listener> {
        self.slab.get_mut(id.index, id.generation)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.slab.iter().map(|(_, _, listener)| listener)
    }

    /// Who answers a SYN to this address and port: the most specific listener.
    pub(crate) fn find(&self, addr: IpAddr, port: u16) -> Option<ListenerId> {
        let any = if addr.is_ipv4() {
            Scope::AnyV4
        } else {
            Scope::AnyV6
        };
        self.by_scope
            .get(&(port, Scope::One(addr)))
            .or_else(|| self.by_scope.get(&(port, any)))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConnOptions;

    fn spec(addr: Option<&str>, v6_only: bool) -> ListenSpec {
        ListenSpec {
            addr: addr.map(|a| a.parse().unwrap()),
            port: 80,
            backlog: 1,
            max_half_open: 1,
            v6_only,
            options: ConnOptions::default(),
        }
    }

    fn v4() -> IpAddr {
        "192.0.2.1".parse().unwrap()
    }

    fn v6() -> IpAddr {
        "2001:db8::1".parse().unwrap()
    }

    #[test]
    fn the_most_specific_listener_answers() {
        let mut l = Listeners::new(8);
        let any = l.insert(spec(None, false)).unwrap();
        let one = l.insert(spec(Some("192.0.2.1"), false)).unwrap();
        assert_eq!(l.find(v4(), 80), Some(one));
        assert_eq!(l.find(v6(), 80), Some(any));
        assert_eq!(l.find(v4(), 81), None);
        l.remove(one);
        assert_eq!(l.find(v4(), 80), Some(any));
    }

    #[test]
    fn families_are_shared_unless_v6_only() {
        let mut l = Listeners::new(8);
        let six = l.insert(spec(Some("::"), true)).unwrap();
        assert_eq!(l.find(v4(), 80), None);
        assert_eq!(l.find(v6(), 80), Some(six));
        l.insert(spec(Some("0.0.0.0"), false)).unwrap();
        assert_eq!(l.insert(spec(None, false)), Err(ListenError::AddressInUse));
        l.remove(six);
        assert_eq!(
            l.insert(spec(Some("::"), false)),
            Err(ListenError::AddressInUse)
        );
    }

    #[test]
    fn limits_and_nonsense_are_refused() {
        let mut l = Listeners::new(1);
        let multicast = spec(Some("224.0.0.1"), false);
        assert_eq!(l.insert(multicast), Err(ListenError::BadAddress));
        l.insert(spec(Some("192.0.2.1"), false)).unwrap();
        assert_eq!(
            l.insert(spec(Some("192.0.2.2"), false)),
            Err(ListenError::TooManyListeners)
        );
    }
}
