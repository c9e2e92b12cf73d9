//! Tickets that are under way: [`queue_pair::control::ticket`].

use std::os::fd::BorrowedFd;

use queue_pair::control::{Carried, ticket};

use super::Control;
use crate::exchange::WorkerId;

/// What is known of a ticket.
#[derive(Debug, Clone)]
pub struct Issued {
    /// By which it is known when it is shown.
    pub identity: u64,
    /// For whoever claims it.
    pub carried: Carried,
    /// The process that has passed it.
    pub pid: u32,
    /// Somebody has claimed it.
    pub claimed: bool,
}

impl Control {
    /// The ticket that is shown, if it is one of ours, its name, and the worker that has issued it.
    pub fn ticket(&mut self, shown: BorrowedFd<'_>) -> Option<(u64, WorkerId, &mut Issued)> {
        let identity = ticket::identity(shown).ok()?;
        self.lifelines.iter_mut().flatten().find_map(|lifeline| {
            let issued = lifeline.ticket.as_mut()?;
            (issued.identity == identity).then_some((lifeline.token, lifeline.home, issued))
        })
    }

    /// The process that has passed the ticket of this lifeline, if nobody has claimed it.
    pub fn unclaimed(&self, slot: u32) -> Option<u32> {
        let lifeline = self.lifelines.get(slot as usize)?.as_ref()?;
        let issued = lifeline.ticket.as_ref()?;
        (!issued.claimed).then_some(issued.pid)
    }

    /// How many connections a process has passed that nobody has claimed yet.
    pub fn passed_unclaimed(&self, pid: u32) -> usize {
        let issued = self.lifelines.iter().flatten();
        let issued = issued.filter_map(|lifeline| lifeline.ticket.as_ref());
        issued.filter(|it| it.pid == pid && !it.claimed).count()
    }

    /// Whether a process is connected.
    pub fn is_connected(&self, pid: u32) -> bool {
        self.clients.iter().flatten().any(|it| it.pid == pid)
    }
}
