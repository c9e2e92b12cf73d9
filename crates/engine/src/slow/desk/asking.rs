//! Who is asked: the worker of the process that asks, the first, or all.

use super::Desk;
use crate::exchange::{Ask, ClientKey, Order, ROWS, Snapshot, WorkerId};
use crate::slow::control::Pending;

/// Where among what an answer with sockets ends at the number of the worker begins: what is below is a
/// place in its tables.
const WORKER: u32 = 40;

impl Desk {
    /// Has those asked who can answer a control connection.
    pub(super) fn ask(&mut self, client: ClientKey, mut what: Ask, pending: Pending) {
        let Some(asks) = self.control.client_named(client) else {
            return;
        };
        asks.pending = Some(pending);
        let (session, home) = (asks.session, asks.home);
        let to = match &mut what {
            // The steering is one.
            Ask::Respond { .. } | Ask::Divert(_) => WorkerId::FIRST,
            Ask::Sockets { after, .. } => {
                let place = after.unwrap_or(0);
                let worker = self.crew.or_last(place >> WORKER);
                *after = after.map(|_| place - (u64::from(worker.0) << WORKER));
                worker
            }
            Ask::Attach { .. } => {
                self.crew.has_session(home, true);
                home
            }
            _ => home,
        };
        let order = |what| Order::Ask {
            client,
            session,
            what,
        };
        let mut asked = vec![to];
        if for_another(&what).is_some() {
            asked = self.crew.working();
        }
        self.crew.awaits(client, &asked);
        for worker in asked.iter().skip(1) {
            if let Some(same) = for_another(&what) {
                self.crew.order(*worker, order(same));
            }
        }
        let first = asked.first().copied().unwrap_or(to);
        self.crew.order(first, order(what));
    }

    /// Where an answer with sockets that ends there at one worker ends among all.
    pub(super) fn place_among_all(&self, at: WorkerId, next: Option<u64>) -> Option<u64> {
        let (worker, place) = match next {
            Some(place) => (at, place),
            None => (self.crew.after(at)?, 0),
        };
        Some(u64::from(worker.0) << WORKER | place)
    }
}

/// The same question for another worker, if it is one for all.
fn for_another(what: &Ask) -> Option<Ask> {
    Some(match what {
        Ask::Stats(_) => Ask::Stats(Snapshot::with_room()),
        Ask::Explain { pid, .. } => Ask::Explain {
            pid: *pid,
            listeners: Vec::with_capacity(ROWS),
        },
        Ask::Reload(config) => Ask::Reload(config.clone()),
        Ask::Stop => Ask::Stop,
        _ => return None,
    })
}
