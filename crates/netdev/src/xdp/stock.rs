//! Sockets for receive queues that may come. Making one takes a privilege, which who has the queues may not have.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use super::OpenError;
use super::socket::new_socket;

/// How often whoever takes one tries, where others are taking theirs.
const TRIES: u32 = 1000;

/// Sockets that are bound to nothing, as many as are wanted, or fewer until somebody has
/// [replaced](Self::add) those that were taken.
#[derive(Debug)]
pub struct Stock {
    sockets: Mutex<Vec<OwnedFd>>,
    wanted: usize,
    /// Tells whoever replaces them.
    taken: SyncSender<()>,
}

impl Stock {
    /// So many; and what hears when some were taken.
    ///
    /// # Errors
    /// [`OpenError`], which says what to do.
    pub fn of(wanted: usize) -> Result<(Arc<Self>, Receiver<()>), OpenError> {
        let sockets = (0..wanted).map(|_| new_socket());
        let sockets = Mutex::new(sockets.collect::<Result<_, _>>()?);
        let (taken, hears) = sync_channel(1);
        let stock = Self {
            sockets,
            wanted,
            taken,
        };
        Ok((Arc::new(stock), hears))
    }

    /// One of them. Never waits.
    pub(super) fn take(&self) -> Option<OwnedFd> {
        // Others hold it for as long as it takes to take one, but may be interrupted meanwhile.
        let mut tries = (0..TRIES).map(|_| match self.sockets.try_lock() {
            Ok(mut sockets) => Some(sockets.pop()),
            Err(TryLockError::Poisoned(sockets)) => Some(sockets.into_inner().pop()),
            Err(TryLockError::WouldBlock) => {
                std::hint::spin_loop();
                None
            }
        });
        let socket = tries.find_map(|taken| taken).flatten();
        // Who has been told already looks for what is there.
        let _ = self.taken.try_send(());
        socket
    }

    /// Whether there are fewer than wanted.
    pub fn lacks(&self) -> bool {
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.len() < self.wanted
    }

    /// One more.
    pub fn add(&self, socket: OwnedFd) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.push(socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_told_of_and_replaced() {
        let (stock, taken) = Stock::of(0).expect("none");
        assert!(!stock.lacks() && stock.take().is_none());
        let stock = Stock {
            sockets: Mutex::default(),
            wanted: 2,
            taken: stock.taken.clone(),
        };
        assert!(stock.lacks());
        for _ in 0..3 {
            assert!(stock.take().is_none());
        }
        taken.try_recv().expect("told, once");
        assert!(taken.try_recv().is_err());
        for _ in 0..2 {
            let any = std::fs::File::open("/dev/null").expect("a descriptor");
            stock.add(any.into());
        }
        assert!(!stock.lacks() && stock.take().is_some() && stock.lacks());
    }
}
