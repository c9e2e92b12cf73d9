//! Memory of the send area that somebody holds.

use std::sync::Arc;

use super::{Attachment, Connection};
use crate::lock::lock;
use crate::send_pool::Run;

/// A run of the send area. It goes back when nobody holds it any more, nor a send that names it.
pub(crate) struct HeldRun<C: Connection<Attachment<C>>> {
    pub(crate) attachment: Arc<Attachment<C>>,
    pub(crate) run: Option<Arc<Run>>,
}

impl<C: Connection<Attachment<C>>> HeldRun<C> {
    /// Holds it, from the pool of this attachment.
    pub(crate) fn new(attachment: Arc<Attachment<C>>, run: Run) -> Self {
        Self {
            attachment,
            run: Some(Arc::new(run)),
        }
    }

    /// The same once more.
    pub(crate) fn share(&self) -> Self {
        Self {
            attachment: Arc::clone(&self.attachment),
            run: self.run.clone(),
        }
    }
}

impl<C: Connection<Attachment<C>>> Drop for HeldRun<C> {
    fn drop(&mut self) {
        if self.attachment.is_parents() {
            return;
        }
        // Otherwise the last send that names it gives it back.
        if let Some(run) = self.run.take().and_then(Arc::into_inner) {
            lock(&self.attachment.pool).give_run_back(run);
            self.attachment.freed();
        }
    }
}
