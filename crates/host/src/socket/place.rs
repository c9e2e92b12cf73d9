//! Sending without a copy: from a stretch of the send area that the program fills itself, and from
//! memory that it has registered.
//!
//! Both are parts of the send area, which the engine reads in any case. A [`Room`] is the place where
//! the connection's next bytes would be copied to; it is lent for one send. [`Registered`] memory is
//! taken out of the area for as long as the program likes, and any number of sends on any connections
//! may name it; it goes back when nothing names it any more (document 001, section 4.7:
//! register_memory, send_registered). It can also be part of a memory file of the program's own, which the
//! engine reads as it reads files.

use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Weak};

use queue_pair::{Area, OptionKind};
use rustix::fd::BorrowedFd;
use rustix::fs::Stat;
use rustix::io::Errno;

use super::{Attachment, Link, NEVER, Phase, Socket, SocketCore, Starved, TOLD_OF_ALL};
use crate::attachment::{HeldRun, Worth};
use crate::lock::lock;
use crate::send_pool::{Block, Run};
use crate::session::Session;

/// Where bytes of files have to end: what descriptors can name.
pub(super) const FILES_END: u64 = (1 << 40) - 1;
/// The longest piece of registered memory that one descriptor names, in bytes.
const LONGEST: u64 = 1 << 20;

/// Memory that the program fills and sends from, without a copy at the host.
///
/// It belongs to the engine that was attached when it was made. Dropping it while sends that name it
/// are under way is allowed: the memory is free when the last of them is acknowledged.
pub struct Registered {
    held: HeldRun<SocketCore>,
    len: u64,
    /// If it is not in the send area.
    part: Option<Part>,
}

/// Part of a memory file of the program's own.
#[derive(Clone)]
struct Part {
    /// It, as this process has it mapped.
    area: Area,
    /// The engine's name of the file, and where in it the part begins.
    file: u16,
    offset: u64,
}

/// Registered memory, looked at by somebody who does not hold it.
pub struct RegisteredWatch(Weak<Run>);

impl RegisteredWatch {
    /// Whether nothing names it but its registration, or that is gone, too.
    pub fn is_free(&self) -> bool {
        self.0.strong_count() <= 1
    }
}

/// A stretch of registered memory that is sent.
#[derive(Clone, Copy)]
pub struct Piece<'a> {
    /// The memory.
    pub memory: &'a Registered,
    /// Where it begins there.
    pub offset: usize,
    /// How many bytes.
    pub len: usize,
}

/// A stretch of the send area, lent to be filled. Dropping it sends nothing.
pub struct Room {
    socket: Weak<SocketCore>,
    attachment: Arc<Attachment>,
    block: Block,
}

impl Session {
    /// Registers `len` bytes of new memory; it is zero, or holds what was sent from it before.
    ///
    /// # Errors
    /// `ENOTCONN`: there is no engine. `EINVAL`: `len` is 0. `ENOBUFS`: the send area has no free
    /// piece of that length.
    pub fn register(&self, len: usize) -> Result<Registered, Errno> {
        if len == 0 {
            return Err(Errno::INVAL);
        }
        let attachment = self.core().attachment().ok_or(Errno::NOTCONN)?;
        let run = lock(&attachment.pool)
            .take_run(len as u64)
            .ok_or(Errno::NOBUFS)?;
        Ok(Registered {
            held: HeldRun::new(attachment, run),
            len: len as u64,
            part: None,
        })
    }

