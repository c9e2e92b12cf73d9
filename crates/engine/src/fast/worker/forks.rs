//! Forks: what the child of one has until it attaches.
//!
//! It has a share in each of its parent's connections, and they may be many. So it gets them some at a time, for a
//! while in each turn; so does the session that it becomes, and so they end with a child that never attaches. Nobody
//! else waits for that: parent and child hear the answer when it is done, and users take turns.
//!
//! What others do meanwhile they do before the fork, as far as the engine has not come to it, or after it. A fork
//! counts once it is over: before that nobody can tell its parent that a connection is the parent's alone since then.

use core::ops::Bound;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;

use netdev::Device;
use queue_pair::Completion;
use queue_pair::control::Farewell;
use rustix::io::Errno;
use tcp::ConnId;

use super::Worker;
use super::in_turn::InTurn;
use crate::clock::Clock;
use crate::config::shares;
use crate::exchange::{ClientKey, Refused, SessionKey, Tale, Told};
use crate::fast::connections::SessionId;
use crate::network::Network;
use crate::stats::Drop;

/// Connections that are shared, inherited or let go of in one go, if there is time for them.
const AT_ONCE: usize = 128;

/// Of these so many between two looks at the clock: each may have much that is unread, which goes along.
const STEP: usize = 16;

/// How long that goes on in a turn, in nanoseconds: what is begun when this is over is done.
const BUDGET_NS: u64 = 50_000;

/// References that a child which has not attached yet has on what its parent had.
#[derive(Debug)]
pub(super) struct Fork {
    /// Whose they count as.
    uid: u32,
    connections: BTreeSet<ConnId>,
    /// The names of listeners in the parent's session, and the listeners.
    pub listeners: Vec<(u32, u32)>,
    /// What its parent wanted opened and could not be, as far as the child may not know of it.
    pub failed_opens: VecDeque<Completion>,
}

/// What is being done with many connections.
#[derive(Debug)]
enum Step {
    /// A process is about to fork: its connections after this one are still to be shared.
    Shares {
        client: ClientKey,
        parent: SessionKey,
        token: u64,
        after: Option<ConnId>,
        /// Of those, at most so many are being opened, and can fail before the child has them.
        may_fail: usize,
    },
    /// The child has attached.
    Inherits {
        client: ClientKey,
        child: SessionKey,
        token: u64,
        fork: Fork,
        /// Where it listens at this worker by that.
        listens: Vec<SocketAddr>,
    },
    /// The child has ended without that.
    Forgets { token: u64, fork: Fork },
}

/// All children that have not attached.
#[derive(Debug, Default)]
pub(super) struct Forks {
    by_token: HashMap<u64, Fork>,
    steps: InTurn<Step>,
}

impl Forks {
    /// What the child of this fork has, who takes it over.
    pub fn take(&mut self, token: u64) -> Option<Fork> {
        self.by_token.remove(&token)
    }

