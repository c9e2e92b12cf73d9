//! Who may connect to a listener, as its program says.

use netdev::Device;
use queue_pair::control::AdmissionCounts;
use rustix::io::Errno;
use tcp::{Admission, DropReason, ListenerCounts};

use super::Worker;
use crate::fast::connections::SessionId;
use crate::network::Network;

impl<D: Device, N: Network> Worker<D, N> {
    /// From now on these limits hold at a listener of the session's, or none. Returns those before, to be
    /// freed elsewhere. All who accept there share them: the last word counts.
    pub(super) fn admit_by(
        &mut self,
        id: SessionId,
        name: u32,
        admission: Option<Box<Admission>>,
    ) -> Result<Option<Box<Admission>>, Errno> {
        let listener = self.listener_of(id, name)?;
        Ok(self.stack.set_admission(listener, admission))
    }

    /// What is counted of a listener of the session's.
    pub(super) fn admitted(&mut self, id: SessionId, name: u32) -> Result<AdmissionCounts, Errno> {
        let listener = self.listener_of(id, name)?;
        let counts = self.stack.listener_counts(listener).ok_or(Errno::BADF)?;
        Ok(in_words(&counts))
    }

    fn listener_of(&mut self, id: SessionId, name: u32) -> Result<tcp::ListenerId, Errno> {
        let number = self.listeners.of_member(name).ok_or(Errno::BADF)?;
        let listener = self.listeners.get_mut(number).ok_or(Errno::BADF)?;
        let own = listener.member_mut(name).is_some_and(|m| m.session == id);
        own.then_some(listener.id).ok_or(Errno::BADF)
    }
}

fn in_words(counts: &ListenerCounts) -> AdmissionCounts {
    let refused = |reason| {
        let mut drops = counts.drops();
        drops
            .find(|(why, _)| *why == reason)
            .map_or(0, |(_, count)| count)
    };
    AdmissionCounts {
        accepts: counts.accepts,
        in_flight: counts.in_flight.into(),
        refused_by_rate: refused(DropReason::AdmissionRate),
        refused_by_count: refused(DropReason::AdmissionInFlight),
        refused_by_prefix: refused(DropReason::AdmissionPrefix),
    }
}