    /// Registers part of a memory file of the program's own: `area`, which begins at `offset` there. `facts` are
    /// what the kernel has just said of the file.
    ///
    /// # Errors
    /// `ENOTCONN`: there is no engine. `EOPNOTSUPP`: it does not read this one. Others as for
    /// [`register_file`](Self::register_file).
    pub fn register_part(
        &self,
        memfd: BorrowedFd<'_>,
        facts: &Stat,
        area: Area,
        offset: u64,
    ) -> Result<Registered, Errno> {
        let end = offset.checked_add(area.len());
        if end.is_none_or(|end| end > FILES_END) {
            return Err(Errno::OPNOTSUPP);
        }
        let attachment = self.core().attachment().ok_or(Errno::NOTCONN)?;
        let file = attachment.file(memfd, facts, Worth::Shown)?;
        // As long as this run is named, the engine has the file.
        let run = Run {
            of: Some(file.uses),
            ..Run::NONE
        };
        Ok(Registered {
            held: HeldRun::new(attachment, run),
            len: area.len(),
            part: Some(Part {
                area,
                file: file.name,
                offset,
            }),
        })
    }
}

impl Registered {
    /// Its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Its bytes, at the same place for as long as it lives. What a send names must not change until
    /// it is acknowledged: the peer might get the one or the other.
    ///
    /// # Errors
    /// `ESTALE`: this process is the child of a fork, and has no part in the memory.
    pub fn bytes(&self) -> Result<&[AtomicU8], Errno> {
        let run = self.held.run.as_ref().ok_or(Errno::STALE)?;
        if self.held.attachment.is_parents() {
            return Err(Errno::STALE);
        }
        let slice = match &self.part {
            Some(part) => part.area.slice(0, self.len()),
            None => self.held.attachment.send.slice(run.addr, self.len()),
        };
        slice.map_err(|_| Errno::STALE)
    }

    /// The same memory once more, for whoever uses it: it is under way until that is dropped.
    #[must_use]
    pub fn share(&self) -> Self {
        Self {
            held: self.held.share(),
            len: self.len,
            part: self.part.clone(),
        }
    }

    /// Whether `len` bytes from `offset` on are all inside.
    fn has(&self, offset: usize, len: usize) -> bool {
        let end = offset.checked_add(len);
        self.held.run.is_some() && end.is_some_and(|end| end <= self.len())
    }

    /// Where `len` bytes from `offset` on are in the send area.
    ///
    /// # Errors
    /// `EINVAL`: they are not all inside. `ESTALE`: they are not in the send area.
    pub(super) fn place(&self, offset: usize, len: usize) -> Result<u64, Errno> {
        match &self.held.run {
            Some(_) if self.part.is_some() && self.has(offset, len) => Err(Errno::STALE),
            Some(run) if self.has(offset, len) => Ok(run.addr + offset as u64),
            _ => Err(Errno::INVAL),
        }
    }

    /// The memory alone, held once more.
    pub(super) fn hold(&self) -> HeldRun<SocketCore> {
        self.held.share()
    }

    pub(super) fn is_of(&self, attachment: &Arc<Attachment>) -> bool {
        Arc::ptr_eq(&self.held.attachment, attachment)
    }

    /// Whether a send that names it is not acknowledged yet, or a buffer of it is posted.
    pub fn is_under_way(&self) -> bool {
        !self.watch().is_free()
    }

    /// What says later whether that is over.
    pub fn watch(&self) -> RegisteredWatch {
        RegisteredWatch(
            self.held
                .run
                .as_ref()
                .map(Arc::downgrade)
                .unwrap_or_default(),
        )
    }

    /// Gives the memory back.
    ///
    /// # Errors
    /// It comes back with `EBUSY`: a send that names it is not acknowledged yet, or a buffer of it is posted.
    pub fn unregister(self) -> Result<(), (Self, Errno)> {
        if self.is_under_way() {
            return Err((self, Errno::BUSY));
        }
        Ok(())
    }
}

impl Room {
    /// The bytes to be filled, from the first on.
    ///
    /// # Errors
    /// `ESTALE`: this process is the child of a fork.
    pub fn bytes(&self) -> Result<&[AtomicU8], Errno> {
        if self.attachment.is_parents() {
            return Err(Errno::STALE);
        }
        let slice = self
            .attachment
            .send
            .slice(self.block.addr, self.block.len as usize);
        slice.map_err(|_| Errno::STALE)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.upgrade() {
            let mut state = lock(&socket.state);
            state.send.abandon(&mut lock(&self.attachment.pool));
        }
    }
}

