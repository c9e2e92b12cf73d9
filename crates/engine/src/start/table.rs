//! The tables of the steering programs, one on each interface, as the networks of all workers use them.
//!
//! An endpoint is one, and each worker says how it is to be steered as far as it is concerned. What holds is
//! what does no harm to any: the kernel keeps its connections while one worker believes that it has some,
//! and new ones come to the engine while one has a listener for them.
//!
//! The tables say the same on all interfaces: this machine takes what is for any of its addresses by whichever
//! interface it comes. Only a link-local address is steered on its own link alone.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netdev::steering::{Counts, Endpoint, MAX_SHOWN, STALE, Share, Steering, SteeringError, Watch};
use rustix::io::Errno;

use crate::config::shares;
use crate::exchange::WorkerId;
use crate::network::{NicId, Shared, Steer, Steered};

/// What all workers have in common.
struct Table {
    /// By the places of their interfaces.
    steerings: Vec<Steering>,
    /// The endpoints in them that are a responder's.
    responders: Vec<(NicId, Endpoint)>,
    /// What each worker wants of an endpoint.
    wants: HashMap<Endpoint, Vec<(WorkerId, Steered)>>,
    /// The sockets that are shown, by their cookies.
    sockets: HashMap<u64, ShownSocket>,
    /// How many of them each user has.
    users: BTreeMap<u32, usize>,
}

/// A socket that is shown.
struct ShownSocket {
    /// The workers that have a listener for it, one bit each.
    workers: u64,
    /// Whose it counts as: who showed it first.
    uid: u32,
}

/// How often a worker has not come in time. Read in each turn of all, and hardly ever written: it has a cache line of
/// its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Absences(AtomicU64);

/// The table, as one worker uses it. What it does is rare, and takes the kernel a few microseconds; so the
/// workers share it by a lock. What is noted at its listeners' endpoints each looks up once a second, one at a time.
pub(super) struct SteeringTable {
    table: Arc<Mutex<Table>>,
    worker: WorkerId,
    /// Whether this worker comes for what it is given.
    watches: Vec<Watch>,
    /// Of all.
    absences: Arc<Absences>,
}

