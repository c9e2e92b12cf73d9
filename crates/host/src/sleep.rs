//! How a thread sleeps until the engine has news, and how it is woken: see [`Sleeper`].

mod means;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use queue_pair::parked::Wants;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;

use crate::around::sleeps;
use crate::attachment::{Hesitated, Spot, Watch};
use crate::bell_name::BellName;
use crate::interest::SetCore;
use crate::line::Line;
use crate::ready_set::{ReadySet, Watchable};
use crate::session::{Session, SessionCore};
use crate::socket::{Attachment, SocketCore};
use crate::stand::{self, Stand};

pub(crate) use means::{Means, RETRY};

/// How long anyone sleeps while something waits that nobody wakes for: room in the submission ring,
/// or a thread beyond those that the engine can wake, or for which there is no descriptor.
const SLICE: Duration = Duration::from_millis(1);

/// How long anyone sleeps who may wait for one descriptor only: that by which the engine rings.
const HEARS_ENGINE_ALONE: Duration = Duration::from_millis(20);

/// The means of one thread that blocks, or of one ready set, to sleep until the engine has news.
///
/// Whoever sleeps
///
/// 1. [arms](Sleeper::arm) it: from now on the engine, or another thread, rings. Arming also tells
///    the engine what it still has to know, and takes in everything that it has said;
/// 2. looks once more whether what it waits for is there;
/// 3. if not, waits in the kernel for its own descriptors and the sleeper's, at most as long as
///    [`limit`](Sleeper::limit) says;
/// 4. [disarms](Sleeper::disarm) it.
///
/// Why no wake-up is lost between 1 and 3 is argued at [`queue_pair::armed`] for the engine, and at
/// the fences of `nudge` for this process. That the pump is waited for in step 1, and not only
/// tried, closes the third gap: what another thread has taken from the ring and not yet brought to
/// its socket.
pub struct Sleeper {
    session: Arc<SessionCore>,
    means: Means,
    /// The set for which it wakes.
    serves: Option<Weak<SetCore>>,
}

impl Session {
    /// Has ready what a thread needs to sleep, for a process that may not be able to make it later. Those that
    /// sleep beside the first one still make their own.
    pub fn have_sleeper(&self) {
        let mut sleeper = Sleeper::borrowed(self.core());
        sleeper.arm();
        sleeper.disarm(false);
        sleeper.give_back();
    }

    /// The means for a thread to sleep, for whoever makes the call that sleeps himself.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: there are no more descriptors.
    pub fn sleeper(&self) -> Result<Sleeper, Errno> {
        let core = self.core();
        let means = Means::new(&core.nudges, core.lineage())?;
        Ok(Sleeper::with(means, core))
    }

    /// The same, for a call that must not fail for want of descriptors: where there are none left, it sleeps for
    /// moments only, and looks around by itself after each.
    pub fn sleeper_at_any_rate(&self) -> Sleeper {
        Sleeper::new(self.core())
    }
}

impl Sleeper {
    fn new(session: &Arc<SessionCore>) -> Self {
        let means = Means::even_deaf(&session.nudges, session.lineage());
        Self::with(means, session)
    }

    fn with(means: Means, session: &Arc<SessionCore>) -> Self {
        Self {
            session: Arc::clone(session),
            means,
            serves: None,
        }
    }

    /// One that was used before, if there is one.
    fn borrowed(session: &Arc<SessionCore>) -> Self {
        match session.take_idle() {
            Some(means) => Self::with(means, session),
            None => Self::new(session),
        }
    }

    /// It is used again by whoever sleeps next.
    fn give_back(self) {
        self.session.put_idle(self.means);
    }

    /// Before step 1, for whoever makes this call often: the [`Company`] in which it waits.
    pub fn company(&self) -> Company {
        let bed = self.means.bed.as_ref();
        Company(bed.map(|(attachment, _)| Arc::clone(attachment)))
    }

    /// From now on it stands in [line](crate::line) when it is armed, until it steps out.
    pub(crate) fn line_up(&mut self, line: &Arc<Line>) {
        self.means.line = Some(Arc::clone(line));
    }

    /// From now on it stands in one line with others of this process that do, each of which says
    /// [what](Self::hears_of) is to wake it: the engine rings for one of them.
    pub fn line_up_with_others(&mut self) {
        let line = Arc::clone(&self.session.line);
        self.line_up(&line);
    }

    /// It is woken by what happens to this, while it is armed. To be said after arming, and before looking
    /// once more.
    pub fn hears_of(&self, one: &(impl Watchable + ?Sized)) {
        one.readiness_source().0.tell(&self.means.nudge);
        one.is_waited_for();
    }

    /// The inverse of [`hears_of`](Self::hears_of), before it is armed again.
    pub fn hears_no_more_of(&self, one: &(impl Watchable + ?Sized)) {
        one.readiness_source().0.tell_no_more(&self.means.nudge);
    }

