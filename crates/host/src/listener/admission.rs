//! Who may connect: a policy that the engine keeps at the SYN, before there is anything to hand over.

use std::sync::Arc;

use queue_pair::control::{AdmissionCounts, AdmissionPolicy, Fds, Reply, Request};
use rustix::io::Errno;

use super::shared::POLICY_SINCE;
use super::{Listener, ListenerCore};
use crate::attachment::RUNS_WITHIN;
use crate::lock::lock;
use crate::socket::Attachment;

impl ListenerCore {
    /// Tells an engine that has just taken the listener who may connect.
    pub(super) fn tell_policy(
        &self,
        attachment: &Attachment,
        listener: u32,
        policy: AdmissionPolicy,
    ) -> Result<(), Errno> {
        if !attachment.speaks(POLICY_SINCE) {
            return Err(Errno::OPNOTSUPP);
        }
        let request = Request::Admit { listener, policy };
        attachment
            .request(&request, Fds::new(), RUNS_WITHIN)
            .map(drop)
    }

    /// Has the listener keep to `policy`. True if an engine does so now.
    pub(super) fn admit(&self, policy: AdmissionPolicy) -> Result<bool, Errno> {
        let link = {
            let mut state = lock(&self.state);
            state.policy = policy;
            state.is_kept = false;
            state.link.clone()
        };
        let Some((attachment, listener)) = link.filter(|(attachment, _)| attachment.is_live())
        else {
            return Ok(false);
        };
        match self.tell_policy(&attachment, listener, policy) {
            Ok(()) => {
                lock(&self.state).is_kept = true;
                Ok(true)
            }
            // Or it does not run just now: it is told again when it does.
            Err(Errno::OPNOTSUPP | Errno::TIMEDOUT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

impl Listener {
    /// From now on the engine lets connect whom `policy` admits, and every engine that comes after it;
    /// what is connected already does not count. Those who share the listener share it: the last word
    /// counts. What the kernel accepts is not its concern. True if an engine keeps to it now.
    ///
    /// # Errors
    /// The engine's, in an answer that it gave.
    pub fn set_admission(&self, policy: AdmissionPolicy) -> Result<bool, Errno> {
        self.core.admit(policy)
    }

    /// Whether an engine keeps to the policy.
    pub fn keeps_admission(&self) -> bool {
        let state = lock(&self.core.state);
        state.is_kept && state.link.as_ref().is_some_and(|(at, _)| at.is_live())
    }

    /// Whether there is an engine that counts what it accepts.
    pub fn counts_admission(&self) -> bool {
        let state = lock(&self.core.state);
        let speaks = |(at, _): &(Arc<Attachment>, u32)| at.is_live() && at.speaks(POLICY_SINCE);
        state.link.as_ref().is_some_and(speaks)
    }

    /// What the engine has counted; `None` without one that counts.
    ///
    /// # Errors
    /// `ETIMEDOUT`: it does not run just now.
    pub fn admission_counts(&self) -> Result<Option<AdmissionCounts>, Errno> {
        let link = lock(&self.core.state).link.clone();
        let Some((attachment, listener)) = link.filter(|(at, _)| at.speaks(POLICY_SINCE)) else {
            return Ok(None);
        };
        match attachment.request(&Request::Admitted { listener }, Fds::new(), RUNS_WITHIN) {
            Ok((Reply::Admitted(counts), _)) => Ok(Some(counts)),
            Err(Errno::TIMEDOUT) => Err(Errno::TIMEDOUT),
            // What it has counted has gone with it.
            _ => Ok(None),
        }
    }

    /// How many connections the engine may hand over before the program accepts one of them, at least 1:
    /// what is handed over costs no question, but no other process has it meanwhile. It is at most the
    /// backlog. What was handed over before stays here, whatever the number is.
    pub fn set_window(&self, connections: u32) {
        lock(&self.core.state).set_window(connections.max(1));
    }
}
