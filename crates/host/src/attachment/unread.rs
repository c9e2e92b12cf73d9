//! How much the engine was asked since somebody read what it says.
//!
//! It keeps an answer for which there is no room in the ring, and takes what was submitted on a connection that other
//! processes have, too, in its order only while there are not too many. A ring full may be asked before all was read,
//! and as much more as was read meanwhile: then there is room for as many answers.

use std::sync::atomic::{AtomicU32, Ordering};

use queue_pair::Submission;

/// Whether the engine says something of its own to this, beside the state of a connection.
pub(super) const fn is_answered(submission: &Submission) -> bool {
    matches!(
        submission,
        Submission::Acquire { .. }
            | Submission::TakeError { .. }
            | Submission::Close { .. }
            | Submission::GiveBack { .. }
            | Submission::Connect { .. }
            | Submission::Cancel { .. }
            | Submission::AskLocal { .. }
    )
}

/// What was asked since.
pub(super) struct Unread {
    asked: AtomicU32,
    most: u32,
}

impl Unread {
    /// With a ring of so many submissions.
    pub(super) const fn with(most: u32) -> Self {
        Self {
            asked: AtomicU32::new(0),
            most,
        }
    }

    /// Whether it is as much as may be.
    pub(super) fn is_much(&self) -> bool {
        self.asked.load(Ordering::Relaxed) >= self.most
    }

    /// Whether it may be as much in a moment.
    pub(super) fn is_nearly_much(&self) -> bool {
        self.asked.load(Ordering::Relaxed) >= self.most / 2
    }

    /// Under the lock of what is submitted.
    pub(super) fn one_more(&self) {
        let asked = self.asked.load(Ordering::Relaxed);
        self.asked.store(asked.saturating_add(1), Ordering::Relaxed);
    }

    /// So much is not unread any more.
    pub(super) fn is_read(&self, count: u32) {
        let asked = self.asked.load(Ordering::Relaxed);
        self.asked
            .store(asked.saturating_sub(count), Ordering::Relaxed);
    }

    /// Nothing is unread.
    pub(super) fn all_is_read(&self) {
        if self.asked.load(Ordering::Relaxed) != 0 {
            self.asked.store(0, Ordering::Relaxed);
        }
    }
}
