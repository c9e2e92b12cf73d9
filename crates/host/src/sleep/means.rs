//! What a thread needs to sleep, which is kept for the next one when it is awake.

use std::sync::Arc;
use std::time::Duration;

use queue_pair::doorbell::Rung;
use rustix::io::Errno;

use crate::attachment::Waker;
use crate::line::{Line, Place};
use crate::nudge::{Nudge, Nudges};
use crate::socket::Attachment;
use crate::stand::Stand;

/// How often an engine that is away is looked for.
pub(crate) const RETRY: Duration = Duration::from_millis(500);

/// See the [module](self).
pub(crate) struct Means {
    nudges: Arc<Nudges>,
    /// Of which process it is: a fork's child must not share the descriptors.
    lineage: u32,
    pub(super) nudge: Arc<Nudge>,
    /// In which attachment it sleeps, and the waker it has from there, if that has one to give.
    pub(super) bed: Option<(Arc<Attachment>, Option<Waker>)>,
    /// When it is to look once more for memory that the program does not use.
    pub(super) looks_in: Option<Duration>,
    pub(super) epoch: u64,
    /// The line in which it stands, its place there once it has one, and whether another watches for it.
    pub(super) line: Option<Arc<Line>>,
    place: Option<Place>,
    pub(super) aside: bool,
}

impl Means {
    pub(super) fn new(nudges: &Arc<Nudges>, lineage: u32) -> Result<Self, Errno> {
        Ok(Self::by(nudges.join()?, nudges, lineage))
    }

    /// As [`new`](Self::new). Where there is no descriptor left, it [hears nothing](Self::is_deaf).
    pub(super) fn even_deaf(nudges: &Arc<Nudges>, lineage: u32) -> Self {
        Self::by(nudges.join_even_deaf(), nudges, lineage)
    }

    fn by(nudge: Arc<Nudge>, nudges: &Arc<Nudges>, lineage: u32) -> Self {
        Self {
            nudges: Arc::clone(nudges),
            lineage,
            nudge,
            bed: None,
            looks_in: None,
            epoch: 0,
            line: None,
            place: None,
            aside: false,
        }
    }

    /// It stands in no line any more.
    pub(super) fn step_out(&mut self) {
        self.line = None;
        self.leave_place();
    }

    fn leave_place(&mut self) {
        if let Some(place) = self.place.take() {
            drop(Stand::given_up());
            drop(place);
        }
    }

    /// In the child of a fork, whose lineage is another, it is one of its own. What its parent is nudged by it does not
    /// hear, whether or not there is a descriptor for another: who took the parent's wake-ups would leave it asleep.
    pub(super) fn renew(&mut self, lineage: u32) {
        if self.lineage != lineage {
            self.nudge = self.nudges.join_even_deaf();
            self.lineage = lineage;
            self.leave_place();
            self.epoch += 1;
        } else if self.is_deaf()
            && let Ok(nudge) = self.nudges.join()
        {
            // The place in line is of the one that was deaf.
            self.leave_place();
            self.nudge = nudge;
            self.epoch += 1;
        }
    }

    /// Nobody can nudge it, for want of a descriptor: it sleeps for moments only.
    pub(super) fn is_deaf(&self) -> bool {
        self.nudge.fd().is_none()
    }

    /// The thread is about to sleep. Whether another one watches for it.
    pub(super) fn goes_aside(&mut self) -> bool {
        self.nudges.sleep(&self.nudge);
        self.aside = self.is_aside();
        self.aside
    }

    fn is_aside(&mut self) -> bool {
        let Some(line) = &self.line else {
            return false;
        };
        let enter = || line.enter(self.lineage, &self.nudge);
        let watches = self.place.get_or_insert_with(enter).watches();
        Stand::InLine(Arc::clone(line), Arc::clone(&self.nudge)).take();
        !watches
    }