    /// It stands in no line any more.
    pub fn step_out(&mut self) {
        self.means.step_out();
    }

    /// Step 1. Looks for an engine that is away, at most twice a second, and waits for none.
    pub fn arm(&mut self) {
        self.means.renew(self.session.lineage());
        if self.means.goes_aside() {
            // The means to be rung are for others. What the engine still has to know it is told.
            self.means.leave_bed();
            if let Some(attachment) = self.session.attachment_at_once() {
                attachment.arm(None);
            }
            return;
        }
        let set = self.set();
        if let Some(set) = &set {
            // In the child of a fork it is another one: who changes something from now on calls us by it.
            set.set_nudge(&self.means.nudge);
        }
        self.means.arm(self.session.attachment_at_once());
        if let Some(set) = &set {
            set.set_bell(self.bell());
        }
    }

    /// All who wait for this set sleep by this sleeper from now on: for what is in the set alone, the engine wakes
    /// nobody else of this process, and neither do its threads.
    pub fn serves(&mut self, set: &ReadySet) {
        self.serves = Some(set.handle());
        self.serve();
    }

    /// It serves the set that the other one does, in whose place it is.
    pub fn serves_as(&mut self, other: &Self) {
        self.serves.clone_from(&other.serves);
        self.serve();
    }

    /// Tells the set how those sleep who wait for it.
    fn serve(&self) {
        if let Some(set) = self.set() {
            set.set_nudge(&self.means.nudge);
            set.set_bell(self.bell());
        }
    }

    /// The set that it serves, if that is still there.
    fn set(&self) -> Option<Arc<SetCore>> {
        self.serves.as_ref().and_then(Weak::upgrade)
    }

    /// The bell by which it is woken, if it has one.
    fn bell(&self) -> Option<BellName> {
        let (attachment, waker) = self.means.bed.as_ref()?;
        Some(attachment.bell_name(waker.as_ref()?))
    }

