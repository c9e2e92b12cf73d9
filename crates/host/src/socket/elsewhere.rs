//! What is known of a connection that other processes have, too.

use std::ops::{Deref, DerefMut};

use rustix::io::Errno;

/// No number of forks: the connection came through one.
pub(super) const NEVER_ALONE: u32 = u32::MAX;

/// Whose an error is to report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OfError {
    /// Nobody has asked.
    #[default]
    Unknown,
    /// A thread of this process has.
    Asked,
    /// This process's.
    Ours,
}

/// What is known of a connection that another process may read, which of most there is nothing.
#[derive(Debug, Default)]
pub(super) struct Elsewhere(Option<Box<AtOthers>>);

#[derive(Debug, Default)]
pub(super) struct AtOthers {
    /// Bytes that wait at the engine for whoever asks.
    pub(super) unread: u64,
    /// Bytes received since the connection began.
    pub(super) received: u64,
    /// A thread of this process has asked for the grant and has no answer yet.
    pub(super) asked: bool,
    /// Answers so far.
    pub(super) answers: u32,
    /// The last answer, if it was no.
    pub(super) refused: Option<Errno>,
    /// The engine, which does not run, has not answered: until it does there is nothing to read here.
    pub(super) is_late: bool,
    /// Who reports an error.
    pub(super) error: OfError,
}

const NOTHING: &AtOthers = &AtOthers {
    unread: 0,
    received: 0,
    asked: false,
    answers: 0,
    refused: None,
    is_late: false,
    error: OfError::Unknown,
};

impl AtOthers {
    /// Bytes that the engine gives to whoever asks, as far as it answers.
    pub(super) fn to_be_had(&self) -> u64 {
        if self.is_late { 0 } else { self.unread }
    }

    /// Whether the engine has not answered who reads, and does when it runs again.
    pub(super) fn is_late(&self) -> bool {
        self.is_late
    }

    /// The engine has answered.
    pub(super) fn answered(&mut self, refused: Option<Errno>) {
        self.asked = false;
        self.is_late = false;
        self.answers = self.answers.wrapping_add(1);
        self.refused = refused;
    }
}

impl Deref for Elsewhere {
    type Target = AtOthers;

    fn deref(&self) -> &AtOthers {
        self.0.as_deref().unwrap_or(NOTHING)
    }
}

impl DerefMut for Elsewhere {
    fn deref_mut(&mut self) -> &mut AtOthers {
        self.0.get_or_insert_default()
    }
}
