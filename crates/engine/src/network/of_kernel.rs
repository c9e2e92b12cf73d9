//! The network as the kernel knows it.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use tcp::Instant;
use wire::ethernet::MacAddr;

use super::arriving::Arriving;
use super::{Found, Network, NetworkChange, NextHop, Steered};
use crate::slow::kernel::addresses::Addresses;
use crate::slow::kernel::asking::{
    Answer, Answers, AsOf, Asking, Full, OfKernel, Question, Unanswered,
};
use crate::slow::kernel::link::Link;
use crate::slow::kernel::neighbours::{Knowledge, NeighbourChanges};
use crate::slow::kernel::netlink::Notified;
use crate::slow::kernel::ports::{Ports, hold};
use crate::slow::kernel::queues::QueueCount;
use crate::slow::kernel::routes::Routes;
use netdev::interface::Interface;
use netdev::steering::{Endpoint, MAX_ENDPOINTS};

/// Endpoints that leased ports leave to listeners.
const FOR_LISTENERS: usize = 8_192;
/// Leased ports that are steered on an address that has come, or no longer on one that has gone, in a turn.
const STEPS: usize = 64;

/// What divides the interface's segments between engine and kernel.
pub trait Steer {
    /// Sends a port of an own address to the engine, or changes how.
    fn steer(&mut self, address: IpAddr, port: u16, how: Steered) -> std::io::Result<()>;
    /// Leaves it to the kernel.
    fn unsteer(&mut self, address: IpAddr, port: u16) -> std::io::Result<()>;
    /// Calls a program of the responder, if one comes along, and gives it these endpoints.
    fn respond(
        &mut self,
        program: Option<BorrowedFd<'_>>,
        endpoints: &[Endpoint],
    ) -> std::io::Result<()> {
        let _ = (program, endpoints);
        Err(std::io::ErrorKind::Unsupported.into())
    }
    /// Takes all of that back.
    fn end_responding(&mut self) {}
    /// Calls a program of the user's for what is nobody's, or none.
    fn divert(&mut self, program: Option<BorrowedFd<'_>>) -> std::io::Result<()> {
        let _ = program;
        Err(std::io::ErrorKind::Unsupported.into())
    }
    /// The interface has got more receive queues: what comes to them is divided, too.
    fn renew_steering(&mut self) -> std::io::Result<()> {
        Ok(())
    }
    /// Sends what is steered and comes to a receive queue to its socket.
    fn connect_queue(&mut self, queue: u32, socket: BorrowedFd<'_>) -> std::io::Result<()> {
        let _ = (queue, socket);
        Err(std::io::ErrorKind::Unsupported.into())
    }
    /// For how long the first frame has waited that came since the last [`beat`](Self::beat).
    fn waiting(&self) -> Duration {
        Duration::ZERO
    }
    /// What has come is about to be taken.
    fn beat(&mut self) {}
    /// What it has counted.
    fn counts(&self) -> Vec<(&'static str, u64)>;
}

/// Asks the kernel, and listens to it.
#[derive(Debug)]
pub struct KernelNetwork<S> {
    interface: Interface,
    link: Link,
    queues: QueueCount,
    addresses: Addresses,
    routes: Routes,
    neighbours: NeighbourChanges,
    /// What may wait for the kernel's locks is asked here.
    asked: Asked,
    /// Questions that found no room, of those that nobody asks again by himself: one of a kind.
    missed: Vec<Question>,
    ports: Ports,
    arriving: Arriving,
    steering: S,
}

/// Who asks the kernel what it may take long to answer.
#[derive(Debug)]
enum Asked {
    /// Whoever has the question: he may wait.
    Here(Box<OfKernel>),
    /// A thread.
    Aside(Asking),
}

impl<S: Steer> KernelNetwork<S> {
    /// Of the interface `interface`, with at most `leased_ports` ports for connections.
    pub fn of_interface(
        interface: Interface,
        leased_ports: usize,
        steering: S,
    ) -> rustix::io::Result<Self> {
        Ok(Self {
            link: Link::of_interface(interface.index)?,
            queues: QueueCount::of_interface(&interface)?,
            addresses: Addresses::of_interface(interface.index)?,
            routes: Routes::open()?,
            neighbours: NeighbourChanges::on_interface(interface.index)?,
            asked: Asked::Here(Box::new(OfKernel::of_interface(interface.clone())?)),
            missed: Vec::new(),
            interface,
            ports: Ports::with_limit(leased_ports),
            arriving: Arriving::default(),
            steering,
        })
    }

