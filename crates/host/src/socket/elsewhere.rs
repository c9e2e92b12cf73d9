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
    /// The engine, which does not run, has not answered, or has just refused: until it does, or is asked again, there
    /// is nothing to read here.
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

    /// Whether the engine has not answered who reads, or has just refused it.
    pub(super) fn is_late(&self) -> bool {
        self.is_late
    }

    /// The engine has answered.
    pub(super) fn answered(&mut self, refused: Option<Errno>) {
        self.asked = false;
        self.is_late = refused.is_some();
        self.answers = self.answers.wrapping_add(1);
        self.refused = refused;
    }

    /// It has refused a while ago.
    pub(super) fn may_ask_again(&mut self) {
        self.is_late &= self.asked;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_has_nothing_to_read_until_he_may_ask_again() {
        let mut one = AtOthers {
            unread: 5,
            asked: true,
            ..AtOthers::default()
        };
        one.answered(Some(Errno::AGAIN));
        assert_eq!((one.to_be_had(), one.asked), (0, false));
        one.may_ask_again();
        assert_eq!(one.to_be_had(), 5);
        one.asked = true;
        one.is_late = true;
        one.may_ask_again();
        assert_eq!(one.to_be_had(), 0, "its answer is still to come");
        one.answered(None);
        assert_eq!(one.to_be_had(), 5);
    }
}
