//! Reading.

use std::io::IoSliceMut;
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, MutexGuard};

use queue_pair::{Area, Submission, Violation};
use rustix::io::Errno;

use super::{PendingError, Phase, Socket, SocketCore, State};
use crate::lock::lock;
use crate::receive_queue::ReceiveQueue;

/// So many bytes may have been read before the engine is told of it in a descriptor of its own,
/// unless a quarter of a smaller receive buffer comes first. Mostly it learns it earlier, by the way
/// of a send, and at the latest before a thread sleeps.
const ANNOUNCE_AFTER: u64 = 32 * 1024;

/// What is to become of bytes that are handed on: see [`Socket::recv_through`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handed {
    /// Those that are not taken stay where they are.
    AtMost,
    /// They are read: none of them is left.
    Read,
}

impl State {
    /// Whether nothing can be received by copying now.
    fn is_lent_or_posted(&self) -> bool {
        self.receive.lent() > 0 || self.posts.as_ref().is_some_and(|posts| posts.wants())
    }

    /// What reading gives when no data waits: the error that waits, the end, or nothing yet.
    fn at_the_end(&mut self, pending: PendingError) -> Option<Result<usize, Errno>> {
        // What the peer has ended has ended, whatever came of what was written afterwards: that is for the
        // next write to tell, or SO_ERROR.
        if self.peer_closed {
            return Some(Ok(0));
        }
        if let Some(error) = self.pending_error(pending) {
            return Some(Err(error));
        }
        let ended = self.peer_closed || self.read_shut || self.phase == Phase::Over;
        ended.then_some(Ok(0))
    }
}

impl Socket {
    /// Reads into `out`. 0 is the end of the stream (or an empty `out`).
    ///
    /// # Errors
    /// `EAGAIN`: there is nothing yet. `EBUSY`: a [`View`](super::View) is not released, or a
    /// [posted](Self::post) buffer waits for bytes. Otherwise what ended the connection, once.
    pub fn recv(&self, out: &mut [u8]) -> Result<usize, Errno> {
        self.recvv(&mut [IoSliceMut::new(out)], PendingError::Take)
    }

    /// As [`recv`](Self::recv), into several buffers in turn. Who has read before in the same call
    /// keeps an error for the next.
    ///
    /// # Errors
    /// As for `recv`.
    pub fn recvv(&self, out: &mut [IoSliceMut<'_>], pending: PendingError) -> Result<usize, Errno> {
        self.receive(out, false, pending)
    }

    /// As [`recvv`](Self::recvv), but what is read stays to be read again (MSG_PEEK).
    ///
    /// # Errors
    /// As for `recv`.
    pub fn peekv(&self, out: &mut [IoSliceMut<'_>], pending: PendingError) -> Result<usize, Errno> {
        self.receive(out, true, pending)
    }

    /// As [`recv`](Self::recv), into memory that others may write meanwhile, or that was never written; `peek` as
    /// [`peekv`](Self::peekv) does.
    ///
    /// # Errors
    /// As for `recv`.
    pub fn recv_into(&self, out: &[AtomicU8], peek: bool) -> Result<usize, Errno> {
        self.receive_by(
            out.is_empty(),
            peek,
            PendingError::Take,
            |receive, area, _| receive.copy_across(area, out),
        )
    }

    /// Reads by way of `memory` what `take` takes of it, and of nothing else: it is given bytes that wait, and returns how
    /// many of them it has taken. It must not wait, since nobody else reads, or takes in news, meanwhile. Where another
    /// process may read instead of this one, or it cannot take so (`None`), it is given the bytes as read, to
    /// [keep](Handed::Read) all of them. 0 is the end of the stream, or what was taken.
    ///
    /// # Errors
    /// As for [`recvv`](Self::recvv).
    pub fn recv_through(
        &self,
        memory: &mut [u8],
        pending: PendingError,
        mut take: impl FnMut(&[u8], Handed) -> Option<usize>,
    ) -> Result<usize, Errno> {
        let mut at_once = true;
        loop {
            let mut how = None;
            let read = self.receive_by(
                memory.is_empty(),
                false,
                pending,
                |receive, area, is_shared| {
                    let copied = receive.copy(area, 0, memory)?;
                    how = Some(Handed::Read);
                    if is_shared || !at_once {
                        return Ok(copied);
                    }
                    let taken = take(&memory[..copied], Handed::AtMost);
                    at_once = taken.is_some();
                    how = Some(Handed::AtMost);
                    Ok(taken.unwrap_or(0))
                },
            )?;
            match how {
                Some(Handed::Read) => {
                    take(&memory[..read], Handed::Read);
                    return Ok(read);
                }
                // Nothing was read, and it is now done the other way.
                Some(Handed::AtMost) if !at_once => {}
                Some(Handed::AtMost) | None => return Ok(read),
            }
        }
    }

    /// Throws away up to `limit` bytes that wait (MSG_TRUNC); returns how many there were. An error is
    /// treated as by [`recvv`](Self::recvv).
    ///
    /// # Errors
    /// As for `recv`.
    pub fn discard(&self, limit: usize, pending: PendingError) -> Result<usize, Errno> {
        if limit == 0 {
            return Ok(0);
        }
        loop {
            let mut state = self.readable(false)?;
            if state.is_lent_or_posted() {
                return Err(Errno::BUSY);
            }
            let count = state.receive.waiting().min(limit as u64);
            if count == 0 {
                if state.must_ask() {
                    drop(state);
                    self.ask_to_read()?;
                    continue;
                }
                if state.is_owed() {
                    drop(state);
                    self.await_owed()?;
                    continue;
                }
                return self.end_of(state, pending);
            }
            if state.link.is_none() {
                return Err(Errno::NOTCONN);
            }
            if state.take_copied(count) {
                self.core.consumed(state);
                return Ok(count as usize);
            }
        }
    }

    /// Bytes that wait to be read (FIONREAD).
    pub fn available(&self) -> u64 {
        let state = self.attach_and_lock();
        state.receive.waiting() + state.elsewhere.to_be_had()
    }
}

impl SocketCore {
    /// Something was read: sees to it that the engine learns of it.
    pub(super) fn consumed(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.receive.waiting() < state.options.readable_from() {
            self.refresh(&state);
        }
        let unannounced = state.receive.unannounced();
        let Some(link) = &state.link else { return };
        // Others who wait to read want to know at once.
        let enough = ANNOUNCE_AFTER.min(state.options.receive_buffer() / 4);
        if unannounced >= enough || (unannounced > 0 && state.is_shared()) {
            let (attachment, conn) = (Arc::clone(&link.attachment), link.conn);
            let total = state.receive.announce();
            attachment.post_surely(Submission::Consumed { conn, total });
        } else if !state.owes_announcement {
            let attachment = Arc::clone(&link.attachment);
            state.owes_announcement = true;
            attachment.owe_announcement(self);
        }
    }

    /// Tells the engine how far the program has read, if it has not been told since.
    pub(crate) fn announce_consumption(&self) {
        let mut state = lock(&self.state);
        state.owes_announcement = false;
        let gone = state.closed || state.grant.is_none() || state.phase != Phase::Open;
        if gone || state.receive.unannounced() == 0 {
            return;
        }
        let total = state.receive.announce();
        if let Some(link) = &state.link {
            link.attachment.post_surely(Submission::Consumed {
                conn: link.conn,
                total,
            });
        }
    }
}

impl Socket {
    /// As [`readable`](Self::readable), for whoever wants what follows what is lent; this process is
    /// the reader afterwards if anything waits.
    pub(super) fn readable_ahead(&self) -> Result<MutexGuard<'_, State>, Errno> {
        loop {
            let state = self.readable(false)?;
            if state.receive.waiting() > state.receive.lent() {
                return Ok(state);
            }
            if state.must_ask() {
                drop(state);
                self.ask_to_read()?;
                continue;
            }
            let link = state.link.as_ref().filter(|_| state.receive.lent() > 0);
            let Some(link) = link else { return Ok(state) };
            // Something waits, and all of it is lent: there may be more in the ring.
            let attachment = Arc::clone(&link.attachment);
            drop(state);
            attachment.pump();
            return Ok(lock(&self.core.state));
        }
    }

    /// The state, after a look at what the engine has said if nothing waits to be read, or for one
    /// who looks `beyond` that.
    fn readable(&self, beyond: bool) -> Result<MutexGuard<'_, State>, Errno> {
        let state = self.attach_and_lock();
        if state.receive.waiting() > 0 && !beyond || state.phase == Phase::Over {
            return Ok(state);
        }
        let Some(link) = &state.link else {
            return Ok(state);
        };
        let attachment = Arc::clone(&link.attachment);
        // The pump locks sockets, so none may be held.
        drop(state);
        attachment.pump();
        Ok(lock(&self.core.state))
    }

