//! What was sent and does not leave before its queue lets it, with what is sent on others.

use std::num::NonZeroU32;

use host::Errno;

use super::Stream;
use super::parts::AsBytes;
use crate::stage::Staged;

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
        let Some(stage) = self.may_stage.take() else {
            return Ok(None);
        };
        // Of one that the peer has ended a send may tell.
        if self.awaits_more || self.stops_short {
            return Ok(None);
        }
        if self.staged.is_none() {
            self.may_send()?;
        }
        let len: usize = parts.iter().map(AsBytes::count).sum();
        let before = self.staged.as_ref().map_or(0, Staged::len);
        if len == 0 || before + len > SMALL {
            return Ok(None);
        }
        let fill = |bytes: &mut Vec<u8>| parts.iter().for_each(|part| part.copy_to(bytes));
        let is_staged = match &mut self.staged {
            Some(staged) => staged.add(more, fill),
            none => {
                *none = stage.add(&self.fd, more, fill);
                none.is_some()
            }
        };
        if !is_staged {
            return Ok(None);
        }
        self.taken(len, more);
        Ok(Some(len))
    }

    /// What was taken out to be sent with others has been, or as much of it as `done` says; `None`: it was not tried.
    pub(crate) fn settle(
        &mut self,
        bytes: Vec<u8>,
        more: bool,
        done: Option<Result<usize, Errno>>,
    ) {
        (self.rest, self.rest_from) = (bytes, done.unwrap_or(Ok(0)).unwrap_or(0));
        let met = match done {
            // It has been taken from the socket by that.
            Some(Err(errno)) if errno != Errno::AGAIN && self.is_over() => {
                self.hold();
                Err(errno)
            }
            // What finds no room the kernel tells when there is some.
            _ => self.send_or_hold(more),
        };
        self.remember_what_was_met(met);
    }

    /// What is staged leaves before something else is done. What it meets the next send is told.
    pub(crate) fn leave_first(&mut self) {
        let met = self.flush_staged();
        self.remember_what_was_met(met);
    }

    /// Sends what is staged; what the kernel does not take is held.
    ///
    /// # Errors
    /// As for a flush.
    pub(super) fn flush_staged(&mut self) -> Result<(), Errno> {
        let Some(staged) = self.staged.take() else {
            return Ok(());
        };
        // An end of the process waits until it is with the kernel, or held.
        let mut entries = staged.lock();
        let Some(entry) = entries.take(&staged) else {
            return Ok(());
        };
        (self.rest, self.rest_from) = (entry.bytes, 0);
        self.send_or_hold(entry.more)
    }

    fn send_or_hold(&mut self, more: bool) -> Result<(), Errno> {
        self.send_rest(more).inspect_err(|_| self.hold())
    }

    fn remember_what_was_met(&mut self, met: Result<(), Errno>) {
        if let Err(errno) = met
            && errno != Errno::AGAIN
            && self.is_over()
        {
            self.met = Some(errno);
        }
    }

    /// Whether this is the first that was sent, with no more to follow it, since it was told in this turn that something
    /// has come.
    pub(crate) fn has_answered(&mut self, turn: NonZeroU32) -> bool {
        let is_first = !self.more_follows && self.told_in == Some(turn);
        if is_first {
            self.told_in = None;
        }
        is_first
    }
}