impl SteeringTable {
    /// For each of so many workers.
    pub(super) fn of(steerings: Vec<Steering>, workers: usize) -> Vec<Self> {
        let watches: Vec<Watch> = steerings.iter().map(Steering::watch).collect();
        let table = Arc::new(Mutex::new(Table {
            steerings,
            responders: Vec::new(),
            wants: HashMap::new(),
            sockets: HashMap::new(),
            users: BTreeMap::new(),
        }));
        let absences = Arc::new(Absences::default());
        let of_worker = |index: usize| {
            let each = watches.iter();
            each.map(move |watch| watch.of(index as u32))
        };
        let handles = (0..workers).map(|own| Self {
            table: Arc::clone(&table),
            worker: WorkerId(own as u16),
            watches: of_worker(own).collect(),
            absences: Arc::clone(&absences),
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
        Steered::Leased => 1,
        Steered::Engine => 2,
        Steered::Mixed => 3,
        Steered::Shared(_) => 4,
    };
    wants.iter().map(|(_, how)| *how).max_by_key(rank)
}

impl Table {
    /// Has an endpoint steered as the workers want it: on one interface, on all, or where it is already.
    fn apply(&mut self, endpoint: Endpoint, on: On) -> io::Result<()> {
        let how = self.wants.get(&endpoint).and_then(|wants| agreed(wants));
        let Some(how) = how else {
            self.wants.remove(&endpoint);
            return self.each_that_has_it(endpoint, |steering| steering.remove_port(endpoint));
        };
        let share = match how {
            Steered::Leased => Share::All,
            Steered::Engine => Share::Listener,
            Steered::Mixed => Share::Mixed,
            Steered::Shared(Shared { share, slot }) => Share::Shared { share, slot },
            Steered::Closing => Share::Closing,
        };
        let on = match on {
            On::Known => {
                return self.each_that_has_it(endpoint, |it| it.set_share(endpoint, share));
            }
            On::One(nic) => {
                // It may have been another's.
                let others = self.steerings.iter_mut().enumerate();
                for (_, steering) in others.filter(|(place, _)| *place != nic.index()) {
                    match steering.remove_port(endpoint) {
                        Ok(()) | Err(SteeringError::NotSteered(_)) => {}
                        Err(error) => return Err(io::Error::other(error)),
                    }
                }
                nic.index()..nic.index() + 1
            }
            On::All => 0..self.steerings.len(),
        };
        for steering in self.steerings.get_mut(on).into_iter().flatten() {
            let added = steering.add_port(endpoint, share);
            added.map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Does something with each table that has an endpoint; an error if none has.
    fn each_that_has_it(
        &mut self,
        endpoint: Endpoint,
        mut what: impl FnMut(&mut Steering) -> Result<(), SteeringError>,
    ) -> io::Result<()> {
        let mut done = Err(SteeringError::NotSteered(endpoint));
        for steering in &mut self.steerings {
            match what(steering) {
                Err(SteeringError::NotSteered(_)) => {}
                // What went wrong with another one is not forgotten.
                Ok(()) if !matches!(done, Err(SteeringError::NotSteered(_))) => {}
                result => done = result,
            }
        }
        done.map_err(io::Error::other)
    }

    /// Does something about a socket with the tables of all interfaces: the first error.
    fn each_socket(
        &mut self,
        what: impl FnMut(&mut Steering) -> Result<(), SteeringError>,
    ) -> io::Result<()> {
        let mut first = Ok(());
        // With each, whatever becomes of one.
        for done in self.steerings.iter_mut().map(what) {
            first = first.and(done);
        }
        first.map_err(io::Error::other)
    }

    fn is_a_responders(&self, endpoint: Endpoint) -> bool {
        self.responders.iter().any(|(_, its)| *its == endpoint)
    }

    /// The steering of an interface.
    fn of_nic(&mut self, nic: NicId) -> io::Result<&mut Steering> {
        let steering = self.steerings.get_mut(nic.index());
        steering.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// In which tables an endpoint is.
#[derive(Debug, Clone, Copy)]
enum On {
    /// In that of this interface.
    One(NicId),
    /// In those of all.
    All,
    /// In those where it is.
    Known,
}

impl Steer for SteeringTable {
    fn steer(
        &mut self,
        address: IpAddr,
        port: u16,
        how: Steered,
        on: Option<NicId>,
    ) -> io::Result<()> {
        let worker = self.worker;
        let mut table = self.table();
        let endpoint = Endpoint::new(address, port);
        if table.is_a_responders(endpoint) {
            let message = format!("a stateless responder has {endpoint}");
            return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
        }
        let wants = table.wants.entry(endpoint).or_default();
        let before = wants.iter().position(|(by, _)| *by == worker);
        let before = before.map(|at| wants.swap_remove(at));
        wants.push((worker, how));
        let on = on.map_or(On::All, On::One);
        table.apply(endpoint, on).inspect_err(|_| {
            if let Some(wants) = table.wants.get_mut(&endpoint) {
                wants.retain(|(by, _)| *by != worker);
                wants.extend(before);
            }
            // Some may have taken it.
            let _ = table.apply(endpoint, On::Known);
        })
    }

    fn unsteer(&mut self, address: IpAddr, port: u16) -> io::Result<()> {
        let worker = self.worker;
        let mut table = self.table();
        let endpoint = Endpoint::new(address, port);
        if table.is_a_responders(endpoint) {
            return Ok(());
        }
        if let Some(wants) = table.wants.get_mut(&endpoint) {
            wants.retain(|(by, _)| *by != worker);
        }
        table.apply(endpoint, On::Known)
    }

    fn show_socket(&mut self, cookie: u64, uid: u32) -> io::Result<()> {
        let worker = self.worker.bit();
        let mut table = self.table();
        if let Some(socket) = table.sockets.get_mut(&cookie) {
            socket.workers |= worker;
            return Ok(());
        }
        let users = table.users.iter().map(|(uid, count)| (*uid, *count));
        if !shares::has_room_among(MAX_SHOWN as usize, uid, users) {
            return Err(Errno::DQUOT.into());
        }
        let shown = table.each_socket(|steering| steering.show_socket(cookie));
        if shown.is_err() {
            let _ = table.each_socket(|steering| steering.hide_socket(cookie));
            return shown;
        }
        let socket = ShownSocket {
            workers: worker,
            uid,
        };
        table.sockets.insert(cookie, socket);
        *table.users.entry(uid).or_default() += 1;
        Ok(())
    }

    fn hide_socket(&mut self, cookie: u64) -> io::Result<()> {
        let worker = self.worker.bit();
        let mut table = self.table();
        let Some(socket) = table.sockets.get_mut(&cookie) else {
            return Ok(());
        };
        socket.workers &= !worker;
        if socket.workers != 0 {
            return Ok(());
        }
        let uid = socket.uid;
        table.sockets.remove(&cookie);
        if let Some(count) = table.users.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                table.users.remove(&uid);
            }
        }
        table.each_socket(|steering| steering.hide_socket(cookie))
    }

    fn now(&self) -> u64 {
        netdev::steering::now_ns()
    }

    fn noted(&self, address: IpAddr, port: u16) -> Option<u64> {
        let endpoint = Endpoint::new(address, port);
        let table = self.table();
        let each = table.steerings.iter().map(|it| it.noted(endpoint));
        each.max().flatten()
    }

    fn forget_left(&mut self, address: IpAddr, port: u16, as_of: u64) -> bool {
        let endpoint = Endpoint::new(address, port);
        let table = self.table();
        let mut forgotten = true;
        // By each, whatever one has been left.
        for steering in &table.steerings {
            forgotten &= steering.forget_left(endpoint, as_of);
        }
        forgotten
    }

    fn respond(
        &mut self,
        nic: NicId,
        program: Option<BorrowedFd<'_>>,
        endpoints: &[Endpoint],
    ) -> io::Result<()> {
        let mut table = self.table();
        if let Some(program) = program {
            let called = table.of_nic(nic)?.call_responder(program);
            called.map_err(io::Error::other)?;
        }
        for endpoint in endpoints {
            let added = table.of_nic(nic)?.add_responder_port(*endpoint);
            added.map_err(io::Error::other)?;
            table.responders.push((nic, *endpoint));
        }
        Ok(())
    }

    fn end_responding(&mut self) {
        let mut table = self.table();
        for (nic, endpoint) in std::mem::take(&mut table.responders) {
            let removed = table.of_nic(nic).map(|it| it.remove_port(endpoint));
            if let Ok(Err(error)) = removed {
                tracing::warn!(%error, "an endpoint of the responder stays");
            }
        }
        for steering in &mut table.steerings {
            if let Err(error) = steering.leave_responder() {
                tracing::warn!(%error, "the responder's program stays");
            }
        }
    }

    fn divert(&mut self, program: Option<(NicId, BorrowedFd<'_>)>) -> io::Result<()> {
        let mut table = self.table();
        // First, because one that is not taken leaves in its place what was called before, wherever that is.
        if let Some((nic, program)) = program {
            let diverted = table.of_nic(nic)?.divert(Some(program));
            diverted.map_err(io::Error::other)?;
        }
        for (place, steering) in table.steerings.iter_mut().enumerate() {
            if program.is_none_or(|(nic, _)| nic.index() != place) {
                steering.divert(None).map_err(io::Error::other)?;
            }
        }
        Ok(())
    }

    fn renew_steering(&mut self, nic: NicId) -> io::Result<()> {
        let mut table = self.table();
        table.of_nic(nic)?.renew().map_err(io::Error::other)
    }

    fn connect_queue(&mut self, nic: NicId, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let worker = self.worker.0.into();
        let mut table = self.table();
        let connected = table.of_nic(nic)?.connect_queue_to(queue, socket, worker);
        connected.map_err(io::Error::other)
    }

    fn waiting(&self) -> Duration {
        let each = self.watches.iter().map(Watch::waiting);
        each.max().unwrap_or_default()
    }

    fn beat(&mut self) -> Duration {
        let each = self.watches.iter().map(Watch::beat);
        let waited = each.max().unwrap_or_default();
        if waited >= STALE {
            self.absences.0.fetch_add(1, Ordering::Release);
        }
        waited
    }

    fn note_late(&self, worker: u16) {
        for watch in &self.watches {
            watch.of(worker.into()).note_late();
        }
    }

    fn absences(&self) -> u64 {
        self.absences.0.load(Ordering::Acquire)
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut all = Counts::default();
        for steering in &self.table().steerings {
            match steering.counts() {
                Ok(counts) => all += counts,
                Err(error) => {
                    tracing::warn!(%error, "the steering's counts cannot be read");
                    return Vec::new();
                }
            }
        }
        let named = all.iter().map(|(reason, count)| (reason.name(), count));
        named.collect()
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
        use Steered::{Closing, Engine, Leased, Mixed};
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[Closing, Closing]), Some(Closing));
        // One that ends its listener ends nobody else's.
        assert_eq!(of(&[Closing, Engine]), Some(Engine));
        assert_eq!(of(&[Engine, Leased]), Some(Engine));
        assert_eq!(of(&[Engine, Mixed]), Some(Mixed));
        assert_eq!(of(&[Mixed, shared]), Some(shared));
    }

    #[test]
    fn a_socket_is_known_for_as_long_as_a_worker_has_it() {
        let mut workers = SteeringTable::of(Vec::new(), 2);
        let known = |workers: &[SteeringTable]| workers[0].table().sockets.len();
        for worker in &mut workers {
            worker.show_socket(7, 0).unwrap();
            worker.show_socket(7, 0).unwrap();
        }
        assert_eq!(known(&workers), 1);
        for (worker, left) in [(0, 1), (0, 1), (1, 0), (1, 0)] {
            workers[worker].hide_socket(7).unwrap();
            assert_eq!(known(&workers), left);
        }
    }

    #[test]
    fn one_user_cannot_show_so_many_sockets_that_others_can_show_none() {
        const MOST: u64 = MAX_SHOWN as u64;
        let mut workers = SteeringTable::of(Vec::new(), 2);
        let mut next = 0;
        let mut fill = |workers: &mut [SteeringTable], uid| {
            let before = next;
            // By one worker and the other in turn; what both have is one.
            while workers[next as usize % 2].show_socket(next, uid).is_ok() {
                workers[1 - next as usize % 2]
                    .show_socket(next, uid)
                    .unwrap();
                next += 1;
                assert!(next <= MOST);
            }
            let refused = workers[0].show_socket(next, uid).unwrap_err();
            assert_eq!(Errno::from_io_error(&refused), Some(Errno::DQUOT));
            next - before
        };
        let filled = [1000, 1001, 1002].map(|uid| fill(&mut workers, uid));
        // Half for the first; all but root's share for the others.
        assert_eq!(filled, [MOST / 2, MOST / 2 - MOST / 8, 0]);
        workers[0].show_socket(MOST, shares::ROOT).unwrap();
        // What is shown already is no more for being shown again.
        workers[1].show_socket(0, 1002).unwrap();
        // What one user had another can have, once nobody has it.
        workers[0].hide_socket(0).unwrap();
        workers[0].show_socket(MOST + 1, 1001).unwrap_err();
        workers[1].hide_socket(0).unwrap();
        workers[0].show_socket(MOST + 1, 1001).unwrap();
    }
}
