//! Paths: by which next hop frames leave, and how large they may be. Everything that leaves by the same next
//! hop under the same terms has one path, so that a million clients behind a router have one. A connection
//! keeps the number of its path, and a packet costs two array accesses; what has changed is asked for again
//! when it is next needed.
//!
//! The kernel says by destination which path it is, and the last destinations are remembered. A question
//! takes microseconds, and one about a neighbour may wait for whoever changes the network at the time. So a
//! turn has so many: who has a path whose answer may be old goes on by it until its turn has come, and who
//! has none waits.
//!
//! On a link with very many stations there may be as many paths as connections. So whatever is looked for is
//! found without looking at all of them, and the tables grow a step at a time.

mod known;
mod neighbours;
mod reach;
mod stations;

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;

use tables::{Chunks, Hash, Index, Line};
use wire::ethernet::MacAddr;

use self::known::{Ends, Known};
use self::neighbours::Neighbours;
pub use self::reach::Reach;
use self::reach::{Questions, VACANT};
use self::stations::Stations;
use super::{Network, NicId, OnLink};
use crate::slow::kernel::asking::AsOf;
use crate::slow::kernel::neighbours::Knowledge;

/// Names a path; valid while it is [used](Paths::acquire), or until the next one is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathId(NonZeroU32);

impl PathId {
    fn at(index: u32) -> Self {
        // There are never so many.
        Self(NonZeroU32::MIN.saturating_add(index))
    }

    #[inline]
    fn index(self) -> u32 {
        self.0.get() - 1
    }
}

/// It is not known in this turn which path it is: there were too many to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Later;

/// Questions to the kernel in a turn.
const QUESTIONS: u32 = 16;

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Course {
    /// Number of the next hop's neighbour; none if there is no route.
    neighbour: Option<u32>,
    /// Bytes of the largest packet, if the route states it.
    mtu: Option<u16>,
    /// It leads to this machine.
    here: bool,
    /// There is no route: it leads back to where segments come from.
    station: Option<OnLink<MacAddr>>,
    /// The routes that it was found with.
    epoch: u32,
}

impl Course {
    /// Whether it leads anywhere.
    const fn leads(&self) -> bool {
        self.neighbour.is_some() || self.here || self.station.is_some()
    }
}

const NO_COURSE: Course = Course {
    neighbour: None,
    mtu: None,
    here: false,
    station: None,
    epoch: 0,
};

#[derive(Debug)]
struct Path {
    course: Course,
    /// Connections, and destinations that are remembered.
    users: u32,
}

/// The paths in use, and those of the last destinations.
#[derive(Debug)]
pub struct Paths {
    hasher: RandomState,
    /// The first `count` of them are paths, or were.
    paths: Chunks<Path>,
    count: u32,
    by_course: Index<Course>,
    /// Those that nobody uses, which are none any more.
    unused: Line,
    known: Known<PathId>,
    neighbours: Neighbours,
    stations: Stations,
    epoch: u32,
    questions: Questions,
}

impl Paths {
    /// Remembers at most `limit` destinations, and what is in use beside them.
    pub fn with_limit(limit: u32) -> Self {
        Self {
            hasher: RandomState::new(),
            paths: Chunks::new(),
            count: 0,
            by_course: Index::with_capacity(0, NO_COURSE),
            unused: Line::new(),
            known: Known::with_limit(limit),
            neighbours: Neighbours::with_limit(limit),
            stations: Stations::with_limit(limit),
            epoch: 0,
            questions: Questions(QUESTIONS),
        }
    }

    /// A turn begins: so many questions may be asked in it.
    pub fn begin_turn(&mut self) {
        self.questions = Questions(QUESTIONS);
    }

    /// How many questions may still be asked in this turn.
    pub const fn questions_left(&self) -> u32 {
        self.questions.0
    }

    /// How many destinations are remembered.
    pub fn remembered(&self) -> usize {
        self.known.len()
    }

