//! A process's relation to an engine, which outlives the engine.
//!
//! A session attaches when it is made and, when its engine dies, fails what was offloaded and looks
//! for an engine again from the places where the program sleeps, at most twice a second. When one is
//! there it announces the listeners to it: the program notices nothing but that its connections were
//! reset once.

mod farewells;
mod heir;
mod reports;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use queue_pair::control::{Farewell, Way, socket_path};
use rustix::io::Errno;

use crate::ahead::{self, Forks};
use crate::attachment::{self, ANSWER_WITHIN, Control, Engine, Listeners, RUNS_WITHIN};
use crate::inheritance::Inheritance;
use crate::line::Line;
use crate::lock::{lock, try_lock};
use crate::locks::Locks;
use crate::nudge::Nudges;
use crate::ready_set::ReadySet;
use crate::reserve;
use crate::sleep::{Means, RETRY};
use crate::socket::Attachment;

pub(crate) use reports::report;
pub use reports::{LastWords, REMARKS};

/// The kind of a line about a call.
pub(crate) const CALL: &str = "call";

/// Why a child has none of its parent's connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bereft {
    OfDescriptors,
    /// Its parent is to inherit them itself, and the engine did not run.
    OfEngine,
}

impl Bereft {
    /// What the child says.
    pub(crate) fn childs(self) -> &'static str {
        match self {
            Self::OfDescriptors => {
                "it has none of the connections with the engine of the process that has forked it: there was no descriptor left"
            }
            Self::OfEngine => {
                "it has none of the connections with the engine of the process that has forked it: the engine did not run"
            }
        }
    }

    /// What its parent says.
    pub(crate) fn parents(self) -> &'static str {
        match self {
            Self::OfDescriptors => {
                "a process that it has forked has none of its connections with the engine: there was no descriptor left"
            }
            Self::OfEngine => {
                "a process that it has forked has none of its connections with the engine: that did not run"
            }
        }
    }
}

/// How long a child waits for an engine from which it has listeners alone: the kernel has them, too.
const LISTENS_WITHIN: Duration = Duration::from_secs(2);

/// A process's relation to an engine. Clones are the same session; when the last is dropped, the
/// engine ends what the session still has as it would for a process that exits.
#[derive(Clone)]
pub struct Session {
    handle: Arc<Handle>,
}

/// Ends the session when the last [`Session`] goes, while sockets still hold its core.
struct Handle {
    core: Arc<SessionCore>,
}

pub(crate) struct SessionCore {
    path: PathBuf,
    program: String,
    link: Mutex<Link>,
    /// The attachment once more, for who must not wait for one who holds the link and waits for an engine.
    current: Mutex<Option<Arc<Attachment>>>,
    pub(crate) listeners: Arc<Listeners<Attachment>>,
    /// What is true of the process under every engine: kind and reason, as in [`Session::report`].
    remarks: Mutex<Vec<(String, String)>>,
    pub(crate) nudges: Arc<Nudges>,
    /// Of threads that do not sleep just now.
    idle: Mutex<Vec<Means>>,
    /// Threads that wait for several things, as in poll.
    pub(crate) line: Arc<Line>,
    /// How many forks lie between the process that made the session and this one.
    lineage: AtomicU32,
    /// This process is the child of a fork and has not attached. Not set while a thread waits for that with the link
    /// locked.
    is_heir: AtomicBool,
    /// The same, whether or not one waits.
    inherits: AtomicBool,
    /// Threads that are about to fork.
    pub(crate) forks: Arc<Forks>,
    /// An engine was asked to attach just now, and is about to answer.
    knocks: AtomicBool,
}

