//! Where it is read what has come to listeners.

use core::net::SocketAddr;

use netdev::steering::{Load, Loads};

/// Who knows what comes to the shared endpoints of a number.
pub trait ReadLoads: Send {
    /// All that has come to the one at `local`; `None` if it is not known.
    fn of_slot(&mut self, slot: u16, local: SocketAddr) -> Option<Load>;
}

impl ReadLoads for Loads {
    fn of_slot(&mut self, slot: u16, local: SocketAddr) -> Option<Load> {
        match Loads::of_slot(self, slot) {
            Ok(load) => Some(load),
            Err(error) => {
                tracing::warn!(%local, slot, %error, "what comes to a listener cannot be read");
                None
            }
        }
    }
}
