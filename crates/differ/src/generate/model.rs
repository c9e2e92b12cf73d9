//! What the program being drawn holds, as far as it must be known to draw sensible calls.

use crate::program::{
    ACTORS, Actor, CONNECTIONS, Call, Connection, Event, Family, PORTS, Peer, Slot, Step, Wait,
};
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A socket that is neither connected nor listening.
    Fresh(Family),
    /// Listening at a port.
    Listener(u8),
    /// A connection with the peer.
    Stream(Connection),
    /// An epoll set.
    Set,
    /// The end of a pipe: to read from, or to write to.
    Pipe(bool),
    /// One of a pair of UNIX sockets.
    Pair,
    /// A file.
    File,
}

/// An actor's state, as far as is known.
#[derive(Clone, Debug)]
pub struct Player {
    pub process: usize,
    pub alive: bool,
    /// It waits, for any of these connections or ports.
    pub waits: Option<(Vec<Connection>, Vec<u8>)>,
}

/// A connection's.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub unread: u32,
    /// The peer has ended it.
    pub ended: bool,
}

/// An object behind descriptors.
#[derive(Clone, Debug)]
pub struct Object {
    pub thing: Thing,
    pub nonblocking: bool,
    /// Of a set: what it watches.
    pub members: Vec<Slot>,
}

pub struct Model {
    random: ChaCha8Rng,
    pub steps: Vec<Step>,
    pub players: Vec<Player>,
    /// By process: whether it is stopped, and its descriptors.
    pub stopped: Vec<bool>,
    pub held: Vec<BTreeMap<Slot, usize>>,
    pub objects: Vec<Object>,
    pub lines: Vec<Line>,
    /// By port: whether somebody listens, over which IP, and who waits to be accepted.
    pub ports: Vec<(bool, Family, Vec<Connection>)>,
    /// The engine stands still.
    pub halted: bool,
    slots: Slot,
}

impl Model {
    pub fn new(random: ChaCha8Rng) -> Self {
        Self {
            random,
            steps: Vec::new(),
            players: vec![Player {
                process: 0,
                alive: true,
                waits: None,
            }],
            stopped: vec![false],
            held: vec![BTreeMap::new()],
            objects: Vec::new(),
            lines: Vec::new(),
            ports: Vec::new(),
            halted: false,
            slots: 0,
        }
    }

