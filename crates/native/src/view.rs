//! What has arrived, looked at where it is.

use std::sync::atomic::AtomicU8;

use host::Errno;
use queue_pair::Area;

use crate::event::{Event, Handle, Kind};
use crate::queue::Queue;
use crate::stream::Stream;

/// Bytes that have arrived: on the engine where it has put them, on the kernel in a buffer of its
/// own. What is not [released](Queue::release) keeps the peer from sending as much; on the kernel no more than
/// the connection's receive buffer has is lent.
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
    /// `EBADF`: there is no such connection. `EAGAIN`: there is nothing yet, as for [`recv`](Self::recv), or as
    /// much is lent as may be; [`Kind::Receive`] tells when that has changed. `EINVAL`: `limit` is 0.
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
        let seen = match &mut connection.stream {
            Stream::Engine(socket) => socket.view(limit).map(|view| view.map(Seen::Engine)),
            Stream::Kernel(stream) => {
                let read = stream.view(limit);
                read.map(|read| read.map(|(area, len)| Seen::Own { area, len }))
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
        let (handle, cookie) = (view.handle, connection.cookie);
        match (&mut connection.stream, view.seen) {
            (Stream::Engine(socket), Seen::Engine(view)) => socket.release(view),
            (Stream::Kernel(stream), Seen::Own { len, .. }) => {
                if stream.released(len) {
                    // The kernel has told of what waits, and does not do so again.
                    let waits = Event {
                        kind: Kind::Receive,
                        error: 0,
                        handle,
                        cookie,
                        bytes: stream.available(),
                    };
                    self.happened.push_back(waits);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
