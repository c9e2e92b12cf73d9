//! A network that is as it is stated: for tests over the simulated device.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netdev::steering::STALE;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use tcp::Instant;
use wire::ethernet::MacAddr;

use super::{Found, Network, NetworkChange, NextHop, NicId, OnLink, Steered};
use crate::slow::kernel::asking::AsOf;
use crate::slow::kernel::link::LinkState;
use crate::slow::kernel::neighbours::Knowledge;

/// Every destination has the same hardware address, and is on the link unless there is a gateway.
#[derive(Debug, Clone)]
pub struct FixedNetwork {
    /// The interface's own hardware address.
    pub mac: MacAddr,
    /// The interface's own addresses.
    pub addresses: Vec<IpAddr>,
    /// Everybody else's hardware address.
    pub peer: MacAddr,
    /// The ports that are steered, as the engine asked.
    pub steered: Vec<(IpAddr, u16, Steered)>,
    /// The cookies of the listening sockets that are shown.
    pub shown: BTreeSet<u64>,
    /// The ports that connections may use.
    pub ports: Vec<u16>,
    /// Behind whom everybody is.
    pub gateway: Option<IpAddr>,
    /// Bytes of the largest packet on a route of its own, by destination.
    pub narrow: Vec<(IpAddr, u16)>,
    /// Who is on the link of a second interface.
    pub beyond: Vec<IpAddr>,
    /// The own addresses that are the second interface's, which has the first one's hardware address.
    pub own_beyond: Vec<IpAddr>,
    /// To whom no route leads.
    pub unrouted: Vec<IpAddr>,
    /// How often it was asked for a next hop.
    pub asked: u64,
    /// For how long what has come waits to be taken.
    pub waiting: Duration,
    /// How often that was too long, of this worker or another.
    pub absences: u64,
    /// Of whom something else is known than that hardware address. It is one network with what was cloned from it.
    told: Arc<Mutex<Told>>,
}

/// What is told of a network.
#[derive(Debug, Default)]
struct Told {
    neighbours: HashMap<IpAddr, Knowledge>,
    /// What nobody has heard yet.
    news: Vec<NetworkChange>,
    /// Whom it was asked to look at again.
    probed: Vec<IpAddr>,
    /// What time it is for the steering, in nanoseconds: one later whenever somebody asks.
    time: u64,
    /// The workers that were said to be late.
    late: BTreeSet<u16>,
    /// The steering refuses the next change.
    refuses: bool,
    /// When the kernel was left a new connection, and where it has none of that any more.
    left_at: Option<u64>,
    forgotten: BTreeSet<(IpAddr, u16)>,
}

impl FixedNetwork {
    /// One interface with one address, and everybody else behind the same hardware address, on the link.
    pub fn between(mac: MacAddr, address: IpAddr, peer: MacAddr) -> Self {
        Self {
            mac,
            addresses: vec![address],
            peer,
            steered: Vec::new(),
            shown: BTreeSet::new(),
            ports: Vec::new(),
            gateway: None,
            narrow: Vec::new(),
            beyond: Vec::new(),
            own_beyond: Vec::new(),
            unrouted: Vec::new(),
            asked: 0,
            waiting: Duration::ZERO,
            absences: 0,
            told: Arc::default(),
        }
    }

    /// What it was told, and what it has noted.
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The link of an interface goes up or down.
    pub fn tell_of_link(&self, nic: NicId, up: bool) {
        let state = LinkState {
            mac: self.mac,
            mtu: u32::MAX,
            up,
        };
        let mut told = self.told();
        told.news.push(NetworkChange::Link(nic, Some(state)));
    }

    /// This is an own address from now on, which is told.
    pub fn gain(&mut self, address: IpAddr) {
        self.addresses.push(address);
        let mut told = self.told();
        told.news.push(NetworkChange::Addresses);
    }

    /// From now on this is known of a neighbour, and told.
    pub fn tell(&self, neighbour: IpAddr, knowledge: Knowledge) {
        let on_link = OnLink {
            nic: NicId(self.beyond.contains(&neighbour).into()),
            address: neighbour,
        };
        let mut told = self.told();
        told.neighbours.insert(neighbour, knowledge);
        told.news.push(NetworkChange::Neighbour(on_link, knowledge));
    }

    /// The steering refuses what it is told next of a port that is only ours.
    pub fn refuse_once(&self) {
        let mut told = self.told();
        told.refuses = true;
    }

    /// So much later it is for the steering.
    pub fn pass(&self, time: Duration) {
        let mut told = self.told();
        told.time += time.as_nanos() as u64;
    }

    /// The kernel is left a new connection at all that is steered: it is noted in the steering, and nothing else says so.
    pub fn leave_some(&self) {
        let mut told = self.told();
        told.left_at = Some(told.time);
        told.forgotten.clear();
    }

    /// The workers that were said to be late.
    pub fn late(&self) -> Vec<u16> {
        let told = self.told();
        told.late.iter().copied().collect()
    }

    /// Whom it was asked to look at again, in that order.
    pub fn probed(&self) -> Vec<IpAddr> {
        let told = self.told();
        told.probed.clone()
    }

    /// What is known of a neighbour.
    fn known(&self, neighbour: IpAddr) -> Knowledge {
        let told = self.told();
        let known = told.neighbours.get(&neighbour).copied();
        known.unwrap_or(Knowledge::Resolved {
            mac: self.peer,
            stale: false,
        })
    }
}

