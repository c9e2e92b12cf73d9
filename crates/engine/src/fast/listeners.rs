//! Listeners: which processes accept from each, and how many connections each of them is willing
//! to be handed.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use queue_pair::bells;
use tcp::{ConnId, Instant, ListenerId};

use crate::exchange::WorkerId;
use crate::fast::connections::SessionId;
use crate::netfilter::Policy;
use crate::netfilter::policy::IsV6;
use crate::network::{Shared, Steered};
use crate::slow::control::Chosen;

/// Bits of a listener's number that say which slot it has; the others tell its tenants apart.
const SLOT_BITS: u32 = 16;
/// Offers of a listener that are remembered: more than its members can have been offered before they
/// accept is no use.
const OFFERS: usize = 4096;

/// Sockets that can be shown for a listener: as many as share a port (SO_REUSEPORT), and are replaced by as many.
const PROOFS: usize = 256;

/// The slot of the listener of this number.
fn slot_of(number: u32) -> usize {
    (number & ((1 << SLOT_BITS) - 1)) as usize
}

/// A listening socket of a process. A process that bound an address twice (SO_REUSEPORT) has two.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    /// Its name among hosts.
    pub number: u32,
    /// The process's session.
    pub session: SessionId,
    /// How many connections it has asked for since it joined, wrapping.
    pub credit: u32,
    /// How many it was handed since it joined, wrapping.
    pub handed: u32,
    /// It has found none and waits.
    pub waits: bool,
    /// By which of its doorbells it hears of what it is handed; `None`: by any.
    pub bell: Option<u8>,
}

impl Member {
    /// How many more it is willing to be handed.
    pub fn willing(&self) -> u32 {
        let left = self.credit.wrapping_sub(self.handed);
        // What was given back can exceed what was asked for; that is no credit.
        if left > u32::MAX / 2 { 0 } else { left }
    }
}

/// A connection that was offered to a member.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// The connection.
    pub conn: ConnId,
    /// The member's number.
    pub member: u32,
    /// When it was offered, or, where nobody else could have had it then, when it came.
    pub since: Instant,
}

/// Since when nobody accepts from a listener.
#[derive(Debug, Clone, Copy)]
pub struct Left {
    /// Since then.
    pub since: Instant,
    /// When it is looked again whether a copy of its socket is left.
    pub look: Instant,
}

/// A listener of the engine.
#[derive(Debug)]
pub struct Listener {
    /// Its own name.
    pub number: u32,
    /// Its name in the stack.
    pub id: ListenerId,
    /// The user whose it counts as: who was first.
    pub uid: u32,
    /// What it listens on; an unspecified address stands for all of the interface's own.
    pub local: SocketAddr,
    /// For the unspecified IPv6 address: without IPv4.
    pub v6_only: bool,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// What the program has set on the socket that was shown last.
    pub chosen: Chosen,
    /// The listening sockets that accept from it.
    pub members: Vec<Member>,
    /// Members that wait, in the order in which they said so.
    pub waiting: VecDeque<u32>,
    /// What was offered, the oldest first. Offers that were accepted are found out when they are
    /// looked at.
    offered: VecDeque<Offer>,
    /// When what was offered was last looked at and nobody slept who could have had it.
    pub looked: Option<Instant>,
    /// Processes may accept from it at other workers, too.
    pub elsewhere: bool,
    /// References through forks whose children have not adopted it yet.
    pub holds: u32,
    /// The member whose turn it is.
    turn: usize,
    /// The own addresses that are steered for it.
    pub steered: Vec<IpAddr>,
    /// How they are steered.
    pub how: Steered,
    /// The family whose new connections are the kernel's, if those of the other are not.
    pub family_left: Option<IsV6>,
    /// How new connections are divided with the kernel, if they are.
    pub shared: Option<Shared>,
    /// Since when it has been mixed, if it is, as the [network](crate::network::Network::now) says.
    pub mixed_at: u64,
    /// The question about its port that is not answered yet: answers to those before are not about it.
    pub asked: Option<u64>,
    /// When that was asked, by the same time.
    pub asked_at: u64,
    /// Until then it would be asked in vain, by the same time.
    pub ask_from: u64,
    /// The steering has refused to be told that its port is the engine's alone, and goes on to.
    told_of_refusal: bool,
    /// The cookies of the kernel's sockets that were shown for it and, as far as is known, listen: while
    /// none does, its port is nobody's here.
    pub proofs: Vec<u64>,
    /// The user whose they are.
    pub owner: u32,
    /// No willing member has memory for what the connection that waits longest has received.
    pub lacks_memory: bool,
    /// Nobody accepts from it since, and its clients wait for whoever comes to have the kernel's socket.
    pub left: Option<Left>,
}

