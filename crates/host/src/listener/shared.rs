//! What a session knows of a listener: its number at the engine, the credit given, and who was handed
//! over and not accepted.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use queue_pair::control::{AdmissionPolicy, Explanation, Farewell, Fds, Reply, Request};
use queue_pair::{Submission, Violation};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::attachment::{Accepts, Listens, RUNS_WITHIN, is_away};
use crate::line::Line;
use crate::lock::lock;
use crate::locks::Locks;
use crate::private_fds::Private;
use crate::readiness::Readiness;
use crate::ready_set::SourceHandle;
use crate::session::{SessionCore, report};
use crate::socket::{Attachment, Options, Socket, SocketCore};

use super::refusal::why_refused;

/// The first version of the protocol in which an engine can be told who may connect.
pub(super) const POLICY_SINCE: u32 = 7;

/// The first version of the protocol in which an engine can be told by which doorbell a listener hears.
const BELLS_SINCE: u32 = 12;

/// The first version of the protocol in which a listener can be pinned to the engine.
const PINS_SINCE: u32 = 14;

/// How many connections may lie here handed over and not accepted, if nobody has said. Enough that the engine need not
/// be asked for each, and few enough that several processes on one port share the work.
const WINDOW: u32 = 32;

/// What the session's tables hold of a listener.
pub(crate) struct ListenerCore {
    pub(super) session: Arc<SessionCore>,
    pub(super) kernel: Private<OwnedFd>,
    pub(super) local: SocketAddr,
    pub(super) v6only: bool,
    /// The program serves nothing that comes by the kernel.
    pub(super) pinned: bool,
    pub(super) source: SourceHandle,
    /// Threads that wait to accept.
    pub(super) line: Arc<Line>,
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// The engine's number for it, and in which attachment. `None` while there is no engine.
    pub(super) link: Option<(Arc<Attachment>, u32)>,
    queue: VecDeque<Arc<SocketCore>>,
    pub(super) backlog: u32,
    /// How many connections may lie here handed over and not accepted.
    pub(super) window: u32,
    /// Who may connect, and whether the engine knows and keeps to it.
    pub(super) policy: AdmissionPolicy,
    pub(super) is_kept: bool,
    /// The process waits for connections: credit is given.
    willing: bool,
    /// It came to wait before it could attach: which process, by its place in its lineage.
    wants: Option<u32>,
    /// The credit given in this attachment, and how much of it was used up by accepts.
    credit: u32,
    taken: u32,
    /// The most that it may have handed over for the credit of this attachment.
    most: u32,
    /// The engine knows that this process has found nothing and waits.
    waits: bool,
    /// The doorbell by which alone the engine was told to ring for what it offers.
    bell: Option<u8>,
    /// Threads have waited in accept, by doorbells of their own.
    accept_waits: bool,
    /// The engine has been waited for since the first credit: what it had then is here.
    settled: bool,
    /// Accepts from the engine since the kernel had its turn.
    pub(super) turns: u32,
    closed: bool,
    /// Why the engine that was last shown it has refused it, if it has.
    refused: Option<Errno>,
    /// The program's number for it, if that was said.
    pub(super) number: Option<i32>,
    /// Set on the listener, inherited by what it accepts.
    pub(super) options: Options,
}

impl State {
    /// Of a listener that no engine knows yet.
    pub(super) fn new(backlog: u32) -> State {
        State {
            backlog,
            window: WINDOW,
            ..State::default()
        }
    }

    /// Whether it came through a fork, and this process has not attached since.
    fn is_parents(&self) -> bool {
        let of_parent = |(attachment, _): &(Arc<Attachment>, u32)| attachment.is_parents();
        self.link.as_ref().is_some_and(of_parent)
    }

    /// Gives credit if half of it is used up; and says that this process waits, if it has nothing to
    /// accept and has not said so.
    fn give_credit(&mut self) {
        self.post_credit(self.queue.is_empty() && !self.waits);
    }

    /// Gives credit if half of it is used up. The program works on what it has just accepted.
    fn give_used_credit(&mut self) {
        self.post_credit(false);
    }

    fn post_credit(&mut self, starts_to_wait: bool) {
        // Only when half is used up, so that not every accept costs a descriptor.
        let used_up = self.credit.wrapping_sub(self.taken) <= self.bound() / 2;
        if used_up || starts_to_wait {
            self.post_credit_of(used_up.then(|| self.bound()), starts_to_wait);
        }
    }

    /// How many connections may lie here at most.
    fn bound(&self) -> u32 {
        self.window.min(self.backlog.max(1))
    }