    /// Whether something goes on in each turn.
    pub fn is_busy(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Whose forks there are, those included that end.
    fn holders(&self) -> impl Iterator<Item = u32> {
        let ending = self.steps.iter().filter_map(|step| match step {
            Step::Forgets { fork, .. } | Step::Inherits { fork, .. } => Some(fork.uid),
            Step::Shares { .. } => None,
        });
        let awaited = self.by_token.values().map(|fork| fork.uid);
        awaited.chain(ending)
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// A process is about to fork: its child gets a reference on everything it has. The answer; if that takes more
    /// than one turn it comes later.
    pub(super) fn fork(
        &mut self,
        client: ClientKey,
        id: SessionId,
        token: Option<u64>,
    ) -> Result<Option<Told>, Refused> {
        let token = token.ok_or(Refused::from(Errno::MFILE));
        let begun = token.and_then(|token| self.begin_to_fork(client, id, token));
        if !matches!(begun, Ok(None)) {
            self.has_forked(id);
        }
        begun
    }

    /// A fork is over. The process counts it too, whatever has come of it.
    fn has_forked(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.forks = session.forks.wrapping_add(1);
        }
    }

    fn begin_to_fork(
        &mut self,
        client: ClientKey,
        id: SessionId,
        token: u64,
    ) -> Result<Option<Told>, Refused> {
        let session = self.sessions.get(id).ok_or(Errno::BADF)?;
        let uid = session.process.uid;
        let number = session.number;
        let (may_fail, failed_opens) = (session.connections.len(), session.failed_opens.clone());
        let limit = self.config.limits.forks as usize;
        if !shares::has_room_while_scarce(limit, uid, self.forks.holders()) {
            self.counters.drop(Drop::ForksFull);
            return Err(Errno::AGAIN.into());
        }
        let mut listeners = session.inherited_listeners.clone();
        for listener in self.listeners.iter() {
            let own = listener.members.iter().filter(|m| m.session == id);
            listeners.extend(own.map(|m| (m.number, listener.number)));
        }
        for (_, number) in &listeners {
            if let Some(listener) = self.listeners.get_mut(*number) {
                listener.holds += 1;
            }
        }
        let fork = Fork {
            uid,
            connections: BTreeSet::new(),
            listeners,
            failed_opens,
        };
        self.forks.by_token.insert(token, fork);
        let step = Step::Shares {
            client,
            parent: SessionKey { id, number },
            token,
            after: None,
            may_fail,
        };
        self.begin(uid, step)
    }

    /// A process has attached: what the fork that it came out of had for it is its own. The answer, as of
    /// [`fork`](Self::fork).
    pub(super) fn inherit_all(
        &mut self,
        client: ClientKey,
        child: SessionKey,
        of: Option<(u64, Fork)>,
        listens: Vec<SocketAddr>,
    ) -> Result<Option<Told>, Refused> {
        let Some((token, fork)) = of else {
            return Ok(Some(Told::Attached(child, listens)));
        };
        let uid = fork.uid;
        let step = Step::Inherits {
            client,
            child,
            token,
            fork,
            listens,
        };
        self.begin(uid, step)
    }

    /// The child of a fork has ended without attaching.
    pub(super) fn forget_fork(&mut self, token: u64) {
        let Some(mut fork) = self.forks.by_token.remove(&token) else {
            return;
        };
        for (_, number) in core::mem::take(&mut fork.listeners) {
            self.drop_hold(number);
        }
        let uid = fork.uid;
        // There is nothing to answer.
        let _ = self.begin(uid, Step::Forgets { token, fork });
    }

    /// A first go. What is not done by that goes on in the next turns.
    fn begin(&mut self, uid: u32, mut step: Step) -> Result<Option<Told>, Refused> {
        let clock = self.common.clock.again();
        match self.go(&mut step, &clock) {
            Some(answer) => answer.map(Some),
            None => {
                self.forks.steps.push(uid, step);
                Ok(None)
            }
        }
    }

    /// Goes on for a while with what has begun; true if there is anything.
    pub(super) fn go_on_forking(&mut self) -> bool {
        if !self.forks.is_busy() {
            return false;
        }
        let clock = self.common.clock.again();
        while let Some((uid, mut step)) = self.forks.steps.pop() {
            match self.go(&mut step, &clock) {
                Some(answer) => self.is_over(&step, answer),
                None => self.forks.steps.put_back(uid, step),
            }
            if clock.now().as_nanos() >= BUDGET_NS {
                break;
            }
        }
        true
    }

    fn is_over(&mut self, step: &Step, answer: Result<Told, Refused>) {
        let client = match step {
            Step::Shares { client, parent, .. } => {
                if let Some(id) = self.session_named(*parent) {
                    self.has_forked(id);
                }
                *client
            }
            Step::Inherits { client, .. } => *client,
            Step::Forgets { .. } => return,
        };
        self.slow.tell(Tale::Answer(client, answer));
    }

    /// As much as is done in one go while there is time by this clock. The answer, once all is done.
    fn go(&mut self, step: &mut Step, clock: &Clock) -> Option<Result<Told, Refused>> {
        for _ in 0..AT_ONCE / STEP {
            let answer = self.go_a_step(step);
            if answer.is_some() || clock.now().as_nanos() >= BUDGET_NS {
                return answer;
            }
        }
        None
    }

    fn go_a_step(&mut self, step: &mut Step) -> Option<Result<Told, Refused>> {
        match step {
            Step::Shares {
                parent,
                token,
                after,
                ..
            } => self.share_some(*parent, *token, after),
            Step::Inherits {
                child,
                token,
                fork,
                listens,
                ..
            } => {
                let some = take_some(&mut fork.connections);
                let Some(id) = self.session_named(*child) else {
                    // It has ended before it could know of them.
                    self.let_go_of((*token, fork.uid), some);
                    return fork
                        .connections
                        .is_empty()
                        .then_some(Err(Errno::NOTCONN.into()));
                };
                self.inherit(*token, id, some);
                if !fork.connections.is_empty() {
                    return None;
                }
                // It looks at once whether there is anything to read.
                if let Err(reason) = self.post_completions_of(id) {
                    self.breaches.push((id, reason));
                }
                Some(Ok(Told::Attached(*child, core::mem::take(listens))))
            }
            Step::Forgets { token, fork } => {
                let some = take_some(&mut fork.connections);
                self.let_go_of((*token, fork.uid), some);
                fork.connections.is_empty().then_some(Ok(Told::Done))
            }
        }
    }

    fn let_go_of(&mut self, child: (u64, u32), connections: Vec<ConnId>) {
        for conn in connections {
            self.close_awaited(child, conn);
        }
    }

    /// Shares some of a process's connections with its child. `Some`: that were the last. If they are none, and there
    /// is nothing but listeners, these are told, for the child can have them at any worker.
    fn share_some(
        &mut self,
        parent: SessionKey,
        token: u64,
        after: &mut Option<ConnId>,
    ) -> Option<Result<Told, Refused>> {
        let Some(id) = self.session_named(parent) else {
            self.forget_fork(token);
            return Some(Err(Errno::NOTCONN.into()));
        };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let session = self.sessions.get(id)?;
        let next = session.connections.range((from, Bound::Unbounded));
        let next: Vec<ConnId> = next.take(STEP).copied().collect();
        *after = next.last().copied().or(*after);
        let is_last = next.len() < STEP;
        let accepted = next.into_iter().filter(|conn| self.is_accepted(*conn));
        let accepted: Vec<ConnId> = accepted.collect();
        let Some(fork) = self.forks.by_token.get_mut(&token) else {
            // It was given up.
            return Some(Err(Errno::NOTCONN.into()));
        };
        fork.connections.extend(&accepted);
        let alone = fork.connections.is_empty() && fork.failed_opens.is_empty();
        let among = is_last && alone && self.handoff.is_some();
        let listeners = among.then(|| fork.listeners.clone());
        for conn in accepted {
            self.let_syn_go(conn);
            self.share(conn, token);
        }
        if !is_last {
            return None;
        }
        let inherits = listeners.and_then(|listeners| self.as_inherited(&listeners));
        Some(Ok(Told::Forked(inherits)))
    }

    /// A connection that was being opened failed: children that have not attached hear of it when they
    /// do.
    pub(super) fn remember_failed(&mut self, conn: ConnId, failed: Completion) {
        for fork in self.forks.by_token.values_mut() {
            if fork.connections.remove(&conn) {
                fork.failed_opens.push_back(failed);
            }
        }
        // And those that have just begun to be attached.
        for step in self.forks.steps.iter_mut() {
            if let Step::Inherits { child, fork, .. } = step
                && fork.connections.remove(&conn)
                && let Some(session) = self.sessions.get_mut(child.id)
                && session.number == child.number
            {
                session.notices.push_back(failed);
            }
        }
    }

    /// A process is told of a connection that failed. If it is just forking, and the child was to have that, the child
    /// is told, too.
    pub(super) fn remember_unshared(&mut self, who: SessionId, conn: ConnId, failed: Completion) {
        for step in self.forks.steps.iter_mut() {
            if let Step::Shares {
                parent,
                token,
                after,
                may_fail,
                ..
            } = step
                && parent.id == who
                && after.is_none_or(|after| after < conn)
                && *may_fail > 0
                && let Some(fork) = self.forks.by_token.get_mut(&*token)
            {
                *may_fail -= 1;
                fork.failed_opens.push_back(failed);
            }
        }
    }

    /// The child of a fork has closed something without having attached.
    pub(super) fn child_closed(&mut self, token: u64, what: Farewell) {
        let Some(fork) = self.forks.by_token.get_mut(&token) else {
            return;
        };
        match what {
            Farewell::Connection(name) => {
                let conn = ConnId {
                    index: name.index,
                    generation: name.generation,
                };
                if fork.connections.remove(&conn) {
                    let child = (token, fork.uid);
                    self.close_awaited(child, conn);
                }
            }
            Farewell::Listener(name) => {
                if let Some(at) = fork.listeners.iter().position(|(own, _)| *own == name) {
                    let (_, number) = fork.listeners.swap_remove(at);
                    self.drop_hold(number);
                }
            }
        }
    }
}

/// Takes as many out as are seen to in one step.
fn take_some(connections: &mut BTreeSet<ConnId>) -> Vec<ConnId> {
    let first = core::iter::from_fn(|| connections.pop_first());
    first.take(STEP).collect()
}
