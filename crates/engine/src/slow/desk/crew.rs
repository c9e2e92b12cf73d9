//! The workers that the desk stands in front of: who is asked, and who still has to answer.
//!
//! A process belongs to one worker, which does what it asks for. What concerns all (counts, the
//! configuration, the end) is asked of all, and [added up](super::sums) as they answer.

use std::collections::{HashMap, VecDeque};

use super::Desk;
use super::sums;
use crate::exchange::{
    Answer, Ask, ClientKey, Ended, Order, Refused, Tale, ToFast, Unsent, WorkerId,
};
use crate::poller::{Poller, Source};

/// Most workers: there is a bit for each.
pub(super) const MOST: usize = 64;

/// A worker, as the desk sees it.
struct Member {
    fast: ToFast,
    /// Orders that it had no room for.
    backlog: VecDeque<Order>,
    /// Sessions that were given to it and whose memory has not come back.
    sessions: usize,
    ended: bool,
    /// Orders that it had not taken when it ended.
    undone: Vec<Order>,
}

/// An answer that is not complete.
struct Gathering {
    client: ClientKey,
    /// A bit for each worker that has not answered.
    missing: u64,
    so_far: Option<Answer>,
}

/// All workers, by their numbers.
pub(super) struct Crew {
    members: Vec<Member>,
    /// Where [`hear`](Self::hear) goes on.
    hand: usize,
    /// By the serial number of who asks.
    gatherings: HashMap<u32, Gathering>,
}

/// What is heard of a worker.
pub(super) enum Heard {
    /// It tells something.
    Tale(WorkerId, Tale),
    /// It has ended, others have not.
    Ended(WorkerId),
}

impl Crew {
    /// Of these, from the first on; there is one at least.
    pub(super) fn of(workers: Vec<ToFast>, poller: &Poller) -> rustix::io::Result<Self> {
        debug_assert!((1..=MOST).contains(&workers.len()), "{}", workers.len());
        for fast in &workers {
            poller.add(fast.as_fd(), Source::Tales)?;
        }
        let members = workers.into_iter().map(|fast| Member {
            fast,
            backlog: VecDeque::new(),
            sessions: 0,
            ended: false,
            undone: Vec::new(),
        });
        Ok(Self {
            members: members.collect(),
            hand: 0,
            gatherings: HashMap::new(),
        })
    }

    /// All that have not ended.
    pub(super) fn working(&self) -> Vec<WorkerId> {
        let numbered = self.members.iter().enumerate();
        let working = numbered.filter(|(_, member)| !member.ended);
        working.map(|(index, _)| WorkerId(index as u16)).collect()
    }

    /// The one after this, if there is one.
    pub(super) fn after(&self, worker: WorkerId) -> Option<WorkerId> {
        let next = WorkerId(worker.0 + 1);
        self.members.get(next.index()).map(|_| next)
    }

    /// This one, or the last if there are not so many.
    pub(super) fn or_last(&self, index: u64) -> WorkerId {
        let last = self.members.len() as u64 - 1;
        WorkerId(index.min(last) as u16)
    }

    /// The one with the fewest sessions: the next one is its.
    pub(super) fn idlest(&self) -> WorkerId {
        let working = self.working().into_iter();
        let idlest = working.min_by_key(|worker| self.members[worker.index()].sessions);
        idlest.unwrap_or_default()
    }

    /// A session is one's, or is gone.
    pub(super) fn has_session(&mut self, worker: WorkerId, more: bool) {
        let sessions = &mut self.members[worker.index()].sessions;
        *sessions = match more {
            true => *sessions + 1,
            false => sessions.saturating_sub(1),
        };
    }

    /// An order for one, as soon as it has room for it.
    pub(super) fn order(&mut self, to: WorkerId, order: Order) {
        if let Some(member) = self.members.get_mut(to.index()) {
            member.backlog.push_back(order);
            member.send();
        }
    }

    /// Sends what there is room for by now.
    pub(super) fn send_backlogs(&mut self) {
        self.members.iter_mut().for_each(Member::send);
    }

    /// An order that nobody carries out any more, and whose it was to be.
    fn undone(&mut self) -> Option<(WorkerId, Order)> {
        let mut numbered = self.members.iter_mut().enumerate();
        numbered.find_map(|(index, member)| Some((WorkerId(index as u16), member.undone.pop()?)))
    }