    /// From now on so many connections may lie here.
    pub(super) fn set_window(&mut self, connections: u32) {
        self.window = connections;
        self.bound_changed();
    }

    /// What was given of it already is given anew, if that is another number now.
    pub(super) fn bound_changed(&mut self) {
        if !self.is_parents() && self.credit.wrapping_sub(self.taken) != self.bound() {
            self.post_credit_of(Some(self.bound()), false);
        }
    }

    /// Tells the engine that so many may be handed over that were not accepted, if the process waits for any; without a
    /// number as many as it was told before.
    fn post_credit_of(&mut self, bound: Option<u32>, starts_to_wait: bool) {
        let Some((attachment, listener)) = self.link.as_ref().filter(|_| self.willing) else {
            return;
        };
        if let Some(bound) = bound {
            self.credit = self.taken.wrapping_add(bound);
            self.most = self.most.max(bound);
        }
        self.waits |= starts_to_wait;
        attachment.post_surely(Submission::Credit {
            listener: *listener,
            total: self.credit,
            // Another process may have been offered some that it has not accepted.
            waits: starts_to_wait,
        });
    }
}

impl ListenerCore {
    /// Locks the state. In the child of a fork that has not attached, it attaches first, which asks
    /// the engine and takes a while.
    fn attach_and_lock(self: &Arc<Self>) -> MutexGuard<'_, State> {
        let state = lock(&self.state);
        if !state.is_parents() {
            return state;
        }
        drop(state);
        // Attaching announces every listener of the session, this one too.
        self.session.attachment();
        lock(&self.state)
    }

    /// Announces the listener to an engine: anew, or as one that came through a fork.
    pub(crate) fn announce(self: &Arc<Self>, attachment: &Arc<Attachment>) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        if state.closed {
            return Ok(());
        }
        let inherited = state.link.take().filter(|(former, _)| former.is_parents());
        // That its parent accepts says nothing of this process: one that only serves a connection is
        // offered none that it would leave lying.
        let wants = state.wants.take() == Some(self.session.lineage());
        state.willing = match inherited {
            Some(_) => wants,
            None => state.willing,
        };
        state.queue.clear();
        self.source.0.set(Readiness::NONE);
        let adopted = inherited.and_then(|(_, listener)| {
            let request = Request::AdoptListener { listener };
            match attachment.request(&request, Fds::new(), RUNS_WITHIN) {
                Ok((Reply::Listening { listener }, _)) => Some(listener),
                _ => None,
            }
        });
        let asked = match adopted {
            Some(listener) => Ok(listener),
            None => self.ask_to_listen(attachment, state.backlog),
        };
        state.refused = asked.err().filter(|error| !is_away(*error));
        let listener = asked?;
        // No connection comes before there is credit, so it is known early enough; and the pump,
        // whose lock this takes, does not know this listener yet, so it cannot be waiting for it.
        attachment.know_listener(listener, Arc::clone(self) as _);
        // Before there is credit: nobody is handed over whom the policy would not admit.
        state.is_kept =
            !state.policy.is_open() && self.tell_policy(attachment, listener, state.policy).is_ok();
        state.link = Some((Arc::clone(attachment), listener));
        (state.credit, state.taken, state.most) = (0, 0, 0);
        (state.waits, state.bell) = (false, None);
        state.settled = false;
        state.give_credit();
        Ok(())
    }

    /// Announces the listener to an engine that has come. One that it refuses is served by the kernel alone.
    /// What becomes of it the engine is told, with the program's number for it.
    pub(crate) fn announce_anew(self: &Arc<Self>, attachment: &Arc<Attachment>) {
        // Of a child's the child says so, if it accepts.
        let is_childs = lock(&self.state).is_parents();
        if self.announce(attachment).is_err() || !is_childs {
            self.explain(attachment);
        }
    }

    /// With what the engine has refused it, if it has.
    pub(super) fn refused(&self) -> Option<Errno> {
        lock(&self.state).refused
    }

    /// Tells the engine by which number the program knows the listener, or why it is the kernel's.
    pub(super) fn explain(&self, attachment: &Attachment) {
        let state = lock(&self.state);
        let linked = || {
            state
                .link
                .as_ref()
                .is_some_and(|(at, _)| std::ptr::eq(&raw const **at, attachment))
        };
        let reason = match state.refused {
            Some(error) => why_refused(error),
            // Of one that has not answered yet nothing is known.
            None if !linked() || state.number.is_none() => return,
            None => "",
        };
        let number = state.number.unwrap_or(Explanation::NO_DESCRIPTOR);
        attachment.tell(&report(number, &Explanation::listener(self.local), reason));
    }

    /// The engine, which was perhaps shown the listener and did not run, runs again.
    pub(crate) fn announce_again(self: &Arc<Self>, attachment: &Arc<Attachment>) {
        let (is_known, policy) = {
            let state = lock(&self.state);
            let untold = !state.policy.is_open() && !state.is_kept;
            (state.link.is_some(), untold.then_some(state.policy))
        };
        if !is_known {
            self.announce_anew(attachment);
        } else if let Some(policy) = policy {
            let _ = self.admit(policy);
        }
    }

    fn ask_to_listen(&self, attachment: &Attachment, backlog: u32) -> Result<u32, Errno> {
        let mut fds = Fds::new();
        fds.push(rustix::io::fcntl_dupfd_cloexec(&self.kernel, 0)?);
        let request = Request::Listen {
            addr: self.local,
            v6only: self.v6only,
            backlog,
            pinned: self.pinned && attachment.speaks(PINS_SINCE),
        };
        match attachment.request(&request, fds, RUNS_WITHIN)? {
            (Reply::Listening { listener }, _) => Ok(listener),
            _ => Err(Errno::PROTO),
        }
    }

    /// Has the engine read the options of the kernel's socket anew.
    pub(super) fn show_options(self: &Arc<Self>) {
        let link = self.attach_and_lock().link.clone();
        let Some((attachment, listener)) =
            link.filter(|(at, _)| at.is_live() && at.speaks(POLICY_SINCE))
        else {
            return;
        };
        let Ok(socket) = rustix::io::fcntl_dupfd_cloexec(&self.kernel, 0) else {
            return;
        };
        let addr = self.local;
        let request = Request::Chosen { listener, addr };
        // What comes of it nobody asks: setsockopt has succeeded in the kernel.
        let _ = attachment.request(&request, [socket].into_iter().collect(), RUNS_WITHIN);
    }

    /// The process waits for connections from now on.
    pub(crate) fn want(self: &Arc<Self>) {
        let mut state = self.attach_and_lock();
        state.willing = true;
        if state.is_parents() {
            state.wants = Some(self.session.lineage());
            return;
        }
        self.name_bell(&mut state);
        state.give_credit();
        if state.settled {
            return;
        }
        state.settled = true;
        let attachment = state.link.as_ref().map(|(attachment, _)| attachment);
        let attachment = attachment.map(Arc::clone);
        drop(state);
        if let Some(attachment) = attachment {
            // A client that waits already is found by the very next look, as in the kernel.
            attachment.settle();
            attachment.pump_surely();
        }
    }

    /// Threads of this process wait for connections in accept.
    pub(super) fn want_in_accept(self: &Arc<Self>) {
        self.attach_and_lock().accept_waits = true;
        self.want();
    }

    /// Says by which doorbell this process hears of what it is offered, if that has changed: that of the set that
    /// it is in, if nobody else waits. Who begins to and was not reached by the one that was named until now is rung
    /// by the engine when it hears of this.
    fn name_bell(&self, state: &mut State) {
        let Some((attachment, listener)) = &state.link else {
            return;
        };
        let only = attachment.bell_of(self.source.0.only_bell());
        let bell = only.filter(|_| !state.accept_waits).map(|bell| bell as u8);
        if bell == state.bell || !attachment.speaks(BELLS_SINCE) {
            return;
        }
        attachment.post_surely(Submission::NameListenersBell {
            listener: *listener,
            bell,
        });
        state.bell = bell;
    }

    /// Somebody is told of it from now on.
    pub(super) fn is_waited_for(&self) {
        let mut state = lock(&self.state);
        if !state.closed && !state.is_parents() {
            self.name_bell(&mut state);
        }
    }

    /// The process waits for connections no longer, until it asks for one: those that come are others'. What
    /// it was offered the engine takes back.
    pub(super) fn want_no_more(&self) {
        let mut state = lock(&self.state);
        state.wants = None;
        if !std::mem::take(&mut state.willing) {
            return;
        }
        state.credit = state.taken;
        state.waits = false;
        // An engine of before takes what falls for old, and finds out that nobody accepts.
        if let Some((attachment, listener)) = &state.link {
            attachment.post_surely(Submission::Credit {
                listener: *listener,
                total: state.credit,
                waits: false,
            });
        }
    }

    pub(super) fn accept(self: &Arc<Self>) -> Result<Socket, Errno> {
        let mut state = self.attach_and_lock();
        if !state.settled {
            drop(state);
            self.want();
            state = lock(&self.state);
        }
        if state.queue.is_empty()
            && let Some((attachment, _)) = &state.link
        {
            let attachment = Arc::clone(attachment);
            drop(state);
            attachment.pump();
            state = lock(&self.state);
        }
        state.willing = true;
        let still = |(attachment, _): &(Arc<Attachment>, u32)| attachment.keeps_still();
        if state.link.as_ref().is_some_and(still) {
            // What it was offered is not to be its child's, too.
            self.source.0.set(Readiness::NONE);
            return Err(Errno::AGAIN);
        }
        let mut accepted = None;
        while let Some(socket) = state.queue.pop_front() {
            state.taken = state.taken.wrapping_add(1);
            if socket.accept() {
                state.turns += 1;
                accepted = Some(socket);
                break;
            }
        }
        if state.queue.is_empty() {
            self.source.0.set(Readiness::NONE);
        }
        if accepted.is_none() || !state.queue.is_empty() {
            state.give_credit();
        } else {
            state.give_used_credit();
        }
        let options = accepted.is_some().then(|| state.options.clone());
        drop(state);
        let socket = accepted.ok_or(Errno::AGAIN)?;
        if let Some(options) = options {
            socket.take_options(options);
        }
        Ok(Socket::new(socket, &self.session))
    }

    pub(super) fn close(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        state.closed = true;
        let link = state.link.take();
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        self.source.0.forget_watches();
        self.session.listeners.forget(&**self);
        let Some((attachment, listener)) = link else {
            return;
        };
        if attachment.is_parents() {
            // Or it would keep the kernel's socket open.
            attachment.forget_listener(listener);
            self.session.say_farewell(Farewell::Listener(listener));
            return;
        }
        for socket in queue {
            socket.give_back();
        }
        attachment.forget_listener(listener);
        // The engine would take what comes after this for a breach.
        attachment.withdraw_deferred(|it| match *it {
            Submission::Credit { listener: of, .. }
            | Submission::NameListenersBell { listener: of, .. } => of == listener,
            _ => false,
        });
        // New clients are the kernel's as soon as its socket is closed, whatever the engine knows of that: a server
        // that listens anew at once is not kept from it.
        attachment.request_in_passing(&Request::Unlisten { listener });
    }
}

