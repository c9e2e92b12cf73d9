//! Writing.
//!
//! Bytes are copied, or read from a file, straight into the send area and posted; the call returns
//! at once. They stay there until the peer has acknowledged them, so what limits a sender is its
//! send buffer: bytes written and not acknowledged.

use std::io::IoSlice;
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, MutexGuard};

use queue_pair::{OptionKind, Submission};
use rustix::fd::AsFd;
use rustix::io::Errno;

use super::{Link, PendingError, Phase, Socket, SocketCore, Starved, State, Syn};
use crate::gather::gather;
use crate::lock::lock;
use crate::readiness::Readiness;
use crate::send_pool::{Block, Class};

/// The most that is written at once where there is a bound for what waits to leave.
const PIECE: u64 = 64 << 10;

impl State {
    /// Posts `len` bytes at `addr` of the send area, without taking note of them. False: the ring is
    /// full. `followed`: [`Attachment::post`](crate::attachment::Attachment::post).
    pub(super) fn post_extent(&mut self, addr: u64, len: u32, more: bool, followed: bool) -> bool {
        let Some(Link { attachment, conn }) = &self.link else {
            return false;
        };
        let (attachment, conn) = (Arc::clone(attachment), *conn);
        let at = self.posting_time();
        if at != 0 {
            let send = Submission::SendAt {
                conn,
                addr,
                len,
                more,
                at,
            };
            return attachment.post(&send, followed);
        }
        let send = Submission::Send {
            conn,
            addr,
            len,
            more,
            consumed: self.receive.consumed(),
        };
        let posted = attachment.post(&send, followed);
        if posted {
            self.receive.announce();
        }
        posted
    }

    /// How much may wait to leave while more is written, where the program has bounded that and it is known
    /// what has left: not of what several processes write, nor from an older engine.
    pub(super) fn low(&self) -> Option<u64> {
        let low = self.options.not_sent_low()?;
        let link = self.link.as_ref()?;
        let is_told = link.attachment.speaks(OptionKind::NotSentLow.since());
        (is_told && !self.is_shared()).then_some(low)
    }

    /// Whether so much waits to leave that the program is not to write more, as it asked for: half of its
    /// bound, as in the kernel, so that it is not woken for every segment.
    pub(super) fn is_held_back(&self) -> bool {
        self.low().is_some_and(|low| self.send.waiting() * 2 >= low)
    }

    /// How many bytes may be written now, of a send buffer of `buffer` bytes. A bound for what waits to leave
    /// is looked at before each piece, as in the kernel: it is passed by one.
    pub(super) fn space(&self, buffer: u64) -> u64 {
        let space = self.send.space(buffer);
        match self.low() {
            Some(low) if self.send.waiting() >= low => 0,
            Some(_) => space.min(PIECE),
            None => space,
        }
    }

    fn may_send(&mut self, pending: PendingError) -> Result<(), Errno> {
        if let Some(error) = self.pending_error(pending) {
            return Err(error);
        }
        match self.phase {
            _ if self.write_shut => Err(Errno::PIPE),
            Phase::Connecting => match self.syn {
                Syn::Waits(_) => Ok(()),
                Syn::Asked | Syn::Ordinary => Err(Errno::AGAIN),
            },
            Phase::Open => Ok(()),
            Phase::Over => Err(Errno::PIPE),
        }
    }
}

impl Socket {
    /// Writes `bytes`, or as many as there is room for. `more` says that more follows at once, so
    /// that a last segment that is not full may wait for it (MSG_MORE).
    ///
    /// # Errors
    /// `EAGAIN`: there is no room, or no connection yet. `EPIPE`: this end is closed, or the
    /// connection is over (no signal is raised). `EBUSY`: a [`Room`](super::Room) is being filled.
    /// Otherwise what ended the connection, once.
    pub fn send(&self, bytes: &[u8], more: bool) -> Result<usize, Errno> {
        self.sendv(&[IoSlice::new(bytes)], more, PendingError::Take)
    }