    /// From now on a thread asks what the kernel may take long to answer. It has the rights of the one that calls
    /// this.
    ///
    /// # Errors
    /// There are no more descriptors, or threads.
    pub fn asking_aside(mut self) -> std::io::Result<Self> {
        if let Asked::Here(kernel) = self.asked {
            self.asked = Asked::Aside(Asking::of(*kernel)?);
        }
        Ok(self)
    }

    /// Asks; the answer, if it is known at once.
    fn ask(&mut self, question: Question) -> Result<Option<Answer>, Full> {
        match &mut self.asked {
            // What it does not answer is asked again as what there was no room for.
            Asked::Here(kernel) => kernel.answer(question).map_err(|Unanswered| Full),
            Asked::Aside(asking) => asking.ask(question).map(|()| None),
        }
    }

    /// Asks what is asked once, and again if there is no room.
    fn ask_surely(&mut self, question: Question, each: &mut dyn FnMut(NetworkChange)) {
        match self.ask(question) {
            Ok(Some(answer)) => self.answered(answer, each),
            Ok(None) => {}
            Err(Full) => {
                let kind = core::mem::discriminant(&question);
                self.missed.retain(|it| core::mem::discriminant(it) != kind);
                self.missed.push(question);
            }
        }
    }

    /// What was asked before, and is answered now.
    fn take_answers(&mut self, each: &mut dyn FnMut(NetworkChange)) {
        let mut answers = Vec::new();
        if let Asked::Aside(asking) = &self.asked {
            asking.answers(|answer| answers.push(answer));
        }
        for answer in answers {
            self.answered(answer, each);
        }
        for question in core::mem::take(&mut self.missed) {
            self.ask_surely(question, each);
        }
    }

    /// What an answer changes.
    fn answered(&mut self, answer: Answer, each: &mut dyn FnMut(NetworkChange)) {
        match answer {
            Answer::Neighbour(change, as_of) => {
                each(NetworkChange::Answer(
                    change.address,
                    change.knowledge,
                    as_of,
                ));
            }
            Answer::Queues(count) => {
                if self.queues.is_news(count) {
                    each(NetworkChange::Queues(count));
                }
            }
            Answer::Link(question, state) => {
                if self.link.answered(question, state) {
                    self.link_changed(each);
                }
            }
            Answer::Addresses(question, list) => {
                let before = self.addresses.list().to_vec();
                match self.addresses.answered(question, list) {
                    Ok(true) => {
                        self.addresses_changed(&before);
                        each(NetworkChange::Addresses);
                    }
                    Ok(false) => {}
                    Err(again) => self.ask_surely(Question::Addresses(again), each),
                }
            }
        }
    }

    fn link_changed(&mut self, each: &mut dyn FnMut(NetworkChange)) {
        let state = self.link.state();
        if let Some(state) = state {
            self.interface.mac = state.mac.0;
        }
        each(NetworkChange::Link(state));
        // The kernel says nothing of the IPv4 routes that go with a link.
        each(NetworkChange::Routes);
    }

    /// The steering.
    pub fn steering(&self) -> &S {
        &self.steering
    }

    /// Whether so many leased ports can be steered on so many addresses.
    const fn has_room_for(ports: usize, addresses: usize) -> bool {
        ports.saturating_mul(addresses) <= MAX_ENDPOINTS as usize - FOR_LISTENERS
    }

    /// The addresses on which leased ports are steered.
    fn leased_on(&self) -> impl Iterator<Item = IpAddr> {
        let list = self.addresses.list().iter().copied();
        list.filter(|address| !self.arriving.goes_without(*address))
    }

