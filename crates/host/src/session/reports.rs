//! What a process tells of itself, for `outboard explain`.

use std::path::Path;

use queue_pair::control::{Explanation, Fds, Request};

use super::{Session, SessionCore};
use crate::attachment::{self, Control};
use crate::lock::lock;
use crate::socket::Attachment;

/// A connection with the engine on which a process says what is true once the connection is closed, as exec
/// does: what the program that comes next cannot use, and why. That program has nothing of it, since the
/// engine takes whoever is at the other end for the one that has connected.
#[derive(Debug)]
pub struct LastWords {
    control: Control,
}

impl LastWords {
    /// To the engine that listens at `path`. `None`: there is none that would hear.
    pub fn to(path: &Path) -> Option<Self> {
        let control = attachment::connect_now(path).ok()?;
        Some(Self { control })
    }

    /// Each line is a descriptor ([`Explanation::NO_DESCRIPTOR`] for none), what it is, and why it is not the
    /// engine's, as in [`Session::report`]. They take the place of those that were said before; what an
    /// engine is too busy to read is lost.
    pub fn say<'a>(&mut self, lines: impl Iterator<Item = (i32, &'a str, &'a str)>) {
        let lines = lines.map(|(fd, kind, reason)| Explanation {
            fd,
            kind: kind.to_owned(),
            reason: reason.to_owned(),
            detail: String::new(),
        });
        let request = Request::LastWords(lines.collect());
        // An engine that has ended has nothing to explain.
        let _ = self.control.get_mut().send(&request, Fds::new());
    }
}

/// Remarks on a process that are kept for the engines to come.
pub const REMARKS: usize = 16;

impl Session {
    /// Tells the engine what became of the program's descriptor `fd`, for `outboard explain`:
    /// `kind` is what it is, `reason` why it is not offloaded, or empty if it is.
    pub fn report(&self, fd: i32, kind: &str, reason: &str) {
        if let Some(attachment) = self.core().attachment() {
            attachment.tell(&report(fd, kind, reason));
        }
    }

    /// As [`report`](Self::report), of the process and not of a descriptor: also said to every engine
    /// that is attached later. Of different remarks, the first [`REMARKS`] are kept.
    pub fn remark(&self, kind: &str, reason: &str) {
        self.core().remark(kind, reason);
    }
}

impl SessionCore {
    /// See [`Session::remark`].
    pub(crate) fn remark(&self, kind: &str, reason: &str) {
        // The one that is there, not one that hears of all remarks when it is attached.
        let present = {
            // Under the lock of the link, so that no engine is attached in between.
            let link = lock(&self.link);
            if !self.note_remark(kind, reason) {
                return;
            }
            link.attachment.clone()
        };
        if let Some(attachment) = present.filter(|attachment| attachment.is_live()) {
            attachment.tell(&report(Explanation::NO_DESCRIPTOR, kind, reason));
        }
    }

    /// The engines to come are told this as well. False: there is no room, or they are told already.
    pub(super) fn note_remark(&self, kind: &str, reason: &str) -> bool {
        let mut remarks = lock(&self.remarks);
        let remark = (kind.to_owned(), reason.to_owned());
        if remarks.len() == REMARKS || remarks.contains(&remark) {
            return false;
        }
        remarks.push(remark);
        true
    }

    /// To an engine that has just been attached.
    pub(super) fn repeat_remarks(&self, attachment: &Attachment) {
        // What is told takes another lock.
        let remarks = lock(&self.remarks).clone();
        for (kind, reason) in &remarks {
            attachment.tell(&report(Explanation::NO_DESCRIPTOR, kind, reason));
        }
    }
}

/// What a process says of a socket.
pub(crate) fn report(fd: i32, kind: &str, reason: &str) -> Request {
    Request::Report {
        fd,
        kind: kind.to_owned(),
        reason: reason.to_owned(),
    }
}
