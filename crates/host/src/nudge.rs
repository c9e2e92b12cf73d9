//! Ending the sleep of threads of this process for a reason that the engine knows nothing of: a
//! socket was shut down here, an interest was added whose socket is ready, the engine is gone.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex};

use rustix::event::EventfdFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::lock::lock;
use crate::locks::Locks;
use crate::private_fds::{Private, lift};

/// The way to end one thread's sleep. The descriptor is an eventfd that nobody else holds, so a
/// write to it never waits. Where none is left, it is *deaf*: who sleeps by it looks around by himself.
pub(crate) struct Nudge {
    asleep: AtomicBool,
    /// There is something to drain. Set after the write: a wake-up that comes between the two drains
    /// nothing, and the next sleep ends at once.
    nudged: AtomicBool,
    eventfd: Option<Private<OwnedFd>>,
}

/// Everyone who may sleep.
#[derive(Default)]
pub(crate) struct Nudges {
    /// How many sleep, or are about to: nobody looks at the list when it is zero.
    asleep: AtomicUsize,
    all: Mutex<Vec<Arc<Nudge>>>,
}

impl Nudges {
    /// One more who may sleep.
    pub(crate) fn join(&self) -> Result<Arc<Nudge>, Errno> {
        let eventfd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let nudge = Arc::new(Nudge::by(Some(Private::new(lift(eventfd)))));
        lock(&self.all).push(Arc::clone(&nudge));
        Ok(nudge)
    }

    /// The same, deaf if there is no descriptor.
    pub(crate) fn join_even_deaf(&self) -> Arc<Nudge> {
        self.join().unwrap_or_else(|_| Arc::new(Nudge::by(None)))
    }

    /// The inverse of [`join`](Self::join).
    pub(crate) fn leave(&self, nudge: &Arc<Nudge>) {
        self.wake(nudge);
        lock(&self.all).retain(|one| !Arc::ptr_eq(one, nudge));
    }

    /// Takes the lock, for a fork.
    pub(crate) fn lock_all<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.all);
    }

    /// This process is the child of a fork: those who may sleep are its parent's.
    pub(crate) fn forget_all(&self) {
        self.asleep.store(0, Ordering::Relaxed);
        for nudge in lock(&self.all).drain(..) {
            // Its descriptor is the parent's, too, and lists may name it still.
            nudge.asleep.store(false, Ordering::Relaxed);
        }
    }

    /// The caller is about to sleep: what changes from now on nudges it. It must look once more.
    pub(crate) fn sleep(&self, nudge: &Nudge) {
        if !nudge.asleep.swap(true, Ordering::Relaxed) {
            self.asleep.fetch_add(1, Ordering::Relaxed);
        }
        // Partner: the fence in `nudge_all`. Either that one sees that we sleep, or we see what it
        // changed.
        fence(Ordering::SeqCst);
    }

    /// The caller is awake.
    pub(crate) fn wake(&self, nudge: &Nudge) {
        if nudge.asleep.swap(false, Ordering::Relaxed) {
            self.asleep.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Ends every sleep, after something was changed.
    pub(crate) fn nudge_all(&self) {
        // Partner: the fence in `sleep`.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) == 0 {
            return;
        }
        for nudge in lock(&self.all).iter() {
            nudge.ring_if_asleep();
        }
    }
}

impl Nudge {
    pub(crate) fn by(eventfd: Option<Private<OwnedFd>>) -> Self {
        Self {
            asleep: AtomicBool::new(false),
            nudged: AtomicBool::new(false),
            eventfd,
        }
    }

    /// Readable when nudged. `None`: it is deaf.
    pub(crate) fn fd(&self) -> Option<&Private<OwnedFd>> {
        self.eventfd.as_ref()
    }

    /// Makes the descriptor readable, asleep or not.
    pub(crate) fn ring(&self) {
        if let Some(eventfd) = &self.eventfd {
            // It fails only when the counter is full, which wakes as well.
            let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
        }
        self.nudged.store(true, Ordering::Release);
    }

    /// Makes it readable if its thread sleeps. After a fence, as in [`nudge_all`](Nudges::nudge_all).
    pub(crate) fn ring_if_asleep(&self) {
        if self.asleep.load(Ordering::Relaxed) {
            self.ring();
        }
    }

    /// Takes the nudges back.
    pub(crate) fn drain(&self) {
        if !self.nudged.swap(false, Ordering::Acquire) {
            return;
        }
        if let Some(eventfd) = &self.eventfd {
            let mut count = [0; 8];
            // Nothing to read is as good.
            let _ = rustix::io::read(eventfd, &mut count);
        }
    }
}
