//! Sending and receiving.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use host::Errno;
use queue_pair::Area;
use rustix::fd::BorrowedFd;

use crate::connection::{Connection, Life};
use crate::event::Handle;
use crate::file::File;
use crate::memory::{Memory, Place};
use crate::queue::Queue;
use crate::stream::Stream;

/// The largest room of a connection of the kernel's, in bytes, as on the engine.
const OWN_ROOM: usize = 64 * 1024;

/// A stretch of memory, lent to be filled and committed. Dropping it sends nothing.
pub struct Room {
    handle: Handle,
    kept: Kept,
}

enum Kept {
    Engine(host::Room),
    Own(Area),
}

impl Room {
    /// The bytes to be filled, from the first on.
    ///
    /// # Errors
    /// `ESTALE`: this process is the child of a fork.
    pub fn bytes(&self) -> Result<&[AtomicU8], Errno> {
        match &self.kept {
            Kept::Engine(room) => room.bytes(),
            Kept::Own(area) => area.slice(0, area.len() as usize).map_err(|_| Errno::FAULT),
        }
    }
}

impl Queue {
    /// Sends `bytes`, or as many as there is room for: they are copied, and the call returns at once.
    /// `more` says that more follows at once, so that a last segment that is not full may wait.
    ///
    /// # Errors
    /// `EBADF`: there is no such connection. `EAGAIN`: there is no room; [`Room`](crate::Kind::Room)
    /// tells when there is. `ENOTCONN`: it is still being opened. `EPIPE`: this end is closed or the
    /// connection over. Otherwise what ended the connection.
    pub fn send(&mut self, handle: Handle, bytes: &[u8], more: bool) -> Result<usize, Errno> {
        self.transfer(handle, None, None, |stream| stream.send(bytes, more))
    }

    /// As [`send`](Self::send); what was sent comes back as [`Sent`](crate::Kind::Sent) with `cookie`
    /// when the peer has acknowledged it.
    ///
    /// # Errors
    /// As for `send`.
    pub fn send_async(
        &mut self,
        handle: Handle,
        bytes: &[u8],
        more: bool,
        cookie: u64,
    ) -> Result<usize, Errno> {
        self.transfer(handle, Some(cookie), None, |stream| {
            stream.send(bytes, more)
        })
    }

    /// As [`send`](Self::send), from bytes that others may write meanwhile, such as a [view's]: what a
    /// proxy does. With a cookie it is as [`send_async`](Self::send_async).
    ///
    /// # Errors
    /// As for `send`.
    ///
    /// [view's]: crate::View::bytes
    pub fn send_from(
        &mut self,
        handle: Handle,
        bytes: &[AtomicU8],
        more: bool,
        cookie: Option<u64>,
    ) -> Result<usize, Errno> {
        self.transfer(handle, cookie, None, |stream| stream.send_from(bytes, more))
    }

    /// Sends `len` bytes of `memory` from `offset` on, or as many as there is room for, without a
    /// copy at the host. With a cookie they come back as with [`send_async`](Self::send_async); until
    /// then they must not change.
    ///
    /// # Errors
    /// As for `send`; `EINVAL`: they are not all inside the memory. `ESTALE`: the memory is of an
    /// engine that is gone.
    pub fn send_registered(
        &mut self,
        handle: Handle,
        memory: &Memory,
        offset: usize,
        len: usize,
        more: bool,
        cookie: Option<u64>,
    ) -> Result<usize, Errno> {
        let inside = offset
            .checked_add(len)
            .is_some_and(|end| end <= memory.len());
        if !inside {
            return Err(Errno::INVAL);
        }
        // What the kernel sends is held back until it has come back; on the engine the send itself
        // holds it.
        let held = match &memory.place {
            Place::Own(area) => Some(Arc::clone(area)),
            Place::Engine(_) => None,
        };
        self.transfer(handle, cookie, held, |stream| {
            match (stream, &memory.place) {
                (Stream::Engine(socket), Place::Engine(registered)) => {
                    socket.send_registered(registered, offset, len, more)
                }
                // The kernel's connection, or memory that was made while there was no engine.
                (stream, _) => stream.send_from(&memory.bytes()?[offset..offset + len], more),
            }
        })
    }

    /// Sends up to `len` bytes of a file from `offset` on. 0 is the end of the file.
    ///
    /// # Errors
    /// As for `send`, and the kernel's for reading the file.
    pub fn send_file(
        &mut self,
        handle: Handle,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        more: bool,
        cookie: Option<u64>,
    ) -> Result<usize, Errno> {
        self.transfer(handle, cookie, None, |stream| {
            stream.send_file(file, offset, len, more)
        })
    }

    /// Sends up to `len` bytes of a registered file from `offset` on, or as many as there is room for. On the
    /// engine they are read when they leave, and again if they have to leave again, as the file is then: with
    /// a cookie they come back as with [`send_async`](Self::send_async), and until then they should not change.
    /// A file that has become shorter by then ends the connection. 0 is the end of the file.
    ///
    /// # Errors
    /// As for `send`, and the kernel's for reading the file.
    pub fn send_registered_file(
        &mut self,
        handle: Handle,
        file: &File,
        offset: u64,
        len: usize,
        more: bool,
        cookie: Option<u64>,
    ) -> Result<usize, Errno> {
        self.transfer(handle, cookie, None, |stream| {
            file.send(stream, offset, len, more)
        })
    }