impl Socket {
    /// Lends up to `want` bytes (at least one, at most 64 KiB) of the send area, to be filled and
    /// [committed](Self::commit). Until then nothing else can be sent on this connection.
    ///
    /// # Errors
    /// As for [`send`](Self::send); `EBUSY`: one is lent already.
    pub fn room(&self, want: usize) -> Result<Room, Errno> {
        let mut guard = self.sendable(self.well_informed())?;
        let state = &mut *guard;
        let Some(link) = &state.link else {
            return Err(Errno::PIPE);
        };
        if state.send.is_reserved() {
            return Err(Errno::BUSY);
        }
        let attachment = Arc::clone(&link.attachment);
        let in_flight = state.send.in_flight();
        let space = state.space(state.options.send_buffer());
        if space == 0 {
            return Err(Errno::AGAIN);
        }
        let want = want.clamp(1, usize::try_from(space).unwrap_or(usize::MAX));
        let block = self.core.memory(state, want, |class| {
            lock(&attachment.pool).take_share(class, in_flight)
        });
        let Some(block) = block else {
            self.core.refresh(state);
            return Err(Errno::AGAIN);
        };
        state.send.reserve();
        Ok(Room {
            socket: Arc::downgrade(&self.core),
            attachment,
            block,
        })
    }

    /// Sends the first `len` bytes of `room`; `more` as in [`send`](Self::send). With `EAGAIN`, and
    /// only then, the room comes back to be committed later.
    ///
    /// # Errors
    /// `EAGAIN`: the ring is full. `EINVAL`: the room is another connection's, or shorter than `len`.
    /// Otherwise as for `send`.
    pub fn commit(
        &self,
        mut room: Room,
        len: usize,
        more: bool,
    ) -> Result<(), (Option<Room>, Errno)> {
        let own = std::ptr::eq(room.socket.as_ptr(), Arc::as_ptr(&self.core));
        if !own || len > room.block.len as usize {
            return Err((None, Errno::INVAL));
        }
        if len == 0 {
            return Ok(());
        }
        let sendable = self.sendable(self.well_informed());
        let mut guard = sendable.map_err(|errno| (None, errno))?;
        let state = &mut *guard;
        let followed = self.core.room.is_followed(more);
        if !state.post_extent(room.block.addr, len as u32, more, followed) {
            state.starved = Starved::HELPLESS;
            self.core.list_if_starved(state);
            self.core.refresh(state);
            drop(guard);
            return Err((Some(room), Errno::AGAIN));
        }
        state.send.append(len as u32);
        // It has nothing to give back, and another may be lent as soon as the lock is free.
        room.socket = Weak::new();
        self.core.refresh(state);
        Ok(())
    }

    /// Sends `len` bytes of `memory` from `offset` on without copying them, or as many as the send
    /// buffer has room for.
    ///
    /// # Errors
    /// `EINVAL`: they are not all inside the memory. `ESTALE`: the memory is of another engine than
    /// the connection. Otherwise as for [`send`](Self::send).
    pub fn send_registered(
        &self,
        memory: &Registered,
        offset: usize,
        len: usize,
        more: bool,
    ) -> Result<usize, Errno> {
        let piece = Piece {
            memory,
            offset,
            len,
        };
        self.send_pieces(std::iter::once(piece), more)
    }

