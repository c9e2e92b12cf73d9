//! Which of several processes reports the error with which a connection has ended.
//!
//! The kernel keeps one error for a socket, and the first call takes it, whosever it is: receiving, sending, or
//! asking for `SO_ERROR`. Here each process that has the connection knows the error. So the first call
//! of one asks the engine before it reports, and the engine says yes once. It waits for the engine alone: a
//! process that is stopped or dies has either not asked, and then another one reports, or it was told
//! that it may, which is as if it were stopped or had died in that call.
//!
//! Who has the connection alone asks nobody.

use std::sync::MutexGuard;
use std::time::Duration;

use queue_pair::Submission;
use rustix::io::Errno;

use super::elsewhere::OfError;
use super::{Phase, Socket, SocketCore, State};
use crate::lock::lock;
use crate::readiness::Readiness;

/// The first version of the protocol in which one asks.
const SINCE: u32 = 11;
/// How long an engine may take to say whose an error is. One that does not run holds nobody up for longer.
const SAYS_WITHIN: Duration = Duration::from_secs(2);

/// What a call does with an error that waits to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingError {
    /// It reports it, and nobody else does.
    Take,
    /// It learns of it and leaves it to the next call: one that has moved bytes returns how many.
    Keep,
}

impl State {
    /// The error that waits, for a call that does this with it.
    pub(super) fn pending_error(&mut self, what: PendingError) -> Option<Errno> {
        match what {
            PendingError::Take => self.error.take(),
            PendingError::Keep => self.error,
        }
    }

    /// Whether the engine has to say whether the error that waits is this process's to report.
    fn must_ask_of_error(&self) -> bool {
        // Before its end it has none but what this process has made up.
        self.error.is_some()
            && self.phase == Phase::Over
            && self.is_shared()
            && self.elsewhere.error != OfError::Ours
            && self.is_known()
            && self
                .link
                .as_ref()
                .is_some_and(|link| link.attachment.speaks(SINCE))
    }
}

impl SocketCore {
    /// The engine says whether this process reports the error. Called by the pumping thread.
    pub(crate) fn error_taken(&self, yours: bool) {
        let mut state = lock(&self.state);
        if yours {
            state.elsewhere.error = OfError::Ours;
            return;
        }
        // It may come before the error itself.
        state.error_was_reported = true;
        state.error = None;
        self.refresh(&state);
        drop(state);
        // Who has asked is told, too, if he waits.
        self.happened(Readiness::NONE);
    }
}

impl Socket {
    /// As [`settled`](Self::settled), where the caller does this with the error. One that keeps it does not
    /// ask whose it is.
    pub(super) fn settled_for<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        what: PendingError,
    ) -> MutexGuard<'a, State> {
        match what {
            PendingError::Take => self.settled(state),
            PendingError::Keep => state,
        }
    }

    /// The state, in which an error that waits is this process's to report: if another one has it too, that
    /// costs a question to the engine. If the engine does not run just now, the error is reported by each
    /// that asks meanwhile.
    pub(super) fn settled<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.must_ask_of_error() {
            if state.elsewhere.error == OfError::Unknown
                && let Some(link) = &state.link
            {
                let conn = link.conn;
                link.attachment.post_surely(Submission::TakeError { conn });
                state.elsewhere.error = OfError::Asked;
            }
            drop(state);
            let waited = self.wait_for_engine(SAYS_WITHIN, || {
                (!lock(&self.core.state).must_ask_of_error()).then_some(())
            });
            state = lock(&self.core.state);
            match waited {
                // A signal does not end it: the answer is on its way.
                Ok(()) | Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        state
    }
}