    /// Lends up to `want` bytes (at least one, at most 64 KiB) to be filled in place and
    /// [committed](Self::commit). Until then nothing else can be sent on a connection of the engine's.
    ///
    /// # Errors
    /// As for [`send`](Self::send); `EBUSY`: one is lent already.
    pub fn room(&mut self, handle: Handle, want: usize) -> Result<Room, Errno> {
        let connection = self.open_connection(handle)?;
        let kept = match &mut connection.stream {
            Stream::Engine(socket) => socket.room(want).map(Kept::Engine),
            Stream::Kernel(stream) => stream
                .flush()
                .map(|()| Kept::Own(Area::private("room", want.clamp(1, OWN_ROOM)))),
        };
        match kept {
            Ok(kept) => Ok(Room { handle, kept }),
            Err(errno) => Err(refused(connection, errno)),
        }
    }

    /// Sends the first `len` bytes of `room`, all of them.
    ///
    /// # Errors
    /// As for `send`, and nothing was sent. `EAGAIN`: the room comes back to be committed later.
    /// `EINVAL`: the room is shorter than `len`.
    pub fn commit(
        &mut self,
        room: Room,
        len: usize,
        more: bool,
        cookie: Option<u64>,
    ) -> Result<(), (Option<Room>, Errno)> {
        let handle = room.handle;
        let plain = |errno| (None, errno);
        let connection = self.open_connection(handle).map_err(plain)?;
        if let (Stream::Kernel(stream), Some(_)) = (&mut connection.stream, cookie) {
            stream.ask_for_acks().map_err(plain)?;
        }
        let done = match (&mut connection.stream, room.kept) {
            (Stream::Engine(socket), Kept::Engine(room)) => socket
                .commit(room, len, more)
                .map_err(|(room, errno)| (room.map(Kept::Engine), errno)),
            (Stream::Kernel(stream), Kept::Own(area)) if len as u64 <= area.len() => {
                let mut bytes = vec![0; len];
                let copied = area.copy_out(0, &mut bytes).map_err(|_| Errno::FAULT);
                copied
                    .and_then(|()| stream.commit(&bytes, more))
                    .map_err(plain_kept)
            }
            _ => Err((None, Errno::INVAL)),
        };
        match done {
            Ok(()) => {
                if let (Some(cookie), 1..) = (cookie, len) {
                    connection.remember(cookie, len, None);
                    self.await_kernel(handle);
                }
                Ok(())
            }
            Err((kept, errno)) => {
                let errno = refused(connection, errno);
                Err((kept.map(|kept| Room { handle, kept }), errno))
            }
        }
    }

    /// Receives into `out`. 0 is the end of the stream, or an empty `out`.
    ///
    /// # Errors
    /// `EBADF`: there is no such connection. `EAGAIN`: there is nothing yet. `EBUSY`: a view is not
    /// released, or a posted buffer waits for bytes. Otherwise what ended the connection.
    pub fn recv(&mut self, handle: Handle, out: &mut [u8]) -> Result<usize, Errno> {
        self.receive(handle, out, false)
    }

    /// As [`recv`](Self::recv), but what is received stays to be received again.
    ///
    /// # Errors
    /// As for `recv`.
    pub fn peek(&mut self, handle: Handle, out: &mut [u8]) -> Result<usize, Errno> {
        self.receive(handle, out, true)
    }

    fn receive(&mut self, handle: Handle, out: &mut [u8], peek: bool) -> Result<usize, Errno> {
        let connection = self.connection(handle)?;
        if connection.views > 0 || !connection.posts.is_empty() {
            return Err(Errno::BUSY);
        }
        if out.is_empty() {
            return Ok(0);
        }
        match connection.stream.receive(out, peek) {
            Ok(0) => connection.ended().map(|()| 0),
            Ok(received) => Ok(received),
            Err(errno) => Err(connection.note(errno)),
        }
    }

    /// Sends by `send`, and remembers what is to come back.
    fn transfer(
        &mut self,
        handle: Handle,
        cookie: Option<u64>,
        held: Option<Arc<Area>>,
        send: impl FnOnce(&mut Stream) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let connection = self.open_connection(handle)?;
        if let (Stream::Kernel(stream), Some(_)) = (&mut connection.stream, cookie) {
            stream.ask_for_acks()?;
        }
        match send(&mut connection.stream) {
            Ok(sent) => {
                if let (Some(cookie), 1..) = (cookie, sent) {
                    connection.remember(cookie, sent, held);
                    self.await_kernel(handle);
                }
                Ok(sent)
            }
            Err(errno) => Err(refused(connection, errno)),
        }
    }

    fn open_connection(&mut self, handle: Handle) -> Result<&mut Connection, Errno> {
        let connection = self.connection(handle)?;
        if connection.life == Life::Opening {
            return Err(Errno::NOTCONN);
        }
        Ok(connection)
    }
}

/// A send found no room, or met an error.
fn refused(connection: &mut Connection, errno: Errno) -> Errno {
    connection.wants_room |= errno == Errno::AGAIN;
    connection.note(errno)
}

fn plain_kept(errno: Errno) -> (Option<Kept>, Errno) {
    (None, errno)
}
