//! What the kernel says of one of the interfaces, and what it is asked about it.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netdev::interface::Interface;
use wire::ethernet::MacAddr;

use crate::network::{Found, NetworkChange, NicId, OnLink};
use crate::slow::kernel::addresses::Addresses;
use crate::slow::kernel::asking::{
    Answer, Answers, AsOf, Asking, Full, OfKernel, Question, Unanswered,
};
use crate::slow::kernel::link::Link;
use crate::slow::kernel::neighbours::{Knowledge, NeighbourChanges};
use crate::slow::kernel::netlink::Notified;
use crate::slow::kernel::opener::Opener;
use crate::slow::kernel::queues::QueueCount;

/// One interface.
#[derive(Debug)]
pub(super) struct OfInterface {
    nic: NicId,
    interface: Interface,
    link: Link,
    /// What it was like at the beginning has been told.
    is_told: bool,
    queues: QueueCount,
    addresses: Addresses,
    neighbours: NeighbourChanges,
    /// What may wait for the kernel's locks is asked here.
    asked: Asked,
    /// Questions that found no room, of those that nobody asks again by himself: one of a kind.
    missed: Vec<Question>,
}

/// Who asks the kernel what it may take long to answer.
#[derive(Debug)]
enum Asked {
    /// Whoever has the question: he may wait.
    Here(Box<OfKernel>),
    /// A thread.
    Aside(Asking),
}