    /// The path from `source` to `destination`. For who has one already: if it is not known in this turn
    /// whether that is still right, it is that one.
    ///
    /// # Errors
    /// It is not known in this turn.
    pub fn find(
        &mut self,
        network: &mut impl Network,
        source: IpAddr,
        destination: IpAddr,
        own: Option<PathId>,
    ) -> Result<PathId, Later> {
        let ends = Ends {
            source,
            destination,
        };
        let known = self.known.find(ends);
        if let Some(path) = known
            && self.is_current(path)
            && (self.leads(path) || self.stations.find(ends).is_none())
        {
            return Ok(path);
        }
        if !self.questions.take() {
            let mut theirs = own.into_iter().chain(known);
            return theirs.find(|path| self.leads(*path)).ok_or(Later);
        }
        let path = self.ask(network, ends);
        self.acquire(path);
        if let Some(old) = self.known.set(ends, path) {
            self.release(old);
        }
        Ok(path)
    }

    /// What the network says.
    fn ask(&mut self, network: &mut impl Network, ends: Ends) -> PathId {
        let mut course = Course {
            here: network.is_here(ends.destination),
            epoch: self.epoch,
            ..NO_COURSE
        };
        if !course.here {
            match network.next_hop(ends.source, ends.destination) {
                Ok(hop) => {
                    course.neighbour = Some(self.neighbours.at(network, hop.neighbour));
                    course.mtu = hop.mtu;
                }
                Err(_) => course.station = self.stations.instead_of_a_route(ends),
            }
        }
        self.path_of(course)
    }

    /// The path with this course.
    fn path_of(&mut self, course: Course) -> PathId {
        let hash = self.hash(course);
        if let Some(index) = self.by_course.get(&course, hash) {
            return PathId::at(index);
        }
        let path = Path { course, users: 0 };
        let index = match self.unused.first() {
            Some(unused) => {
                self.unused.leave(unused);
                unused
            }
            None => {
                let new = self.count;
                self.paths.reach(new, |_| Path {
                    course: NO_COURSE,
                    users: 0,
                });
                self.count += 1;
                new
            }
        };
        self.paths[index] = path;
        self.by_course.insert(course, hash, index);
        if let Some(neighbour) = course.neighbour {
            self.neighbours.acquire(neighbour);
        }
        PathId::at(index)
    }

    fn hash(&self, course: Course) -> Hash {
        Hash::new(self.hasher.hash_one(course))
    }

    /// Whether no route has changed since a path was found.
    #[inline]
    pub fn is_current(&self, path: PathId) -> bool {
        self.paths[path.index()].course.epoch == self.epoch
    }

    #[inline]
    fn leads(&self, path: PathId) -> bool {
        self.paths[path.index()].course.leads()
    }

    /// Whether a path is [current](Self::is_current) and leads somewhere: where it does not, there may be a
    /// [station](Self::heard) meanwhile.
    #[inline]
    pub fn is_settled(&self, path: PathId) -> bool {
        self.is_current(path) && self.leads(path)
    }

    /// Whether it is worth to be told from where segments [come](Self::heard): some had no route back.
    #[inline]
    pub const fn listens(&self) -> bool {
        self.stations.is_needed()
    }

    /// A segment of a connection between `source`, which is this machine's, and `destination` has come
    /// from this station. Where no route leads back, what is sent goes there.
    pub fn heard(&mut self, source: IpAddr, destination: IpAddr, station: OnLink<MacAddr>) {
        let ends = Ends {
            source,
            destination,
        };
        self.stations.heard(ends, station);
    }

    /// A connection uses this path from now on: it stays.
    pub fn acquire(&mut self, path: PathId) {
        self.paths[path.index()].users += 1;
    }

