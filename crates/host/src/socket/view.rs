//! Reading without a copy: a view is a stretch of what has arrived, where the engine has put it.
//!
//! Views are taken in the order of the stream and released in any order; the memory goes back to the
//! engine, and the receive window opens, as far as everything before is released (document 001: eager
//! receive, pulled by the host).

use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Weak};

use rustix::io::Errno;

use super::{Attachment, PendingError, Phase, Socket, SocketCore};
use crate::lock::lock;

/// Bytes that have arrived. Dropping it without [`release`](Socket::release) keeps its memory, and
/// what the peer may send, until the connection is closed.
pub struct View {
    socket: Weak<SocketCore>,
    attachment: Arc<Attachment>,
    addr: u64,
    len: u32,
    /// Where in the stream it begins.
    at: u64,
}

impl View {
    /// Its bytes. The engine leaves them alone; should it not, they are any bytes.
    ///
    /// # Errors
    /// `ESTALE`: this process is the child of a fork.
    pub fn bytes(&self) -> Result<&[AtomicU8], Errno> {
        if self.attachment.is_parents() {
            return Err(Errno::STALE);
        }
        let slice = self.attachment.receive.slice(self.addr, self.len as usize);
        slice.map_err(|_| Errno::STALE)
    }

    /// Its length in bytes, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.len as usize
    }
}

impl Socket {
    /// The next stretch of what has arrived, at most `limit` bytes of it. While a view is not
    /// released, nothing can be received by copying.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv), whose 0 at the end of the stream is `None` here.
    pub fn view(&self, limit: usize) -> Result<Option<View>, Errno> {
        let mut state = self.readable_ahead()?;
        if state.posts.as_ref().is_some_and(|posts| posts.wants()) {
            return Err(Errno::BUSY);
        }
        let lent = state.receive.lend(limit as u64);
        let Some((addr, len, at)) = lent else {
            return self.end_of(state, PendingError::Take).map(|_| None);
        };
        let Some(link) = &state.link else {
            return Err(Errno::NOTCONN);
        };
        let attachment = Arc::clone(&link.attachment);
        self.core.refresh(&state);
        Ok(Some(View {
            socket: Arc::downgrade(&self.core),
            attachment,
            addr,
            len,
            at,
        }))
    }

    /// Gives a view's memory back.
    ///
    /// # Errors
    /// `EINVAL`: it is not of this connection. `ESTALE`: another process reads it now.
    pub fn release(&self, view: View) -> Result<(), Errno> {
        let mut state = lock(&self.core.state);
        if !std::ptr::eq(view.socket.as_ptr(), Arc::as_ptr(&self.core)) {
            return Err(Errno::INVAL);
        }
        if state.link.is_none() && state.phase == Phase::Over {
            // The memory went back when the connection ended.
            return Ok(());
        }
        let free = state
            .receive
            .take_back(view.at, view.len)
            .ok_or(Errno::INVAL)?;
        if free == 0 {
            return Ok(());
        }
        if !state.take_copied(free) {
            return Err(Errno::STALE);
        }
        self.core.consumed(state);
        Ok(())
    }
}
