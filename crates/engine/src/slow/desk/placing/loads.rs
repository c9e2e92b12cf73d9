//! Where it is read what has come to listeners.

use core::net::SocketAddr;

use netdev::steering::{Load, Loads};

/// Who knows what comes to the shared endpoints of a number.
pub trait ReadLoads: Send {
    /// All that has come to the one at `local`; `None` if it is not known.
    fn of_slot(&mut self, slot: u16, local: SocketAddr) -> Option<Load>;
}

/// By each of several interfaces.
impl ReadLoads for Vec<Loads> {
    fn of_slot(&mut self, slot: u16, local: SocketAddr) -> Option<Load> {
        let mut all = Load::default();
        for loads in self {
            match loads.of_slot(slot) {
                Ok(load) => all += load,
                Err(error) => {
                    tracing::warn!(%local, slot, %error, "what comes to a listener cannot be read");
                    return None;
                }
            }
        }
        Some(all)
    }
}
