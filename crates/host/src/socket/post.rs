//! Receiving into memory of the program's own: the engine places there what comes (document 001: eager
//! receive, pushed by the server).

use std::sync::Arc;

use queue_pair::{Submission, Violation};
use rustix::io::Errno;

use super::{Attachment, Link, Phase, Registered, Socket, SocketCore, State};
use crate::lock::lock;
use crate::post_queue::{Buffer, Placed};
use crate::readiness::Readiness;

/// The first version of the protocol in which an engine can be told. Of others this side copies.
const SINCE: u32 = 7;
/// The longest buffer, in bytes.
const LONGEST: usize = 1 << 30;
/// What had arrived before is copied in pieces of so many bytes.
const PIECE: usize = 4096;

impl State {
    /// Copies what waits into the buffers that were posted; true if it was anything.
    pub(super) fn fill_posted(&mut self) -> bool {
        let mut any = false;
        let mut bytes = [0; PIECE];
        while let Some(posts) = &self.posts
            && let Some((addr, room)) = posts.next_place()
            && self.receive.waiting() > 0
            && let Some(link) = &self.link
        {
            let piece = &mut bytes[..PIECE.min(room as usize)];
            let attachment = &link.attachment;
            let copied = self
                .receive
                .copy(&attachment.receive, 0, piece)
                .and_then(|len| attachment.send.copy_in(addr, &piece[..len]).map(|()| len));
            // Both lie in areas that were checked when they came.
            let Ok(len) = copied else { break };
            if len == 0 || !self.take_copied(len as u64) {
                break;
            }
            if let Some(posts) = &mut self.posts {
                posts.fill(len as u32);
            }
            any = true;
        }
        any
    }

    /// Why nothing more comes, if that is so.
    fn nothing_comes(&mut self) -> Option<Option<Errno>> {
        if self.receive.waiting() > 0 {
            return None;
        }
        if self.phase == Phase::Over {
            return Some(self.error);
        }
        self.peer_closed.then_some(None)
    }
}

impl SocketCore {
    /// The engine has placed `len` bytes at `addr` of the send area. Called by the pumping thread.
    ///
    /// # Errors
    /// That is not where the next bytes belong, or more is acknowledged than was sent.
    pub(crate) fn placed(
        self: &Arc<Self>,
        attachment: &Attachment,
        (addr, len): (u64, u32),
        acked: u64,
        peer_closed: bool,
    ) -> Result<(), Violation> {
        let mut state = lock(&self.state);
        let mut news = Readiness::NONE;
        // Without a grant it is what was on its way when the engine gave it to another.
        if !state.closed && state.grant.is_some() {
            let place = state.posts.as_ref().and_then(|posts| posts.next_place());
            let fits = place.is_some_and(|(next, room)| addr == next && len <= room);
            if !fits || state.receive.waiting() > 0 {
                return Err(Violation::UndefinedValue {
                    field: "place of what was received",
                    value: addr,
                });
            }
            if state.take_placed(len.into()) {
                if let Some(posts) = &mut state.posts {
                    posts.fill(len);
                }
                news = Readiness::IN | Readiness::RDNORM;
            }
        }
        self.take_note(state, attachment, (acked, peer_closed), news)
    }
}

impl Socket {
    /// Posts `len` bytes of `memory` from `offset` on to receive into: the engine places there what comes
    /// after all that was received or posted for before. [`take_placed`](Self::take_placed) tells of it,
    /// under `key`. Until it has come back nothing is received otherwise, and its memory is not free.
    ///
    /// # Errors
    /// `EINVAL`: it is not all inside the memory, has no bytes, or more than 2³⁰. `ESTALE`: the memory is of
    /// another engine than the connection, or the program's own, or another process reads it. `EBUSY`: a view is not released.
    /// `ENOBUFS`: 64 are posted. `ENOTCONN`: it is still being opened.
    pub fn post(
        &self,
        memory: &Registered,
        offset: usize,
        len: usize,
        key: u64,
    ) -> Result<(), Errno> {
        let addr = memory.place(offset, len)?;
        if len == 0 || len > LONGEST {
            return Err(Errno::INVAL);
        }
        let mut state = self.attach_and_lock();
        let Some(Link { attachment, conn }) = &state.link else {
            return Err(Errno::NOTCONN);
        };
        let (attachment, conn) = (Arc::clone(attachment), *conn);
        if !memory.is_of(&attachment) || state.grant.is_none() {
            return Err(Errno::STALE);
        }
        if state.receive.lent() > 0 {
            return Err(Errno::BUSY);
        }
        let consumed = state.receive.consumed();
        let posts = state.posts.get_or_insert_default();
        if posts.is_crowded() {
            return Err(Errno::NOBUFS);
        }
        let from = posts.end().unwrap_or(consumed);
        posts.push(Buffer {
            _memory: memory.hold(),
            addr,
            len: len as u32,
            key,
            from,
        });
        if attachment.speaks(SINCE) {
            attachment.post_surely(Submission::Post {
                conn,
                addr,
                len: len as u32,
                from,
            });
        }
        // What waits already belongs there.
        if state.fill_posted() {
            self.core.consumed(state);
        }
        Ok(())
    }

    /// Tells what has become of posted buffers: of those that are back, and of the first that waits, if
    /// at least `unit` bytes have come since it was last told. The socket is ready to be read when there
    /// is something to tell.
    pub fn take_placed(&self, unit: u32, tell: impl FnMut(Placed)) {
        self.session.pump();
        let mut state = self.attach_and_lock();
        let over = state.nothing_comes();
        let Some(posts) = &mut state.posts else {
            return;
        };
        posts.take(unit, over, tell);
        self.core.refresh(&state);
    }

    /// Whether a posted buffer waits for bytes: then nothing is received otherwise.
    pub fn is_posted(&self) -> bool {
        let state = lock(&self.core.state);
        state.posts.as_ref().is_some_and(|posts| posts.wants())
    }
}
