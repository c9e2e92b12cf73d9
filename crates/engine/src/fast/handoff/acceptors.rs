//! Who accepts where: for each listener's address and port the workers that have it, those where nobody
//! takes what waits, and those where somebody would take more.
//!
//! Written when a listener begins or ends, and when its queue runs empty or over; read for a SYN that a
//! worker has no listener for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use siphasher::sip::SipHasher13;

use crate::exchange::WorkerId;

/// Places for addresses and ports, a power of two: of all that an engine can have listeners on, a part.
const PLACES: usize = 16_384;
/// Places in which one address and port can stand: where a third of all is taken, none of them is free once
/// in some hundred million.
const REACH: usize = 32;

/// There are as many listeners as can be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// A set of workers, a bit for each, for an address and port.
#[derive(Default)]
struct Place {
    /// The hash of the address and port; 0 if it was never taken. One where nobody accepts can become
    /// another's: who has found it just before reads of the wrong listener, once.
    key: AtomicU64,
    /// Workers that have a listener there.
    accepting: AtomicU64,
    /// Workers where connections wait and nobody takes them.
    over: AtomicU64,
    /// Workers where somebody waits for connections.
    wanting: AtomicU64,
}

/// All of them.
pub struct Acceptors {
    places: Box<[Place]>,
    hasher: SipHasher13,
    /// Held by who takes a place.
    taking: Mutex<()>,
}

impl Acceptors {
    /// With this secret key.
    pub(super) fn by(key: [u8; 16]) -> Self {
        Self {
            places: (0..PLACES).map(|_| Place::default()).collect(),
            hasher: SipHasher13::new_with_key(&key),
            taking: Mutex::new(()),
        }
    }

