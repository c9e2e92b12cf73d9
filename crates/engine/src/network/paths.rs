//! Paths: for each source and destination its next hop, for each next hop its hardware address. Connections
//! keep the number of their path, so that a packet costs two array accesses; what has changed is
//! asked for again when it is next needed.
//!
//! A question to the kernel takes microseconds, and one about a neighbour may wait for whoever changes
//! the network at the time. So a turn has so many: a path whose answer may be old goes on by it until
//! its turn has come, and one that has none waits.
//!
//! There may be as many as connections. So whatever is looked for is found without looking at all of them,
//! and the tables grow a step at a time.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr};

use tables::{Chunks, Hash, Index, Line};
use wire::ethernet::MacAddr;

use super::Network;
use crate::slow::kernel::neighbours::Knowledge;

/// Names a path; valid while it is [used](Paths::acquire).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathId(u32);

/// Whether frames can be sent along a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// To this hardware address.
    At(MacAddr),
    /// Its next hop, a neighbour of this number, is being resolved.
    Resolving(u32),
    /// It leads to this machine: no frame goes out.
    Here,
    /// There is no route, or nobody answers for the next hop.
    Unreachable,
    /// It is not known in this turn: there were too many to ask for.
    Later,
}

/// Why there is no path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPath {
    /// The table is full of paths in use.
    Full,
    /// Too many were asked for in this turn.
    Later,
}

/// Questions to the kernel in a turn.
const QUESTIONS: u32 = 16;
/// What the kernel is told or asked of neighbours in use at a tick.
const OF_NEIGHBOURS: u32 = 64;
/// Neighbours in use that are looked at in a tick.
const LOOKS: u32 = 4096;
/// Any address: what stands where there is none.
const VACANT: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// From where to where: what is sent from another address may have another route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Ends {
    source: IpAddr,
    destination: IpAddr,
}

#[derive(Debug)]
struct Path {
    ends: Ends,
    /// Number of the next hop's neighbour; none if there is no route.
    neighbour: Option<u32>,
    /// Bytes of the largest packet, if the route states it.
    mtu: Option<u16>,
    /// The destination is of this machine.
    here: bool,
    /// The routes that it was found with.
    epoch: u32,
    users: u32,
}

impl Path {
    fn new(ends: Ends, epoch: u32) -> Self {
        Self {
            ends,
            neighbour: None,
            mtu: None,
            here: false,
            epoch,
            users: 0,
        }
    }
}

#[derive(Debug)]
struct Neighbour {
    address: IpAddr,
    /// Paths that go through it.
    paths: u32,
    knowledge: Knowledge,
    /// The kernel has been told to resolve it.
    asked: bool,
    /// Frames were sent to it since the last tick.
    used: bool,
    /// Acknowledgements came through it since the last tick.
    progress: bool,
    /// As of which loss of notifications its knowledge is.
    epoch: u32,
}

impl Neighbour {
    fn new(address: IpAddr, knowledge: Knowledge, epoch: u32) -> Self {
        Self {
            address,
            paths: 0,
            knowledge,
            asked: false,
            used: false,
            progress: false,
            epoch,
        }
    }
}

/// The paths in use, and the last ones that were.
#[derive(Debug)]
pub struct Paths {
    hasher: RandomState,
    /// The first `count` of them are paths.
    paths: Chunks<Path>,
    count: u32,
    by_ends: Index<Ends>,
    /// Paths that nobody uses, in the order in which they became so.
    unused: Line,
    /// The first `neighbour_count` of them are neighbours.
    neighbours: Chunks<Neighbour>,
    neighbour_count: u32,
    by_address: Index<IpAddr>,
    /// Neighbours that no path goes through.
    idle: Line,
    /// Neighbours to which frames were sent since a tick looked at them.
    busy: Line,
    limit: u32,
    epoch: u32,
    /// Changes with each loss of notifications of neighbours.
    neighbour_epoch: u32,
    /// Questions that are left in this turn.
    questions: u32,
}

