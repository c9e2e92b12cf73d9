//! Which doorbell the engine rings for a connection ([`queue_pair::bells`]): that of the set that it is in, if nobody
//! else wants to hear of it, and none as long as nobody does. Whoever begins to says so first.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::bell_name::BellName;
use crate::ready_set::SourceHandle;

/// Which bell the engine was told to ring alone: its number and 1, or 0 for none, or [`NOBODYS`]. Changed under the
/// lock on the state.
#[derive(Debug, Default)]
pub(super) struct OneBell(AtomicU8);

/// Nobody has waited for it yet, and the engine rings none. There are 64 bells.
const NOBODYS: u8 = 255;

impl OneBell {
    /// The engine was told that nobody waits for it yet.
    pub(super) fn is_nobodys(&self) {
        self.0.store(NOBODYS, Ordering::Relaxed);
    }

    /// The connection has another name now, of which nothing was said.
    pub(super) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Says which, if that was not said: with the first news that come after the set's threads have slept.
    pub(super) fn say_once(
        &self,
        source: &SourceHandle,
        name: impl FnOnce(Option<BellName>) -> Option<u32>,
    ) {
        if self.0.load(Ordering::Relaxed) == 0 {
            // Until now it was any.
            let _ = self.say(source, name);
        }
    }

    /// Says which, or that it is any, after others have begun to wait. True: until now it was another one, or none; for
    /// what was said before this nobody else was rung. `name` says it for the connection, and has the bell's number if
    /// it is one.
    #[must_use = "others may sleep on what it was rung for"]
    pub(super) fn say(
        &self,
        source: &SourceHandle,
        name: impl FnOnce(Option<BellName>) -> Option<u32>,
    ) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        let bell = source.0.only_bell();
        if bell.is_none() && before == 0 {
            return false;
        }
        let named = name(bell);
        // There are 64.
        let now = named.map_or(0, |bell| bell as u8 + 1);
        self.0.store(now, Ordering::Relaxed);
        before != 0 && before != now
    }
}