    /// The descriptors to wait for, all of them for reading.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let bed = self.means.bed.as_ref();
        let bell = bed.and_then(|(_, waker)| waker.as_ref());
        let bell = bell.map(|waker| waker.bell.as_fd());
        let nudge = self.means.nudge.fd().map(AsFd::as_fd);
        nudge.into_iter().chain(bell)
    }

    /// Changes when [`fds`](Self::fds) are others than before, which only [`arm`](Self::arm) does:
    /// for whoever has registered them.
    pub fn epoch(&self) -> u64 {
        self.means.epoch
    }

    /// It keeps watch for those who are parked, while this is held.
    fn watch(&self) -> Option<Watch<SocketCore>> {
        let (attachment, waker) = self.means.bed.as_ref()?;
        waker.is_some().then(|| Watch::begin(attachment))
    }

    /// The longest that step 3 may take now; `None` if there is no such bound.
    pub fn limit(&self) -> Option<Duration> {
        match &self.means.bed {
            _ if self.means.is_deaf() => Some(SLICE),
            _ if self.means.aside => None,
            None if self.session.knocks() => Some(SLICE),
            None => self.session.may_have_engine().then_some(RETRY),
            Some((attachment, _)) if !attachment.is_live() => Some(Duration::ZERO),
            Some((attachment, waker)) if waker.is_none() || attachment.needs_attention() => {
                Some(SLICE)
            }
            Some((attachment, _)) if attachment.is_unanswered() => Some(RETRY),
            Some((attachment, _)) => {
                let starving = [attachment.hungers_for(), attachment.was_refused_for()];
                let bounds = starving.into_iter().chain([self.means.looks_in]);
                bounds.flatten().min()
            }
        }
    }

    /// Step 4. `rung`: one of the descriptors was found readable, or that is not known.
    pub fn disarm(&mut self, rung: bool) {
        self.means.disarm(rung);
    }

    /// Whether one of the [descriptors](Self::fds) is readable. Asks the kernel, and waits for nothing: so it is no
    /// sleep, which others have a say in, and can be asked under a lock.
    pub fn is_rung(&self) -> bool {
        let polls = self
            .fds()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let mut polls: arrayvec::ArrayVec<PollFd<'_>, 2> = polls.collect();
        rustix::event::poll(&mut polls, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// It has no descriptor by which this process wakes it, for want of one: who sleeps by it looks around by himself.
    /// [Arming](Self::arm) tries again.
    pub fn is_deaf(&self) -> bool {
        self.means.is_deaf()
    }

    /// Makes one of the [descriptors](Self::fds) readable until the next [disarm](Self::disarm): for
    /// whoever has registered them where others wait that do not know of this sleeper yet.
    pub fn ring(&self) {
        self.means.nudge.ring();
    }
}

/// The engine that a thread waits for, if there is one.
pub struct Company(Option<Arc<Attachment>>);

impl Company {
    /// Looks for news before one sleeps, as long as that is worth it: the engine may be about to answer
    /// what was just submitted, and to be woken costs more. Pump and look afterwards, [say](Waiting::has_looked) what
    /// came of it, and keep what comes back until the wait is over.
    pub fn hesitate(&self) -> Waiting {
        self.begun(|attachment| attachment.hesitate())
    }

    /// The same for a thread that waits for something of the kernel's, too: as long as it [looks on](Waiting::looks_on) it
    /// looks at that in between.
    pub fn hesitate_beside(&self) -> Waiting {
        self.begun(|attachment| attachment.hesitate_beside())
    }

    fn begun(&self, hesitates: impl FnOnce(&Attachment) -> Option<Hesitated>) -> Waiting {
        let begun = self.0.as_ref().and_then(|attachment| {
            let looked = hesitates(attachment)?;
            Some((Arc::clone(attachment), looked))
        });
        Waiting(begun)
    }
}

/// A thread waits for news. When this is dropped it has had some, or does not wait any longer: how long
/// that took is learnt from.
#[must_use = "it is kept until the wait is over"]
pub struct Waiting(Option<(Arc<Attachment>, Hesitated)>);

impl Waiting {
    /// Looks for news for a moment more, if that is still worth it: pump, look at everything, and ask again.
    pub fn looks_on(&mut self) -> bool {
        let begun = self.0.as_mut();
        begun.is_some_and(|(attachment, looked)| attachment.looks_on(looked))
    }

    /// After the look that follows: whether the thread has something to do. From that it is learnt whether looking
    /// before one sleeps is worth it.
    pub fn has_looked(&mut self, is_of_use: bool) {
        if let Some((attachment, looked)) = &mut self.0 {
            attachment.has_looked(looked, is_of_use);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((attachment, looked)) = self.0.take() {
            attachment.has_waited(looked);
        }
    }
}

/// What a thread waits for.
#[derive(Clone, Copy)]
pub(crate) enum Awaited<'a> {
    /// Something to accept, which may be the kernel's and make this descriptor readable. Of those who wait in
    /// one line one at a time is told.
    ToAccept(BorrowedFd<'a>, &'a Arc<Line>),
    /// News of a connection, whoever takes them in: the engine may wake another thread for them.
    NewsOf(&'a dyn Watchable),
}

impl<'a> Awaited<'a> {
    fn fd(self) -> Option<BorrowedFd<'a>> {
        match self {
            Self::ToAccept(fd, _) => Some(fd),
            Self::NewsOf(_) => None,
        }
    }

    /// Wakes the sleeper by news, if they are of a connection. Then one looks once more.
    fn wakes(self, sleeper: &Sleeper) {
        if let Self::NewsOf(one) = self {
            sleeper.hears_of(one);
        }
    }

    /// The inverse of [`wakes`](Self::wakes).
    fn wakes_no_more(self, sleeper: &Sleeper) {
        if let Self::NewsOf(one) = self {
            sleeper.hears_no_more_of(one);
        }
    }
}

/// Sleeps until `look` finds something. It is asked again whenever the engine had news and when the awaited
/// descriptor, if there is one, is readable, which it is told.
///
/// # Errors
/// `EINTR`: a signal was handled. `ETIMEDOUT`: the time is over.
pub(crate) fn wait<T>(
    session: &Arc<SessionCore>,
    awaited: Awaited<'_>,
    limit: Option<Duration>,
    mut look: impl FnMut(bool) -> Option<T>,
) -> Result<T, Errno> {
    session.pump();
    if let Some(found) = look(false) {
        return Ok(found);
    }
    let start = Instant::now();
    let mut sleeper = Sleeper::borrowed(session);
    if let Awaited::ToAccept(_, line) = awaited {
        sleeper.line_up(line);
    }
    let found = loop {
        let mut waiting = sleeper.company().hesitate();
        sleeper.arm();
        // A handler may have interrupted the sleep before this one, and ended it.
        if !stand::watches()
            && let Some(watch) = sleeper.watch()
        {
            stand::keeps_watch(watch);
        }
        awaited.wakes(&sleeper);
        let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
        let looked = look(false);
        waiting.has_looked(looked.is_some());
        let over = match looked {
            Some(found) => Some(Ok(found)),
            None => (left == Some(Duration::ZERO)).then_some(Err(Errno::TIMEDOUT)),
        };
        if let Some(over) = over {
            awaited.wakes_no_more(&sleeper);
            sleeper.disarm(false);
            break over;
        }
        let sleep = match (left, sleeper.limit()) {
            (Some(left), Some(limit)) => Some(left.min(limit)),
            (left, limit) => left.or(limit),
        };
        let polled = poll(
            &sleeper,
            awaited.fd().filter(|_| !sleeper.means.aside),
            sleep,
        );
        awaited.wakes_no_more(&sleeper);
        sleeper.disarm(!matches!(polled, Ok(Polled { rung: false, .. })));
        match polled {
            Ok(polled) => {
                if let Some(found) = look(polled.fd) {
                    break Ok(found);
                }
            }
            Err(errno) => break Err(errno),
        }
    };
    sleeper.step_out();
    sleeper.give_back();
    // Not before the sleeper can be had again: one who is parked may need it now.
    stand::watches_no_more();
    found
}

/// As [`wait`], for one who waits for news of one connection alone: if that has an attachment and a place, the engine
/// wakes this thread and no other for it.
pub(crate) fn wait_at<T>(
    session: &Arc<SessionCore>,
    one: &SocketCore,
    wants: Wants,
    limit: Option<Duration>,
    mut look: impl FnMut() -> Option<T>,
) -> Result<T, Errno> {
    session.pump();
    if let Some(found) = look() {
        return Ok(found);
    }
    let start = Instant::now();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
        // The first keeps watch, and what its connection's word says of room is left alone.
        let place = one.place_to_park();
        let Some((attachment, place)) = place.filter(|(attachment, _)| attachment.is_watched())
        else {
            return wait(session, Awaited::NewsOf(one), left, |_| look());
        };
        let _waiting = Company(Some(Arc::clone(&attachment))).hesitate();
        let Some(parking) = attachment.park(place, wants) else {
            return wait(session, Awaited::NewsOf(one), left, |_| look());
        };
        // A handler that interrupts its sleep gives the spot up.
        let is_noted = Stand::Parked(Spot::of(&attachment, &parking)).take();
        let unpark = || {
            let has_left = is_noted && Stand::given_up().is_none();
            attachment.unpark(&parking, has_left);
        };
        if attachment.sleepers_say() {
            one.is_slept_on();
        }
        if one.readiness_source().0.is_told() {
            attachment.park_for_all(place);
        }
        if let Some(found) = look() {
            unpark();
            attachment.pass_watch_on();
            return Ok(found);
        }
        let looks_in = attachment.give_memory_back();
        let slice = match attachment.needs_attention() {
            true => Some(SLICE),
            false => looks_in,
        };
        let sleep = match (left, slice) {
            (Some(left), Some(slice)) => Some(left.min(slice)),
            (left, slice) => left.or(slice),
        };
        let slept = if left == Some(Duration::ZERO) {
            Err(Errno::TIMEDOUT)
        } else {
            attachment.sleep_parked(&parking, sleep)
        };
        if looks_in.is_some() {
            attachment.rests_no_longer();
        }
        unpark();
        let over = match (look(), slept) {
            (Some(found), _) => Some(Ok(found)),
            (None, Err(Errno::TIMEDOUT)) if left.is_some_and(|left| sleep == Some(left)) => {
                Some(Err(Errno::TIMEDOUT))
            }
            (None, Ok(()) | Err(Errno::TIMEDOUT)) => None,
            (None, Err(errno)) => Some(Err(errno)),
        };
        if let Some(over) = over {
            attachment.pass_watch_on();
            return over;
        }
    }
}

