//! Paths: for each source and destination its next hop, for each next hop its hardware address. Connections
//! keep the number of their path, so that a packet costs two array accesses; what has changed is
//! asked for again when it is next needed.
//!
//! A question to the kernel takes microseconds, and one about a neighbour may wait for whoever changes
//! the network at the time. So a turn has so many: a path whose answer may be old goes on by it until
//! its turn has come, and one that has none waits.

use std::collections::HashMap;
use std::net::IpAddr;

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

/// The paths in use, and the last ones that were.
#[derive(Debug)]
pub struct Paths {
    paths: Vec<Path>,
    by_ends: HashMap<Ends, u32>,
    neighbours: Vec<Neighbour>,
    by_address: HashMap<IpAddr, u32>,
    limit: usize,
    /// Where the search for an unused path goes on.
    hand: usize,
    /// The same for an unused neighbour.
    neighbour_hand: usize,
    /// The same for what is told of neighbours.
    tick_hand: usize,
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
            paths: Vec::new(),
            by_ends: HashMap::new(),
            neighbours: Vec::new(),
            by_address: HashMap::new(),
            limit: limit.max(1),
            hand: 0,
            neighbour_hand: 0,
            tick_hand: 0,
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

    /// How many destinations are remembered.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether no destination is remembered.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
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
        if let Some(&index) = self.by_ends.get(&ends) {
            return Ok(PathId(index));
        }
        if self.questions == 0 {
            return Err(NoPath::Later);
        }
        let index = self.room().ok_or(NoPath::Full)?;
        self.questions -= 1;
        let path = Path {
            ends,
            neighbour: None,
            mtu: None,
            here: false,
            epoch: self.epoch,
            users: 0,
        };
        if index == self.paths.len() {
            self.paths.push(path);
        } else {
            self.by_ends.remove(&self.paths[index].ends);
            self.leave_neighbour(index);
            self.paths[index] = path;
        }
        self.by_ends.insert(ends, index as u32);
        self.route(network, index);
        Ok(PathId(index as u32))
    }

    fn room(&mut self) -> Option<usize> {
        if self.paths.len() < self.limit {
            return Some(self.paths.len());
        }
        for _ in 0..self.paths.len() {
            self.hand = (self.hand + 1) % self.paths.len();
            if self.paths[self.hand].users == 0 {
                return Some(self.hand);
            }
        }
        None
    }

    fn route(&mut self, network: &mut impl Network, index: usize) {
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
            self.neighbours[neighbour as usize].paths += 1;
            self.paths[index].neighbour = Some(neighbour);
        }
        self.paths[index].epoch = self.epoch;
    }

    fn leave_neighbour(&mut self, index: usize) {
        if let Some(neighbour) = self.paths[index].neighbour.take() {
            let paths = &mut self.neighbours[neighbour as usize].paths;
            *paths = paths.saturating_sub(1);
        }
    }

    fn neighbour_at(&mut self, network: &mut impl Network, address: IpAddr) -> u32 {
        if let Some(&index) = self.by_address.get(&address) {
            return index;
        }
        let neighbour = Neighbour {
            address,
            paths: 0,
            knowledge: network.neighbour(address),
            asked: false,
            used: false,
            progress: false,
            epoch: self.neighbour_epoch,
        };
        // Each path goes through one, so that among more of them than paths one is unused.
        let index = if self.neighbours.len() <= self.limit {
            self.neighbours.push(neighbour);
            self.neighbours.len() as u32 - 1
        } else {
            let count = self.neighbours.len();
            let from = self.neighbour_hand;
            let unused = (from..from + count)
                .map(|at| at % count)
                .find(|at| self.neighbours[*at].paths == 0);
            let index = unused.unwrap_or(0);
            self.neighbour_hand = (index + 1) % count;
            let index = index as u32;
            let old = &mut self.neighbours[index as usize];
            self.by_address.remove(&old.address);
            *old = neighbour;
            index
        };
        self.by_address.insert(address, index);
        index
    }

    /// A connection uses this path from now on: it stays.
    pub fn acquire(&mut self, path: PathId) {
        self.paths[path.0 as usize].users += 1;
    }

    /// A connection no longer uses this path.
    pub fn release(&mut self, path: PathId) {
        let users = &mut self.paths[path.0 as usize].users;
        debug_assert!(*users > 0, "released more often than acquired");
        *users = users.saturating_sub(1);
    }

    /// Where frames along `path` go. Asks the kernel to resolve the next hop where that is needed.
    #[inline]
    pub fn reach(&mut self, network: &mut impl Network, path: PathId) -> Reach {
        let index = path.0 as usize;
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
        if self.neighbours[number as usize].epoch != self.neighbour_epoch && self.may_ask() {
            let neighbour = &mut self.neighbours[number as usize];
            neighbour.knowledge = network.neighbour(neighbour.address);
            neighbour.asked = false;
            neighbour.epoch = self.neighbour_epoch;
        }
        let neighbour = &mut self.neighbours[number as usize];
        neighbour.used = true;
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
        self.paths[path.0 as usize].mtu
    }

    /// Whether a path, as it was last [looked up](Self::reach), leads to this machine.
    pub fn is_here(&self, path: PathId) -> bool {
        self.paths[path.0 as usize].here
    }

    /// Whether a path's next hop is the neighbour of this number.
    pub fn goes_through(&self, path: PathId, neighbour: u32) -> bool {
        self.paths[path.0 as usize].neighbour == Some(neighbour)
    }

    /// Acknowledgements arrive through this path: its next hop is there.
    #[inline]
    pub fn progress(&mut self, path: PathId) {
        if let Some(number) = self.paths[path.0 as usize].neighbour {
            self.neighbours[number as usize].progress = true;
        }
    }

    /// Routes have changed: every path is looked up again before it is next used.
    pub fn routes_changed(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// A neighbour has changed; its number, if it is one of ours.
    pub fn neighbour_changed(&mut self, address: IpAddr, knowledge: Knowledge) -> Option<u32> {
        let &number = self.by_address.get(&address)?;
        let neighbour = &mut self.neighbours[number as usize];
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
        let count = self.neighbours.len();
        let mut left = OF_NEIGHBOURS;
        for at in (self.tick_hand..count).chain(0..self.tick_hand) {
            let neighbour = &mut self.neighbours[at];
            if !neighbour.used {
                continue;
            }
            match neighbour.knowledge {
                Knowledge::Resolved { stale: false, .. } => {}
                Knowledge::Unresolved => neighbour.asked = false,
                _ if left == 0 => {
                    // It is the first at the next tick.
                    self.tick_hand = at;
                    break;
                }
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
        }
    }

    /// Whether a [`tick`](Self::tick) has something to do.
    pub fn needs_tick(&self) -> bool {
        self.neighbours.iter().any(|n| n.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::FixedNetwork;

    fn network() -> FixedNetwork {
        FixedNetwork {
            mac: MacAddr([2; 6]),
            addresses: vec!["10.0.0.1".parse().unwrap()],
            peer: MacAddr([4; 6]),
            steered: Vec::new(),
            ports: Vec::new(),
        }
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn a_path_in_use_is_not_evicted() {
        let mut network = network();
        let mut paths = Paths::with_limit(2);
        let kept = paths
            .find(&mut network, address(1), address(2))
            .expect("room");
        paths.acquire(kept);
        for last in 3..20 {
            paths.begin_turn();
            assert!(paths.find(&mut network, address(1), address(last)).is_ok());
            assert_eq!(paths.len(), 2.min(usize::from(last) - 1));
        }
        assert_eq!(paths.find(&mut network, address(1), address(2)), Ok(kept));
        let other = paths
            .find(&mut network, address(1), address(30))
            .expect("room");
        paths.acquire(other);
        assert_eq!(
            paths.find(&mut network, address(1), address(31)),
            Err(NoPath::Full),
            "all are in use"
        );
        paths.release(other);
        assert!(paths.find(&mut network, address(1), address(31)).is_ok());
    }

    #[test]
    fn a_link_that_is_swept_has_room_for_every_neighbour_in_use() {
        let mut network = network();
        let mut paths = Paths::with_limit(4);
        let kept: Vec<_> = (2..5)
            .map(|last| {
                let path = paths
                    .find(&mut network, address(1), address(last))
                    .expect("room");
                paths.acquire(path);
                (last, path)
            })
            .collect();
        for last in 10..250 {
            paths.begin_turn();
            assert!(paths.find(&mut network, address(1), address(last)).is_ok());
            assert!(paths.neighbours.len() <= 5);
        }
        for (last, path) in kept {
            let number = paths.neighbour_changed(address(last), Knowledge::Failed);
            assert!(number.is_some_and(|number| paths.goes_through(path, number)));
        }
        let users: u32 = paths.neighbours.iter().map(|n| n.paths).sum();
        assert_eq!(users, 4, "as many as there are paths");
    }

    #[test]
    fn a_change_is_seen_by_every_path_through_that_neighbour() {
        let mut network = network();
        let mut paths = Paths::with_limit(4);
        let path = paths
            .find(&mut network, address(1), address(2))
            .expect("room");
        assert_eq!(paths.reach(&mut network, path), Reach::At(MacAddr([4; 6])));
        let number = paths.neighbour_changed(address(2), Knowledge::Unresolved);
        assert_eq!(
            paths.reach(&mut network, path),
            Reach::Resolving(number.expect("known"))
        );
        paths.neighbour_changed(address(2), Knowledge::Failed);
        assert_eq!(paths.reach(&mut network, path), Reach::Unreachable);
        assert_eq!(paths.neighbour_changed(address(9), Knowledge::Failed), None);
    }

    fn reached(paths: &mut Paths, network: &mut FixedNetwork, all: &[PathId]) -> Vec<Reach> {
        all.iter().map(|path| paths.reach(network, *path)).collect()
    }

    #[test]
    fn a_turn_asks_so_much_and_the_rest_goes_on_as_before() {
        let mut network = network();
        let mut paths = Paths::with_limit(100);
        let all: Vec<PathId> = (2..32)
            .map(|last| {
                let path = loop {
                    match paths.find(&mut network, address(1), address(last)) {
                        Ok(path) => break path,
                        Err(reason) => assert_eq!(reason, NoPath::Later),
                    }
                    paths.begin_turn();
                };
                paths.acquire(path);
                path
            })
            .collect();
        let there = vec![Reach::At(MacAddr([4; 6])); 30];
        assert_eq!(reached(&mut paths, &mut network, &all), there);
        network.peer = MacAddr([6; 6]);
        paths.neighbours_changed();
        let mut turns = 0;
        loop {
            paths.begin_turn();
            turns += 1;
            let reached = reached(&mut paths, &mut network, &all);
            let old = reached.iter().filter(|reach| **reach == there[0]);
            let old = old.count();
            assert_eq!(old, 30usize.saturating_sub(turns * QUESTIONS as usize));
            if old == 0 {
                break;
            }
        }
        // A route that may have changed is followed until it is asked for.
        paths.routes_changed();
        paths.begin_turn();
        paths.questions = 0;
        assert_eq!(
            reached(&mut paths, &mut network, &all[..1]),
            [Reach::At(MacAddr([6; 6]))]
        );
        // One that was not there may be there now.
        let index = all[0].0 as usize;
        paths.leave_neighbour(index);
        assert_eq!(reached(&mut paths, &mut network, &all[..1]), [Reach::Later]);
        paths.begin_turn();
        assert_eq!(
            reached(&mut paths, &mut network, &all[..1]),
            [Reach::At(MacAddr([6; 6]))]
        );
    }

    #[test]
    fn a_tick_tells_of_so_many_neighbours_and_of_the_others_at_the_next() {
        let mut network = network();
        let mut paths = Paths::with_limit(200);
        for last in 2..202 {
            paths.begin_turn();
            let path = paths.find(&mut network, address(1), address(last));
            let path = path.expect("room");
            assert_eq!(paths.reach(&mut network, path), Reach::At(MacAddr([4; 6])));
        }
        for neighbour in &mut paths.neighbours {
            neighbour.knowledge = Knowledge::Failed;
        }
        for left in [136, 72, 8, 0] {
            paths.tick(&mut network);
            let used = paths.neighbours.iter().filter(|n| n.used).count();
            assert_eq!(used, left);
        }
        assert!(!paths.needs_tick());
    }
}