#[derive(Default)]
struct Link {
    attachment: Option<Arc<Attachment>>,
    /// When an engine was last looked for in vain; later than that, if it is to be looked for later.
    looked: Option<Instant>,
    /// For how long one would have waited then.
    patience: Duration,
    /// An engine was asked to attach by one who does not wait for its answer, or not all the time.
    knock: Option<Knock>,
    /// After a fork: the child's way to what its parent had.
    inheritance: Option<Inheritance>,
    /// What was closed since the engine was asked for that, which then hears nothing more there.
    farewells: Vec<Farewell>,
    /// A thread that was about to fork has waited for that in vain: the next does not.
    in_vain: bool,
    /// The descriptors that are kept for it.
    kept: reserve::Share,
}

/// A connection on which an engine was asked to attach and has not answered.
struct Knock {
    control: Control,
    asked: Instant,
}

impl Session {
    /// Attaches to the engine called `name`, whose control socket is `/run/outboard/NAME.sock`
    /// unless the environment variable `OUTBOARD_SOCKET` names another.
    ///
    /// # Errors
    /// As for [`attach_at`](Self::attach_at).
    pub fn attach(name: &str, program: &str) -> Result<Self, Errno> {
        Self::attach_at(&socket_path(name), program)
    }

    /// Attaches to the engine that listens at `path`. `program` is shown to people.
    ///
    /// # Errors
    /// `ENOENT`, `ECONNREFUSED`: there is no engine. `EACCES`: it is not for this user.
    /// `EPROTONOSUPPORT`: the two speak no version of the protocol in common; `outboard explain` says
    /// which each speaks.
    pub fn attach_at(path: &Path, program: &str) -> Result<Self, Errno> {
        let session = Self::unattached(path, program);
        session
            .handle
            .core
            .link_to_engine(&mut lock(&session.handle.core.link), ANSWER_WITHIN)?;
        Ok(session)
    }

    /// A session that finds the engine at `path` when there is one; at an empty path there never is.
    pub fn unattached(path: &Path, program: &str) -> Self {
        let core = Arc::new(SessionCore {
            path: path.to_owned(),
            program: program.to_owned(),
            link: Mutex::default(),
            current: Mutex::default(),
            knocks: AtomicBool::new(false),
            listeners: Arc::default(),
            remarks: Mutex::default(),
            nudges: Arc::default(),
            idle: Mutex::default(),
            line: Arc::default(),
            lineage: AtomicU32::new(0),
            is_heir: AtomicBool::new(false),
            inherits: AtomicBool::new(false),
            forks: Arc::default(),
        });
        Self {
            handle: Arc::new(Handle { core }),
        }
    }

    pub(crate) fn core(&self) -> &Arc<SessionCore> {
        &self.handle.core
    }

    /// Brings what the engine has said to the sockets, unless another thread is doing so. Never
    /// waits, and costs some nanoseconds when there is nothing.
    pub fn pump(&self) {
        self.core().pump();
    }

    /// Ends every sleep in this session: whoever sleeps looks around once more.
    pub fn wake_all(&self) {
        self.core().nudges.nudge_all();
        if let Some(attachment) = self.core().present() {
            attachment.wake_all_parked();
        }
    }

    /// Whether this process is the child of a fork that has not attached: it has used none of its sockets, and
    /// the engine knows of it only that it is there.
    pub fn is_heir(&self) -> bool {
        self.core().is_heir()
    }

    /// Attaches now, for a process that may not be able to later.
    pub fn attach_now(&self) {
        let _ = self.core().attachment();
    }

    /// From now on memory that the program does not use stays with it: it may not be allowed to make the
    /// system call (madvise) by which that goes back to the machine.
    pub fn keep_memory(&self) {
        if let Some(attachment) = self.core().present() {
            attachment.keep_memory();
        }
    }

    /// Whether an engine is attached.
    pub fn is_attached(&self) -> bool {
        self.core().present().is_some()
    }

    /// What is known of the engine; `None` if there is none. It asks, which takes some microseconds.
    ///
    /// # Errors
    /// The engine's.
    pub fn engine(&self) -> Result<Option<Engine>, Errno> {
        match self.core().attachment() {
            Some(attachment) => attachment.engine().map(Some),
            None => Ok(None),
        }
    }