    /// As [`send_registered`](Self::send_registered), from several places in turn.
    ///
    /// # Errors
    /// As for `send_registered`, and nothing was sent.
    pub fn send_pieces<'a>(
        &self,
        pieces: impl Iterator<Item = Piece<'a>> + Clone,
        more: bool,
    ) -> Result<usize, Errno> {
        let is_inside = |piece: Piece<'_>| piece.memory.has(piece.offset, piece.len);
        if !pieces.clone().all(is_inside) {
            return Err(Errno::INVAL);
        }
        let mut guard = self.sendable(self.well_informed())?;
        let state = &mut *guard;
        let Some(link) = &state.link else {
            return Err(Errno::PIPE);
        };
        let is_own = |piece: Piece<'_>| piece.memory.is_of(&link.attachment);
        if !pieces.clone().all(is_own) {
            return Err(Errno::STALE);
        }
        if state.send.is_reserved() {
            return Err(Errno::BUSY);
        }
        // What leaves with a SYN is in the send area.
        if state.phase != Phase::Open && pieces.clone().any(|piece| piece.memory.part.is_some()) {
            return Err(Errno::AGAIN);
        }
        let total: usize = pieces.clone().map(|piece| piece.len).sum();
        let followed = self.core.room.is_followed(more);
        let mut sent = 0;
        'all: for piece in pieces {
            let Some(run) = &piece.memory.held.run else {
                break;
            };
            let mut done = 0;
            while done < piece.len {
                let space = state.space(state.options.send_buffer());
                let len = ((piece.len - done) as u64).min(space).min(LONGEST);
                if len == 0 {
                    break 'all;
                }
                let at = (piece.offset + done) as u64;
                let addr = run.addr + at;
                // What has no room does not follow at once.
                let more = more || sent + (len as usize) < total && len < space;
                let posted = match &piece.memory.part {
                    Some(part) => {
                        let what = (part.offset + at, len as u32);
                        state.post_file(part.file, what, more, followed)
                    }
                    None => state.post_extent(addr, len as u32, more, followed),
                };
                if !posted {
                    state.starved = Starved::HELPLESS;
                    break 'all;
                }
                state
                    .send
                    .append_registered(addr, len as u32, Arc::clone(run));
                done += len as usize;
                sent += len as usize;
            }
        }
        self.core.list_if_starved(state);
        self.core.refresh(state);
        if sent == 0 && total > 0 {
            return Err(Errno::AGAIN);
        }
        Ok(sent)
    }

    /// Bytes written since the connection began.
    pub fn written(&self) -> u64 {
        lock(&self.core.state).send.written()
    }

    /// How many of the bytes [written](Self::written) the peer has acknowledged, by what the engine
    /// has said up to the last pump. Of a connection that is over it is what was acknowledged before.
    pub fn acknowledged(&self) -> u64 {
        lock(&self.core.state).send.acknowledged()
    }

    /// From now on the socket is ready for [`ACKED`](crate::Readiness::ACKED) when the peer has
    /// acknowledged `count` bytes, or the connection is over. `None`: never.
    pub fn tell_when_acknowledged(&self, count: Option<u64>) {
        let mut state = lock(&self.core.state);
        if count.is_some() || state.marks.is_some() {
            state.marks.get_or_insert_default().acknowledged = count.unwrap_or(NEVER);
        }
        self.core.changed_here(state);
    }

    /// How many of the bytes [written](Self::written) have left, as far as the engine has said so up to the
    /// last pump: of what is acknowledged it is known. Of the rest the engine tells once
    /// [`tell_when_departed`](Self::tell_when_departed) was used; not of a connection that several processes
    /// have, and not before version 10 of the protocol.
    pub fn departed(&self) -> u64 {
        lock(&self.core.state).send.departed()
    }

    /// From now on the socket is ready for [`ACKED`](crate::Readiness::ACKED) when `count` bytes have left,
    /// or the connection is over. `None`: never.
    pub fn tell_when_departed(&self, count: Option<u64>) {
        let mut state = lock(&self.core.state);
        let is_first = state.marks.as_ref().is_none_or(|marks| !marks.asked);
        if count.is_some() {
            state.marks.get_or_insert_default().asked = true;
            // A bound of the program's own has it told already, as far as that goes; this one is told of all.
            if is_first
                && let Some(Link { attachment, conn }) = &state.link
                && attachment.speaks(OptionKind::NotSentLow.since())
            {
                attachment.set_option(*conn, OptionKind::NotSentLow, TOLD_OF_ALL.into());
            }
        }
        if let Some(marks) = &mut state.marks {
            marks.departed = count.unwrap_or(NEVER);
        }
        self.core.changed_here(state);
    }
}
