//! What a socket is ready for.

use super::{Attempt, Fd, Role, Sockets};
use crate::script::call::constant::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};

impl Sockets {
    /// The events of `poll` that hold of a socket now, asked for or not.
    ///
    /// # Errors
    /// There is no such socket.
    pub fn events(&mut self, fd: Fd) -> Attempt<i32> {
        let socket = self.socket(fd)?;
        let limit = socket.send_buffer as u64;
        let connection = match &socket.role {
            Role::Fresh => return Ok(POLLOUT | POLLHUP),
            Role::Listener(id) => {
                let id = *id;
                let waiting = self.stack().waiting(id) > 0;
                return Ok(if waiting { POLLIN } else { 0 });
            }
            Role::Connection(connection) => connection,
        };
        let update = &connection.update;
        let failed = update.failed.is_some();
        let mut events = 0;
        if connection.error.is_some() {
            events |= POLLERR;
        }
        if !update.connected && !failed {
            return Ok(events);
        }
        let peer_closed = update.peer_closed || connection.shut_read || failed;
        if peer_closed {
            events |= POLLIN | POLLRDHUP;
        }
        if update.received > connection.consumed {
            events |= POLLIN;
        }
        if failed || peer_closed && connection.shut_write {
            events |= POLLHUP;
        }
        let pending = connection.written - update.acked;
        // As Linux: writable when a third of the buffer is free.
        if failed || connection.shut_write || pending + pending / 2 < limit {
            events |= POLLOUT;
        }
        Ok(events)
    }

    /// How much has arrived: bytes of a connection since it began, connections that wait at a
    /// listener. When it grows, `epoll` has an edge to tell of, whatever was ready before.
    ///
    /// # Errors
    /// There is no such socket.
    pub fn arrived(&mut self, fd: Fd) -> Attempt<u64> {
        Ok(match &self.socket(fd)?.role {
            Role::Fresh => 0,
            Role::Listener(id) => {
                let id = *id;
                self.stack().waiting(id) as u64
            }
            Role::Connection(connection) => connection.update.received,
        })
    }
}