impl OfInterface {
    /// The one in this place.
    pub fn new(nic: NicId, interface: Interface, opener: Opener) -> rustix::io::Result<Self> {
        Ok(Self {
            nic,
            link: Link::of_interface(interface.index)?,
            is_told: false,
            queues: QueueCount::of_interface(&interface)?,
            addresses: Addresses::of_interface(interface.index)?,
            neighbours: NeighbourChanges::on_interface(interface.index)?,
            asked: Asked::Here(Box::new(OfKernel::of_interface(interface.clone(), opener)?)),
            missed: Vec::new(),
            interface,
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

    /// Its number in the kernel.
    pub fn index(&self) -> u32 {
        self.interface.index
    }

    /// Its name when it was looked up.
    pub fn name(&self) -> &str {
        &self.interface.name
    }

    /// Its own hardware address.
    pub fn mac(&self) -> MacAddr {
        MacAddr(self.interface.mac)
    }

    /// Its own addresses.
    pub fn addresses(&self) -> &[IpAddr] {
        self.addresses.list()
    }

    /// Asks; the answer, if it is known at once.
    fn ask(&mut self, question: Question) -> Result<Option<Answer>, Full> {
        match &mut self.asked {
            // What it does not answer is asked again as what there was no room for.
            Asked::Here(kernel) => kernel.answer(question).map_err(|Unanswered| Full),
            Asked::Aside(asking) => asking.ask(question).map(|()| None),
        }
    }

    /// Asks what is asked once, and again if there is no room. Whether the addresses have changed by an answer.
    fn ask_surely(&mut self, question: Question, each: &mut dyn FnMut(NetworkChange)) -> bool {
        match self.ask(question) {
            Ok(Some(answer)) => return self.answered(answer, each),
            Ok(None) => {}
            Err(Full) => {
                let kind = core::mem::discriminant(&question);
                self.missed.retain(|it| core::mem::discriminant(it) != kind);
                self.missed.push(question);
            }
        }
        false
    }

    /// What was asked before, and is answered now.
    fn take_answers(&mut self, each: &mut dyn FnMut(NetworkChange)) -> bool {
        let mut answers = Vec::new();
        if let Asked::Aside(asking) = &self.asked {
            asking.answers(|answer| answers.push(answer));
        }
        let mut addresses = false;
        for answer in answers {
            addresses |= self.answered(answer, each);
        }
        for question in core::mem::take(&mut self.missed) {
            addresses |= self.ask_surely(question, each);
        }
        addresses
    }

    /// What an answer changes; whether that is the addresses.
    fn answered(&mut self, answer: Answer, each: &mut dyn FnMut(NetworkChange)) -> bool {
        match answer {
            Answer::Neighbour(change, as_of) => {
                let (nic, address) = (self.nic, change.address);
                let neighbour = OnLink { nic, address };
                each(NetworkChange::Answer(neighbour, change.knowledge, as_of));
            }
            Answer::Queues(count) => {
                if self.queues.is_news(count) {
                    each(NetworkChange::Queues(self.nic, count));
                }
            }
            Answer::Link(question, state) => {
                if self.link.answered(question, state) {
                    self.link_changed(each);
                }
            }
            Answer::Addresses(question, list) => match self.addresses.answered(question, list) {
                Ok(changed) => return changed,
                Err(again) => return self.ask_surely(Question::Addresses(again), each),
            },
        }
        false
    }

    fn link_changed(&mut self, each: &mut dyn FnMut(NetworkChange)) {
        let state = self.link.state();
        if let Some(state) = state {
            self.interface.mac = state.mac.0;
        }
        each(NetworkChange::Link(self.nic, state));
        // The kernel says nothing of the IPv4 routes that go with a link.
        each(NetworkChange::Routes);
    }

    /// Asks what is known of a neighbour on its link.
    pub fn neighbour(&mut self, address: IpAddr, as_of: AsOf) -> Found {
        match &mut self.asked {
            Asked::Here(kernel) => Found::Known(kernel.neighbour(address)),
            Asked::Aside(asking) => match asking.ask(Question::Neighbour(address, as_of)) {
                Ok(()) => Found::Later,
                Err(Full) => Found::Missed,
            },
        }
    }

    /// The same, if that can be said without a question that waits.
    pub fn neighbour_at_once(&mut self, address: IpAddr) -> Option<Knowledge> {
        match &mut self.asked {
            Asked::Here(kernel) => Some(kernel.neighbour(address)),
            Asked::Aside(_) => None,
        }
    }

    /// Has one resolved or probed; false if there is no room for more questions now.
    pub fn probe(&mut self, address: IpAddr, as_of: AsOf) -> bool {
        self.ask(Question::Probe(address, as_of)).is_ok()
    }

    /// One was heard from.
    pub fn confirm(&mut self, address: IpAddr, mac: MacAddr) {
        let _ = self.ask(Question::Confirm(address, mac));
    }

    /// Reads what has changed since the last call, but for the addresses: whether those have.
    pub fn changes(&mut self, each: &mut dyn FnMut(NetworkChange)) -> bool {
        let mut addresses = false;
        if !core::mem::replace(&mut self.is_told, true) {
            // It may have no carrier.
            each(NetworkChange::Link(self.nic, self.link.state()));
        }
        match self.link.update() {
            Ok((changed, lost)) => {
                if changed {
                    self.link_changed(each);
                }
                if let Some(question) = lost {
                    addresses |= self.ask_surely(Question::Link(question), each);
                }
            }
            Err(error) => tracing::warn!(%error, "link notifications"),
        }
        if self.queues.update() {
            addresses |= self.ask_surely(Question::Queues, each);
        }
        match self.addresses.update() {
            Ok((changed, lost)) => {
                addresses |= changed;
                if let Some(question) = lost {
                    addresses |= self.ask_surely(Question::Addresses(question), each);
                }
            }
            Err(error) => tracing::warn!(%error, "address notifications"),
        }
        addresses |= self.take_answers(each);
        let nic = self.nic;
        let changes = self.neighbours.update(|change| {
            let address = change.address;
            let neighbour = OnLink { nic, address };
            each(NetworkChange::Neighbour(neighbour, change.knowledge));
        });
        match changes {
            Ok(Notified::Read) => {}
            Ok(Notified::Overrun) => each(NetworkChange::AllNeighbours),
            Err(error) => tracing::warn!(%error, "neighbour notifications"),
        }
        addresses
    }

    /// What to poll for changes.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let answers = match &self.asked {
            Asked::Aside(asking) => Some(asking.as_fd()),
            Asked::Here(_) => None,
        };
        let told = [
            self.link.as_fd(),
            self.queues.as_fd(),
            self.addresses.as_fd(),
            self.neighbours.as_fd(),
        ];
        told.into_iter().chain(answers)
    }
}
