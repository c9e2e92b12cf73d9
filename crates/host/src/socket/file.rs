//! Sending from files that the engine reads: nothing of them passes through this process.

use std::sync::Arc;

use queue_pair::Submission;
use rustix::fd::BorrowedFd;
use rustix::fs::{Stat, fstat};
use rustix::io::Errno;

use super::place::FILES_END;
use super::{Link, Phase, Socket, Starved, State};
use crate::attachment::{RegisteredFile, Worth};
use crate::lock::lock;
use crate::session::Session;

/// The longest piece of a file that one descriptor names, in bytes.
const LONGEST: u64 = 1 << 30;
/// Less than that is copied: to ask for the file's size costs a system call, as reading it does.
const LITTLE: u64 = 16 << 10;
/// For so much a file is shown at once. It takes two wake-ups, some tens of microseconds, in which a program
/// reads about that.
const MUCH: u64 = 512 << 10;
/// How many send buffers of a file's bytes may be under way, where the program has chosen no size: they take
/// no memory, and each is a wake-up that is saved. Programs that watch how far their peers get see some
/// round trips less of it.
const BUFFERS: u64 = 8;
/// So much may be under way in any case: what a send buffer of Linux grows to (tcp_wmem), so that a page with its
/// pictures is one call.
const AT_LEAST: u64 = 4 << 20;

impl Session {
    /// Shows the engine a regular file, open for reading, to send from; `facts` are what the kernel has just
    /// said of it. Showing the same file again costs next to nothing while the engine has it, through whichever
    /// descriptor. It is let go of some seconds after it was last sent from or held.
    ///
    /// # Errors
    /// `ENOTCONN`: there is no engine. `EINVAL`: it is no regular file. `EOPNOTSUPP`: the engine does not
    /// send from this one. `EACCES`: it may not read it. `EMFILE`: there are as many as may be. `EAGAIN`: at the
    /// load that there is its policy leaves files of this size to the program; it is asked again after ten
    /// seconds.
    pub fn register_file(
        &self,
        file: BorrowedFd<'_>,
        facts: &Stat,
    ) -> Result<RegisteredFile, Errno> {
        let attachment = self.core().attachment().ok_or(Errno::NOTCONN)?;
        attachment.file(file, facts, Worth::Shown)
    }
}

impl State {
    /// Posts `len` bytes of a file. False: the ring is full.
    pub(super) fn post_file(
        &mut self,
        file: u16,
        (offset, len): (u64, u32),
        more: bool,
        followed: bool,
    ) -> bool {
        let at = self.posting_time();
        let Some(Link { attachment, conn }) = &self.link else {
            return false;
        };
        let send = Submission::SendFile {
            conn: *conn,
            file,
            offset,
            len,
            more,
            at,
        };
        attachment.post(&send, followed)
    }
}

impl Socket {
    /// A file to send `len` bytes of, and its size, if it is worth it that the engine reads it: if there is
    /// much to be sent, or it is sent from again and again. Then it is shown, as by
    /// [`Session::register_file`].
    pub fn file_worth_showing(
        &self,
        file: BorrowedFd<'_>,
        len: usize,
    ) -> Option<(RegisteredFile, u64)> {
        let attachment = Arc::clone(&lock(&self.core.state).link.as_ref()?.attachment);
        let facts = fstat(file).ok()?;
        let size = u64::try_from(facts.st_size).ok()?;
        let worth = match size.min(len as u64) {
            0..LITTLE => return None,
            LITTLE..MUCH => Worth::ShownIfSeen,
            _ => Worth::Shown,
        };
        let shown = attachment.file(file, &facts, worth).ok()?;
        Some((shown, size))
    }

    /// Sends `len` bytes of a file from `offset` on, or as many as there is room for: the engine reads them
    /// when they leave, and again if they have to leave again, as the file is then. One that has become
    /// shorter by then ends the connection (`ECONNABORTED`). So the caller asks for no more than there is.
    ///
    /// # Errors
    /// `ESTALE`: the file is of another engine than the connection. `EOPNOTSUPP`: it cannot be sent from
    /// there, or not now. Otherwise as for [`send`](Self::send).
    pub fn send_registered_file(
        &self,
        file: &RegisteredFile,
        offset: u64,
        len: usize,
        more: bool,
    ) -> Result<usize, Errno> {
        if offset
            .checked_add(len as u64)
            .is_none_or(|end| end > FILES_END)
        {
            return Err(Errno::OPNOTSUPP);
        }
        let mut guard = self.sendable(self.well_informed())?;
        let state = &mut *guard;
        match &state.link {
            None => return Err(Errno::PIPE),
            Some(link) if !file.is_of(&link.attachment) => return Err(Errno::STALE),
            Some(_) if state.send.is_reserved() => return Err(Errno::BUSY),
            // What leaves with a SYN is copied.
            Some(_) if state.phase != Phase::Open => return Err(Errno::OPNOTSUPP),
            Some(_) => {}
        }
        let buffer = match state.options.chosen_send_buffer() {
            Some(chosen) => chosen,
            None => (BUFFERS * state.options.send_buffer()).max(AT_LEAST),
        };
        let mut sent = 0;
        let followed = self.core.room.is_followed(more);
        while sent < len {
            let space = state.space(buffer);
            let piece = ((len - sent) as u64).min(space).min(LONGEST);
            if piece == 0 {
                break;
            }
            let more = more || sent + (piece as usize) < len;
            let what = (offset + sent as u64, piece as u32);
            if !state.post_file(file.name, what, more, followed) {
                state.starved = Starved::HELPLESS;
                break;
            }
            state.send.append_file(piece as u32, &file.uses);
            sent += piece as usize;
        }
        self.core.list_if_starved(state);
        self.core.refresh(state);
        if sent == 0 && len > 0 {
            return Err(Errno::AGAIN);
        }
        Ok(sent)
    }
}
