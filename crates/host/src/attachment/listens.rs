//! What an attachment and a session ask of listeners. Few calls a connection go by here, and none that moves
//! bytes, so listeners are objects.

use std::sync::{Arc, Mutex, Weak};

use queue_pair::Violation;

use crate::lock::lock;
use crate::locks::Locks;
use crate::ready_set::SourceHandle;

/// Who is handed what the engine has accepted. Called by the pumping thread.
pub(crate) trait Accepts<C>: Send + Sync {
    /// The engine hands over a connection.
    ///
    /// # Errors
    /// It had no credit for that.
    fn handed(&self, connection: Arc<C>) -> Result<(), Violation>;

    /// The engine has taken offers back that this process did not accept.
    fn offers_withdrawn(&self);

    /// The engine is gone, and what it had handed over with it.
    fn lost_engine(&self);
}

/// A listener of a session, whose engines `A` come and go.
pub(crate) trait Listens<A>: Send + Sync {
    /// Its readiness, and who watches it.
    fn source(&self) -> &SourceHandle;

    /// Takes the locks, for a fork.
    fn lock_all<'a>(&'a self, locks: &mut Locks<'a>);

    /// The process waits for connections from now on.
    fn want(self: Arc<Self>);

    /// It is announced to an engine that has come.
    fn announce_anew(self: Arc<Self>, attachment: &Arc<A>);

    /// The same to one that was perhaps shown it and did not run, and runs again.
    fn announce_again(self: Arc<Self>, attachment: &Arc<A>);

    /// What the engine has offered may be accepted, as it might not be for a while.
    fn may_accept_again(&self);

    /// No engine has come.
    fn has_no_engine(&self);
}

/// The listeners of a session.
pub(crate) struct Listeners<A>(Mutex<Vec<Weak<dyn Listens<A>>>>);

impl<A> Default for Listeners<A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<A> Listeners<A> {
    /// This one is to be announced to every engine.
    pub(crate) fn know(&self, listener: &Arc<dyn Listens<A>>) {
        lock(&self.0).push(Arc::downgrade(listener));
    }

    /// The inverse of [`know`](Self::know).
    pub(crate) fn forget(&self, listener: &dyn Listens<A>) {
        lock(&self.0).retain(|one| !std::ptr::addr_eq(one.as_ptr(), listener));
    }

    /// Those that there still are.
    pub(crate) fn living(&self) -> Vec<Arc<dyn Listens<A>>> {
        let mut listeners = lock(&self.0);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.iter().filter_map(Weak::upgrade).collect()
    }

    /// Takes the lock, for a fork.
    pub(crate) fn lock_all<'a>(&'a self, locks: &mut Locks<'a>) {
        locks.take(&self.0);
    }
}