impl Accepts<SocketCore> for ListenerCore {
    fn handed(&self, socket: Arc<SocketCore>) -> Result<(), Violation> {
        let mut state = lock(&self.state);
        if state.closed {
            socket.give_back();
            return Ok(());
        }
        // What it was given more of before may still come.
        if state.queue.len() > 2 * state.most.max(WINDOW) as usize {
            return Err(Violation::UndefinedValue {
                field: "connections offered",
                value: state.queue.len() as u64,
            });
        }
        state.queue.push_back(socket);
        state.waits = false;
        // By now the threads of the set have slept.
        self.name_bell(&mut state);
        self.source.0.set(Readiness::IN | Readiness::RDNORM);
        drop(state);
        self.source.0.happened(Readiness::IN | Readiness::RDNORM);
        Ok(())
    }

    fn offers_withdrawn(&self) {
        let mut state = lock(&self.state);
        let before = state.queue.len();
        state.queue.retain(|socket| !socket.is_withdrawn());
        // What it was offered used up credit.
        let withdrawn = (before - state.queue.len()) as u32;
        state.taken = state.taken.wrapping_add(withdrawn);
        state.give_used_credit();
        if state.queue.is_empty() {
            self.source.0.set(Readiness::NONE);
        }
    }

    fn lost_engine(&self) {
        let mut state = lock(&self.state);
        state.link = None;
        state.queue.clear();
        self.source.0.set(Readiness::NONE);
    }
}

impl Listens<Attachment> for ListenerCore {
    fn source(&self) -> &SourceHandle {
        &self.source
    }

    fn lock_all<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.state);
        self.source.0.lock_all(locks);
        self.line.lock_all(locks);
    }

    fn want(self: Arc<Self>) {
        Self::want(&self);
    }

    fn announce_anew(self: Arc<Self>, attachment: &Arc<Attachment>) {
        Self::announce_anew(&self, attachment);
    }

    fn announce_again(self: Arc<Self>, attachment: &Arc<Attachment>) {
        Self::announce_again(&self, attachment);
    }

    fn may_accept_again(&self) {
        let state = lock(&self.state);
        if state.closed || state.queue.is_empty() {
            return;
        }
        self.source.0.set(Readiness::IN | Readiness::RDNORM);
        drop(state);
        self.source.0.happened(Readiness::IN | Readiness::RDNORM);
    }

    fn has_no_engine(&self) {
        self.lost_engine();
    }
}
