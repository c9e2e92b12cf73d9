//! Listeners: which processes accept from each, and how many connections each of them is willing
//! to be handed.

use std::net::{IpAddr, SocketAddr};

use tcp::ListenerId;

use crate::connections::SessionId;
use crate::network::Steered;

/// Bits of a listener's number that say which slot it has; the others tell its tenants apart.
const SLOT_BITS: u32 = 16;

/// A process that accepts from a listener.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    /// Its session.
    pub session: SessionId,
    /// How many connections it has asked for since it joined, wrapping.
    pub credit: u32,
    /// How many it was handed since it joined, wrapping.
    pub handed: u32,
}

impl Member {
    /// How many more it is willing to be handed.
    pub fn willing(&self) -> u32 {
        let left = self.credit.wrapping_sub(self.handed);
        // What was given back can exceed what was asked for; that is no credit.
        if left > u32::MAX / 2 { 0 } else { left }
    }
}

/// A listener of the engine.
#[derive(Debug)]
pub struct Listener {
    /// Its name among hosts.
    pub number: u32,
    /// Its name in the stack.
    pub id: ListenerId,
    /// What it listens on; an unspecified address stands for all of the interface's own.
    pub local: SocketAddr,
    /// For the unspecified IPv6 address: without IPv4.
    pub v6_only: bool,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// The processes that accept from it.
    pub members: Vec<Member>,
    /// References through forks whose children have not adopted it yet.
    pub holds: u32,
    /// The member whose turn it is.
    turn: usize,
    /// The own addresses that are steered for it.
    pub steered: Vec<IpAddr>,
    /// How they are steered.
    pub how: Steered,
    /// The cookies of the kernel's sockets that were shown for it: while none of them listens, its
    /// port is nobody's here.
    pub proofs: Vec<u64>,
    /// Members have been told that connections wait.
    pub told_waiting: bool,
    /// No willing member has memory for what the connection that waits longest has received.
    pub lacks_memory: bool,
}

impl Listener {
    /// A listener without members.
    pub fn new(id: ListenerId, local: SocketAddr, v6_only: bool, backlog: u32) -> Self {
        Self {
            number: 0,
            id,
            local,
            v6_only,
            backlog,
            members: Vec::new(),
            holds: 0,
            turn: 0,
            steered: Vec::new(),
            how: Steered::Mixed,
            proofs: Vec::new(),
            told_waiting: false,
            lacks_memory: false,
        }
    }

    /// One more socket was shown for it.
    pub fn prove(&mut self, cookie: u64) {
        if !self.proofs.contains(&cookie) {
            self.proofs.push(cookie);
        }
    }

    /// Whether it listens on the own address `address`.
    pub fn covers(&self, address: IpAddr) -> bool {
        match self.local.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.is_ipv4(),
            IpAddr::V6(ip) if ip.is_unspecified() => address.is_ipv6() || !self.v6_only,
            ip => ip == address,
        }
    }

    /// The member of a session.
    pub fn member(&mut self, session: SessionId) -> Option<&mut Member> {
        self.members.iter_mut().find(|m| m.session == session)
    }

    /// A process accepts from it from now on.
    pub fn join(&mut self, session: SessionId) {
        if self.member(session).is_none() {
            self.members.push(Member {
                session,
                credit: 0,
                handed: 0,
            });
        }
    }

    /// A process no longer accepts from it.
    pub fn leave(&mut self, session: SessionId) {
        self.members.retain(|member| member.session != session);
    }

    /// Whether nobody will ever accept from it.
    pub fn is_abandoned(&self) -> bool {
        self.members.is_empty() && self.holds == 0
    }

    /// Whether some member is willing to be handed a connection.
    pub fn has_willing_member(&self) -> bool {
        self.members.iter().any(|member| member.willing() > 0)
    }

    /// The next member that is willing to be handed a connection, in turn.
    pub fn willing_member(&mut self) -> Option<&mut Member> {
        let count = self.members.len();
        let step =
            (0..count).find(|step| self.members[(self.turn + step) % count].willing() > 0)?;
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
}

impl Listeners {
    /// Gives a listener its number.
    pub fn insert(&mut self, mut listener: Listener) -> u32 {
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

    /// The listener of this number.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Listener> {
        let slot = number & ((1 << SLOT_BITS) - 1);
        let listener = self.slots.get_mut(slot as usize)?.as_mut()?;
        (listener.number == number).then_some(listener)
    }

    /// Takes a listener out.
    pub fn remove(&mut self, number: u32) -> Option<Listener> {
        self.get_mut(number)?;
        let slot = number & ((1 << SLOT_BITS) - 1);
        self.live -= 1;
        self.slots[slot as usize].take()
    }

    /// The number of the listener that the stack calls `id`.
    pub fn number_of(&mut self, id: ListenerId) -> Option<u32> {
        let number = *self.by_stack.get(id.index as usize)?;
        let listener = self.get_mut(number)?;
        (listener.id == id).then_some(number)
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
        Listener::new(id, local.parse().unwrap(), v6_only, 8)
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
    fn willing_members_take_turns() {
        let mut listener = listener("0.0.0.0:80", false);
        for session in [SessionId(1), SessionId(2), SessionId(3)] {
            listener.join(session);
        }
        assert!(listener.willing_member().is_none(), "nobody has asked");
        listener.member(SessionId(1)).expect("joined").credit = 2;
        listener.member(SessionId(3)).expect("joined").credit = 1;
        let mut order = Vec::new();
        while let Some(member) = listener.willing_member() {
            member.handed += 1;
            order.push(member.session.0);
        }
        assert_eq!(order, [1, 3, 1]);
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
