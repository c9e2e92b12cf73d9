//! Locks that a thread takes together, and holds while it forks.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::lock::{lock, try_lock};

/// How long one lock is waited for while others are held: who has it may wait for one of those.
const PATIENCE: Duration = Duration::from_millis(20);

/// A lock that is held, whatever it protects.
trait Held {}

impl<T> Held for MutexGuard<'_, T> {}

/// How locks are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// For a moment each, but the first, for which one waits better when he comes back. If one is not to be had, neither
    /// are those that come after it.
    Together,
    /// For a moment each, whatever is missing.
    AsCanBe,
    /// Whoever has them, and for however long.
    Surely,
}

/// The locks that were taken so far.
pub(crate) struct Locks<'a> {
    held: Vec<Box<dyn Held + 'a>>,
    manner: Manner,
    /// Some were not to be had.
    are_missing: bool,
}

impl<'a> Locks<'a> {
    /// None yet.
    pub(crate) fn taken(manner: Manner) -> Self {
        Self {
            held: Vec::new(),
            manner,
            are_missing: false,
        }
    }

    /// Further ones are waited for like this.
    pub(crate) fn go_on(&mut self, manner: Manner) {
        self.manner = manner;
    }

    /// Takes a lock, and keeps it.
    pub(crate) fn take<T>(&mut self, mutex: &'a Mutex<T>) {
        let guard = match self.manner {
            Manner::Together if self.are_missing => return,
            Manner::Together if self.held.is_empty() => try_lock(mutex),
            Manner::Together | Manner::AsCanBe => lock_soon(mutex),
            Manner::Surely => Some(lock(mutex)),
        };
        match guard {
            Some(guard) => self.held.push(Box::new(guard)),
            None => self.are_missing = true,
        }
    }

    /// Whether all were to be had.
    pub(crate) fn are_all(&self) -> bool {
        !self.are_missing
    }
}

fn lock_soon<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let begin = Instant::now();
    loop {
        if let guard @ Some(_) = try_lock(mutex) {
            return guard;
        }
        if begin.elapsed() > PATIENCE {
            return None;
        }
        rustix::thread::sched_yield();
    }
}
