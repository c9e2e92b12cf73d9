//! Placement: the worker runs on the core of the program that it serves.
//!
//! To wake somebody on one's own core costs a microsecond or two, on another core ten times that in a
//! virtual machine. Nobody but us knows that engine and program belong together: the scheduler puts each
//! where there is room when it is woken. So programs say on which core they run
//! ([`queue_pair::CoreWord`]), and the worker goes there, and says that it may run nowhere else, when
//! nearly all that it is asked for has come from one core for some time. Who is served on several cores,
//! by one program or by many, has no place that is better than others: then the kernel chooses.
//!
//! It does so, too, while the worker hardly sleeps, if there are cores for a program, the engine and one more: the
//! worker need not be woken then, and who works all the time would take its core from the program that it works for.
//! Its program may sleep, and is woken across cores. Nor does it matter what keeps the worker awake, work or
//! [looks](super::looking) for it. What it waits for a core that others have counts as sleep, since it was asleep
//! before: on a core that is full it may look calm.

use netdev::Device;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tcp::Instant;

use super::Worker;
use crate::network::Network;

/// What is asked for is counted by core over spans of so many nanoseconds.
const SPAN_NS: u64 = 4_000_000;
/// So many spans in a row, of those in which anything was asked for, must agree on a core.
const AGREEING: u32 = 4;
/// So many spans in a row without such a core, and the kernel chooses again.
const DISAGREEING: u32 = 50;
/// The worker stays where it has gone for so many nanoseconds at least: five moves a second. Where
/// programs are moved as often as the worker follows, the time doubles, up to the second value.
const STAY_NS: u64 = 200_000_000;
const STAY_MAX_NS: u64 = 3_200_000_000;
/// A worker that sleeps less than this many tenths of a span is busy, and so it is until it sleeps that many.
const BUSY_TENTHS: u64 = 1;
const CALM_TENTHS: u64 = 3;
/// A worker lets go of its program's core only if it may run on that many. On two, a client on the same machine
/// has the other.
const CORES_TO_SPARE: usize = 3;

/// Where the worker is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// On this core alone.
    On(usize),
    /// Where the kernel likes.
    Anywhere,
}

/// Decides where the worker runs.
#[derive(Debug)]
pub(super) struct Placement {
    /// What was asked for in this span, by the core from which it came; only for cores on which the
    /// worker may run. Empty: it goes nowhere.
    asked: Vec<Option<u32>>,
    /// What came from elsewhere, or from who knows where.
    elsewhere: u32,
    since: Instant,
    /// How long the worker had slept when the span began, in nanoseconds.
    slept_ns: u64,
    /// It hardly sleeps.
    is_busy: bool,
    /// The core on which the last spans agreed, and how many did.
    core: Option<usize>,
    agreeing: u32,
    disagreeing: u32,
    place: Place,
    moved: Instant,
    stay_ns: u64,
}

impl Placement {
    /// One that goes nowhere.
    pub(super) fn fixed() -> Self {
        Self::among(core::iter::empty())
    }

    /// One that chooses among the `cores` on which the worker may run.
    fn among(cores: impl Iterator<Item = usize>) -> Self {
        let mut asked = Vec::new();
        let mut count = 0;
        for core in cores {
            asked.resize(asked.len().max(core + 1), None);
            asked[core] = Some(0);
            count += 1;
        }
        if count < 2 {
            asked.clear();
        }
        Self {
            asked,
            elsewhere: 0,
            since: Instant::ZERO,
            slept_ns: 0,
            is_busy: false,
            core: None,
            agreeing: 0,
            disagreeing: 0,
            place: Place::Anywhere,
            moved: Instant::ZERO,
            stay_ns: STAY_NS,
        }
    }

    /// A program that says to run on `core` has asked for `count` things.
    pub(super) fn asked_from(&mut self, core: Option<usize>, count: u32) {
        let known = core.and_then(|core| self.asked.get_mut(core)?.as_mut());
        let sum = known.unwrap_or(&mut self.elsewhere);
        *sum = sum.saturating_add(count);
    }