impl Paths {
    /// At most `limit` destinations are remembered, those in use included: a limit of as many as
    /// can be in use, and some, never refuses one.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            hasher: RandomState::new(),
            paths: Chunks::new(),
            count: 0,
            by_ends: Index::with_capacity(
                0,
                Ends {
                    source: VACANT,
                    destination: VACANT,
                },
            ),
            unused: Line::new(),
            neighbours: Chunks::new(),
            neighbour_count: 0,
            by_address: Index::with_capacity(0, VACANT),
            idle: Line::new(),
            busy: Line::new(),
            limit: u32::try_from(limit.max(1)).unwrap_or(u32::MAX / 2),
            epoch: 0,
            neighbour_epoch: 0,
            questions: QUESTIONS,
        }
    }

    /// A turn begins: so many questions may be asked in it.
    pub fn begin_turn(&mut self) {
        self.questions = QUESTIONS;
    }

    /// Whether one question more may be asked in this turn, which it then is.
    fn may_ask(&mut self) -> bool {
        let may = self.questions > 0;
        self.questions -= u32::from(may);
        may
    }

    fn hash(&self, key: impl std::hash::Hash) -> Hash {
        Hash::new(self.hasher.hash_one(key))
    }

    /// How many destinations are remembered.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether no destination is remembered.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The path from `source` to `destination`.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find(
        &mut self,
        network: &mut impl Network,
        source: IpAddr,
        destination: IpAddr,
    ) -> Result<PathId, NoPath> {
        let ends = Ends {
            source,
            destination,
        };
        let hash = self.hash(ends);
        if let Some(index) = self.by_ends.get(&ends, hash) {
            return Ok(PathId(index));
        }
        if self.questions == 0 {
            return Err(NoPath::Later);
        }
        let index = self.room().ok_or(NoPath::Full)?;
        self.questions -= 1;
        self.paths[index] = Path::new(ends, self.epoch);
        self.unused.join(index);
        self.by_ends.insert(ends, hash, index);
        self.route(network, index);
        Ok(PathId(index))
    }

    /// A place for another path: a new one, or that of the path that has been unused for longest.
    fn room(&mut self) -> Option<u32> {
        if self.count < self.limit {
            let index = self.count;
            let vacant = Ends {
                source: VACANT,
                destination: VACANT,
            };
            self.paths.reach(index, |_| Path::new(vacant, 0));
            self.count += 1;
            return Some(index);
        }
        let index = self.unused.first()?;
        let ends = self.paths[index].ends;
        self.by_ends.remove(&ends, self.hash(ends));
        self.leave_neighbour(index);
        self.unused.leave(index);
        Some(index)
    }

    fn route(&mut self, network: &mut impl Network, index: u32) {
        let Ends {
            source,
            destination,
        } = self.paths[index].ends;
        self.leave_neighbour(index);
        self.paths[index].here = network.is_here(destination);
        if !self.paths[index].here
            && let Ok(hop) = network.next_hop(source, destination)
        {
            let neighbour = self.neighbour_at(network, hop.address);
            self.paths[index].mtu = hop.mtu;
            self.neighbours[neighbour].paths += 1;
            self.idle.leave(neighbour);
            self.paths[index].neighbour = Some(neighbour);
        }
        self.paths[index].epoch = self.epoch;
    }

    fn leave_neighbour(&mut self, index: u32) {
        if let Some(number) = self.paths[index].neighbour.take() {
            let paths = &mut self.neighbours[number].paths;
            *paths = paths.saturating_sub(1);
            if *paths == 0 {
                self.idle.join(number);
            }
        }
    }

    fn neighbour_at(&mut self, network: &mut impl Network, address: IpAddr) -> u32 {
        let hash = self.hash(address);
        if let Some(index) = self.by_address.get(&address, hash) {
            return index;
        }
        let knowledge = network.neighbour(address);
        // Each path goes through one, so that among more of them than paths one is unused.
        let index = match self.idle.first() {
            Some(idle) if self.neighbour_count > self.limit => {
                let old = self.neighbours[idle].address;
                self.by_address.remove(&old, self.hash(old));
                self.idle.leave(idle);
                self.busy.leave(idle);
                idle
            }
            _ => {
                let new = self.neighbour_count;
                let vacant = |_| Neighbour::new(VACANT, Knowledge::Unresolved, 0);
                self.neighbours.reach(new, vacant);
                self.neighbour_count += 1;
                new
            }
        };
        self.neighbours[index] = Neighbour::new(address, knowledge, self.neighbour_epoch);
        self.by_address.insert(address, hash, index);
        index
    }

    /// A connection uses this path from now on: it stays.
    pub fn acquire(&mut self, path: PathId) {
        self.paths[path.0].users += 1;
        self.unused.leave(path.0);
    }

    /// A connection no longer uses this path.
    pub fn release(&mut self, path: PathId) {
        let users = &mut self.paths[path.0].users;
        debug_assert!(*users > 0, "released more often than acquired");
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.unused.join(path.0);
        }
    }

    /// Where frames along `path` go. Asks the kernel to resolve the next hop where that is needed.
    #[inline]
    pub fn reach(&mut self, network: &mut impl Network, path: PathId) -> Reach {
        let index = path.0;
        if self.paths[index].epoch != self.epoch {
            if self.may_ask() {
                self.route(network, index);
            } else if self.paths[index].neighbour.is_none() && !self.paths[index].here {
                return Reach::Later;
            }
        }
        let Some(number) = self.paths[index].neighbour else {
            return if self.paths[index].here {
                Reach::Here
            } else {
                Reach::Unreachable
            };
        };
        if self.neighbours[number].epoch != self.neighbour_epoch && self.may_ask() {
            let neighbour = &mut self.neighbours[number];
            neighbour.knowledge = network.neighbour(neighbour.address);
            neighbour.asked = false;
            neighbour.epoch = self.neighbour_epoch;
        }
        let neighbour = &mut self.neighbours[number];
        if !neighbour.used {
            neighbour.used = true;
            self.busy.join(number);
        }
        match neighbour.knowledge {
            Knowledge::Resolved { mac, .. } => Reach::At(mac),
            Knowledge::Unresolved => {
                if !neighbour.asked {
                    neighbour.asked = true;
                    network.probe(neighbour.address);
                }
                Reach::Resolving(number)
            }
            Knowledge::Failed => Reach::Unreachable,
        }
    }

    /// Bytes of the largest packet on a path, as it was last looked up, if its route states it.
    pub fn mtu(&self, path: PathId) -> Option<u16> {
        self.paths[path.0].mtu
    }

    /// Whether a path, as it was last [looked up](Self::reach), leads to this machine.
    pub fn is_here(&self, path: PathId) -> bool {
        self.paths[path.0].here
    }

    /// Whether a path's next hop is the neighbour of this number.
    pub fn goes_through(&self, path: PathId, neighbour: u32) -> bool {
        self.paths[path.0].neighbour == Some(neighbour)
    }

    /// Acknowledgements arrive through this path: its next hop is there.
    #[inline]
    pub fn progress(&mut self, path: PathId) {
        if let Some(number) = self.paths[path.0].neighbour {
            self.neighbours[number].progress = true;
        }
    }

    /// Routes have changed: every path is looked up again before it is next used.
    pub fn routes_changed(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// A neighbour has changed; its number, if it is one of ours.
    pub fn neighbour_changed(&mut self, address: IpAddr, knowledge: Knowledge) -> Option<u32> {
        let hash = self.hash(address);
        let number = self.by_address.get(&address, hash)?;
        let neighbour = &mut self.neighbours[number];
        neighbour.knowledge = knowledge;
        neighbour.asked &= knowledge == Knowledge::Unresolved;
        Some(number)
    }

    /// Some neighbours have changed, and it is not known which: each is asked for again before it is next
    /// used.
    pub fn neighbours_changed(&mut self) {
        self.neighbour_epoch = self.neighbour_epoch.wrapping_add(1);
    }

    /// To be called about once a second: confirms the stale neighbours through which
    /// acknowledgements came, and has the others in use probed.
    pub fn tick(&mut self, network: &mut impl Network) {
        let mut left = OF_NEIGHBOURS;
        for _ in 0..LOOKS {
            let Some(number) = self.busy.first() else {
                break;
            };
            let neighbour = &mut self.neighbours[number];
            match neighbour.knowledge {
                Knowledge::Resolved { stale: false, .. } => {}
                Knowledge::Unresolved => neighbour.asked = false,
                // It is the first at the next tick.
                _ if left == 0 => break,
                Knowledge::Resolved { mac, .. } if neighbour.progress => {
                    left -= 1;
                    network.confirm(neighbour.address, mac);
                }
                Knowledge::Resolved { .. } | Knowledge::Failed => {
                    left -= 1;
                    network.probe(neighbour.address);
                }
            }
            neighbour.used = false;
            neighbour.progress = false;
            self.busy.leave(number);
        }
    }

    /// Whether a [`tick`](Self::tick) has something to do.
    pub fn needs_tick(&self) -> bool {
        !self.busy.is_empty()
    }
}

#[cfg(test)]
mod tests;