    /// From now on the engine rings, the one that is there now.
    pub(super) fn arm(&mut self, current: Option<Arc<Attachment>>) {
        let same = match (&current, &self.bed) {
            (None, None) => true,
            (Some(current), Some((bed, _))) => Arc::ptr_eq(current, bed),
            _ => false,
        };
        if !same {
            self.leave_bed();
            self.bed = current.map(|attachment| {
                let waker = attachment.take_waker();
                (attachment, waker)
            });
            self.epoch += 1;
        }
        if let Some((attachment, waker)) = &mut self.bed {
            attachment.catch_up();
            if waker.is_none() && !attachment.is_unanswered() {
                *waker = attachment.take_waker();
                self.epoch += u64::from(waker.is_some());
            }
            let index = waker.as_ref().map(|waker| waker.index);
            attachment.arm(index);
            self.looks_in = attachment.give_memory_back();
        }
    }

    /// The thread is awake. `rung`: one of its descriptors was found readable, or that is not known.
    pub(super) fn disarm(&mut self, rung: bool) {
        self.nudges.wake(&self.nudge);
        if self.looks_in.take().is_some()
            && let Some((attachment, _)) = &self.bed
        {
            attachment.rests_no_longer();
        }
        if let Some((attachment, Some(waker))) = &self.bed {
            attachment.disarm(waker.index);
            if rung && waker.bell.drain_by_read() == Rung::Closed {
                attachment.condemn();
                attachment.pump();
            }
        }
        if rung {
            self.nudge.drain();
        }
    }

    pub(super) fn leave_bed(&mut self) {
        if let Some((attachment, Some(waker))) = self.bed.take()
            && attachment.is_live()
        {
            attachment.return_waker(waker);
        }
    }
}

impl Drop for Means {
    fn drop(&mut self) {
        self.leave_place();
        self.leave_bed();
        self.nudges.leave(&self.nudge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand::interrupted;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_rung(nudge: &Nudge) -> bool {
        let mut fds = [PollFd::new(nudge.fd().unwrap(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
    }

    #[test]
    fn one_that_nobody_can_nudge_hears_again_when_there_is_a_descriptor() {
        let nudges = Arc::default();
        let mut means = Means::by(Arc::new(Nudge::by(None)), &nudges, 0);
        means.line = Some(Arc::default());
        assert!(means.is_deaf() && !means.goes_aside());
        means.disarm(true);
        means.renew(0);
        assert!(!means.is_deaf() && means.epoch == 1);
        nudges.sleep(&means.nudge);
        nudges.nudge_all();
        assert!(is_rung(&means.nudge));
        // In a child it has one of its own, whose parent's it does not take wake-ups from.
        let parents = Arc::clone(&means.nudge);
        means.renew(1);
        assert!(!Arc::ptr_eq(&parents, &means.nudge) && !is_rung(&means.nudge));
        assert!(is_rung(&parents));
    }

    /// Its handler may run for long, or never return to where it was.
    #[test]
    fn one_that_is_interrupted_has_no_place_in_line_meanwhile() {
        let (line, nudges) = (Arc::<Line>::default(), Arc::default());
        let threads = [(); 3].map(|()| {
            let mut means = Means::new(&nudges, 0).unwrap();
            means.line = Some(Arc::clone(&line));
            means
        });
        let bells = threads.each_ref().map(|means| Arc::clone(&means.nudge));
        let rung = || bells.each_ref().map(|nudge| is_rung(nudge));
        let [mut first, mut second, mut third] = threads;
        assert!(!first.goes_aside() && second.goes_aside() && third.goes_aside());
        // The last that asked is this thread's place: the third.
        interrupted();
        assert_eq!(rung(), [false; 3]);
        assert!(!first.goes_aside());
        interrupted();
        assert_eq!(rung(), [false, true, false]);
        assert!(!second.goes_aside() && first.goes_aside() && third.goes_aside());
        drop(second);
        assert_eq!(rung(), [true, true, false], "the first is before the third");
    }
}