    fn key(&self, address: IpAddr, port: u16) -> u64 {
        let mut bytes = [0; 18];
        let octets = match address {
            // No address of a socket is v4-mapped here, so this is not one of IPv6's.
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        bytes[..16].copy_from_slice(&octets);
        bytes[16..].copy_from_slice(&port.to_be_bytes());
        self.hasher.hash(&bytes) | 1
    }

    fn place(&self, address: IpAddr, port: u16) -> Option<&Place> {
        let key = self.key(address, port);
        self.places_for(key)
            .find(|place| place.key.load(Ordering::Acquire) == key)
    }

    /// The places in which this key can stand.
    fn places_for(&self, key: u64) -> impl Iterator<Item = &Place> {
        let first = (key >> 1) as usize & (PLACES - 1);
        (0..REACH).map(move |ahead| &self.places[(first + ahead) & (PLACES - 1)])
    }

    fn make_place(&self, address: IpAddr, port: u16) -> Result<&Place, Full> {
        let _taking = self.taking.lock().map_err(|_| Full)?;
        if let Some(place) = self.place(address, port) {
            return Ok(place);
        }
        let key = self.key(address, port);
        let free = |place: &&Place| place.accepting.load(Ordering::Relaxed) == 0;
        let place = self.places_for(key).find(free).ok_or(Full)?;
        place.key.store(key, Ordering::Release);
        Ok(place)
    }

    /// A worker has a listener on `local` from now on, for IPv4 as well if that is the unspecified address
    /// of IPv6 and not `v6_only`.
    pub fn begin(&self, local: SocketAddr, v6_only: bool, worker: WorkerId) -> Result<(), Full> {
        let scopes = scopes(local, v6_only);
        for address in scopes.into_iter().flatten() {
            let place = self.make_place(address, local.port())?;
            place.accepting.fetch_or(worker.bit(), Ordering::SeqCst);
        }
        Ok(())
    }

    /// It has none there any more.
    pub fn end(&self, local: SocketAddr, v6_only: bool, worker: WorkerId) {
        for address in scopes(local, v6_only).into_iter().flatten() {
            if let Some(place) = self.place(address, local.port()) {
                for set in [&place.accepting, &place.over, &place.wanting] {
                    set.fetch_and(!worker.bit(), Ordering::SeqCst);
                }
            }
        }
    }

    /// The workers that have a listener which this address and port reach.
    pub fn reached_by(&self, address: IpAddr, port: u16) -> u64 {
        let any: IpAddr = match address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let accepting = |address| {
            let place = self.place(address, port)?;
            Some(place.accepting.load(Ordering::Acquire)).filter(|workers| *workers != 0)
        };
        // The nearest listener is the one that is meant, as in the kernel.
        accepting(address).or_else(|| accepting(any)).unwrap_or(0)
    }

    /// The workers that have a listener on exactly `local`.
    pub fn of_listener(&self, local: SocketAddr) -> u64 {
        let place = self.place(local.ip(), local.port());
        place.map_or(0, |place| place.accepting.load(Ordering::Acquire))
    }

    /// Connections wait at a worker for a listener on `local`, and nobody takes them, or not any more. The
    /// workers where somebody would.
    pub fn set_over(&self, local: SocketAddr, worker: WorkerId, over: bool) -> u64 {
        let Some(place) = self.place(local.ip(), local.port()) else {
            return 0;
        };
        // One of two workers that both say so sees the other: each writes before it reads.
        set(&place.over, worker, over);
        place.wanting.load(Ordering::SeqCst) & !worker.bit()
    }

    /// A worker gets one of the connections that it wants, and is to say so again if it wants more.
    pub fn serve(&self, local: SocketAddr, worker: WorkerId) {
        if let Some(place) = self.place(local.ip(), local.port()) {
            place.wanting.fetch_and(!worker.bit(), Ordering::SeqCst);
        }
    }

    /// Somebody waits at a worker for connections to `local`, or not any more. The workers that have too
    /// many.
    pub fn set_wanting(&self, local: SocketAddr, worker: WorkerId, wants: bool) -> u64 {
        let Some(place) = self.place(local.ip(), local.port()) else {
            return 0;
        };
        set(&place.wanting, worker, wants);
        place.over.load(Ordering::SeqCst) & !worker.bit()
    }
}

fn set(workers: &AtomicU64, worker: WorkerId, is_in: bool) {
    let bit = worker.bit();
    let now = workers.load(Ordering::Relaxed) & bit != 0;
    if is_in && !now {
        workers.fetch_or(bit, Ordering::SeqCst);
    } else if !is_in && now {
        workers.fetch_and(!bit, Ordering::SeqCst);
    }
}

/// The addresses under which a listener is found.
fn scopes(local: SocketAddr, v6_only: bool) -> [Option<IpAddr>; 2] {
    let both = local.is_ipv6() && local.ip().is_unspecified() && !v6_only;
    [
        Some(local.ip()),
        both.then_some(Ipv4Addr::UNSPECIFIED.into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: WorkerId = WorkerId(0);
    const B: WorkerId = WorkerId(5);

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn reached(acceptors: &Acceptors, text: &str) -> u64 {
        let to = at(text);
        acceptors.reached_by(to.ip(), to.port())
    }

    #[test]
    fn a_listener_is_reached_by_what_it_covers() {
        let acceptors = Acceptors::by([1; 16]);
        acceptors.begin(at("[::]:80"), false, A).expect("room");
        acceptors.begin(at("[::]:81"), true, A).expect("room");
        acceptors.begin(at("10.0.0.1:80"), false, B).expect("room");
        assert_eq!(reached(&acceptors, "10.0.0.1:80"), B.bit(), "the nearest");
        assert_eq!(reached(&acceptors, "10.0.0.2:80"), A.bit());
        assert_eq!(reached(&acceptors, "[fd00::1]:81"), A.bit());
        assert_eq!(reached(&acceptors, "10.0.0.2:81"), 0, "IPv6 only");
        assert_eq!(reached(&acceptors, "10.0.0.1:82"), 0);
        acceptors.end(at("10.0.0.1:80"), false, B);
        assert_eq!(reached(&acceptors, "10.0.0.1:80"), A.bit());
        acceptors.end(at("[::]:80"), false, A);
        assert_eq!(reached(&acceptors, "10.0.0.1:80"), 0);
    }

    #[test]
    fn who_has_too_many_and_who_wants_some_see_each_other() {
        let acceptors = Acceptors::by([1; 16]);
        let local = at("0.0.0.0:80");
        assert_eq!(acceptors.set_over(local, A, true), 0, "nobody listens");
        acceptors.begin(local, false, A).expect("room");
        acceptors.begin(local, false, B).expect("room");
        assert_eq!(acceptors.of_listener(local), A.bit() | B.bit());
        assert_eq!(acceptors.set_over(local, A, true), 0);
        assert_eq!(
            acceptors.set_wanting(local, A, true),
            0,
            "itself does not count"
        );
        assert_eq!(acceptors.set_wanting(local, B, true), A.bit());
        assert_eq!(acceptors.set_over(local, A, true), B.bit());
        acceptors.set_wanting(local, B, false);
        assert_eq!(acceptors.set_over(local, A, true), 0);
        // Who has gone wants nothing.
        acceptors.set_wanting(local, B, true);
        acceptors.end(local, false, B);
        assert_eq!(acceptors.set_over(local, A, true), 0);
    }

    #[test]
    fn more_than_it_has_places_for_are_refused() {
        let acceptors = Acceptors::by([1; 16]);
        let local = |n: usize| SocketAddr::new([10, 0, 0, (n >> 8) as u8].into(), n as u16);
        let begins = |n: &usize| acceptors.begin(local(*n), false, A).is_ok();
        let begun = (1..=PLACES).take_while(begins).count();
        assert!(begun > PLACES / 3, "{begun}");
        // Where nobody accepts any more is a place for another.
        let refused = local(begun + 1);
        (1..=begun).for_each(|n| acceptors.end(local(n), false, A));
        assert_eq!(acceptors.begin(refused, false, B), Ok(()));
        assert_eq!(acceptors.of_listener(refused), B.bit());
        assert_eq!(acceptors.of_listener(local(1)), 0);
    }
}
