//! What was sent and does not leave before its queue lets it, with what is sent on others.

use host::Errno;

use super::Stream;
use super::parts::AsBytes;

/// No more than this is staged of a connection, in bytes: what is larger pays for a call of its own.
pub(crate) const SMALL: usize = 4 << 10;

impl Stream {
    /// Stages a send, if it may be and nothing is in its way. Returns how many bytes that are; `None`: it is to be
    /// sent now.
    ///
    /// # Errors
    /// As for a send.
    pub(super) fn stage<T: AsBytes>(
        &mut self,
        parts: &[T],
        more: bool,
    ) -> Result<Option<usize>, Errno> {
        // Of one that the peer has ended a send may tell.
        if !std::mem::take(&mut self.may_stage) || self.awaits_more || self.stops_short {
            return Ok(None);
        }
        if !self.is_staged {
            self.may_send()?;
        }
        let len: usize = parts.iter().map(AsBytes::count).sum();
        if len == 0 || self.rest.len() + len > SMALL {
            return Ok(None);
        }
        for part in parts {
            part.copy_to(&mut self.rest);
        }
        self.is_staged = true;
        self.more_follows = more;
        self.taken(len, more);
        Ok(Some(len))
    }

    /// Takes out what is staged, and whether more follows it, to be sent with others. It comes
    /// [back](Self::settle).
    pub(crate) fn take_staged(&mut self) -> Option<(Vec<u8>, bool)> {
        let is_staged = std::mem::take(&mut self.is_staged);
        is_staged.then(|| (std::mem::take(&mut self.rest), self.more_follows))
    }

    /// What was taken out has been sent, or as much of it as `done` says; `None`: it was not tried.
    pub(crate) fn settle(&mut self, bytes: Vec<u8>, done: Option<Result<usize, Errno>>) {
        let sent = done.unwrap_or(Ok(0)).unwrap_or(0);
        if sent >= bytes.len() {
            return;
        }
        (self.rest, self.rest_from) = (bytes, sent);
        match done {
            // It has been taken from the socket by that.
            Some(Err(errno)) if errno != Errno::AGAIN && self.is_over() => {
                self.hold();
                self.met = Some(errno);
            }
            // What finds no room the kernel tells when there is some.
            _ => {
                self.is_staged = true;
                self.leave_first();
            }
        }
    }

    /// What is staged leaves before something else is done. What it meets the next send is told.
    pub(crate) fn leave_first(&mut self) {
        if self.is_staged
            && let Err(errno) = self.flush()
            && errno != Errno::AGAIN
            && self.is_over()
        {
            self.met = Some(errno);
        }
    }
}
