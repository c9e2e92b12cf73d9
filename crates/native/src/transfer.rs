//! Sending and receiving.

use std::io::IoSlice;
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
use crate::sends::Back;
use crate::stream::Stream;

/// The largest room of a connection of the kernel's, in bytes, as on the engine.
const OWN_ROOM: usize = 64 * 1024;

/// A stretch of memory, lent to be filled and committed. Dropping it sends nothing.
pub struct Room {
    /// Its queue's number.
    queue: u64,
    handle: Handle,
    kept: Kept,
}

enum Kept {
    Engine(host::Room),
    Own(Arc<Area>),
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

/// A stretch of registered memory that is sent.
#[derive(Clone, Copy)]
pub struct Piece<'a> {
    /// The memory.
    pub memory: &'a Memory,
    /// Where it begins there.
    pub offset: usize,
    /// How many bytes.
    pub len: usize,
}

impl<'a> Piece<'a> {
    /// Its bytes.
    ///
    /// # Errors
    /// `EINVAL`: they are not all inside the memory. `ESTALE`: this process is the child of a fork.
    pub fn bytes(&self) -> Result<&'a [AtomicU8], Errno> {
        self.check()?;
        Ok(&self.memory.bytes()?[self.offset..self.offset + self.len])
    }

    fn check(&self) -> Result<(), Errno> {
        let end = self.offset.checked_add(self.len);
        let is_inside = end.is_some_and(|end| end <= self.memory.len());
        is_inside.then_some(()).ok_or(Errno::INVAL)
    }

    /// It as the engine's, if it is.
    fn at_engine(&self) -> Option<host::Piece<'a>> {
        match &self.memory.place {
            Place::Engine(memory) => Some(host::Piece {
                memory,
                offset: self.offset,
                len: self.len,
            }),
            Place::Own(_) => None,
        }
    }
}

/// A send: what is asked for of how it goes besides its bytes is said by `more` (more follows at once, so
/// that a last segment that is not full may wait) and `back` (whether it comes back, and when; a cookie in
/// an `Option` is [`Back::Acknowledged`]). It never waits.
impl Queue {
    /// Sends `bytes`, or as many as there is room for: they are copied, and the call returns at once.
    ///
    /// # Errors
    /// `EBADF`: there is no such connection. `EAGAIN`: there is no room; [`Room`](crate::Kind::Room)
    /// tells when there is. `ENOTCONN`: it is still being opened. `EPIPE`: this end is closed or the
    /// connection over. `EBUSY`: a [`Room`] of it is lent. Otherwise what ended the connection; what is
    /// [sent together](crate::KernelSockets) meets that later, and then the next send is told.
    pub fn send(&mut self, handle: Handle, bytes: &[u8], more: bool) -> Result<usize, Errno> {
        self.sendv(handle, &[IoSlice::new(bytes)], more, Back::Never)
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
        let parts = [IoSlice::new(bytes)];
        self.sendv(handle, &parts, more, Back::Acknowledged(cookie))
    }

    /// As [`send`](Self::send), from several places in turn: it is one send, and comes back as one.
    ///
    /// # Errors
    /// As for `send`.
    pub fn sendv(
        &mut self,
        handle: Handle,
        parts: &[IoSlice<'_>],
        more: bool,
        back: impl Into<Back>,
    ) -> Result<usize, Errno> {
        let len = parts.iter().map(|part| part.len()).sum();
        self.transfer(handle, len, back.into(), Vec::new(), |stream| {
            stream.send(parts, more)
        })
    }

    /// As [`send`](Self::send), from bytes that others may write meanwhile, such as a [view's]: what a
    /// proxy does.
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
        back: impl Into<Back>,
    ) -> Result<usize, Errno> {
        self.sendv_from(handle, &[bytes], more, back)
    }

    /// As [`sendv`](Self::sendv), from bytes that others may write meanwhile.
    ///
    /// # Errors
    /// As for `send`.
    pub fn sendv_from(
        &mut self,
        handle: Handle,
        parts: &[&[AtomicU8]],
        more: bool,
        back: impl Into<Back>,
    ) -> Result<usize, Errno> {
        let len = parts.iter().map(|part| part.len()).sum();
        self.transfer(handle, len, back.into(), Vec::new(), |stream| {
            stream.send_from(parts, more)
        })
    }