    /// The way to `remote`, as the engine knows it. If the program has a reason to doubt it, such as
    /// requests that nobody answers, the kernel is asked to look at it again.
    ///
    /// # Errors
    /// `ENOTCONN`: there is no engine. `EOPNOTSUPP`: it is not the engine's way, or the engine speaks an
    /// earlier version. `EAGAIN`: too much is doubted. Otherwise there is no way, such as `ENETUNREACH`.
    pub fn way(&self, remote: std::net::IpAddr, doubted: bool) -> Result<Way, Errno> {
        let attachment = self.core().attachment().ok_or(Errno::NOTCONN)?;
        attachment.way(remote, doubted)
    }

    /// An empty set for sockets and listeners of this session.
    pub fn ready_set(&self) -> ReadySet {
        ReadySet::new(Arc::clone(&self.core().nudges))
    }

    /// A thread is about to wait in a set that a parent of this process has made: what comes to the
    /// listeners there this process wants, too, as if they were added now.
    pub fn waits_in(&self, set: &ReadySet) {
        for listener in self.core().listeners.living() {
            if set.watches(listener.source()) {
                listener.want();
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        lock(&self.core.idle).clear();
        *lock(&self.core.current) = None;
        let (attachment, kept) = {
            let mut link = lock(&self.core.link);
            link.knock = None;
            (link.attachment.take(), std::mem::take(&mut link.kept))
        };
        if let Some(attachment) = attachment {
            attachment.close();
            attachment.outlives_its_region();
        }
        drop(kept);
    }
}

impl SessionCore {
    /// The attachment, made now if there is none and an engine is to be found, or if this process
    /// came out of a fork. `None` also where a fork that this gives way to takes long: then whoever has something to
    /// do at the engine that cannot be done later remembers it.
    pub(crate) fn attachment(self: &Arc<Self>) -> Option<Arc<Attachment>> {
        self.attachment_within(RUNS_WITHIN).ok()
    }

    /// The same, where a connection hangs on it that only the engine has.
    ///
    /// # Errors
    /// `ETIMEDOUT`: the engine does not run. Otherwise there is none, or it does not want this program.
    pub(crate) fn attachment_at_length(self: &Arc<Self>) -> Result<Arc<Attachment>, Errno> {
        self.attachment_within(ANSWER_WITHIN)
    }

    /// `limit`: how long an engine may take on which nothing of this process hangs yet.
    fn attachment_within(self: &Arc<Self>, limit: Duration) -> Result<Arc<Attachment>, Errno> {
        let begin = Instant::now();
        let mut link = loop {
            let mut link = lock(&self.link);
            if let Some(attachment) = &link.attachment {
                if attachment.is_live() {
                    return Ok(Arc::clone(attachment));
                }
                if attachment.is_parents() && !self.has_inherited() {
                    // The process was made by a system call of the program's own, of which nobody was told:
                    // it inherits nothing.
                    self.lineage.fetch_add(1, Ordering::Relaxed);
                    self.nudges.forget_all();
                    self.forks.forget();
                    self.inherits(&mut link, None);
                }
            }
            if link.inheritance.is_none() {
                break link;
            }
            if ahead::is_forks_own_thread() {
                // It has waited for that, and its child has nothing of what this process is to inherit.
                return Err(Errno::TIMEDOUT);
            }
            let patience = Self::patience(&link, limit);
            let may_wait = || begin.elapsed() < patience && !self.forks.are_ahead();
            if !self.forks.are_ahead() {
                if let Some(answer) = self.inherit(&mut link, may_wait) {
                    return answer;
                }
                if begin.elapsed() >= patience {
                    return self.linked(&mut link, Err(Errno::TIMEDOUT), patience);
                }
            }
            // Whoever comes by meanwhile is to wait here, too, and not with a lock that the fork needs.
            self.is_heir.store(true, Ordering::Relaxed);
            drop(link);
            let is_enough = || !self.inherits.load(Ordering::Relaxed);
            if !self.forks.let_pass(patience, is_enough) {
                // The fork may wait for what the caller has locked. Nothing is lost: the next who comes by waits on.
                return Err(Errno::TIMEDOUT);
            }
        };
        // Who has more patience than the one who looked last may still have an answer.
        let is_no_longer = limit <= link.patience.max(RUNS_WITHIN);
        let is_soon = |looked: &Instant| is_no_longer && looked.elapsed() < RETRY;
        if let Some(looked) = link.looked.filter(is_soon) {
            // It is later that one is to be looked for which has not answered.
            let is_slow = looked > Instant::now();
            return Err(if is_slow {
                Errno::TIMEDOUT
            } else {
                Errno::CONNREFUSED
            });
        }
        // Its answer, which nobody waits for, would be a second session.
        link.knock = None;
        self.link_to_engine(&mut link, limit)
    }

    /// The same for one who must not wait: an engine that is to be found is asked, and its answer taken at a later
    /// look. Only in the child of a fork, whose connections hang on it, it is waited for.
    pub(crate) fn attachment_at_once(self: &Arc<Self>) -> Option<Arc<Attachment>> {
        if let attached @ Some(_) = self.present() {
            return attached;
        }
        // Who has the link waits for an engine.
        let mut link = try_lock(&self.link)?;
        let is_childs = |attachment: &Arc<Attachment>| attachment.is_parents();
        if self.is_heir() || link.attachment.as_ref().is_some_and(is_childs) {
            drop(link);
            return self.attachment();
        }
        let attached = self.knock(&mut link);
        let knocks = |knock: &Knock| knock.asked.elapsed() < RUNS_WITHIN;
        let knocks = link.knock.as_ref().is_some_and(knocks);
        self.knocks.store(knocks, Ordering::Relaxed);
        attached
    }

    /// Asks an engine that may be there to attach, or looks whether one that was asked has answered.
    fn knock(self: &Arc<Self>, link: &mut Link) -> Option<Arc<Attachment>> {
        if link.knock.is_none() {
            let is_soon = |looked: Instant| looked.elapsed() < RETRY;
            if link.looked.is_some_and(is_soon) || !self.may_have_engine() {
                return None;
            }
            (link.looked, link.patience) = (Some(Instant::now()), Duration::ZERO);
            link.knock = self.ask_one();
        }
        if !attachment::has_answered(&link.knock.as_ref()?.control) {
            return None;
        }
        let Knock { mut control, .. } = link.knock.take()?;
        (link.looked, link.patience) = (Some(Instant::now()), Duration::ZERO);
        // What comes along.
        reserve::give_up(reserve::TO_ATTACH - 1);
        // Without an answer it has gone, or does not want this program. Another may come.
        let answer = control.get_mut().take_late().ok().flatten();
        let attachment = answer.and_then(|answer| {
            Attachment::attached(control, answer, &self.nudges, &self.listeners).ok()
        });
        let Some(attachment) = attachment else {
            reserve::refill();
            return None;
        };
        Some(self.goes_on_with(link, Arc::new(attachment)))
    }

    /// Asks an engine to attach, if there is one.
    fn ask_one(&self) -> Option<Knock> {
        let connect = || attachment::connect_now(&self.path);
        let control = reserve::spare(1, connect).ok().and_then(|mut control| {
            let asked = Attachment::ask_to_attach(&mut control, &self.program, None);
            asked.is_ok().then_some(control)
        });
        let Some(control) = control else {
            reserve::refill();
            return None;
        };
        let asked = Instant::now();
        Some(Knock { control, asked })
    }

    /// Attaches, with nothing that came through a fork, and announces the listeners. The engine has `limit` to
    /// accept and to answer: the link is locked for as long.
    fn link_to_engine(
        self: &Arc<Self>,
        link: &mut Link,
        limit: Duration,
    ) -> Result<Arc<Attachment>, Errno> {
        self.is_heir.store(false, Ordering::Relaxed);
        // What it takes to attach, where there are no other descriptors.
        reserve::give_up(reserve::TO_ATTACH);
        let begin = Instant::now();
        let attachment = attachment::connect(&self.path, limit).and_then(|control| {
            // One that has only just accepted runs, and is given a moment in any case.
            let left = limit
                .saturating_sub(begin.elapsed())
                .max(RUNS_WITHIN.min(limit));
            Attachment::new(control, &self.program, left, &self.nudges, &self.listeners)
        });
        self.linked(link, attachment, limit)
    }

    /// An engine was found, or none within `limit`: takes over what came through a fork.
    fn linked(
        self: &Arc<Self>,
        link: &mut Link,
        attachment: Result<Attachment, Errno>,
        limit: Duration,
    ) -> Result<Arc<Attachment>, Errno> {
        self.is_heir.store(false, Ordering::Relaxed);
        self.inherits.store(false, Ordering::Relaxed);
        link.knock = None;
        // Dropped, and with it the lifeline, only once the references are claimed.
        let inheritance = link.inheritance.take();
        let farewells = std::mem::take(&mut link.farewells);
        let parents = link
            .attachment
            .take()
            .filter(|attachment| attachment.is_parents());
        let attachment = match attachment {
            Ok(attachment) => attachment,
            Err(errno) => {
                // To look for one that does not answer takes its time. Whoever has no more than that to spare does
                // so later.
                let slow = errno == Errno::TIMEDOUT;
                let pause = if slow { ANSWER_WITHIN } else { Duration::ZERO };
                (link.looked, link.patience) = (Some(Instant::now() + pause), limit);
                link.kept.of_another_try();
                if let Some(parents) = parents {
                    let is_want = matches!(errno, Errno::MFILE | Errno::NFILE);
                    if is_want && !parents.sockets().is_empty() {
                        self.note_remark(CALL, Bereft::OfDescriptors.childs());
                    }
                    parents.disinherit();
                    for listener in self.listeners.living() {
                        listener.has_no_engine();
                    }
                }
                return Err(errno);
            }
        };
        let attachment = Arc::new(attachment);
        if let Some(parents) = parents {
            match &inheritance {
                Some(_) => parents.bequeath(&attachment),
                None => parents.disinherit(),
            }
        }
        for farewell in farewells {
            farewells::says(&attachment, farewell);
        }
        // The lifeline's number is one of those that are kept from now on.
        drop(inheritance);
        Ok(self.goes_on_with(link, attachment))
    }

    /// From now on this is the engine: the listeners are announced to it.
    fn goes_on_with(
        self: &Arc<Self>,
        link: &mut Link,
        attachment: Arc<Attachment>,
    ) -> Arc<Attachment> {
        link.looked = None;
        link.kept.of_attached();
        link.attachment = Some(Arc::clone(&attachment));
        *lock(&self.current) = Some(Arc::clone(&attachment));
        self.repeat_remarks(&attachment);
        for listener in self.listeners.living() {
            listener.announce_anew(&attachment);
        }
        attachment
    }

    /// The lock that is taken before all others.
    pub(crate) fn lock_link<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.link);
    }

