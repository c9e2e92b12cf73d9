//! Receiving into memory of the program's own.
//!
//! On the engine it is the engine that places what comes. On the kernel, and into memory that is not this
//! engine's, the library reads what has come when the queue is asked, straight from the socket.

use host::Errno;

use crate::connection::{Connection, Life};
use crate::event::{Event, Handle, Kind};
use crate::memory::{Memory, Place};
use crate::post::Post;
use crate::queue::Queue;
use crate::stream::Stream;

/// Buffers that a connection may have at once, as on the engine.
const MOST: usize = 64;

impl Queue {
    /// Posts `len` bytes of `memory` from `offset` on to receive into: there comes what follows all that
    /// was received or posted for before. [`Kind::Placed`] tells what has come, under `cookie`, and
    /// [`Kind::Filled`] when the buffer is the program's again. On the engine it is placed there as it
    /// comes, without a copy at the host. While a buffer waits nothing is received otherwise.
    ///
    /// # Errors
    /// `EBADF`: there is no such connection. `EINVAL`: it is not all inside the memory, or has no bytes.
    /// `EBUSY`: a view is not released. `ENOBUFS`: 64 are posted, or as many as the engine fills and 64 besides.
    /// `ENOTCONN`: it is still being opened.
    pub fn post(
        &mut self,
        handle: Handle,
        memory: &Memory,
        offset: usize,
        len: usize,
        cookie: u64,
    ) -> Result<(), Errno> {
        let inside = offset
            .checked_add(len)
            .is_some_and(|end| end <= memory.len());
        if !inside || len == 0 {
            return Err(Errno::INVAL);
        }
        let connection = self.connection(handle)?;
        if connection.life == Life::Opening {
            return Err(Errno::NOTCONN);
        }
        if connection.views > 0 {
            return Err(Errno::BUSY);
        }
        let at_engine = match (&connection.stream, &memory.place) {
            (Stream::Engine(socket), Place::Engine(registered)) if connection.posts.is_empty() => {
                match socket.post(registered, offset, len, cookie) {
                    // It is another engine's, or has another reader, or the connection is over: the library copies
                    // what is left.
                    Err(Errno::STALE | Errno::NOTCONN) => false,
                    other => other.map(|()| true)?,
                }
            }
            _ => false,
        };
        if !at_engine {
            // Those that the engine fills, if there are some, are before it in the stream.
            if connection.posts.len() >= MOST {
                return Err(Errno::NOBUFS);
            }
            connection.posts.push_back(Post {
                memory: memory.share(),
                offset,
                len,
                filled: 0,
                told: 0,
                cookie,
            });
        }
        self.tell_placed(handle);
        Ok(())
    }
}

impl Connection {
    /// Whether a posted buffer waits for bytes.
    pub(crate) fn is_posted(&self) -> bool {
        let at_engine = matches!(&self.stream, Stream::Engine(socket) if socket.is_posted());
        at_engine || !self.posts.is_empty()
    }

    /// Tells what has become of posted buffers.
    pub(crate) fn tell_placed(&mut self, handle: Handle, mut tell: impl FnMut(Event)) {
        let event = |cookie, bytes: usize, is_back, error: Option<Errno>| Event {
            kind: if is_back { Kind::Filled } else { Kind::Placed },
            error: error.map_or(0, Errno::raw_os_error),
            handle,
            cookie,
            bytes: bytes as u64,
        };
        let failed = self.ended().err();
        let mut by_engine = true;
        while let (Stream::Engine(socket), true) = (&self.stream, by_engine) {
            // One may become full meanwhile; it is told of before what is behind it.
            by_engine = socket.is_posted();
            socket.take_placed(self.unit, |placed| {
                // The error is told once, and may have been.
                let ended = placed.is_back && !placed.is_full;
                let error = placed.error.or(failed.filter(|_| ended));
                tell(event(
                    placed.key,
                    placed.filled as usize,
                    placed.is_back,
                    error,
                ));
            });
            if by_engine && socket.is_posted() {
                return;
            }
        }
        if self.posts.is_empty() {
            return;
        }
        let over = self.fill_posts();
        let failed = over.flatten();
        while let Some(post) = self.posts.front_mut() {
            let is_full = post.filled == post.len;
            if is_full || over.is_some() {
                let error = failed.filter(|_| !is_full);
                tell(event(post.cookie, post.filled, true, error));
                self.posts.pop_front();
                continue;
            }
            if post.filled - post.told >= self.unit.max(1) as usize {
                post.told = post.filled;
                tell(event(post.cookie, post.filled, false, None));
            }
            break;
        }
    }

    /// Reads what has come into the buffers. Returns why nothing more comes, if that is so.
    fn fill_posts(&mut self) -> Option<Option<Errno>> {
        for post in self.posts.iter_mut() {
            while post.filled < post.len {
                let read = post.rest().and_then(|to| match &self.stream {
                    Stream::Kernel(stream) => queue_pair::read_in(to, stream.fd(), None),
                    Stream::Engine(socket) => socket.recv_into(to, false),
                });
                match read {
                    Ok(0) => return Some(self.ended().err()),
                    Ok(read) => post.filled += read,
                    Err(Errno::AGAIN) => return None,
                    Err(Errno::INTR) => {}
                    Err(errno) => return Some(Some(self.note(errno))),
                }
            }
        }
        None
    }
}