    /// A connection no longer uses this path.
    pub fn release(&mut self, path: PathId) {
        let Path { course, users } = &mut self.paths[path.index()];
        debug_assert!(*users > 0, "released more often than acquired");
        *users = users.saturating_sub(1);
        if *users > 0 {
            return;
        }
        let course = *course;
        self.by_course.remove(&course, self.hash(course));
        self.unused.join(path.index());
        if let Some(neighbour) = course.neighbour {
            self.neighbours.release(neighbour);
        }
    }

    /// Where frames along `path` go. Asks the kernel to resolve the next hop where that is needed.
    #[inline]
    pub fn reach(&mut self, network: &mut impl Network, path: PathId) -> Reach {
        let course = self.paths[path.index()].course;
        match (course.neighbour, course.station) {
            (Some(number), _) => self.neighbours.reach(network, number, &mut self.questions),
            (None, Some(station)) => Reach::At(station),
            (None, None) if course.here => Reach::Here,
            (None, None) => Reach::Unreachable,
        }
    }

    /// Bytes of the largest packet on a path, if its route states it.
    pub fn mtu(&self, path: PathId) -> Option<u16> {
        self.paths[path.index()].course.mtu
    }

    /// Whether a path leads to this machine.
    pub fn is_here(&self, path: PathId) -> bool {
        self.paths[path.index()].course.here
    }

    /// A path's next hop, if it has one.
    pub fn next_hop(&self, path: PathId) -> Option<OnLink<IpAddr>> {
        let neighbour = self.paths[path.index()].course.neighbour?;
        Some(self.neighbours.address(neighbour))
    }

    /// The interface by which frames along a path leave; the first of all if none do.
    pub fn nic(&self, path: PathId) -> NicId {
        let station = self.paths[path.index()].course.station;
        let by_station = station.map(|station| station.nic);
        let by_hop = self.next_hop(path).map(|hop| hop.nic);
        by_hop.or(by_station).unwrap_or_default()
    }

    /// Acknowledgements arrive through this path: its next hop is there.
    #[inline]
    pub fn progress(&mut self, path: PathId) {
        if let Some(number) = self.paths[path.index()].course.neighbour {
            self.neighbours.progress(number);
        }
    }

    /// Routes have changed: no path is [current](Self::is_current) any more.
    pub fn routes_changed(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// What is known of a neighbour, if it is one of ours.
    pub fn known_neighbour(&self, at: OnLink<IpAddr>) -> Option<Knowledge> {
        self.neighbours.known(at)
    }

    /// A neighbour has changed; whether it is one of ours.
    pub fn neighbour_changed(&mut self, at: OnLink<IpAddr>, knowledge: Knowledge) -> bool {
        self.neighbours.changed(at, knowledge)
    }

    /// What is known of a neighbour, to a question of that time; whether it is one of ours and no change was
    /// told of it since.
    pub fn neighbour_answered(
        &mut self,
        at: OnLink<IpAddr>,
        knowledge: Knowledge,
        as_of: AsOf,
    ) -> bool {
        self.neighbours.answered(at, knowledge, as_of)
    }

    /// How much has been told of neighbours, for who asks of one.
    pub const fn as_of(&self) -> AsOf {
        self.neighbours.as_of()
    }

    /// Some neighbours have changed, and it is not known which: each is asked for again before it is next
    /// used.
    pub fn neighbours_changed(&mut self) {
        self.neighbours.all_changed();
    }

    /// To be called about once a second: confirms the stale neighbours through which
    /// acknowledgements came, and has the others in use probed. What has no route is sent to another
    /// station if segments come from there.
    pub fn tick(&mut self, network: &mut impl Network) {
        self.neighbours.tick(network);
        if self.stations.take_moved() {
            self.routes_changed();
        }
    }

    /// Whether a [`tick`](Self::tick) has something to do.
    pub fn needs_tick(&self) -> bool {
        self.neighbours.any_busy() || self.stations.have_moved()
    }
}

#[cfg(test)]
mod tests;
