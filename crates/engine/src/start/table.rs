//! The steering program's table, as the networks of all workers use it.
//!
//! An endpoint is one, and each worker says how it is to be steered as far as it is concerned. What holds is
//! what does no harm to any: the kernel keeps its connections while one worker believes that it has some,
//! and new ones come to the engine while one has a listener for them.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netdev::steering::{Endpoint, STALE, Share, Steering, Watch};

use crate::exchange::WorkerId;
use crate::network::{Shared, Steer, Steered};

/// What all workers have in common.
struct Table {
    steering: Steering,
    /// The endpoints in it that are a responder's.
    responders: Vec<Endpoint>,
    /// What each worker wants of an endpoint.
    wants: HashMap<Endpoint, Vec<(WorkerId, Steered)>>,
}

/// The table, as one worker uses it. What it does is rare, and takes the kernel a few microseconds; so the
/// workers share it by a lock.
pub(super) struct SteeringTable {
    table: Arc<Mutex<Table>>,
    worker: WorkerId,
    /// Whether this worker comes for what it is given, and whether the others do.
    watch: Watch,
    others: Vec<Watch>,
}

impl SteeringTable {
    /// For each of so many workers.
    pub(super) fn of(steering: Steering, workers: usize) -> Vec<Self> {
        let watch = steering.watch();
        let table = Arc::new(Mutex::new(Table {
            steering,
            responders: Vec::new(),
            wants: HashMap::new(),
        }));
        let of_worker = |index: usize| watch.of(index as u32);
        let handles = (0..workers).map(|own| Self {
            table: Arc::clone(&table),
            worker: WorkerId(own as u16),
            watch: of_worker(own),
            others: (0..workers)
                .filter(|it| *it != own)
                .map(of_worker)
                .collect(),
        });
        handles.collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Whoever panics ends the engine.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What holds of an endpoint of which workers want this.
fn agreed(wants: &[(WorkerId, Steered)]) -> Option<Steered> {
    let rank = |how: &Steered| match how {
        Steered::Closing => 0,
        Steered::Engine => 1,
        Steered::Mixed => 2,
        Steered::Shared(_) => 3,
    };
    wants.iter().map(|(_, how)| *how).max_by_key(rank)
}

impl Table {
    fn apply(&mut self, endpoint: Endpoint) -> io::Result<()> {
        let how = self.wants.get(&endpoint).and_then(|wants| agreed(wants));
        let Some(how) = how else {
            self.wants.remove(&endpoint);
            let removed = self.steering.remove_port(endpoint);
            return removed.map_err(io::Error::other);
        };
        let share = match how {
            Steered::Engine => Share::All,
            Steered::Mixed => Share::Mixed,
            Steered::Shared(Shared { share, slot }) => Share::Shared { share, slot },
            Steered::Closing => Share::Closing,
        };
        let added = self.steering.add_port(endpoint, share);
        added.map_err(io::Error::other)
    }
}

impl Steer for SteeringTable {
    fn steer(&mut self, address: IpAddr, port: u16, how: Steered) -> io::Result<()> {
        let how = match how {
            // New connections are the kernel's for as long as a worker does not come; it says so itself when
            // it does.
            Steered::Engine if self.others.iter().any(|it| it.waiting() >= STALE) => Steered::Mixed,
            how => how,
        };
        let worker = self.worker;
        let mut table = self.table();
        let endpoint = Endpoint::new(address, port);
        if table.responders.contains(&endpoint) {
            let message = format!("a stateless responder has {endpoint}");
            return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
        }
        let wants = table.wants.entry(endpoint).or_default();
        let before = wants.iter().position(|(by, _)| *by == worker);
        let before = before.map(|at| wants.swap_remove(at));
        wants.push((worker, how));
        table.apply(endpoint).inspect_err(|_| {
            if let Some(wants) = table.wants.get_mut(&endpoint) {
                wants.retain(|(by, _)| *by != worker);
                wants.extend(before);
                if wants.is_empty() {
                    table.wants.remove(&endpoint);
                }
            }
        })
    }

    fn unsteer(&mut self, address: IpAddr, port: u16) -> io::Result<()> {
        let worker = self.worker;
        let mut table = self.table();
        let endpoint = Endpoint::new(address, port);
        if table.responders.contains(&endpoint) {
            return Ok(());
        }
        if let Some(wants) = table.wants.get_mut(&endpoint) {
            wants.retain(|(by, _)| *by != worker);
        }
        table.apply(endpoint)
    }

    fn respond(
        &mut self,
        program: Option<BorrowedFd<'_>>,
        endpoints: &[Endpoint],
    ) -> io::Result<()> {
        let mut table = self.table();
        if let Some(program) = program {
            let called = table.steering.call_responder(program);
            called.map_err(io::Error::other)?;
        }
        for endpoint in endpoints {
            let added = table.steering.add_responder_port(*endpoint);
            added.map_err(io::Error::other)?;
            table.responders.push(*endpoint);
        }
        Ok(())
    }

    fn end_responding(&mut self) {
        let mut table = self.table();
        for endpoint in std::mem::take(&mut table.responders) {
            if let Err(error) = table.steering.remove_port(endpoint) {
                tracing::warn!(%error, "an endpoint of the responder stays");
            }
        }
        if let Err(error) = table.steering.leave_responder() {
            tracing::warn!(%error, "the responder's program stays");
        }
    }

    fn divert(&mut self, program: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let diverted = self.table().steering.divert(program);
        diverted.map_err(io::Error::other)
    }

    fn renew_steering(&mut self) -> io::Result<()> {
        self.table().steering.renew().map_err(io::Error::other)
    }

    fn connect_queue(&mut self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let worker = self.worker.0.into();
        let mut table = self.table();
        let connected = table.steering.connect_queue_to(queue, socket, worker);
        connected.map_err(io::Error::other)
    }

    fn waiting(&self) -> std::time::Duration {
        self.watch.waiting()
    }

    fn beat(&mut self) {
        self.watch.beat();
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        match self.table().steering.counts() {
            Ok(counts) => counts.iter().map(|(r, count)| (r.name(), count)).collect(),
            Err(error) => {
                tracing::warn!(%error, "the steering's counts cannot be read");
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_harms_no_worker() {
        let shared = Steered::Shared(Shared { share: 7, slot: 1 });
        let of = |all: &[Steered]| {
            let numbered = all.iter().enumerate();
            let wants: Vec<_> = numbered
                .map(|(index, how)| (WorkerId(index as u16), *how))
                .collect();
            agreed(&wants)
        };
        use Steered::{Closing, Engine, Mixed};
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[Closing, Closing]), Some(Closing));
        // One that ends its listener ends nobody else's.
        assert_eq!(of(&[Closing, Engine]), Some(Engine));
        assert_eq!(of(&[Engine, Mixed]), Some(Mixed));
        assert_eq!(of(&[Mixed, shared]), Some(shared));
    }
}
