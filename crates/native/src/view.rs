//! What has arrived, looked at where it is.

use std::sync::atomic::AtomicU8;

use host::Errno;
use queue_pair::Area;

use crate::event::Handle;
use crate::queue::Queue;
use crate::stream::Stream;

/// The most that a view of a connection of the kernel's shows, in bytes.
const OWN_VIEW: usize = 64 * 1024;

/// Bytes that have arrived: on the engine where it has put them, on the kernel in a buffer of its
/// own. What is not [released](Queue::release) keeps the peer from sending as much.
pub struct View {
    /// Its queue's number.
    queue: u64,
    handle: Handle,
    seen: Seen,
}

enum Seen {
    Engine(host::View),
    Own { area: Area, len: usize },
}

impl View {
    /// Its bytes, at least one, at the same place until it is released or its connection closed.
    ///
    /// # Errors
    /// `ESTALE`: this process is the child of a fork.
    pub fn bytes(&self) -> Result<&[AtomicU8], Errno> {
        match &self.seen {
            Seen::Engine(view) => view.bytes(),
            Seen::Own { area, len } => area.slice(0, *len).map_err(|_| Errno::FAULT),
        }
    }
}

impl Queue {
    /// The next stretch of what has arrived on a connection, at most `limit` bytes. `None` is the end
    /// of the stream. While a view of a connection is not released, nothing can be received by
    /// copying.
    ///
    /// # Errors
    /// `EBADF`: there is no such connection. `EAGAIN`: there is nothing yet. `EINVAL`: `limit` is 0.
    /// `EBUSY`: a posted buffer waits for bytes.
    /// Otherwise what ended the connection.
    pub fn view(&mut self, handle: Handle, limit: usize) -> Result<Option<View>, Errno> {
        if limit == 0 {
            return Err(Errno::INVAL);
        }
        let queue = self.number;
        let connection = self.connection(handle)?;
        if !connection.posts.is_empty() {
            return Err(Errno::BUSY);
        }
        let seen = match &connection.stream {
            Stream::Engine(socket) => socket.view(limit).map(|view| view.map(Seen::Engine)),
            Stream::Kernel(stream) => {
                let area = Area::private("view", limit.min(OWN_VIEW));
                let read = area
                    .slice(0, area.len() as usize)
                    .map_err(|_| Errno::FAULT)
                    .and_then(|to| queue_pair::read_in(to, stream.fd(), None));
                read.map(|len| (len > 0).then_some(Seen::Own { area, len }))
            }
        };
        match seen {
            Ok(None) => connection.ended().map(|()| None),
            Ok(Some(seen)) => {
                connection.views += 1;
                Ok(Some(View {
                    queue,
                    handle,
                    seen,
                }))
            }
            Err(errno) => Err(connection.note(errno)),
        }
    }

    /// Gives back what a view shows. Views of one connection come back in any order.
    ///
    /// # Errors
    /// `EBADF`: its connection is closed, and its memory went back then. `EINVAL`: it is another queue's, where
    /// it stays as if it were not released.
    pub fn release(&mut self, view: View) -> Result<(), Errno> {
        if view.queue != self.number {
            return Err(Errno::INVAL);
        }
        let connection = self.connection(view.handle)?;
        connection.views -= 1;
        match (&connection.stream, view.seen) {
            (Stream::Engine(socket), Seen::Engine(view)) => socket.release(view),
            _ => Ok(()),
        }
    }
}
