//! Which version of the protocol a program and the engine go on with.

use std::collections::VecDeque;

use queue_pair::Versions;
use queue_pair::control::Explanation;
use rustix::io::Errno;

use super::Desk;
use super::requests::Refusal;
use crate::stats::Drop;

/// Programs that are remembered because they could not attach.
const REMEMBERED: usize = 64;

/// Programs that could not attach, for their version or for want of a place, by their processes, and why. Such a program keeps
/// no control connection, so what is said of it cannot go by that.
#[derive(Debug, Default)]
pub(super) struct Strangers(VecDeque<(u32, String)>);

impl Strangers {
    /// One more; false if it was known.
    pub(super) fn remember(&mut self, pid: u32, why: String) -> bool {
        let known = self.forget(pid);
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((pid, why));
        !known
    }

    /// A process has attached, or a new one has its number.
    fn forget(&mut self, pid: u32) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _)| *known != pid);
        self.0.len() != before
    }

    /// What there is to say of a process.
    pub(super) fn explain(&self, pid: u32) -> Option<Explanation> {
        let (_, why) = self.0.iter().find(|(known, _)| *known == pid)?;
        Some(Explanation {
            fd: Explanation::NO_DESCRIPTOR,
            kind: "program".to_owned(),
            reason: why.clone(),
            detail: String::new(),
        })
    }
}

impl Desk {
    /// The version that the engine and a program agree on. Where there is none, the operator hears of it:
    /// such a program serves by the kernel alone, and nothing else would say why.
    pub(super) fn agree(
        &mut self,
        pid: u32,
        program: &str,
        theirs: Versions,
    ) -> Result<u32, Refusal> {
        let ours = self.facts.versions;
        if let Some(version) = ours.agree(theirs) {
            self.strangers.forget(pid);
            self.last_words.attached(pid);
            return Ok(version);
        }
        self.counters.drop(Drop::OtherVersion);
        let remedy = if theirs.newest < ours.oldest {
            "start the program again, so that it takes the library that is installed now"
        } else {
            "start the engine again, so that it is the one that is installed now"
        };
        let why =
            format!("the engine speaks {ours} of the protocol, the program {theirs}: {remedy}");
        // It tries again for as long as it runs.
        if self.strangers.remember(pid, why.clone()) {
            tracing::warn!(pid, program, %why, "a program is left to the kernel");
        }
        Err((Errno::PROTONOSUPPORT, why))
    }
}