    /// Where the worker is to go, if not where it is. It has slept for `slept_ns` so far. To be called often.
    fn decide(&mut self, now: Instant, slept_ns: u64) -> Option<Place> {
        let passed = |since: Instant| now.saturating_duration_since(since).as_nanos() as u64;
        if self.asked.is_empty() || passed(self.since) < SPAN_NS {
            return None;
        }
        let (span_ns, is_known) = (passed(self.since), self.since != Instant::ZERO);
        self.since = now;
        let slept = slept_ns.saturating_sub(core::mem::replace(&mut self.slept_ns, slept_ns));
        let enough = if self.is_busy {
            CALM_TENTHS
        } else {
            BUSY_TENTHS
        };
        let hardly = slept * 10 < span_ns * enough;
        let all = self.asked.iter().flatten();
        self.is_busy = hardly && all.clone().count() >= CORES_TO_SPARE && is_known;
        let sum = all.fold(u64::from(self.elsewhere), |sum, n| sum + u64::from(*n));
        if sum == 0 {
            return None;
        }
        let nearly_all = |asked: u32| u64::from(asked) * 4 >= sum * 3;
        let core = self.asked.iter().position(|n| n.is_some_and(nearly_all));
        let core = core.filter(|_| !self.is_busy);
        self.asked.iter_mut().flatten().for_each(|asked| *asked = 0);
        self.elsewhere = 0;
        if core.is_none() {
            (self.core, self.agreeing) = (None, 0);
            self.disagreeing += 1;
            let lost = self.disagreeing >= DISAGREEING && self.place != Place::Anywhere;
            return lost.then(|| self.go(Place::Anywhere, now));
        }
        self.disagreeing = 0;
        self.agreeing = if core == self.core {
            self.agreeing + 1
        } else {
            1
        };
        self.core = core;
        let place = Place::On(core?);
        if place == self.place || self.agreeing < AGREEING || passed(self.moved) < self.stay_ns {
            return None;
        }
        // Who has stayed long was right to go.
        let chased = passed(self.moved) < 4 * self.stay_ns && self.moved != Instant::ZERO;
        self.stay_ns = if chased {
            (self.stay_ns * 2).min(STAY_MAX_NS)
        } else {
            STAY_NS
        };
        Some(self.go(place, now))
    }

    fn go(&mut self, place: Place, now: Instant) -> Place {
        (self.place, self.moved) = (place, now);
        place
    }

    /// Where the kernel likes: on any of the cores that there were at the beginning.
    fn anywhere(&self) -> CpuSet {
        let mut set = CpuSet::new();
        let cores = self.asked.iter().enumerate();
        let cores = cores.filter_map(|(core, asked)| asked.and(Some(core)));
        cores.for_each(|core| set.set(core));
        set
    }

