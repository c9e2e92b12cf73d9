//! Sending and receiving.

use tcp::{Extent, Request, RequestError};

use super::open::wait_or;
use super::{Attempt, Fd, Role, Sockets};
use crate::script::Errno;
use crate::script::call::constant::{MSG_DONTWAIT, MSG_MORE, MSG_PEEK, MSG_WAITALL};

impl Sockets {
    /// `send`, and `write` with no flags: how many bytes were taken. A blocking call is done when all
    /// are; the caller offers the rest again.
    ///
    /// # Errors
    /// The call's.
    pub fn send(&mut self, fd: Fd, bytes: &[u8], flags: i32) -> Attempt<usize> {
        let now = self.now;
        let socket = self.socket(fd)?;
        let waits = !(socket.non_blocking || flags & MSG_DONTWAIT != 0);
        let limit = socket.send_buffer;
        let Role::Connection(connection) = &mut socket.role else {
            return Err(Errno::EPIPE.into());
        };
        if let Some(error) = connection.error.take() {
            return Err(error.into());
        }
        if connection.shut_write || connection.update.failed.is_some() {
            return Err(Errno::EPIPE.into());
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        let pending = connection.written - connection.update.acked;
        let room = limit.saturating_sub(usize::try_from(pending).unwrap_or(usize::MAX));
        // Before the handshake is done, and while there is no room, a call waits.
        if !connection.update.connected || room == 0 {
            return Err(wait_or(!waits, Errno::EAGAIN));
        }
        let taken = room.min(bytes.len());
        let id = connection.id;
        let addr = self.outbox.keep(id, &bytes[..taken]);
        let extent = Extent {
            addr,
            len: taken as u32,
        };
        let more = flags & MSG_MORE != 0;
        let asked = self
            .stack()
            .on_request(now, id, Request::Send { extent, more });
        if let Err(error) = asked {
            self.outbox.take_back(id, taken);
            return Err(match error {
                RequestError::TooManyExtents => wait_or(!waits, Errno::EAGAIN),
                _ => Errno::EPIPE.into(),
            });
        }
        if let Role::Connection(connection) = &mut self.socket(fd)?.role {
            connection.written += taken as u64;
        }
        self.settle();
        Ok(taken)
    }

    /// `recv`, and `read` with no flags: what was read; nothing at the end of the peer's stream.
    ///
    /// # Errors
    /// The call's.
    pub fn receive(&mut self, fd: Fd, count: usize, flags: i32) -> Attempt<Vec<u8>> {
        let now = self.now;
        let socket = self.socket(fd)?;
        let waits = !(socket.non_blocking || flags & MSG_DONTWAIT != 0);
        let Role::Connection(connection) = &mut socket.role else {
            return Err(Errno::ENOTCONN.into());
        };
        let unread = connection.update.received - connection.consumed;
        let ended = connection.update.peer_closed || connection.shut_read;
        let wanted = if flags & MSG_WAITALL != 0 && !ended && connection.error.is_none() {
            count as u64
        } else {
            1
        };
        if count == 0 {
            return Ok(Vec::new());
        }
        if unread < wanted.min(count as u64) || unread == 0 {
            if let Some(error) = connection.error.take() {
                return Err(error.into());
            }
            if ended || connection.update.failed.is_some() {
                return Ok(Vec::new());
            }
            if !connection.update.connected && waits {
                return Err(super::Refusal::Wait);
            }
            return Err(wait_or(!waits, Errno::EAGAIN));
        }
        let id = connection.id;
        let count = unread.min(count as u64);
        if flags & MSG_PEEK != 0 {
            return Ok(self.memory.peek(id, count));
        }
        connection.consumed += count;
        let consumed = connection.consumed;
        let bytes = self.memory.read(id, count);
        // Of a connection that has ended nobody needs to know.
        let _ = self
            .stack()
            .on_request(now, id, Request::Consumed(consumed));
        self.settle();
        Ok(bytes)
    }
}