    /// Sends `len` bytes of `memory` from `offset` on, or as many as there is room for, without a
    /// copy at the host. They must not change until the peer has acknowledged them: that is when they
    /// come back, if they do by [`Back::Acknowledged`], and otherwise what [`Memory::is_under_way`] says. To
    /// change them at once send [from](Self::send_from) its [bytes](Memory::bytes), which copies.
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
        back: impl Into<Back>,
    ) -> Result<usize, Errno> {
        let piece = Piece {
            memory,
            offset,
            len,
        };
        self.sendv_registered(handle, &[piece], more, back)
    }

    /// As [`send_registered`](Self::send_registered), from several places in turn: it is one send, and
    /// comes back as one.
    ///
    /// # Errors
    /// As for `send_registered`.
    pub fn sendv_registered(
        &mut self,
        handle: Handle,
        pieces: &[Piece<'_>],
        more: bool,
        back: impl Into<Back>,
    ) -> Result<usize, Errno> {
        pieces.iter().try_for_each(Piece::check)?;
        let back = back.into();
        let of_engine = pieces.iter().filter_map(Piece::at_engine);
        let at_engine = matches!(self.connection(handle)?.stream, Stream::Engine(_))
            && of_engine.clone().count() == pieces.len();
        // What the engine reads where it is the socket holds, until it is acknowledged; the rest has been copied. But
        // memory is under way on either side, whoever made it, until the program has been told of its sends: who
        // hears that it is free gives away what a cookie still points to.
        let held = match back {
            Back::Never => Vec::new(),
            Back::Acknowledged(_) | Back::Left(_) => {
                pieces.iter().map(|piece| piece.memory.share()).collect()
            }
        };
        let len = pieces.iter().map(|piece| piece.len).sum();
        self.transfer(handle, len, back, held, |stream| {
            if let Stream::Engine(socket) = &*stream
                && at_engine
            {
                return socket.send_pieces(of_engine, more);
            }
            // The kernel's connection, or memory that was made while there was no engine.
            let parts: Vec<_> = pieces.iter().map(Piece::bytes).collect::<Result<_, _>>()?;
            stream.send_from(&parts, more)
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
        back: impl Into<Back>,
    ) -> Result<usize, Errno> {
        self.transfer(handle, len, back.into(), Vec::new(), |stream| {
            stream.send_file(file, offset, len, more)
        })
    }

    /// Sends up to `len` bytes of a registered file from `offset` on, or as many as there is room for. On the
    /// engine they are read when they leave, and again if they have to leave again, as the file is then: until
    /// the peer has acknowledged them they should not change.
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
        back: impl Into<Back>,
    ) -> Result<usize, Errno> {
        self.transfer(handle, len, back.into(), Vec::new(), |stream| {
            file.send(stream, offset, len, more)
        })
    }

    /// As [`send_registered_file`](Self::send_registered_file), of a regular file that has just been seen to have all of
    /// these bytes: its size is not asked for, which is a system call less. If it has become shorter since, it is as
    /// if it became so on the way.
    ///
    /// # Errors
    /// As for `send_registered_file`.
    pub fn send_known_file(
        &mut self,
        handle: Handle,
        file: &File,
        offset: u64,
        len: usize,
        more: bool,
        back: impl Into<Back>,
    ) -> Result<usize, Errno> {
        self.transfer(handle, len, back.into(), Vec::new(), |stream| {
            file.send_known(stream, offset, len, more, None)
        })
    }

    /// Lends up to `want` bytes (at least one, at most 64 KiB) to be filled in place and
    /// [committed](Self::commit). Until then nothing else can be sent on the connection.
    ///
    /// # Errors
    /// As for [`send`](Self::send); `EBUSY`: one is lent already.
    pub fn room(&mut self, handle: Handle, want: usize) -> Result<Room, Errno> {
        let queue = self.number;
        let connection = self.open_connection(handle)?;
        if connection.is_refused() {
            return Err(Errno::AGAIN);
        }
        let kept = match &mut connection.stream {
            Stream::Engine(socket) => socket.room(want).map(Kept::Engine),
            Stream::Kernel(stream) => stream.lend(want.clamp(1, OWN_ROOM)).map(Kept::Own),
        };
        match kept {
            Ok(kept) => Ok(Room {
                queue,
                handle,
                kept,
            }),
            Err(errno) => Err(self.refuse(handle, errno)),
        }
    }

    /// Sends the first `len` bytes of `room`, all of them.
    ///
    /// # Errors
    /// As for `send`, and nothing was sent. `EAGAIN`: the room comes back to be committed later.
    /// `EINVAL`: the room is shorter than `len`, or another queue's.
    pub fn commit(
        &mut self,
        room: Room,
        len: usize,
        more: bool,
        back: impl Into<Back>,
    ) -> Result<(), (Option<Room>, Errno)> {
        let (queue, handle, back) = (room.queue, room.handle, back.into());
        let plain = |errno| (None, errno);
        if queue != self.number {
            return Err((None, Errno::INVAL));
        }
        let connection = self.open_connection(handle).map_err(plain)?;
        if let Stream::Kernel(stream) = &mut connection.stream {
            stream.ask_for(back).map_err(plain)?;
            stream.may_stage = None;
        }
        let done = match (&mut connection.stream, room.kept) {
            (Stream::Engine(socket), Kept::Engine(room)) => socket
                .commit(room, len, more)
                .map_err(|(room, errno)| (room.map(Kept::Engine), errno)),
            (Stream::Kernel(stream), Kept::Own(room)) => stream
                .commit(&room, len, more)
                .map_err(|errno| (None, errno)),
            _ => Err((None, Errno::INVAL)),
        };
        match done {
            Ok(()) => {
                if len > 0 {
                    connection.remember(back, len, Vec::new());
                    self.await_sends(handle, back);
                    self.has_sent(handle);
                }
                Ok(())
            }
            Err((kept, errno)) => {
                let errno = self.refuse(handle, errno);
                let kept = kept.map(|kept| Room {
                    queue,
                    handle,
                    kept,
                });
                Err((kept, errno))
            }
        }
    }

    /// Receives into `out`. 0 is the end of the stream, or an empty `out`.
    ///
    /// # Errors
    /// `EBADF`: there is no such connection. `EAGAIN`: there is nothing yet; on the kernel also, once, after a
    /// receive that was given less than it asked for, until an event tells of more. `EBUSY`: a view is not
    /// released, or a posted buffer waits for bytes. Otherwise what ended the connection.
    pub fn recv(&mut self, handle: Handle, out: &mut [u8]) -> Result<usize, Errno> {
        self.receive(handle, queue_pair::as_shared(out), false)
    }

    /// As [`recv`](Self::recv), into bytes that others may write meanwhile, or that were never written.
    ///
    /// # Errors
    /// As for `recv`.
    pub fn recv_into(&mut self, handle: Handle, out: &[AtomicU8]) -> Result<usize, Errno> {
        self.receive(handle, out, false)
    }

    /// As [`recv_into`](Self::recv_into), but what is received stays to be received again.
    ///
    /// # Errors
    /// As for `recv`.
    pub fn peek_into(&mut self, handle: Handle, out: &[AtomicU8]) -> Result<usize, Errno> {
        self.receive(handle, out, true)
    }

    /// As [`recv`](Self::recv), but what is received stays to be received again.
    ///
    /// # Errors
    /// As for `recv`.
    pub fn peek(&mut self, handle: Handle, out: &mut [u8]) -> Result<usize, Errno> {
        self.receive(handle, queue_pair::as_shared(out), true)
    }

    fn receive(&mut self, handle: Handle, out: &[AtomicU8], peek: bool) -> Result<usize, Errno> {
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

    /// Sends `len` bytes by `send`, and remembers what is to come back.
    fn transfer(
        &mut self,
        handle: Handle,
        len: usize,
        back: Back,
        held: Vec<Memory>,
        send: impl FnOnce(&mut Stream) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let may_stage = self.stages(len, back);
        let connection = self.open_connection(handle)?;
        // Nothing needs no room.
        if len > 0 && connection.is_refused() {
            return Err(Errno::AGAIN);
        }
        let was_staged = connection.is_staged();
        if let Stream::Kernel(stream) = &mut connection.stream {
            stream.ask_for(back)?;
            stream.may_stage = may_stage;
        }
        match send(&mut connection.stream) {
            Ok(sent) => {
                connection.note_what_sends_met();
                let is_staged = connection.is_staged();
                if sent > 0 {
                    connection.remember(back, sent, held);
                    self.await_sends(handle, back);
                }
                if is_staged && !was_staged {
                    self.together.add(handle);
                }
                if sent > 0 {
                    self.has_sent(handle);
                }
                Ok(sent)
            }
            Err(errno) => Err(self.refuse(handle, errno)),
        }
    }

    /// A send found no room, which is told when there is some, or met an error.
    fn refuse(&mut self, handle: Handle, errno: Errno) -> Errno {
        match self.connection(handle) {
            Ok(connection) => {
                let errno = connection.refuse(errno);
                self.await_sends(handle, Back::Never);
                errno
            }
            Err(_) => errno,
        }
    }

    pub(crate) fn open_connection(&mut self, handle: Handle) -> Result<&mut Connection, Errno> {
        let connection = self.connection(handle)?;
        if connection.life == Life::Opening {
            return Err(Errno::NOTCONN);
        }
        Ok(connection)
    }
}