impl Network for FixedNetwork {
    fn index(&self, _: NicId) -> u32 {
        1
    }

    fn nic_at(&self, index: u32) -> Option<NicId> {
        (index == 1).then(NicId::default)
    }

    fn nic_of(&self, own: IpAddr) -> NicId {
        NicId(self.own_beyond.contains(&own).into())
    }

    fn mac(&self, _: NicId) -> MacAddr {
        self.mac
    }

    fn nics(&self) -> usize {
        1 + usize::from(!self.own_beyond.is_empty())
    }

    fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    fn next_hop(&mut self, _: IpAddr, destination: IpAddr) -> Result<NextHop, Errno> {
        self.asked += 1;
        if self.unrouted.contains(&destination) {
            return Err(Errno::NETUNREACH);
        }
        let narrow = self.narrow.iter().find(|(to, _)| *to == destination);
        Ok(NextHop {
            neighbour: OnLink {
                nic: NicId(self.beyond.contains(&destination).into()),
                address: self.gateway.unwrap_or(destination),
            },
            mtu: narrow.map(|(_, mtu)| *mtu),
        })
    }

    fn source_for(
        &mut self,
        destination: IpAddr,
        _: u32,
        wanted: Option<IpAddr>,
    ) -> Result<IpAddr, Errno> {
        if self.addresses.contains(&destination) || destination.is_loopback() {
            return Err(Errno::OPNOTSUPP);
        }
        let same_family = |address: &&IpAddr| address.is_ipv4() == destination.is_ipv4();
        let source = self.addresses.iter().find(same_family).copied();
        wanted.or(source).ok_or(Errno::NETUNREACH)
    }

    fn neighbour(&mut self, next_hop: OnLink<IpAddr>, _: AsOf) -> Found {
        Found::Known(self.known(next_hop.address))
    }

    fn neighbour_at_once(&mut self, next_hop: OnLink<IpAddr>) -> Option<Knowledge> {
        Some(self.known(next_hop.address))
    }

    fn probe(&mut self, next_hop: OnLink<IpAddr>, _: AsOf) -> bool {
        let mut told = self.told();
        told.probed.push(next_hop.address);
        true
    }

    fn confirm(&mut self, _: OnLink<IpAddr>, _: MacAddr) {}

    fn changes(&mut self, each: &mut dyn FnMut(NetworkChange)) {
        let mut told = self.told();
        told.news.drain(..).for_each(each);
    }

    fn steer(&mut self, address: IpAddr, port: u16, how: Steered) -> std::io::Result<()> {
        self.unsteer(address, port);
        self.steered.push((address, port, how));
        Ok(())
    }

    fn show_socket(&mut self, cookie: u64, _: u32) -> std::io::Result<()> {
        self.shown.insert(cookie);
        Ok(())
    }

    fn hide_socket(&mut self, cookie: u64) {
        self.shown.remove(&cookie);
    }

    fn now(&self) -> u64 {
        let mut told = self.told();
        told.time += 1;
        told.time
    }

    fn noted(&self, address: IpAddr, port: u16) -> Option<u64> {
        let told = self.told();
        let mut steered = self.steered.iter();
        let is_steered = steered.any(|&(a, p, _)| (a, p) == (address, port));
        let is_left = is_steered && !told.forgotten.contains(&(address, port));
        told.left_at.filter(|_| is_left)
    }

    fn only_ours(&mut self, address: IpAddr, port: u16, as_of: u64) -> std::io::Result<bool> {
        let mut told = self.told();
        if std::mem::take(&mut told.refuses) {
            return Err(Errno::NOMEM.into());
        }
        let is_over = told.left_at.is_none_or(|at| at < as_of);
        if !is_over && !told.forgotten.contains(&(address, port)) {
            return Ok(false);
        }
        told.forgotten.insert((address, port));
        drop(told);
        self.steer(address, port, Steered::Engine).map(|()| true)
    }

    fn unsteer(&mut self, address: IpAddr, port: u16) {
        self.steered.retain(|&(a, p, _)| (a, p) != (address, port));
    }

    fn waiting(&self) -> Duration {
        self.waiting
    }

    fn beat(&mut self) -> Duration {
        let waited = core::mem::take(&mut self.waiting);
        if waited >= STALE {
            self.absences += 1;
            self.leave_some();
        }
        waited
    }

    fn note_late(&self, worker: u16) {
        let mut told = self.told();
        told.late.insert(worker);
    }

    fn absences(&self) -> u64 {
        self.absences
    }

    fn lease_port(&mut self, _: Instant, wanted: Option<u16>) -> Result<u16, Errno> {
        match wanted {
            Some(port) => {
                if !self.ports.contains(&port) {
                    self.ports.push(port);
                }
                Ok(port)
            }
            None => Err(Errno::ADDRNOTAVAIL),
        }
    }

    fn has_leased(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }

    fn hold_port(&mut self, _: u16) -> Result<OwnedFd, Errno> {
        eventfd(0, EventfdFlags::CLOEXEC)
    }

    fn reuse_port(&mut self, _: Instant, _: Duration) -> Option<u16> {
        if !self.ports.is_empty() {
            self.ports.rotate_left(1);
        }
        self.ports.first().copied()
    }

    fn leased_ports(&self) -> usize {
        self.ports.len()
    }

    fn steering_counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
}