    pub fn chance(&mut self, percent: u32) -> bool {
        self.random.random_ratio(percent, 100)
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end.max(1))
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        from.choose(&mut self.random).cloned()
    }

    /// One of a list that is never empty.
    pub fn any<T: Clone>(&mut self, from: &[T]) -> T {
        let index = self.below(from.len());
        from[index].clone()
    }

    pub fn length(&mut self) -> u32 {
        self.any(&[1, 2, 10, 100, 100, 1000, 1448, 5000, 20_000])
    }

    pub fn push(&mut self, actor: Actor, call: Call) {
        self.steps.push(Step::Do(actor, call));
    }

    /// An actor that can make a call now.
    pub fn idle(&mut self) -> Option<Actor> {
        let idle: Vec<Actor> = (0..self.players.len() as Actor)
            .filter(|&actor| self.is_idle(actor))
            .collect();
        self.pick(&idle)
    }

    pub fn is_idle(&self, actor: Actor) -> bool {
        let player = &self.players[usize::from(actor)];
        player.alive && player.waits.is_none() && !self.stopped[player.process]
    }

    /// Whether another may be let wait: somebody has to go on.
    pub fn may_wait(&self) -> bool {
        let all = 0..self.players.len() as Actor;
        let idle = all.filter(|&actor| self.is_idle(actor)).count();
        // The last one may wait as well: the peer goes on.
        idle > 1 || self.lines.len() + self.ports.len() > 0
    }

    pub fn new_actor(&self) -> Option<Actor> {
        (self.players.len() < ACTORS).then_some(self.players.len() as Actor)
    }

    pub fn new_slot(&mut self) -> Slot {
        self.slots = self.slots.saturating_add(1);
        self.slots
    }

    pub fn new_connection(&mut self) -> Option<Connection> {
        if self.lines.len() >= CONNECTIONS {
            return None;
        }
        self.lines.push(Line::default());
        Some((self.lines.len() - 1) as Connection)
    }

    pub fn new_port(&mut self, family: Family) -> Option<u8> {
        if self.ports.len() >= PORTS {
            return None;
        }
        self.ports.push((true, family, Vec::new()));
        Some((self.ports.len() - 1) as u8)
    }

    pub fn process_of(&self, actor: Actor) -> usize {
        self.players[usize::from(actor)].process
    }

    /// Gives an actor's process a descriptor.
    pub fn hold(&mut self, actor: Actor, thing: Thing, nonblocking: bool) -> Slot {
        let slot = self.new_slot();
        self.objects.push(Object {
            thing,
            nonblocking,
            members: Vec::new(),
        });
        let object = self.objects.len() - 1;
        let process = self.process_of(actor);
        self.held[process].insert(slot, object);
        slot
    }

    pub fn object(&self, actor: Actor, slot: Slot) -> Option<usize> {
        self.held[self.process_of(actor)].get(&slot).copied()
    }

    pub fn thing(&self, actor: Actor, slot: Slot) -> Option<Thing> {
        Some(self.objects[self.object(actor, slot)?].thing)
    }

    /// The descriptors of an actor that are as wanted.
    pub fn slots(&self, actor: Actor, wanted: impl Fn(Thing) -> bool) -> Vec<Slot> {
        self.held[self.process_of(actor)]
            .iter()
            .filter(|(_, object)| wanted(self.objects[**object].thing))
            .map(|(slot, _)| *slot)
            .collect()
    }

    pub fn pick_slot(&mut self, actor: Actor, wanted: impl Fn(Thing) -> bool) -> Option<Slot> {
        let slots = self.slots(actor, wanted);
        self.pick(&slots)
    }

    pub fn stream(&mut self, actor: Actor) -> Option<Slot> {
        self.pick_slot(actor, |thing| matches!(thing, Thing::Stream(_)))
    }

    pub fn socket(&mut self, actor: Actor) -> Option<Slot> {
        self.pick_slot(actor, |thing| {
            matches!(
                thing,
                Thing::Stream(_) | Thing::Listener(_) | Thing::Fresh(_)
            )
        })
    }

    pub fn set(&mut self, actor: Actor) -> Option<Slot> {
        self.pick_slot(actor, |thing| thing == Thing::Set)
    }

    /// Whether something is to be had from a descriptor at once.
    pub fn is_ready(&self, actor: Actor, slot: Slot) -> bool {
        let Some(object) = self.object(actor, slot) else {
            return true;
        };
        let object = &self.objects[object];
        match object.thing {
            Thing::Stream(connection) => {
                let line = &self.lines[usize::from(connection)];
                line.unread > 0 || line.ended
            }
            Thing::Listener(port) => !self.ports[usize::from(port)].2.is_empty(),
            Thing::Set => object
                .members
                .iter()
                .any(|member| self.is_ready(actor, *member)),
            _ => true,
        }
    }

    /// The actor waits for any of these, unless one is there.
    pub fn wait_for(&mut self, actor: Actor, slots: &[Slot]) {
        if slots.iter().any(|slot| self.is_ready(actor, *slot)) {
            return;
        }
        let mut waits = (Vec::new(), Vec::new());
        let mut open = slots.to_vec();
        while let Some(slot) = open.pop() {
            let Some(object) = self.object(actor, slot) else {
                continue;
            };
            match self.objects[object].thing {
                Thing::Stream(connection) => waits.0.push(connection),
                Thing::Listener(port) => waits.1.push(port),
                Thing::Set => {
                    let members = self.objects[object].members.clone();
                    open.extend(members.into_iter().filter(|member| *member != slot));
                }
                _ => {}
            }
        }
        self.players[usize::from(actor)].waits = Some(waits);
    }

    /// The peer's step, and whom it wakes.
    pub fn peer(&mut self, act: Peer) {
        let (connection, port) = match &act {
            Peer::Connect {
                connection, port, ..
            } => {
                let queue = &mut self.ports[usize::from(*port)].2;
                queue.push(*connection);
                (None, Some(*port))
            }
            Peer::Send(connection, length) => {
                let anyone = self.players.iter().any(|player| player.waits.is_some());
                let length = if anyone { (*length).min(1000) } else { *length };
                self.lines[usize::from(*connection)].unread += length;
                (Some(*connection), None)
            }
            Peer::Shutdown(connection) | Peer::Close(connection) | Peer::Reset(connection) => {
                self.lines[usize::from(*connection)].ended = true;
                (Some(*connection), None)
            }
        };
        self.steps.push(Step::Peer(act));
        for player in &mut self.players {
            if let Some((connections, ports)) = &player.waits
                && (connection.is_some_and(|one| connections.contains(&one))
                    || port.is_some_and(|one| ports.contains(&one)))
            {
                player.waits = None;
            }
        }
    }

    pub fn wait(&mut self) -> Wait {
        if self.may_wait() && self.chance(60) {
            Wait::Forever
        } else if self.chance(5) {
            Wait::Milliseconds(20)
        } else {
            Wait::No
        }
    }

    pub fn interest(&mut self) -> Vec<Event> {
        match self.below(8) {
            0 => vec![Event::In, Event::Out],
            1 => vec![Event::Out],
            2 => vec![Event::In, Event::RdHup],
            3 => vec![],
            _ => vec![Event::In],
        }
    }
}
