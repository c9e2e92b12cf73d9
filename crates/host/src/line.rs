//! Threads that wait for the same thing, of which one watches for all.
//!
//! The engine can ring for 64 threads of a process, and rings for each that is armed. Threads that wait in
//! `accept` on one listener all want the same: any of them will do, and one is to be woken. So one of
//! them *watches*: it is armed, and asks the kernel. The others stand in line, and sleep by a descriptor of
//! their own. Whoever leaves the watch, with a connection or without, rings the one that has stood there
//! longest, which then looks whether there is more, and watches.
//!
//! Threads in `poll` want different things. The one that watches takes in what the engine says, and that
//! rings whom it concerns ([`Source`](crate::interest::Source)).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::lock::lock;
use crate::locks::Locks;
use crate::nudge::Nudge;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Line(Mutex<State>);

#[derive(Default)]
struct State {
    /// Of which process those are that wait: in the child of a fork they are not there.
    lineage: u32,
    /// Whose nudge watches.
    watcher: Option<Arc<Nudge>>,
    waiting: VecDeque<Arc<Nudge>>,
}

/// A thread's place in a line; leaving it is dropping it.
pub(crate) struct Place {
    line: Arc<Line>,
    lineage: u32,
    nudge: Arc<Nudge>,
}

impl Line {
    /// A thread is about to wait, which that nudge wakes.
    pub(crate) fn enter(self: &Arc<Self>, lineage: u32, nudge: &Arc<Nudge>) -> Place {
        let mut state = lock(&self.0);
        if state.lineage != lineage {
            *state = State {
                lineage,
                ..State::default()
            };
        }
        Place {
            line: Arc::clone(self),
            lineage,
            nudge: Arc::clone(nudge),
        }
    }

    /// The thread that this nudge wakes has no place there any more.
    pub(crate) fn leave(&self, nudge: &Arc<Nudge>) {
        let mut state = lock(&self.0);
        state.waiting.retain(|one| !Arc::ptr_eq(one, nudge));
        if state.is_watched_by(nudge) {
            state.watcher = None;
        }
        // Also one that was rung, and leaves instead, passes that on.
        if state.watcher.is_none()
            && let Some(next) = state.waiting.front()
        {
            next.ring();
        }
    }

    /// Takes the lock, for a fork.
    pub(crate) fn lock_all<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.0);
    }
}

impl State {
    fn is_watched_by(&self, nudge: &Arc<Nudge>) -> bool {
        let watcher = self.watcher.as_ref();
        watcher.is_some_and(|watcher| Arc::ptr_eq(watcher, nudge))
    }
}

impl Place {
    /// Whether the caller watches for all, from now on if nobody does. Otherwise it stands in line, and is
    /// nudged when that changes; to be asked each time before it sleeps.
    pub(crate) fn watches(&self) -> bool {
        let mut state = lock(&self.line.0);
        if state.lineage != self.lineage {
            // Another line by now: that of a child, in which the caller goes on alone.
            return true;
        }
        if state.watcher.is_none() {
            state.watcher = Some(Arc::clone(&self.nudge));
            state.waiting.retain(|one| !Arc::ptr_eq(one, &self.nudge));
        }
        let watches = state.is_watched_by(&self.nudge);
        if !watches
            && !state
                .waiting
                .iter()
                .any(|one| Arc::ptr_eq(one, &self.nudge))
        {
            state.waiting.push_back(Arc::clone(&self.nudge));
        }
        watches
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if lock(&self.line.0).lineage == self.lineage {
            self.line.leave(&self.nudge);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nudge::Nudges;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_rung(nudge: &Nudge) -> bool {
        let mut fds = [PollFd::new(
            nudge.fd().expect("one that hears"),
            PollFlags::IN,
        )];
        poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
    }

    #[test]
    fn one_watches_and_who_leaves_rings_the_next_alone() {
        let (line, nudges) = (Arc::<Line>::default(), Nudges::default());
        let threads = [(); 4].map(|()| nudges.join().unwrap());
        let places = threads.each_ref().map(|nudge| line.enter(0, nudge));
        let watch = places.each_ref().map(Place::watches);
        assert_eq!(watch, [true, false, false, false]);
        let rung = || threads.each_ref().map(|nudge| is_rung(nudge));
        let [first, second, third, fourth] = places;
        // One that stands in line and leaves changes nothing.
        drop(fourth);
        assert_eq!(rung(), [false; 4]);
        drop(first);
        assert_eq!(rung(), [false, true, false, false]);
        // It was interrupted at that moment: the next is to watch.
        drop(second);
        assert_eq!(rung(), [false, true, true, false]);
        assert!(third.watches());
        assert!(third.watches());
        drop(third);
        assert!(line.enter(0, &threads[0]).watches());
    }

    #[test]
    fn in_the_child_of_a_fork_nobody_waits() {
        let (line, nudges) = (Arc::<Line>::default(), Nudges::default());
        let [parents, childs] = [(); 2].map(|()| nudges.join().unwrap());
        let parent = line.enter(0, &parents);
        assert!(parent.watches());
        let child = line.enter(1, &childs);
        assert!(child.watches());
        // What the parent's thread would do is done in the parent.
        drop(parent);
        assert!(child.watches() && !line.enter(1, &parents).watches());
    }
}
