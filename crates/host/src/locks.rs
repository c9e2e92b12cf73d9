//! Locks that a thread takes together, and holds while it forks.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::lock::try_lock;

/// How long a fork waits for one lock. Longer waits only one that forks in a signal handler, for
/// itself: it goes on, and the child does what the handler interrupted.
const PATIENCE: Duration = Duration::from_millis(200);

/// A lock that is held, whatever it protects.
trait Held {}

impl<T> Held for MutexGuard<'_, T> {}

/// The locks that were taken so far.
#[derive(Default)]
pub(crate) struct Locks<'a>(Vec<Box<dyn Held + 'a>>);

impl<'a> Locks<'a> {
    /// Takes a lock, and keeps it.
    pub(crate) fn take<T>(&mut self, mutex: &'a Mutex<T>) {
        let begin = Instant::now();
        loop {
            if let Some(guard) = try_lock(mutex) {
                self.0.push(Box::new(guard));
                return;
            }
            if begin.elapsed() > PATIENCE {
                return;
            }
            rustix::thread::sched_yield();
        }
    }
}
