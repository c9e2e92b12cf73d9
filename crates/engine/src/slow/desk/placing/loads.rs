//! Where it is read what has come to listeners.

use netdev::steering::{Load, Loads};

/// Who knows what comes to the shared endpoints of a number.
pub trait ReadLoads: Send {
    /// All that has come; `None` if it is not known.
    fn of_slot(&mut self, slot: u16) -> Option<Load>;
}

impl ReadLoads for Loads {
    fn of_slot(&mut self, slot: u16) -> Option<Load> {
        match Loads::of_slot(self, slot) {
            Ok(load) => Some(load),
            Err(error) => {
                tracing::warn!(%error, "a listener's load cannot be read");
                None
            }
        }
    }
}