impl Listener {
    /// A listener without members.
    pub fn new(id: ListenerId, uid: u32, local: SocketAddr, v6_only: bool, backlog: u32) -> Self {
        Self {
            number: 0,
            id,
            uid,
            local,
            v6_only,
            backlog,
            chosen: Chosen::default(),
            members: Vec::new(),
            waiting: VecDeque::new(),
            offered: VecDeque::new(),
            looked: None,
            elsewhere: false,
            holds: 0,
            turn: 0,
            steered: Vec::new(),
            how: Steered::Mixed,
            family_left: None,
            shared: None,
            mixed_at: 0,
            asked: None,
            asked_at: 0,
            ask_from: 0,
            told_of_refusal: false,
            proofs: Vec::new(),
            owner: uid,
            lacks_memory: false,
            left: None,
        }
    }

    /// It is mixed since this time.
    pub fn mix(&mut self, now: u64) {
        (self.mixed_at, self.ask_from) = (now, 0);
    }

    /// Whether it is time to ask about its port, which is mixed and not asked about.
    pub fn is_to_ask(&self, now: u64) -> bool {
        let is_mixed = self.how == Steered::Mixed && !self.steered.is_empty();
        is_mixed && self.asked.is_none() && self.ask_from <= now
    }

    /// Whether it is news that the steering refuses, or not, to be told that its port is the engine's alone: what goes
    /// on is said once, and not at each try.
    pub fn is_news(&mut self, refused: bool) -> bool {
        core::mem::replace(&mut self.told_of_refusal, refused) != refused
    }

    /// How it is steered while new connections may be the engine's and the kernel may have some.
    pub fn open(&self) -> Steered {
        self.shared.map_or(Steered::Mixed, Steered::Shared)
    }

    /// Whether new connections to this address are the kernel's, whatever becomes of others.
    pub fn leaves(&self, address: IpAddr) -> bool {
        self.family_left == Some(address.is_ipv6())
    }

    /// How this address is steered for it.
    pub fn how_on(&self, address: IpAddr) -> Steered {
        match self.leaves(address) {
            true => Steered::Closing,
            false => self.how,
        }
    }

    /// The own addresses that are steered for it, without those that are left to the kernel.
    pub fn own_to_take(&self) -> impl Iterator<Item = IpAddr> {
        let steered = self.steered.iter().copied();
        steered.filter(|address| !self.leaves(*address))
    }

    /// Whether a socket was shown for it already, or there is room for one more.
    pub fn may_prove(&self, cookie: u64) -> bool {
        self.proofs.len() < PROOFS || self.proofs.contains(&cookie)
    }

    /// One more socket was shown for it.
    pub fn prove(&mut self, cookie: u64) {
        if !self.proofs.contains(&cookie) {
            self.proofs.push(cookie);
        }
    }

    /// Whether new connections are the engine's, by these rules and as none of its sockets is confined.
    pub fn is_admitted(&self, rules: &Policy, confined: &BTreeSet<u64>) -> bool {
        rules.admits_listener(self.local) && !self.is_confined(confined)
    }

    /// Whether one of its sockets is bound to an interface by now: to whom that belongs what comes by another the
    /// kernel knows.
    pub fn is_confined(&self, confined: &BTreeSet<u64>) -> bool {
        self.proofs.iter().any(|cookie| confined.contains(cookie))
    }