    fn addresses_changed(&mut self, before: &[IpAddr]) {
        let ports = self.ports.len();
        for &gone in before.iter().filter(|a| !self.addresses.contains(**a)) {
            let leased = !self.arriving.goes_without(gone);
            let ports = self.ports.iter().filter(|_| leased);
            self.arriving.add(gone, ports, false);
        }
        let list = self.addresses.list().iter();
        let come: Vec<IpAddr> = list.filter(|a| !before.contains(a)).copied().collect();
        let mut leased = self.leased_on().count() - come.len();
        for address in come {
            leased += 1;
            if Self::has_room_for(ports, leased) {
                self.arriving.add(address, self.ports.iter(), true);
                continue;
            }
            leased -= 1;
            self.arriving.go_without(address);
            tracing::warn!(
                %address,
                ports,
                addresses = leased,
                "there are too many leased ports for one more address: connections from it are the kernel's \
                 (limits.leased_ports)"
            );
        }
    }

    /// Goes on with what addresses that have come and gone have left to do.
    fn settle(&mut self) {
        for _ in 0..STEPS {
            let Some(step) = self.arriving.step() else {
                return;
            };
            let (address, port) = (step.address, step.port);
            let done = match step.come {
                true => self.steering.steer(address, port, Steered::Engine),
                false => self.steering.unsteer(address, port),
            };
            if let Err(error) = done {
                tracing::debug!(%address, port, come = step.come, %error, "a leased port");
            }
        }
    }

    fn steer_everywhere(&mut self, port: u16) -> Result<(), Errno> {
        let addresses: Vec<IpAddr> = self.leased_on().collect();
        if !Self::has_room_for(self.ports.len(), addresses.len()) {
            return Err(Errno::ADDRNOTAVAIL);
        }
        for address in addresses {
            self.steering
                .steer(address, port, Steered::Engine)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOBUFS))?;
        }
        Ok(())
    }
}

impl<S: Steer> Network for KernelNetwork<S> {
    fn index(&self) -> u32 {
        self.interface.index
    }

    fn mac(&self) -> MacAddr {
        MacAddr(self.interface.mac)
    }

    fn addresses(&self) -> &[IpAddr] {
        self.addresses.list()
    }

    fn next_hop(&mut self, source: IpAddr, destination: IpAddr) -> Result<NextHop, Errno> {
        // What came in by this interface is answered through it, whatever the table prefers.
        let index = self.interface.index;
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
        Ok(NextHop {
            address: route.next_hop,
            mtu: route.mtu.and_then(|mtu| u16::try_from(mtu).ok()),
        })
    }

    fn source_for(&mut self, destination: IpAddr, wanted: Option<IpAddr>) -> Result<IpAddr, Errno> {
        // A link-local address is on every link; which one is meant has been checked.
        let link = super::is_link_local(destination).then_some(self.interface.index);
        let route = self.routes.to(destination, wanted, link)?;
        if route.local || route.interface != self.interface.index {
            return Err(Errno::OPNOTSUPP);
        }
        let same_family = |address: &&IpAddr| address.is_ipv4() == destination.is_ipv4();
        let source = wanted
            .or(route.source)
            .filter(|source| self.addresses.contains(*source))
            .or_else(|| self.addresses.list().iter().find(same_family).copied())
            .ok_or(Errno::ADDRNOTAVAIL)?;
        // Answers to its ports may still go to the kernel.
        match self.arriving.is_settled(source) {
            true => Ok(source),
            false => Err(Errno::OPNOTSUPP),
        }
    }

    fn neighbour(&mut self, next_hop: IpAddr, as_of: AsOf) -> Found {
        match &mut self.asked {
            Asked::Here(kernel) => Found::Known(kernel.neighbour(next_hop)),
            Asked::Aside(asking) => match asking.ask(Question::Neighbour(next_hop, as_of)) {
                Ok(()) => Found::Later,
                Err(Full) => Found::Missed,
            },
        }
    }

