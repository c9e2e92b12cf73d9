//! Send memory that goes back to the machine, and files that go back to the engine.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Attachment;
use super::connection::Connection;
use crate::clock::monotonic_ns;
use crate::lock::lock;
use crate::send_pool::Look;

impl<C: Connection<Attachment<C>>> Attachment<C> {
    /// A thread is about to sleep: gives back what the program has not sent from for a while, memory and
    /// files. Returns
    /// when it is to look again; then it says by [`rests_no_longer`](Self::rests_no_longer) that it is
    /// awake.
    pub(crate) fn give_memory_back(&self) -> Option<Duration> {
        // Of a parent's nothing is mapped here.
        if self.is_parents() {
            return None;
        }
        let again = self.forget_files();
        let looks_in = self.give_send_memory_back();
        match (again, looks_in) {
            (Some(again), Some(looks_in)) => Some(again.min(looks_in)),
            (again, looks_in) => again.or(looks_in),
        }
    }

    fn give_send_memory_back(&self) -> Option<Duration> {
        // It ends: between two times that something is to be done lies a second.
        loop {
            let mut pool = lock(&self.pool);
            if !pool.has_spare() {
                return None;
            }
            let spare = match pool.look(monotonic_ns()) {
                Look::Nothing => return None,
                Look::Later(ns) => return Some(Duration::from_nanos(ns)),
                Look::Now(spare) => spare,
            };
            drop(pool);
            let given = spare.stretches().try_for_each(|(addr, len)| {
                let len = usize::try_from(len).map_err(std::io::Error::other)?;
                self.send.give_back(addr, len)
            });
            lock(&self.pool).put_back(spare, given.is_ok());
            // Meanwhile somebody may have found none.
            self.freed();
        }
    }

    /// The thread that was to look again is awake.
    pub(crate) fn rests_no_longer(&self) {
        if !self.is_parents() {
            lock(&self.pool).looks_no_longer();
        }
    }

    /// The program may not make the calls any more by which memory is given back, which stays, and by which a
    /// thread leaves its core to others before it sleeps.
    pub(crate) fn keep_memory(&self) {
        self.hesitation.never.store(true, Ordering::Relaxed);
        lock(&self.pool).keep_all();
    }
}
