//! What goes to the engine, and who waits for room.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use queue_pair::region::RingCells;
use queue_pair::ring::Producer;
use queue_pair::{ConnRef, OptionKind, Submission, bells};

use super::Attachment;
use super::connection::Connection;
use super::unread::is_answered;
use crate::lock::lock;

/// So many sockets may owe an announcement before the pump sees to it. Most of them have sent
/// something by then, and it rode along.
const OWED_AT_MOST: usize = 64;

/// The first version of the protocol in which a process ends reading for others.
const READS_END_SINCE: u32 = 7;

/// The ring, and what it had no room for.
pub(super) struct Submissions {
    ring: Producer<Submission, RingCells>,
    /// What may not be lost and found the ring full, in its order.
    deferred: VecDeque<Submission>,
    /// Sockets that are starved found no room here.
    starved_by_ring: bool,
}

impl Submissions {
    pub(super) fn new(ring: Producer<Submission, RingCells>) -> Self {
        Self {
            ring,
            deferred: VecDeque::new(),
            starved_by_ring: false,
        }
    }
}

impl<C: Connection<Attachment<C>>> Attachment<C> {
    /// Posts a submission, publishes it and rings if the engine sleeps. `false`: the ring is full. If it is
    /// `followed` by another, of a program that comes by here before it sleeps, that one rings for both: an
    /// engine on the same core would begin with half of what there is to do.
    pub(crate) fn post(&self, submission: &Submission, followed: bool) -> bool {
        if self.is_parents() {
            // The ring is not mapped here.
            return false;
        }
        let mut submissions = lock(&self.submissions);
        let posted = submissions.deferred.is_empty() && self.try_post(&mut submissions, submission);
        submissions.starved_by_ring |= !posted;
        submissions.ring.publish();
        drop(submissions);
        // Also when it did not fit: the engine must make room.
        self.ring_unless(followed && posted);
        posted
    }

    /// As [`post`](Self::post), but what finds the ring full is kept until there is room.
    pub(crate) fn post_surely(&self, submission: Submission) {
        self.keep_and_post(submission, false);
    }

    fn keep_and_post(&self, submission: Submission, followed: bool) {
        if self.is_parents() {
            return;
        }
        let mut submissions = lock(&self.submissions);
        if !submissions.deferred.is_empty() || !self.try_post(&mut submissions, &submission) {
            submissions.deferred.push_back(submission);
            self.deferred.store(true, Ordering::Relaxed);
        }
        submissions.ring.publish();
        drop(submissions);
        self.ring_unless(followed);
    }

    /// Reads what the engine has said, if something waits for that: who closes one after the other may do
    /// nothing else for long, and its peers wait. Nobody may hold a lock.
    pub(crate) fn read_for_deferred(self: &Arc<Self>) {
        if self.deferred.load(Ordering::Relaxed) && self.unread.is_much() {
            self.pump();
        }
    }

    /// Of what could not be posted yet, these have become void.
    pub(crate) fn withdraw_deferred(&self, is_void: impl Fn(&Submission) -> bool) {
        lock(&self.submissions).deferred.retain(|it| !is_void(it));
    }

    /// Nothing more will be read from a connection, by any process that has it.
    pub(crate) fn end_reading(&self, conn: ConnRef) {
        if self.speaks(READS_END_SINCE) {
            self.post_surely(Submission::ShutdownRead { conn });
        }
    }

    /// Sets an option of a connection. An engine that has not got it goes without.
    pub(crate) fn set_option(&self, conn: ConnRef, option: OptionKind, value: u64) {
        if self.speaks(option.since()) {
            let set = Submission::SetOption {
                conn,
                option,
                value,
            };
            // Who holds segments back does so for what he sends next.
            self.keep_and_post(set, option == OptionKind::Cork && value != 0);
        }
    }

    fn try_post(&self, submissions: &mut Submissions, submission: &Submission) -> bool {
        let is_answered = is_answered(submission);
        if self.keeps_still() || is_answered && !self.has_read_enough() {
            return false;
        }
        let posted = submissions.ring.post(submission);
        let posted = posted.unwrap_or_else(|_violation| {
            self.condemn();
            false
        });
        if posted && is_answered {
            self.unread.one_more();
        }
        posted
    }