    /// As [`send`](Self::send), from several buffers in turn. Who has written before in the same call
    /// keeps an error for the next.
    ///
    /// # Errors
    /// As for `send`.
    pub fn sendv(
        &self,
        parts: &[IoSlice<'_>],
        more: bool,
        pending: PendingError,
    ) -> Result<usize, Errno> {
        let total = parts.iter().map(|part| part.len()).sum();
        let fill = gather(parts.iter().map(|part| &**part), queue_pair::copy_in);
        self.write_with(total, more, pending, fill)
    }

    /// Writes up to `total` bytes that `fill` puts into the send area itself, a stretch at a time:
    /// it returns how many it has put there, 0 when it has no more. What it was given and did not
    /// fill is not sent. The program must not touch this socket from within.
    ///
    /// # Errors
    /// As for [`send`](Self::send), and those of `fill` if it comes before the first byte.
    pub fn send_with(
        &self,
        total: usize,
        more: bool,
        fill: impl FnMut(&[AtomicU8]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        self.write_with(total, more, PendingError::Take, fill)
    }

    /// Sends up to `total` bytes of `file` from `offset` on, straight from the file into the send
    /// area. 0 is the end of the file.
    ///
    /// # Errors
    /// As for [`send`](Self::send), and the kernel's for reading the file.
    pub fn send_file(
        &self,
        file: impl AsFd,
        offset: u64,
        total: usize,
        more: bool,
    ) -> Result<usize, Errno> {
        let mut at = offset;
        self.send_with(total, more, |room| {
            let read = queue_pair::read_in(room, &file, Some(at))?;
            at += read as u64;
            Ok(read)
        })
    }

    /// Whether a write would be refused now. An error that waits to be reported goes on waiting.
    pub fn refuses_writes(&self) -> bool {
        let state = self.well_informed();
        state.error.is_some() || state.write_shut || state.phase == Phase::Over
    }

    /// Whether a write would find less room than is worth waiting for, and nothing else to report: that a
    /// [`Room`](super::Room) is being filled, an end.
    pub fn has_no_room(&self) -> bool {
        let state = self.well_informed();
        let other = Readiness::OUT | Readiness::ALWAYS;
        !state.send.is_reserved() && !state.readiness().intersects(other)
    }

    /// Bytes written and not yet acknowledged by the peer (SIOCOUTQ).
    pub fn unsent(&self) -> u64 {
        self.attach_and_lock().send.in_flight()
    }
}

impl SocketCore {
    /// Memory by `take` for up to `want` bytes that follow. `None`: there is none, and it is told when there is. What
    /// others give back is noted for those who are listed alone: so it is listed first, and then looks once more.
    pub(super) fn memory(
        self: &Arc<Self>,
        state: &mut State,
        want: usize,
        take: impl Fn(Class) -> Option<Block>,
    ) -> Option<Block> {
        let block = state.send.room(want, &take);
        if block.is_some() {
            return block;
        }
        // A third of what it has: the kernel takes that for a socket's buffer where memory is short.
        state.starved = Starved::for_memory(state.send.third_from());
        self.list_if_starved(state);
        let block = state.send.room(want, &take);
        if block.is_some() {
            state.starved = Starved::NOT;
            self.starves_no_more(state);
        }
        block
    }

    /// Sees to it that one that found no memory, or no room in the ring, is told when there is, and no other.
    pub(super) fn list_if_starved(self: &Arc<Self>, state: &mut State) {
        if !state.starved.is() {
            return self.starves_no_more(state);
        }
        let Some(link) = &state.link else {
            return;
        };
        let is_helpless = state.starved.is_helpless();
        let before = state.listed_as_helpless.replace(is_helpless);
        if before != Some(is_helpless)
            && link.attachment.starve(self, is_helpless, before.is_some())
        {
            self.nudges.nudge_all();
        }
    }

    /// It is not to be told any more.
    pub(super) fn starves_no_more(&self, state: &mut State) {
        if state.listed_as_helpless.take().is_some()
            && let Some(link) = &state.link
        {
            link.attachment.starves_no_more(self);
        }
    }
}

impl Socket {
    /// The state, after a look at what the engine has said, if it has said anything: a program that only
    /// writes hears of a reset nowhere else.
    pub(super) fn well_informed(&self) -> MutexGuard<'_, State> {
        let state = self.attach_and_lock();
        let link = state.link.as_ref();
        let Some(link) = link.filter(|link| link.attachment.has_news()) else {
            return state;
        };
        let attachment = Arc::clone(&link.attachment);
        // The pump locks sockets, so none may be held.
        drop(state);
        attachment.pump();
        self.attach_and_lock()
    }

    /// The state of one that may send.
    ///
    /// # Errors
    /// As for [`send`](Socket::send).
    pub(super) fn sendable<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, Errno> {
        self.sendable_for(state, PendingError::Take)
    }

    /// As [`sendable`](Self::sendable), where the caller does this with an error.
    fn sendable_for<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        pending: PendingError,
    ) -> Result<MutexGuard<'a, State>, Errno> {
        let mut state = self.settled_for(state, pending);
        match state.may_send(pending) {
            Ok(()) => Ok(state),
            Err(errno) => {
                self.core.refresh(&state);
                Err(errno)
            }
        }
    }

    /// As [`send_with`](Self::send_with), where the caller does this with an error.
    fn write_with(
        &self,
        total: usize,
        more: bool,
        pending: PendingError,
        mut fill: impl FnMut(&[AtomicU8]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let mut guard = self.sendable_for(self.well_informed(), pending)?;
        let state = &mut *guard;
        let Some(link) = &state.link else {
            return Err(Errno::PIPE);
        };
        let attachment = &Arc::clone(&link.attachment);
        if state.send.is_reserved() {
            return Err(Errno::BUSY);
        }
        let mut sent = 0;
        let mut stop = None;
        let followed = self.core.room.is_followed(more);
        state.starved = Starved::NOT;
        let total = match state.syn {
            Syn::Waits(room) => total.min(room.into()),
            Syn::Asked | Syn::Ordinary => total,
        };
        while sent < total && stop.is_none() {
            let space = state.space(state.options.send_buffer());
            if space == 0 {
                stop = Some(Errno::AGAIN);
                break;
            }
            let want = (total - sent).min(usize::try_from(space).unwrap_or(usize::MAX));
            let in_flight = state.send.in_flight();
            let block = self.core.memory(state, want, |class| {
                lock(&attachment.pool).take_share(class, in_flight)
            });
            let Some(block) = block else {
                stop = Some(Errno::AGAIN);
                break;
            };
            let filled = match attachment.send.slice(block.addr, block.len as usize) {
                Ok(room) => fill(room).map(|filled| filled.min(room.len())),
                Err(_) => Err(Errno::FAULT),
            };
            match filled {
                Ok(0) => {
                    state.send.abandon(&mut lock(&attachment.pool));
                    break;
                }
                Ok(filled) => {
                    let more = more || (filled == block.len as usize && filled < want);
                    if state.post_extent(block.addr, filled as u32, more, followed) {
                        state.send.append(filled as u32);
                        sent += filled;
                    } else {
                        state.send.abandon(&mut lock(&attachment.pool));
                        state.starved = Starved::HELPLESS;
                        stop = Some(Errno::AGAIN);
                    }
                }
                Err(errno) => {
                    state.send.abandon(&mut lock(&attachment.pool));
                    stop = Some(errno);
                }
            }
        }
        if sent > 0 {
            // It has left with these, or will.
            state.syn = Syn::Ordinary;
        }
        self.core.list_if_starved(state);
        self.core.refresh(state);
        match stop {
            Some(errno) if sent == 0 => Err(errno),
            _ => Ok(sent),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::nudge::Nudges;

    /// Nobody has noted what came back before this one was listed.
    #[test]
    fn memory_that_comes_back_while_one_finds_none_is_found() {
        let any = "127.0.0.1:0".parse().unwrap();
        let core = SocketCore::new(
            &Arc::new(Nudges::default()),
            State::new(Phase::Open, any, any),
        );
        let mut state = lock(&core.state);
        let looks = Cell::new(0);
        let take = |from: u32, class: Class| {
            looks.set(looks.get() + 1);
            let len = class.block();
            (looks.get() >= from).then_some(Block { addr: 0, len })
        };
        assert!(
            core.memory(&mut state, 10, |class| take(9, class))
                .is_none()
        );
        assert!(state.starved.is_helpless());
        looks.set(0);
        assert!(
            core.memory(&mut state, 10, |class| take(2, class))
                .is_some()
        );
        assert!(!state.starved.is());
    }
}