    fn receive(
        &self,
        out: &mut [IoSliceMut<'_>],
        peek: bool,
        pending: PendingError,
    ) -> Result<usize, Errno> {
        let is_empty = out.iter().all(|part| part.is_empty());
        self.receive_by(is_empty, peek, pending, |receive, area, _| {
            let mut read = 0;
            for part in out.iter_mut() {
                let copied = receive.copy(area, read as u64, part)?;
                read += copied;
                if copied < part.len() {
                    break;
                }
            }
            Ok(read)
        })
    }

    /// Reads by `copy`, which is told whether another process may read, too, and then may have to copy again.
    fn receive_by(
        &self,
        is_empty: bool,
        peek: bool,
        pending: PendingError,
        mut copy: impl FnMut(&ReceiveQueue, &Area, bool) -> Result<usize, Violation>,
    ) -> Result<usize, Errno> {
        loop {
            // What is peeked at stays: who looks again wants what has come since, too.
            let mut state = self.readable(peek)?;
            if state.is_lent_or_posted() {
                return Err(Errno::BUSY);
            }
            if state.receive.waiting() == 0 {
                if is_empty {
                    return Ok(0);
                }
                if state.must_ask() {
                    drop(state);
                    self.ask_to_read()?;
                    continue;
                }
                if state.is_owed() {
                    drop(state);
                    self.await_owed()?;
                    continue;
                }
                return self.end_of(state, pending);
            }
            let Some(link) = &state.link else {
                return Err(Errno::NOTCONN);
            };
            let area = &link.attachment.receive;
            let read = copy(&state.receive, area, state.is_shared()).map_err(|_| Errno::FAULT)?;
            // Another process may have become the reader while this one copied.
            if peek {
                if state.may_look() {
                    return Ok(read);
                }
            } else if state.take_copied(read as u64) {
                self.core.consumed(state);
                return Ok(read);
            }
        }
    }

    /// What reading gives when no data waits, of a socket in this state.
    pub(super) fn end_of<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        pending: PendingError,
    ) -> Result<usize, Errno> {
        if !state.peer_closed {
            state = self.settled_for(state, pending);
        }
        let end = state.at_the_end(pending).unwrap_or(Err(Errno::AGAIN));
        self.core.refresh(&state);
        end
    }
}