    /// Those under which no other is taken.
    pub(crate) fn lock_leaves<'a>(&'a self, locks: &mut Locks<'a>) {
        self.listeners.lock_all(locks);
        locks.take(&self.current);
        locks.take(&self.remarks);
        locks.take(&self.idle);
        self.line.lock_all(locks);
        self.nudges.lock_all(locks);
    }

    /// The child of a fork that has not attached closes something of its parent's.
    pub(crate) fn say_farewell(self: &Arc<Self>, farewell: Farewell) {
        let said = {
            let mut link = lock(&self.link);
            if !self.has_inherited() {
                // What is its parent's is not closed by that. The engine hears of the parent's end from now on.
                link.inheritance = None;
                return;
            }
            if link.knock.is_some() && link.inheritance.is_some() {
                // It is told when it has answered, for which one who closes something does not wait.
                link.farewells.push(farewell);
                return;
            }
            let inheritance = link.inheritance.as_mut();
            inheritance.is_none_or(|it| it.say(farewell))
        };
        if said {
            return;
        }
        // The lifeline is full. An attachment says it otherwise.
        if let Some(attachment) = self.attachment() {
            farewells::says(&attachment, farewell);
        }
    }

    /// The attachment, if there is one that works.
    pub(crate) fn present(&self) -> Option<Arc<Attachment>> {
        let current = lock(&self.current).clone();
        current.filter(|attachment| attachment.is_live())
    }

    /// See [`Session::pump`].
    pub(crate) fn pump(self: &Arc<Self>) {
        if self.is_heir() {
            self.attachment();
        }
        if let Some(attachment) = self.present() {
            attachment.pump();
        }
    }

    /// Whether an engine is about to answer who has not waited for that.
    pub(crate) fn knocks(&self) -> bool {
        self.knocks.load(Ordering::Relaxed)
    }

    /// Whether there can be an engine, and one that is away is worth waking up for: without a path there cannot.
    pub(crate) fn may_have_engine(&self) -> bool {
        !self.path.as_os_str().is_empty()
    }

    /// What a thread needs to sleep, that none uses just now.
    pub(crate) fn take_idle(&self) -> Option<Means> {
        lock(&self.idle).pop()
    }

    /// The inverse of [`take_idle`](Self::take_idle).
    pub(crate) fn put_idle(&self, means: Means) {
        lock(&self.idle).push(means);
    }

    /// Whether this process is the child of a fork and has not attached. A child of such a one that nobody was told of
    /// is none: it would use up, and close, what is the other's.
    pub(crate) fn is_heir(&self) -> bool {
        self.is_heir_by(&self.is_heir)
    }

    /// Whether it is by this mark, which costs less to look at.
    fn is_heir_by(&self, mark: &AtomicBool) -> bool {
        mark.load(Ordering::Relaxed) && {
            let parents = lock(&self.current);
            parents.as_ref().is_some_and(|parents| parents.is_heirs())
        }
    }

    /// Differs between a process and the children that it forks.
    pub(crate) fn lineage(&self) -> u32 {
        self.lineage.load(Ordering::Relaxed)
    }

    /// This process is the child of the one that attached, which keeps the region.
    ///
    /// `bereft`: why it has none of the connections that it was to inherit.
    pub(crate) fn become_child(&self, inheritance: Option<Inheritance>, bereft: Option<Bereft>) {
        if let Some(bereft) = bereft {
            self.note_remark(CALL, bereft.childs());
        }
        self.lineage.fetch_add(1, Ordering::Relaxed);
        self.nudges.forget_all();
        self.forks.forget();
        let mut link = lock(&self.link);
        self.inherits(&mut link, inheritance);
        if let Some(attachment) = &link.attachment {
            attachment.hang_up();
            // The numbers of what was its parent's are kept for what it needs itself.
            lock(&self.idle).clear();
            link.kept.of_heir();
        }
    }

    fn inherits(&self, link: &mut Link, inheritance: Option<Inheritance>) {
        link.inheritance = inheritance;
        link.farewells.clear();
        link.in_vain = false;
        link.looked = None;
        // What it answers is for the parent.
        link.knock = None;
        if let Some(attachment) = &link.attachment {
            self.inherits.store(true, Ordering::Relaxed);
            self.is_heir.store(true, Ordering::Relaxed);
            attachment.leave_to_parent();
            attachment.outlives_its_region();
        }
    }
}
