//! The network as the kernel knows it.

mod interface;
mod links;
mod tables;

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use tcp::Instant;
use wire::ethernet::MacAddr;

use self::interface::OfInterface;
use self::links::{links, moved};
use self::tables::{has_room_for, most_in_a_table};
use super::arriving::Arriving;
use super::{Found, Network, NetworkChange, NextHop, NicId, OnLink, Steered, is_link_local};
use crate::slow::kernel::asking::AsOf;
use crate::slow::kernel::neighbours::Knowledge;
use crate::slow::kernel::opener::Opener;
use crate::slow::kernel::ports::{Ports, hold};
use crate::slow::kernel::routes::{Route, Routes};
use netdev::interface::Interface;
use netdev::steering::Endpoint;

/// Leased ports that are steered on an address that has come, or no longer on one that has gone, in a turn.
const STEPS: usize = 64;

/// What divides the interfaces' segments between engine and kernel.
pub trait Steer {
    /// Sends a port of an own address to the engine, or changes how: by whichever interface it comes, or by this one.
    fn steer(
        &mut self,
        address: IpAddr,
        port: u16,
        how: Steered,
        on: Option<NicId>,
    ) -> std::io::Result<()>;
    /// Leaves it to the kernel.
    fn unsteer(&mut self, address: IpAddr, port: u16) -> std::io::Result<()>;
    /// New connections that the kernel would give to the socket with this cookie are a listener's. It counts as this
    /// user's if it is new.
    fn show_socket(&mut self, cookie: u64, uid: u32) -> std::io::Result<()>;
    /// Not any more.
    fn hide_socket(&mut self, cookie: u64) -> std::io::Result<()>;
    /// What time it is, in nanoseconds.
    fn now(&self) -> u64;
    /// When the kernel was last left a new connection there, if that is not forgotten.
    fn noted(&self, address: IpAddr, port: u16) -> Option<u64>;
    /// The kernel has no connections there of what was left to it until `as_of`; false if it was left some since, or
    /// a moment before.
    fn forget_left(&mut self, address: IpAddr, port: u16, as_of: u64) -> bool;
    /// Calls a program of the responder, if one comes along, and gives it these endpoints of an interface.
    fn respond(
        &mut self,
        nic: NicId,
        program: Option<BorrowedFd<'_>>,
        endpoints: &[Endpoint],
    ) -> std::io::Result<()>;
    /// Takes all of that back.
    fn end_responding(&mut self);
    /// Calls a program of the user's for what comes to an interface and is nobody's, or none.
    fn divert(&mut self, program: Option<(NicId, BorrowedFd<'_>)>) -> std::io::Result<()>;
    /// An interface has got more receive queues: what comes to them is divided, too.
    fn renew_steering(&mut self, nic: NicId) -> std::io::Result<()>;
    /// Sends what is steered and comes to a receive queue of an interface to its socket.
    fn connect_queue(
        &mut self,
        nic: NicId,
        queue: u32,
        socket: BorrowedFd<'_>,
    ) -> std::io::Result<()>;
    /// For how long the first frame has waited that came since the last [`beat`](Self::beat).
    fn waiting(&self) -> Duration;
    /// What has come is about to be taken: for how long the first of it has waited.
    fn beat(&mut self) -> Duration;
    /// The worker with this number does not take what others hand to it.
    fn note_late(&self, worker: u16);
    /// How often any worker has kept frames waiting for so long that new connections were the kernel's meanwhile.
    fn absences(&self) -> u64;
    /// What it has counted.
    fn counts(&self) -> Vec<(&'static str, u64)>;
}

/// Asks the kernel, and listens to it.
#[derive(Debug)]
pub struct KernelNetwork<S> {
    /// By their places.
    interfaces: Vec<OfInterface>,
    /// The addresses of all, each once.
    addresses: Vec<IpAddr>,
    /// The link-local ones of them, each with the interface that has it.
    links: Vec<(IpAddr, NicId)>,
    /// Some are on another link than before, and left out until that was heard of.
    moved: bool,
    routes: Routes,
    ports: Ports,
    arriving: Arriving,
    steering: S,
    /// How many have a network like this, of the same tables.
    workers: usize,
}

/// The addresses of all interfaces, each once.
fn all_addresses(interfaces: &[OfInterface]) -> Vec<IpAddr> {
    let mut all = Vec::new();
    for &address in interfaces.iter().flat_map(OfInterface::addresses) {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

impl<S: Steer> KernelNetwork<S> {
    /// Of these interfaces, with at most `leased_ports` ports for connections; `opener` tells the kernel what not
    /// everybody may.
    pub fn of_interfaces(
        interfaces: &[Interface],
        leased_ports: usize,
        steering: S,
        opener: &Opener,
    ) -> rustix::io::Result<Self> {
        let each = interfaces.iter().enumerate();
        let each =
            each.map(|(place, it)| OfInterface::new(NicId::at(place), it.clone(), opener.clone()));
        let interfaces = each.collect::<rustix::io::Result<Vec<_>>>()?;
        Ok(Self {
            links: links(interfaces.iter().map(OfInterface::addresses), &[]),
            addresses: all_addresses(&interfaces),
            moved: false,
            interfaces,
            routes: Routes::open()?,
            ports: Ports::with_limit(leased_ports),
            arriving: Arriving::default(),
            steering,
            workers: 1,
        })
    }

    /// One of so many workers'.
    #[must_use]
    pub fn among(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// From now on threads ask what the kernel may take long to answer. They have the rights of the one that calls
    /// this.
    ///
    /// # Errors
    /// There are no more descriptors, or threads.
    pub fn asking_aside(mut self) -> std::io::Result<Self> {
        let each = self.interfaces.into_iter().map(OfInterface::asking_aside);
        self.interfaces = each.collect::<std::io::Result<_>>()?;
        Ok(self)
    }

    /// The interface that has a link-local address, which means nothing on any other; `None` of all others, which
    /// this machine takes by whichever interface they come.
    fn only_on(&self, address: IpAddr) -> Option<NicId> {
        is_link_local(address).then(|| self.nic_of(address))
    }

    /// Where frames go first by this interface.
    fn next_hop_by(
        &mut self,
        nic: NicId,
        source: IpAddr,
        destination: IpAddr,
    ) -> Result<NextHop, Errno> {
        let index = self.index(nic);
        let route = self.routes.to(destination, Some(source), Some(index))?;
        if route.local {
            return Err(Errno::OPNOTSUPP);
        }
        // IPv4 takes for a station on the link what it has no route to by it, IPv6 may go by another
        // interface after all.
        let on_link = route.next_hop == destination;
        if route.interface != index
            || (on_link && !self.routes.has_entry(destination, Some(source), index))
        {
            return Err(Errno::NETUNREACH);
        }
        Ok(hop(nic, &route))
    }

    /// Whether so many leased ports can be steered on these addresses.
    fn has_room_for(&self, ports: usize, addresses: &[IpAddr]) -> bool {
        let links = addresses.iter().map(|address| self.only_on(*address));
        has_room_for(ports, most_in_a_table(links), self.workers)
    }

    /// The addresses on which leased ports are steered.
    fn leased_on(&self) -> impl Iterator<Item = IpAddr> {
        let list = self.addresses.iter().copied();
        list.filter(|address| !self.arriving.goes_without(*address))
    }

    fn addresses_changed(&mut self, before: &[IpAddr]) {
        let ports = self.ports.len();
        for &gone in before.iter().filter(|a| !self.addresses.contains(*a)) {
            let leased = !self.arriving.goes_without(gone);
            let ports = self.ports.iter().filter(|_| leased);
            self.arriving.add(gone, ports, false);
        }
        let list = self.addresses.iter();
        let come: Vec<IpAddr> = list.filter(|a| !before.contains(a)).copied().collect();
        let known = self.leased_on().filter(|address| !come.contains(address));
        let mut leased: Vec<IpAddr> = known.collect();
        for address in come {
            leased.push(address);
            if self.has_room_for(ports, &leased) {
                self.arriving.add(address, self.ports.iter(), true);
                continue;
            }
            leased.pop();
            self.arriving.go_without(address);
            tracing::warn!(
                %address,
                ports,
                addresses = leased.len(),
                "there are too many leased ports for one more address: connections from it are the kernel's \
                 (limits.leased_ports)"
            );
        }
    }

    /// The addresses are those that the interfaces have now.
    fn renew_addresses(&mut self) {
        let mut now = all_addresses(&self.interfaces);
        let of_each = self.interfaces.iter().map(OfInterface::addresses);
        let mut links = links(of_each, &self.links);
        let moved = moved(&self.links, &links);
        self.moved = !moved.is_empty();
        now.retain(|address| !moved.contains(address));
        links.retain(|(address, _)| !moved.contains(address));
        self.links = links;
        let before = core::mem::replace(&mut self.addresses, now);
        self.addresses_changed(&before);
    }

    /// Goes on with what addresses that have come and gone have left to do.
    fn settle(&mut self) {
        for _ in 0..STEPS {
            let Some(step) = self.arriving.step() else {
                return;
            };
            let (address, port) = (step.address, step.port);
            let done = match step.come {
                true => self.steer(address, port, Steered::Leased),
                false => self.steering.unsteer(address, port),
            };
            if let Err(error) = done {
                tracing::debug!(%address, port, come = step.come, %error, "a leased port");
            }
        }
    }

    fn steer_everywhere(&mut self, port: u16) -> Result<(), Errno> {
        let addresses: Vec<IpAddr> = self.leased_on().collect();
        if !self.has_room_for(self.ports.len(), &addresses) {
            return Err(Errno::ADDRNOTAVAIL);
        }
        for address in addresses {
            self.steer(address, port, Steered::Leased)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOBUFS))?;
        }
        Ok(())
    }

    /// The place of the interface with this number, which somebody names.
    fn ours(&self, index: u32) -> std::io::Result<NicId> {
        self.nic_at(index).ok_or_else(|| {
            let names: Vec<&str> = self.interfaces.iter().map(OfInterface::name).collect();
            std::io::Error::other(format!("this engine works on {}", names.join(" and ")))
        })
    }
}

/// The next hop that a route names, by this interface.
fn hop(nic: NicId, route: &Route) -> NextHop {
    let address = route.next_hop;
    NextHop {
        neighbour: OnLink { nic, address },
        mtu: route.mtu.and_then(|mtu| u16::try_from(mtu).ok()),
    }
}

impl<S: Steer> Network for KernelNetwork<S> {
    fn index(&self, nic: NicId) -> u32 {
        self.interfaces[nic.index()].index()
    }

    fn nic_at(&self, index: u32) -> Option<NicId> {
        let place = self.interfaces.iter().position(|it| it.index() == index);
        place.map(NicId::at)
    }

    fn nic_of(&self, own: IpAddr) -> NicId {
        if let Some((_, nic)) = self.links.iter().find(|(address, _)| *address == own) {
            return *nic;
        }
        let has = |it: &OfInterface| it.addresses().contains(&own);
        let place = self.interfaces.iter().position(has);
        place.map_or(NicId::default(), NicId::at)
    }

    fn mac(&self, nic: NicId) -> MacAddr {
        self.interfaces[nic.index()].mac()
    }

    fn nics(&self) -> usize {
        self.interfaces.len()
    }

    fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    fn next_hop(&mut self, source: IpAddr, destination: IpAddr) -> Result<NextHop, Errno> {
        let own = self.nic_of(source);
        let only = self.interfaces.len() == 1 || is_link_local(destination);
        if !only {
            // As the kernel would send it, if that is by one of these.
            let route = self.routes.to(destination, Some(source), None);
            match route.map(|route| (self.nic_at(route.interface), route)) {
                Ok((_, route)) if route.local => return Err(Errno::OPNOTSUPP),
                Ok((Some(nic), route)) => return Ok(hop(nic, &route)),
                _ => {}
            }
        }
        // What came in by these interfaces is answered through them, whatever the table prefers.
        let first = self.next_hop_by(own, source, destination);
        if only || first.is_ok() {
            return first;
        }
        let mut others = (0..self.interfaces.len())
            .map(NicId::at)
            .filter(|nic| *nic != own);
        others
            .find_map(|nic| self.next_hop_by(nic, source, destination).ok())
            .map_or(first, Ok)
    }

    fn source_for(
        &mut self,
        destination: IpAddr,
        scope: u32,
        wanted: Option<IpAddr>,
    ) -> Result<IpAddr, Errno> {
        // A link-local address is on every link; which one is meant has been checked.
        let link = is_link_local(destination).then_some(scope);
        let route = self.routes.to(destination, wanted, link)?;
        let nic = self.nic_at(route.interface);
        let Some(nic) = nic.filter(|_| !route.local) else {
            return Err(Errno::OPNOTSUPP);
        };
        let same_family = |address: &&IpAddr| address.is_ipv4() == destination.is_ipv4();
        let of_nic = self.interfaces[nic.index()].addresses().iter();
        let source = wanted
            .or(route.source)
            .filter(|source| self.addresses.contains(source))
            .or_else(|| of_nic.copied().find(|it| same_family(&it)))
            .ok_or(Errno::ADDRNOTAVAIL)?;
        // To such a destination a next hop is asked for on the source's link.
        if is_link_local(destination) && self.nic_of(source) != nic {
            return Err(Errno::OPNOTSUPP);
        }
        // Answers to its ports may still go to the kernel.
        match self.arriving.is_settled(source) {
            true => Ok(source),
            false => Err(Errno::OPNOTSUPP),
        }
    }

    fn neighbour(&mut self, next_hop: OnLink<IpAddr>, as_of: AsOf) -> Found {
        let on = &mut self.interfaces[next_hop.nic.index()];
        on.neighbour(next_hop.address, as_of)
    }

    fn neighbour_at_once(&mut self, next_hop: OnLink<IpAddr>) -> Option<Knowledge> {
        let on = &mut self.interfaces[next_hop.nic.index()];
        on.neighbour_at_once(next_hop.address)
    }

    fn probe(&mut self, next_hop: OnLink<IpAddr>, as_of: AsOf) -> bool {
        let on = &mut self.interfaces[next_hop.nic.index()];
        on.probe(next_hop.address, as_of)
    }

    fn confirm(&mut self, next_hop: OnLink<IpAddr>, mac: MacAddr) {
        let on = &mut self.interfaces[next_hop.nic.index()];
        on.confirm(next_hop.address, mac);
    }

    fn changes(&mut self, each: &mut dyn FnMut(NetworkChange)) {
        let mut addresses = false;
        for interface in &mut self.interfaces {
            addresses |= interface.changes(each);
        }
        if addresses {
            self.renew_addresses();
            each(NetworkChange::Addresses);
        }
        match self.routes.update() {
            Ok(true) => each(NetworkChange::Routes),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "route notifications"),
        }
    }

    fn take_up_moved(&mut self) -> bool {
        let moved = core::mem::take(&mut self.moved);
        if moved {
            self.renew_addresses();
        }
        moved
    }

    fn steer(&mut self, address: IpAddr, port: u16, how: Steered) -> std::io::Result<()> {
        self.steering
            .steer(address, port, how, self.only_on(address))
    }

    fn show_socket(&mut self, cookie: u64, uid: u32) -> std::io::Result<()> {
        self.steering.show_socket(cookie, uid)
    }

    fn hide_socket(&mut self, cookie: u64) {
        if let Err(error) = self.steering.hide_socket(cookie) {
            tracing::warn!(cookie, %error, "a socket stays known to the steering");
        }
    }

    fn now(&self) -> u64 {
        self.steering.now()
    }

    fn noted(&self, address: IpAddr, port: u16) -> Option<u64> {
        self.steering.noted(address, port)
    }

    fn only_ours(&mut self, address: IpAddr, port: u16, as_of: u64) -> std::io::Result<bool> {
        if !self.steering.forget_left(address, port, as_of) {
            return Ok(false);
        }
        self.steer(address, port, Steered::Engine).map(|()| true)
    }

    fn respond(
        &mut self,
        interface: u32,
        program: Option<BorrowedFd<'_>>,
        endpoints: &[Endpoint],
    ) -> std::io::Result<()> {
        let nic = self.ours(interface)?;
        self.steering.respond(nic, program, endpoints)
    }

    fn end_responding(&mut self) {
        self.steering.end_responding();
    }

    fn divert(&mut self, program: Option<(NicId, BorrowedFd<'_>)>) -> std::io::Result<()> {
        self.steering.divert(program)
    }

    fn unsteer(&mut self, address: IpAddr, port: u16) {
        if let Err(error) = self.steering.unsteer(address, port) {
            tracing::warn!(%address, port, %error, "the port stays steered");
        }
    }

    fn renew_steering(&mut self, nic: NicId) -> std::io::Result<()> {
        self.steering.renew_steering(nic)
    }

    fn connect_queue(
        &mut self,
        nic: NicId,
        queue: u32,
        socket: BorrowedFd<'_>,
    ) -> std::io::Result<()> {
        self.steering.connect_queue(nic, queue, socket)
    }

    fn waiting(&self) -> Duration {
        self.steering.waiting()
    }

    fn beat(&mut self) -> Duration {
        let waited = self.steering.beat();
        self.settle();
        waited
    }

    fn note_late(&self, worker: u16) {
        self.steering.note_late(worker);
    }

    fn absences(&self) -> u64 {
        self.steering.absences()
    }

    fn lease_port(&mut self, now: Instant, wanted: Option<u16>) -> Result<u16, Errno> {
        let known = wanted.is_some_and(|port| self.ports.contains(port));
        let port = self.ports.lease(now, wanted)?;
        if !known && let Err(error) = self.steer_everywhere(port) {
            for &address in &self.addresses {
                // Some of them were not steered.
                let _ = self.steering.unsteer(address, port);
            }
            self.ports.give_back();
            return Err(error);
        }
        Ok(port)
    }

    fn has_leased(&self, port: u16) -> bool {
        self.ports.contains(port)
    }

    fn hold_port(&mut self, port: u16) -> Result<OwnedFd, Errno> {
        hold(port)
    }

    fn ports_are_scarce(&self, now: Instant) -> bool {
        self.ports.is_scarce(now)
    }

    fn reuse_port(&mut self, now: Instant, rest: Duration) -> Option<u16> {
        self.ports.reuse(now, rest)
    }

    fn leased_ports(&self) -> usize {
        self.ports.len()
    }

    fn steering_counts(&self) -> Vec<(&'static str, u64)> {
        self.steering.counts()
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let told = self.interfaces.iter().flat_map(OfInterface::fds);
        told.chain([self.routes.as_fd()]).collect()
    }
}