    /// Whether more may be asked before somebody reads what the engine says.
    fn has_read_enough(&self) -> bool {
        if !self.unread.is_much() {
            return true;
        }
        // Who is just reading says so himself.
        let has_read_all = self.news() == Some(false);
        if has_read_all {
            self.unread.all_is_read();
        }
        has_read_all
    }

    /// So many things that the engine had said were read, or `all` of them.
    pub(super) fn has_read(&self, count: u32, all: bool) {
        // Who finds just now that it was not keeps what he wants to submit, and only who reads looks at what is kept.
        // Either this comes first, and he is told, or he does, and has said what he keeps before that is looked at.
        // Where it is far from too much there is no lock: for what he keeps to be missed half of it would have to be
        // submitted between two lines of this, and then the next who reads posts it.
        let _either_first = self
            .unread
            .is_nearly_much()
            .then(|| lock(&self.submissions));
        match all {
            true => self.unread.all_is_read(),
            false => self.unread.is_read(count),
        }
    }

    pub(super) fn post_deferred(&self) {
        if !self.deferred.load(Ordering::Relaxed) {
            return;
        }
        let mut submissions = lock(&self.submissions);
        while let Some(first) = submissions.deferred.pop_front() {
            if !self.try_post(&mut submissions, &first) {
                submissions.deferred.push_front(first);
                break;
            }
        }
        self.deferred
            .store(!submissions.deferred.is_empty(), Ordering::Relaxed);
        submissions.ring.publish();
        drop(submissions);
        self.ring_if_asleep();
    }

    /// Rings if the engine sleeps, or later, if what was posted is `followed` by more.
    fn ring_unless(&self, followed: bool) {
        if followed {
            self.owes_ring.store(true, Ordering::Relaxed);
        } else {
            self.ring_if_asleep();
        }
    }

    /// Rings for what was posted without.
    pub(super) fn ring_owed(&self) {
        if self.owes_ring.load(Ordering::Relaxed) {
            self.owes_ring.store(false, Ordering::Relaxed);
            self.ring_if_asleep();
        }
    }

    pub(super) fn ring_if_asleep(&self) {
        if self.engine.take(bells::ALL) != 0 {
            self.tell_core();
            let doorbell = self.doorbell.read();
            if let Some(doorbell) = &*doorbell.unwrap_or_else(PoisonError::into_inner) {
                doorbell.ring_by_write();
            }
        }
    }

    /// Notes that `socket` was read from, so that the engine hears of it before anyone sleeps.
    pub(crate) fn owe_announcement(&self, socket: &Arc<C>) {
        let mut owed = lock(&self.unannounced);
        owed.push(Arc::clone(socket));
        if owed.len() >= OWED_AT_MOST {
            self.owes_many.store(true, Ordering::Relaxed);
        }
    }

    /// Announces what is owed if it is much: a program that never sleeps must not pin the memory of
    /// everything that it has read.
    pub(super) fn announce_many(&self) {
        if self.owes_many.load(Ordering::Relaxed) {
            self.announce_owed();
        }
    }

    /// Tells the engine what it has to know before anyone sleeps.
    pub(super) fn announce_owed(&self) {
        self.owes_many.store(false, Ordering::Relaxed);
        let mut owed = std::mem::take(&mut *lock(&self.unannounced));
        for socket in owed.drain(..) {
            socket.announce_consumption();
        }
        // Its memory is used again.
        let mut list = lock(&self.unannounced);
        if list.capacity() == 0 {
            *list = owed;
        }
        drop(list);
        self.ring_owed();
    }

    /// Whether those who found the ring full would find room: it is far from full. Then they are told.
    pub(super) fn has_room_for_starved(&self) -> bool {
        let mut submissions = lock(&self.submissions);
        let room = submissions.ring.room();
        let has_room = submissions.starved_by_ring
            && room.is_ok_and(|room| room >= submissions.ring.capacity() / 2);
        submissions.starved_by_ring &= !has_room;
        has_room
    }
}