    fn neighbour_at_once(&mut self, next_hop: IpAddr) -> Option<Knowledge> {
        match &mut self.asked {
            Asked::Here(kernel) => Some(kernel.neighbour(next_hop)),
            Asked::Aside(_) => None,
        }
    }

    fn probe(&mut self, next_hop: IpAddr, as_of: AsOf) -> bool {
        self.ask(Question::Probe(next_hop, as_of)).is_ok()
    }

    fn confirm(&mut self, next_hop: IpAddr, mac: MacAddr) {
        let _ = self.ask(Question::Confirm(next_hop, mac));
    }

    fn changes(&mut self, each: &mut dyn FnMut(NetworkChange)) {
        match self.link.update() {
            Ok((changed, lost)) => {
                if changed {
                    self.link_changed(each);
                }
                if let Some(question) = lost {
                    self.ask_surely(Question::Link(question), each);
                }
            }
            Err(error) => tracing::warn!(%error, "link notifications"),
        }
        if self.queues.update() {
            self.ask_surely(Question::Queues, each);
        }
        let before = self.addresses.list().to_vec();
        match self.addresses.update() {
            Ok((changed, lost)) => {
                if changed {
                    self.addresses_changed(&before);
                    each(NetworkChange::Addresses);
                }
                if let Some(question) = lost {
                    self.ask_surely(Question::Addresses(question), each);
                }
            }
            Err(error) => tracing::warn!(%error, "address notifications"),
        }
        match self.routes.update() {
            Ok(true) => each(NetworkChange::Routes),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "route notifications"),
        }
        self.take_answers(each);
        let changes = self.neighbours.update(|change| {
            each(NetworkChange::Neighbour(change.address, change.knowledge));
        });
        match changes {
            Ok(Notified::Read) => {}
            Ok(Notified::Overrun) => each(NetworkChange::AllNeighbours),
            Err(error) => tracing::warn!(%error, "neighbour notifications"),
        }
    }

    fn steer(&mut self, address: IpAddr, port: u16, how: Steered) -> std::io::Result<()> {
        self.steering.steer(address, port, how)
    }

    fn respond(
        &mut self,
        interface: u32,
        program: Option<BorrowedFd<'_>>,
        endpoints: &[Endpoint],
    ) -> std::io::Result<()> {
        if interface != self.interface.index {
            let name = &self.interface.name;
            return Err(std::io::Error::other(format!(
                "this engine works on {name}"
            )));
        }
        self.steering.respond(program, endpoints)
    }

    fn end_responding(&mut self) {
        self.steering.end_responding();
    }

    fn divert(&mut self, program: Option<BorrowedFd<'_>>) -> std::io::Result<()> {
        self.steering.divert(program)
    }

    fn unsteer(&mut self, address: IpAddr, port: u16) {
        if let Err(error) = self.steering.unsteer(address, port) {
            tracing::warn!(%address, port, %error, "the port stays steered");
        }
    }

    fn renew_steering(&mut self) -> std::io::Result<()> {
        self.steering.renew_steering()
    }

    fn connect_queue(&mut self, queue: u32, socket: BorrowedFd<'_>) -> std::io::Result<()> {
        self.steering.connect_queue(queue, socket)
    }

    fn waiting(&self) -> Duration {
        self.steering.waiting()
    }

    fn beat(&mut self) {
        self.steering.beat();
        self.settle();
    }

    fn lease_port(&mut self, now: Instant, wanted: Option<u16>) -> Result<u16, Errno> {
        let known = wanted.is_some_and(|port| self.ports.contains(port));
        let port = self.ports.lease(now, wanted)?;
        if !known && let Err(error) = self.steer_everywhere(port) {
            for &address in self.addresses.list() {
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
        let answers = match &self.asked {
            Asked::Aside(asking) => Some(asking.as_fd()),
            Asked::Here(_) => None,
        };
        let told = [
            self.link.as_fd(),
            self.queues.as_fd(),
            self.addresses.as_fd(),
            self.routes.as_fd(),
            self.neighbours.as_fd(),
        ];
        told.into_iter().chain(answers).collect()
    }
}