    /// The worker cannot run there.
    fn forbid(&mut self, core: usize) {
        if let Some(asked) = self.asked.get_mut(core) {
            *asked = None;
        }
        self.place = Place::Anywhere;
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// From now on this thread follows the programs, among the cores on which it may run now, if
    /// that is wanted.
    pub(super) fn follow_from_here(&mut self) {
        if !self.config.follow || self.config.core.is_some() {
            return;
        }
        match sched_getaffinity(None) {
            Ok(set) => {
                let cores = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
                self.placement = Placement::among(cores);
            }
            Err(error) => {
                tracing::warn!(%error, "on which cores it may run is not known: it stays")
            }
        }
    }

    /// Goes to where the programs are.
    pub(super) fn follow(&mut self, now: Instant) {
        let Some(place) = self.placement.decide(now, self.counters.sleep_ns) else {
            return;
        };
        let mut set = CpuSet::new();
        match place {
            Place::On(core) => set.set(core),
            Place::Anywhere => set = self.placement.anywhere(),
        }
        match (sched_setaffinity(None, &set), place) {
            (Ok(()), Place::On(_)) => self.counters.core_moves += 1,
            (Ok(()), Place::Anywhere) => {}
            // It was taken away since, with its power or by a cpuset.
            (Err(error), Place::On(core)) => {
                tracing::warn!(core, %error, "this core is not to be had: no program is followed there");
                self.placement.forbid(core);
            }
            (Err(error), Place::Anywhere) => {
                tracing::warn!(%error, "the worker cannot leave its core");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker's decisions under virtual time.
    struct World {
        placement: Placement,
        now_ns: u64,
        /// How many hundredths of the time it sleeps.
        sleeps: u64,
        slept_ns: u64,
        moves: Vec<(u64, Place)>,
    }

    impl World {
        fn new(cores: impl Iterator<Item = usize>) -> Self {
            Self {
                placement: Placement::among(cores),
                now_ns: 1_000_000_000,
                sleeps: 80,
                slept_ns: 0,
                moves: Vec::new(),
            }
        }

        /// Requests, every 100 µs for `span_ms`, that come from the cores in turn.
        fn serve(&mut self, span_ms: u64, cores: &[Option<usize>]) {
            for turn in 0..span_ms * 10 {
                let core = cores[turn as usize % cores.len()];
                self.placement.asked_from(core, 1);
                self.now_ns += 100_000;
                self.slept_ns += self.sleeps * 1_000;
                let now = Instant::from_nanos(self.now_ns);
                if let Some(place) = self.placement.decide(now, self.slept_ns) {
                    self.moves.push((self.now_ns, place));
                }
            }
        }

        fn places(&self) -> Vec<Place> {
            self.moves.iter().map(|(_, place)| *place).collect()
        }
    }

    const ZERO: Option<usize> = Some(0);
    const ONE: Option<usize> = Some(1);

    #[test]
    fn it_goes_where_its_program_is_and_stays() {
        let mut world = World::new(0..2);
        world.serve(SPAN_NS / 1_000_000 * u64::from(AGREEING - 1) - 1, &[ONE]);
        assert_eq!(world.places(), [], "not at once");
        world.serve(1_000, &[ONE]);
        assert_eq!(world.places(), [Place::On(1)]);
        world.serve(1_000, &[ONE, ONE, ONE, ONE, ZERO]);
        assert_eq!(world.places(), [Place::On(1)], "now and then somebody else");
        world.serve(1_000, &[ZERO]);
        assert_eq!(world.places(), [Place::On(1), Place::On(0)]);
    }

    #[test]
    fn it_stays_where_nobody_says_anything_that_can_be() {
        for said in [None, Some(2), Some(usize::MAX), Some(1_000_000)] {
            let mut world = World::new([0, 1, 3].into_iter());
            world.serve(1_000, &[said]);
            assert_eq!(world.places(), [], "{said:?}");
            world.serve(1_000, &[ONE]);
            world.serve(100, &[said]);
            assert_eq!(world.places(), [Place::On(1)], "{said:?}: where it is");
        }
    }

    #[test]
    fn the_kernel_chooses_for_who_is_served_on_several_cores() {
        let mut world = World::new(0..4);
        world.serve(1_000, &[ZERO, ONE]);
        assert_eq!(world.places(), []);
        world.serve(1_000, &[ONE]);
        world.serve(2_000, &[ZERO, ONE]);
        assert_eq!(world.places(), [Place::On(1), Place::Anywhere]);
        world.serve(1_000, &[ONE]);
        assert_eq!(world.places().len(), 3, "and back");
    }

    #[test]
    fn who_hardly_sleeps_lets_go_of_the_core_where_there_are_others() {
        for (cores, leaves) in [(4, true), (3, true), (2, false)] {
            let mut world = World::new(0..cores);
            world.serve(1_000, &[ONE]);
            world.sleeps = 5;
            world.serve(100, &[ONE]);
            assert_eq!(world.places(), [Place::On(1)], "not at once");
            world.serve(1_000, &[ONE]);
            let mut expected = vec![Place::On(1)];
            expected.extend(leaves.then_some(Place::Anywhere));
            assert_eq!(world.places(), expected, "{cores} cores");
            world.sleeps = 20;
            world.serve(1_000, &[ONE]);
            assert_eq!(world.places(), expected, "it is still busy");
            world.sleeps = 40;
            world.serve(1_000, &[ONE]);
            expected.extend(leaves.then_some(Place::On(1)));
            assert_eq!(world.places(), expected, "{cores} cores, and back");
            world.sleeps = 20;
            world.serve(1_000, &[ONE]);
            assert_eq!(world.places(), expected, "it is not busy yet");
        }
    }

    #[test]
    fn load_that_comes_and_goes_does_not_move_it_about() {
        let mut world = World::new(0..4);
        world.serve(1_000, &[ONE]);
        for turn in 0..100 {
            world.sleeps = if turn % 2 == 0 { 5 } else { 80 };
            world.serve(100, &[ONE]);
        }
        assert_eq!(world.places(), [Place::On(1)]);
    }

    /// What has room for itself sleeps, and would be near again.
    #[test]
    fn who_is_busy_near_its_program_and_calm_elsewhere_does_not_flap() {
        let mut world = World::new(0..4);
        // Thirty seconds.
        for _ in 0..7_500 {
            let is_near = matches!(world.moves.last(), Some((_, Place::On(_))));
            world.sleeps = if is_near { 5 } else { 60 };
            world.serve(4, &[ONE]);
        }
        let moves = world.moves.len();
        assert!((3..30).contains(&moves), "less than one a second: {moves}");
        for pair in world.moves.windows(2) {
            assert!(pair[1].0 - pair[0].0 >= STAY_NS, "{pair:?}");
        }
    }

    #[test]
    fn a_program_that_is_moved_again_and_again_is_not_chased() {
        let mut world = World::new(0..2);
        for _ in 0..50 {
            world.serve(100, &[ZERO]);
            world.serve(100, &[ONE]);
        }
        // Ten seconds.
        assert!(world.moves.len() <= 10, "{:?}", world.moves);
        for pair in world.moves.windows(2) {
            assert!(pair[1].0 - pair[0].0 >= STAY_NS, "{pair:?}");
        }
        world.serve(20_000, &[ZERO]);
        let before = world.moves.len();
        world.serve(400, &[ONE]);
        assert_eq!(world.moves.len(), before + 1, "that is over");
    }

    #[test]
    fn who_may_run_on_one_core_goes_nowhere() {
        let mut world = World::new(1..2);
        world.serve(1_000, &[ZERO]);
        world.serve(1_000, &[ONE]);
        assert_eq!(world.places(), []);
    }

    #[test]
    fn a_core_that_is_not_to_be_had_is_not_tried_again() {
        let mut world = World::new(0..3);
        world.serve(1_000, &[ONE]);
        world.placement.forbid(1);
        world.serve(1_000, &[ONE]);
        assert_eq!(world.places(), [Place::On(1)]);
        assert!(!world.placement.anywhere().is_set(1) && world.placement.anywhere().is_set(2));
    }
}
