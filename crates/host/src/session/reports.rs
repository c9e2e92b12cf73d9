//! What a process tells of itself, for `outboard explain`.

use queue_pair::control::{Explanation, Fds, Request};

use rustix::io::FdFlags;

use super::{Session, SessionCore};
use crate::attachment::{self, Attachment, Control};
use crate::lock::lock;

/// A connection with the engine that goes through exec. What is told on it is of the program that
/// comes next, and holds until that ends or closes the descriptor.
#[derive(Debug)]
pub struct Legacy {
    control: Control,
}

impl Legacy {
    /// As [`Session::report`]. What an engine is too busy to read is lost.
    pub fn report(&mut self, fd: i32, kind: &str, reason: &str) {
        // An engine that has ended has nothing to explain.
        let _ = (self.control.get_mut()).send(&report(fd, kind, reason), Fds::new());
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
        // The one that is there, not one that hears of all remarks when it is attached.
        let present = {
            // Under the lock of the link, so that no engine is attached in between.
            let link = lock(&self.core().link);
            let mut remarks = lock(&self.core().remarks);
            let remark = (kind.to_owned(), reason.to_owned());
            if remarks.len() == REMARKS || remarks.contains(&remark) {
                return;
            }
            remarks.push(remark);
            link.attachment.clone()
        };
        if let Some(attachment) = present.filter(|attachment| attachment.is_live()) {
            attachment.tell(&report(Explanation::NO_DESCRIPTOR, kind, reason));
        }
    }

    /// The means to tell of the program that this process is about to become. `None`: there is no
    /// engine to tell.
    pub fn legacy(&self) -> Option<Legacy> {
        let control = attachment::connect(&self.core().path).ok()?;
        rustix::io::fcntl_setfd(&*control, FdFlags::empty()).ok()?;
        Some(Legacy { control })
    }
}

impl SessionCore {
    /// To an engine that has just been attached.
    pub(super) fn repeat_remarks(&self, attachment: &Attachment) {
        // What is told takes another lock.
        let remarks = lock(&self.remarks).clone();
        for (kind, reason) in &remarks {
            attachment.tell(&report(Explanation::NO_DESCRIPTOR, kind, reason));
        }
    }
}

fn report(fd: i32, kind: &str, reason: &str) -> Request {
    Request::Report {
        fd,
        kind: kind.to_owned(),
        reason: reason.to_owned(),
    }
}
