//! What a set is to the processes that have it since a fork.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::thread::counted::Counts;

/// See the [module](self).
#[derive(Default)]
pub struct Kin {
    /// The set's number in the family of processes that have it; 0 if it is this one's alone.
    family: AtomicU32,
    /// It was there at a fork, whether or not it could become a family's.
    forked: AtomicBool,
    /// Threads that sleep where they do not hear what others of the family do.
    pub in_kernel: InKernel,
}

impl Kin {
    /// Whether other processes may have it, too.
    pub fn are_there(&self) -> bool {
        self.family() != 0
    }

    /// The set's number in the family; 0 for none.
    pub fn family(&self) -> u32 {
        // With the count of those who sleep in the kernel: see `InKernel`.
        self.family.load(Ordering::SeqCst)
    }

    /// It goes through a fork: from now on another process may have it, and the [beacon](super::beacon) in it.
    pub fn forks(&self) {
        self.forked.store(true, Ordering::Relaxed);
    }

    /// Whether another process may have lit it, which need not be there any more to put that out. The beacon is one
    /// file for all of them, and stays lit without it.
    pub fn may_have_lit(&self) -> bool {
        self.forked.load(Ordering::Relaxed)
    }

    /// It is a family's from now on.
    pub fn join(&self, number: u32) {
        self.family.store(number, Ordering::SeqCst);
    }
}

/// Threads that sleep in the kernel's part of a set, where they do not hear the news. They are counted
/// before they look whether the set is a family's, so that either they see that, or a fork sees them.
#[derive(Default)]
pub struct InKernel(AtomicUsize);

impl InKernel {
    /// The caller is about to sleep there.
    pub fn enter(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// It does not any more.
    pub fn leave(&self) {
        let less = |count: usize| Some(count.saturating_sub(1));
        let _ = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }

    /// In the child of a fork, of which the other threads are no part.
    pub fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether any do.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

impl Counts for InKernel {
    fn enter(&self) {
        self.enter();
    }

    fn leave(&self) {
        self.leave();
    }
}