    /// Whether an order waits for room.
    pub(super) fn has_backlog(&self) -> bool {
        self.members.iter().any(|member| !member.backlog.is_empty())
    }

    /// What one has to say; `Err` if all have ended.
    pub(super) fn hear(&mut self) -> Result<Option<Heard>, Ended> {
        for _ in 0..self.members.len() {
            let worker = WorkerId(self.hand as u16);
            let member = &mut self.members[self.hand];
            if !member.ended {
                match member.fast.hear() {
                    Ok(Some(tale)) => return Ok(Some(Heard::Tale(worker, tale))),
                    Ok(None) => {}
                    Err(Ended) => {
                        member.ended = true;
                        member.undone.extend(member.backlog.drain(..));
                        if self.members.iter().all(|member| member.ended) {
                            return Err(Ended);
                        }
                        return Ok(Some(Heard::Ended(worker)));
                    }
                }
            }
            self.hand = (self.hand + 1) % self.members.len();
        }
        Ok(None)
    }

    /// A client waits for what these answer.
    pub(super) fn awaits(&mut self, client: ClientKey, workers: &[WorkerId]) {
        let missing = workers.iter().fold(0, |bits, worker| bits | worker.bit());
        let gathering = Gathering {
            client,
            missing,
            so_far: None,
        };
        self.gatherings.insert(client.serial, gathering);
    }

    /// One has answered a client: the whole answer, if it is complete now.
    fn gather(&mut self, from: WorkerId, client: ClientKey, answer: Answer) -> Option<Answer> {
        let gathering = self.gatherings.get_mut(&client.serial)?;
        gathering.missing &= !from.bit();
        let answer = match gathering.so_far.take() {
            Some(so_far) => sums::both(so_far, answer),
            None => answer,
        };
        if gathering.missing != 0 {
            gathering.so_far = Some(answer);
            return None;
        }
        self.gatherings.remove(&client.serial);
        Some(answer)
    }

    /// Who waits for an answer of this one.
    fn waiting_for(&self, worker: WorkerId) -> Vec<ClientKey> {
        let all = self.gatherings.values();
        let waiting = all.filter(|it| it.missing & worker.bit() != 0);
        waiting.map(|gathering| gathering.client).collect()
    }
}

impl Member {
    fn send(&mut self) {
        while let Some(order) = self.backlog.pop_front() {
            match self.fast.send(order) {
                Ok(()) => {}
                Err(Unsent::NoRoom(order)) => {
                    self.backlog.push_front(order);
                    return;
                }
                Err(Unsent::Ended(order)) => self.undone.push(order),
            }
        }
    }
}

impl Desk {
    /// One worker has answered what a client has asked of it.
    pub(super) fn answers(&mut self, from: WorkerId, client: ClientKey, answer: Answer) {
        if let Some(answer) = self.crew.gather(from, client, answer) {
            self.answered(from, client, answer);
        }
    }

    /// A worker has ended before the others: nobody waits for it any more.
    pub(super) fn worker_ended(&mut self, worker: WorkerId) {
        for client in self.crew.waiting_for(worker) {
            self.answers(worker, client, Err(Refused::Stopping));
        }
    }

    /// Sees to what was ordered of workers that have ended.
    pub(super) fn see_to_undone(&mut self) {
        while let Some((worker, order)) = self.crew.undone() {
            self.undo(worker, order);
        }
    }

    /// A worker that has ended does not carry out an order. What programs have sent with it can take long to close.
    pub(super) fn undo(&mut self, worker: WorkerId, order: Order) {
        let Order::Ask { client, what, .. } = order else {
            return;
        };
        match what {
            Ask::Bound { socket, uid, .. } => self.closing.close(uid, vec![socket]),
            Ask::Capture(capture) => self.captured(*capture),
            Ask::Attach { session, .. } => self.spent(worker, *session),
            _ => {}
        }
        self.answers(worker, client, Err(Refused::Stopping));
    }

    /// Orders all workers the same.
    pub(super) fn order_all(&mut self, order: impl Fn() -> Order) {
        for worker in self.crew.working() {
            self.crew.order(worker, order());
        }
    }
}
