//! Which doorbell the engine rings for a connection ([`queue_pair::bells`]): that of the set that it is in, if nobody
//! else wants to hear of it. Whoever begins to has that taken back first.

use std::sync::atomic::{AtomicBool, Ordering};

use super::State;
use crate::ready_set::SourceHandle;

/// Whether the engine was told to ring one bell alone. Changed under the lock on the state.
#[derive(Debug, Default)]
pub(super) struct OneBell(AtomicBool);

impl OneBell {
    /// The connection has another name now, of which nothing was said.
    pub(super) fn forget(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Says which, if that was not said: with the first news that come after the set's threads have slept.
    pub(super) fn say_once(&self, state: &State, source: &SourceHandle) {
        if !self.0.load(Ordering::Relaxed) {
            let _ = self.say(state, source);
        }
    }

    /// Says which, or that it is any, after others have begun to wait. True: until now it was one; for what was said
    /// before this it alone was rung.
    #[must_use = "others may sleep on what it was rung for"]
    pub(super) fn say(&self, state: &State, source: &SourceHandle) -> bool {
        let Some(link) = &state.link else {
            return false;
        };
        let before = self.0.load(Ordering::Relaxed);
        let bell = source.0.only_bell();
        if bell.is_none() && !before {
            return false;
        }
        let said = link.attachment.name_bell(link.conn.index, bell);
        self.0.store(said, Ordering::Relaxed);
        before && !said
    }
}