    /// Whether it listens on the own address `address`.
    pub fn covers(&self, address: IpAddr) -> bool {
        match self.local.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.is_ipv4(),
            IpAddr::V6(ip) if ip.is_unspecified() => address.is_ipv6() || !self.v6_only,
            ip => ip == address,
        }
    }

    /// The member of this number.
    pub fn member_mut(&mut self, number: u32) -> Option<&mut Member> {
        self.members.iter_mut().find(|m| m.number == number)
    }

    /// Whether a session accepts from it.
    pub fn is_of(&self, session: SessionId) -> bool {
        self.members.iter().any(|m| m.session == session)
    }

    fn join(&mut self, number: u32, session: SessionId) {
        self.members.push(Member {
            number,
            session,
            credit: 0,
            handed: 0,
            waits: false,
            bell: None,
        });
    }

    /// A member says that it waits.
    pub fn wait(&mut self, number: u32) {
        if let Some(member) = self.member_mut(number)
            && !std::mem::replace(&mut member.waits, true)
        {
            self.waiting.push_back(number);
        }
    }

    /// The first of `looks` members that wait whose session is `fit`: it waits no longer. Nor do those
    /// whom nothing can be handed.
    pub fn next_waiting(
        &mut self,
        looks: usize,
        fit: impl Fn(SessionId) -> bool,
    ) -> Option<(u32, SessionId)> {
        let mut at = 0;
        while at < looks
            && let Some(&number) = self.waiting.get(at)
        {
            let mut found = None;
            if let Some(member) = self.member_mut(number) {
                if member.willing() > 0 && !fit(member.session) {
                    at += 1;
                    continue;
                }
                member.waits = false;
                found = (member.willing() > 0).then_some((number, member.session));
            }
            self.waiting.remove(at);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// A member is found to sleep: it is the next.
    pub fn wait_first(&mut self, number: u32) {
        if let Some(member) = self.member_mut(number) {
            if std::mem::replace(&mut member.waits, true) {
                self.waiting.retain(|waiting| *waiting != number);
            }
            self.waiting.push_front(number);
        }
    }

    /// Whether what a member was offered could be another's, here or at another worker.
    pub fn has_others(&self) -> bool {
        self.members.len() > 1 || self.elsewhere
    }

    /// Whether no socket that was shown for it listens any more: what nobody has accepted ends.
    pub fn has_ended(&self) -> bool {
        self.proofs.is_empty()
    }

    /// The oldest offer that may be taken back to be made to another.
    pub fn first_movable(&self) -> Option<&Offer> {
        let moves = self.has_others() && !self.has_ended();
        self.first_offer().filter(|_| moves)
    }

    /// Something was offered.
    pub fn offer(&mut self, offer: Offer) {
        if !self.has_others() {
            // There is nobody else who could have it; those before were accepted, or will be.
            return;
        }
        if self.offered.len() >= OFFERS {
            self.offered.pop_front();
        }
        self.offered.push_back(offer);
    }

    /// The oldest offer.
    pub fn first_offer(&self) -> Option<&Offer> {
        self.offered.front()
    }

    /// Takes all offers out, the oldest first, to be looked at.
    pub fn take_offers(&mut self) -> VecDeque<Offer> {
        std::mem::take(&mut self.offered)
    }

    /// Of what was taken out, these offers stand: they are older than all that were made meanwhile.
    pub fn keep_offers(&mut self, mut older: VecDeque<Offer>) {
        older.append(&mut self.offered);
        let excess = older.len().saturating_sub(OFFERS);
        older.drain(..excess);
        self.offered = older;
    }

    /// Whether nobody will ever accept from it.
    pub fn is_abandoned(&self) -> bool {
        self.members.is_empty() && self.holds == 0
    }

    /// The next member, in turn, that is willing to be handed a connection and whose session is
    /// `fit`; at most `looks` of them are asked.
    pub fn next_willing(
        &mut self,
        looks: usize,
        fit: impl Fn(SessionId) -> bool,
    ) -> Option<&mut Member> {
        let count = self.members.len();
        let step = (0..count).take(looks).find(|step| {
            let member = &self.members[(self.turn + step) % count];
            member.willing() > 0 && fit(member.session)
        });
        let Some(step) = step else {
            if looks < count {
                // The next search begins where this one ended.
                self.turn = (self.turn + looks) % count;
            }
            return None;
        };
        let index = (self.turn + step) % count;
        self.turn = (index + 1) % count;
        Some(&mut self.members[index])
    }
}

/// All listeners.
#[derive(Debug, Default)]
pub struct Listeners {
    slots: Vec<Option<Listener>>,
    /// The numbers by the slot that the stack gave.
    by_stack: Vec<u32>,
    generation: u32,
    live: usize,
    /// The engine has several workers, and this is one of them.
    among: Option<WorkerId>,
    /// The listeners by the numbers of their members.
    by_member: HashMap<u32, u32>,
    next_member: u32,
}

/// Bits of a member's number that tell it from the others of its worker; those above say which worker that
/// is, so that a name that a child has inherited is nobody else's where it comes to.
const MEMBER_BITS: u32 = 24;

impl Listeners {
    /// Those of one worker of several.
    pub fn of_worker(worker: WorkerId) -> Self {
        Self {
            among: Some(worker),
            ..Self::default()
        }
    }

    /// A name that no member has.
    fn new_name(&mut self) -> u32 {
        let worker = self.among.map_or(0, |worker| u32::from(worker.0)) << MEMBER_BITS;
        loop {
            let name = worker | self.next_member & ((1 << MEMBER_BITS) - 1);
            self.next_member = self.next_member.wrapping_add(1);
            if !self.by_member.contains_key(&name) {
                return name;
            }
        }
    }

    /// A process accepts from a listener from now on; the name that it knows it by.
    pub fn join(&mut self, number: u32, session: SessionId) -> Option<u32> {
        self.get_mut(number)?;
        let name = self.new_name();
        self.by_member.insert(name, number);
        self.get_mut(number)?.join(name, session);
        Some(name)
    }

    /// The names under which a session accepts.
    pub fn of_session(&self, session: SessionId) -> impl Iterator<Item = u32> {
        let members = self.iter().flat_map(|listener| &listener.members);
        let own = members.filter(move |member| member.session == session);
        own.map(|member| member.number)
    }

    /// The doorbells by which a member hears of what it is handed, one bit each.
    pub fn bells_of(&self, name: u32) -> u64 {
        let listener = self.of_member(name).and_then(|number| self.get(number));
        let member = listener.and_then(|it| it.members.iter().find(|it| it.number == name));
        let bell = member.and_then(|member| member.bell);
        bell.map_or(bells::ALL, |bell| 1 << bell)
    }

    /// The listener that a member accepts from.
    pub fn of_member(&self, name: u32) -> Option<u32> {
        self.by_member.get(&name).copied()
    }

    /// A process no longer accepts under this name; the listener.
    pub fn leave(&mut self, name: u32) -> Option<u32> {
        let number = self.by_member.remove(&name)?;
        let listener = self.get_mut(number)?;
        listener.members.retain(|member| member.number != name);
        listener.waiting.retain(|waiting| *waiting != name);
        Some(number)
    }

    /// Gives a listener its number.
    pub fn insert(&mut self, mut listener: Listener) -> u32 {
        listener.elsewhere = self.among.is_some();
        let slot = self.slots.iter().position(Option::is_none);
        let slot = slot.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.generation = self.generation.wrapping_add(1);
        // Limits keep the number of slots within SLOT_BITS.
        let number = slot as u32 | self.generation << SLOT_BITS;
        listener.number = number;
        let index = listener.id.index as usize;
        if self.by_stack.len() <= index {
            self.by_stack.resize(index + 1, u32::MAX);
        }
        self.by_stack[index] = number;
        self.slots[slot] = Some(listener);
        self.live += 1;
        number
    }

    /// The listener of this number, to be looked at.
    pub fn get(&self, number: u32) -> Option<&Listener> {
        let slot = slot_of(number);
        let listener = self.slots.get(slot)?.as_ref()?;
        (listener.number == number).then_some(listener)
    }

    /// The listener of this number.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Listener> {
        let slot = slot_of(number);
        let listener = self.slots.get_mut(slot)?.as_mut()?;
        (listener.number == number).then_some(listener)
    }

    /// Takes a listener out.
    pub fn remove(&mut self, number: u32) -> Option<Listener> {
        self.get_mut(number)?;
        let slot = slot_of(number);
        self.live -= 1;
        let listener = self.slots[slot].take()?;
        for member in &listener.members {
            self.by_member.remove(&member.number);
        }
        Some(listener)
    }

    /// The number of the listener that the stack calls `id`.
    pub fn number_of(&self, id: ListenerId) -> Option<u32> {
        self.of_stack(id).map(|listener| listener.number)
    }

    /// The listener that the stack calls `id`.
    pub fn of_stack(&self, id: ListenerId) -> Option<&Listener> {
        let number = *self.by_stack.get(id.index as usize)?;
        self.get(number).filter(|listener| listener.id == id)
    }

    /// The listener on exactly this address.
    pub fn on(&mut self, local: SocketAddr) -> Option<&mut Listener> {
        self.iter_mut().find(|listener| listener.local == local)
    }

    /// All listeners.
    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.slots.iter().flatten()
    }

    /// All listeners.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Listener> {
        self.slots.iter_mut().flatten()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(local: &str, v6_only: bool) -> Listener {
        let id = ListenerId {
            index: 0,
            generation: 0,
        };
        Listener::new(id, 0, local.parse().unwrap(), v6_only, 8)
    }

    #[test]
    fn a_wildcard_covers_the_addresses_of_its_families() {
        let (v4, v6) = ("10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap());
        let covers = |l: Listener| (l.covers(v4), l.covers(v6));
        assert_eq!(covers(listener("0.0.0.0:80", false)), (true, false));
        assert_eq!(covers(listener("[::]:80", false)), (true, true));
        assert_eq!(covers(listener("[::]:80", true)), (false, true));
        assert_eq!(covers(listener("10.0.0.1:80", false)), (true, false));
        assert_eq!(covers(listener("10.0.0.2:80", false)), (false, false));
    }

    #[test]
    fn a_refusal_that_lasts_is_said_once() {
        let mut listener = listener("0.0.0.0:80", false);
        let news = [false, true, true, true, false, false, true].map(|it| listener.is_news(it));
        assert_eq!(news, [false, true, false, false, true, false, true]);
    }

    #[test]
    fn willing_members_take_turns() {
        let mut listeners = Listeners::default();
        let number = listeners.insert(listener("0.0.0.0:80", false));
        let names = [1, 2, 3].map(|id| listeners.join(number, SessionId(id)).expect("there"));
        let listener = listeners.get_mut(number).expect("there");
        let next = |l: &mut Listener| {
            let member = l.next_willing(usize::MAX, |_| true)?;
            member.handed += 1;
            Some(member.session.0)
        };
        assert_eq!(next(listener), None, "nobody has asked");
        listener.member_mut(names[0]).expect("joined").credit = 2;
        listener.member_mut(names[2]).expect("joined").credit = 1;
        let order: Vec<u16> = std::iter::from_fn(|| next(listener)).collect();
        assert_eq!(order, [1, 3, 1]);
        for name in names {
            listener.member_mut(name).expect("joined").credit = 9;
        }
        // A search that is cut short goes on where it ended.
        let third = |session: SessionId| session == SessionId(3);
        assert!(listener.next_willing(1, third).is_none());
        let found = listener.next_willing(2, third).map(|m| m.session);
        assert_eq!(found, Some(SessionId(3)));
    }

    #[test]
    fn who_waits_is_next_in_the_order_of_asking() {
        let mut listeners = Listeners::default();
        let number = listeners.insert(listener("0.0.0.0:80", false));
        let names = [1, 2, 3, 4].map(|id| listeners.join(number, SessionId(id)).expect("there"));
        let listener = listeners.get_mut(number).expect("there");
        for name in [names[2], names[0], names[1], names[2]] {
            listener.wait(name);
        }
        for name in [names[0], names[2], names[3]] {
            listener.member_mut(name).expect("joined").credit = 1;
        }
        let next = |l: &mut Listener, looks, fit: fn(SessionId) -> bool| {
            l.next_waiting(looks, fit).map(|(_, session)| session.0)
        };
        // Who is passed over goes on waiting; the second has asked for nothing.
        assert_eq!(next(listener, 1, |session| session.0 == 1), None);
        assert_eq!(next(listener, 9, |session| session.0 != 3), Some(1));
        assert_eq!(next(listener, 9, |session| session.0 == 4), None);
        listener.wait_first(names[3]);
        listener.wait_first(names[3]);
        assert_eq!(next(listener, 9, |_| true), Some(4));
        assert_eq!(next(listener, 9, |_| true), Some(3));
        assert_eq!(next(listener, 9, |_| true), None, "each once");
        // Nothing is left of one that goes.
        listener.wait(names[0]);
        listeners.leave(names[0]);
        let listener = listeners.get_mut(number).expect("there");
        assert!(listener.waiting.is_empty());
    }

    #[test]
    fn two_sockets_of_a_process_are_two_members() {
        let mut listeners = Listeners::default();
        let number = listeners.insert(listener("0.0.0.0:80", false));
        let first = listeners.join(number, SessionId(1)).expect("there");
        let second = listeners.join(number, SessionId(1)).expect("there");
        assert_ne!(first, second);
        assert_eq!(listeners.of_member(second), Some(number));
        assert_eq!(listeners.leave(first), Some(number));
        assert_eq!(listeners.leave(first), None, "once");
        let listener = listeners.get_mut(number).expect("there");
        assert!(!listener.is_abandoned() && listener.is_of(SessionId(1)));
        assert!(listeners.remove(number).is_some());
        assert_eq!(listeners.of_member(second), None);
    }

    #[test]
    fn a_number_is_not_reused() {
        let mut listeners = Listeners::default();
        let first = listeners.insert(listener("0.0.0.0:80", false));
        assert!(listeners.remove(first).is_some());
        let second = listeners.insert(listener("0.0.0.0:80", false));
        assert_ne!(first, second);
        assert!(listeners.get_mut(first).is_none());
        assert!(listeners.remove(first).is_none());
        assert_eq!(listeners.len(), 1);
        let id = listeners.get_mut(second).expect("there").id;
        assert_eq!(listeners.number_of(id), Some(second));
        let other = ListenerId {
            generation: 1,
            ..id
        };
        assert_eq!(listeners.number_of(other), None);
    }
}