struct Polled {
    /// One of the sleeper's descriptors is readable.
    rung: bool,
    /// The caller's is.
    fd: bool,
}

fn poll(
    sleeper: &Sleeper,
    fd: Option<BorrowedFd<'_>>,
    limit: Option<Duration>,
) -> Result<Polled, Errno> {
    let mut polls: arrayvec::ArrayVec<PollFd<'_>, 3> = sleeper
        .fds()
        .chain(fd)
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    let timeout = |limit: Option<Duration>| limit.and_then(|limit| Timespec::try_from(limit).ok());
    match (sleeps().poll)(&mut polls, timeout(limit).as_ref()) {
        // They are more than the process may still open (RLIMIT_NOFILE), as sshd's sandbox has it. The engine
        // is heard all the same; other threads are, if there are any, at the end of a slice.
        Err(Errno::INVAL) if fd.is_none() && !sleeper.means.is_deaf() && polls.len() > 1 => {
            polls.remove(0);
            let slice = limit.map_or(HEARS_ENGINE_ALONE, |limit| limit.min(HEARS_ENGINE_ALONE));
            (sleeps().poll)(&mut polls, timeout(Some(slice)).as_ref())?;
        }
        polled => {
            polled?;
        }
    }
    let ready = |poll: &PollFd<'_>| !poll.revents().is_empty();
    let own = polls.len() - usize::from(fd.is_some());
    Ok(Polled {
        rung: polls[..own].iter().any(ready),
        fd: polls[own..].iter().any(ready),
    })
}
