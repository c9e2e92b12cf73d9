//! What the engine tells people, as the fast half knows it: it fills room that others made.

use std::net::SocketAddr;
use std::sync::Arc;

use netdev::Device;
use queue_pair::Profile;

use super::{SessionId, Worker};
use crate::exchange::{FIRST_PAIR, LISTENERS, Listening, Page, Row, RowKind, SESSIONS, Snapshot};
use crate::fast::connections::Conn;
use crate::fast::listeners::{Listener, Member};
use crate::fast::session::Session;
use crate::network::{Network, NicId, scoped};

/// Slots that are looked at for one answer.
const LOOKS: u32 = 256;

/// What sockets are told of: listeners by their number, and three tables by their slots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Connections = 1,
    HalfOpen,
    TimeWait,
}

impl Table {
    const ALL: [Table; 3] = [Table::Connections, Table::HalfOpen, Table::TimeWait];

    /// Where it begins among what an answer ends at; what is below the first are listeners.
    fn first(self) -> u64 {
        (self as u64) << 32
    }
}

const _: () = assert!((Table::HalfOpen as u64) << 32 == FIRST_PAIR);

impl<D: Device, N: Network> Worker<D, N> {
    /// All counts at this time.
    pub(super) fn fill(&mut self, snapshot: &mut Snapshot) {
        snapshot.worker.clone_from(&self.counters);
        snapshot.tcp.clone_from(self.stack.counters());
        snapshot.device = Default::default();
        snapshot.queues.clear();
        for nic in self.nics.ids() {
            let device = &mut self.nics[nic].device;
            snapshot.device += device.counters();
            let queues = device.queues().into_iter();
            let named = queues.map(|(queue, counters)| ((nic, queue), counters));
            snapshot.queues.extend(named);
        }
        snapshot.steering = self.network.steering_counts();
        snapshot.connections = self.stack.connection_count().into();
        snapshot.half_open = self.stack.half_open_count().into();
        snapshot.time_wait = self.stack.time_wait_count().into();
        snapshot.core = rustix::thread::sched_getcpu() as u64;
        snapshot.serving = self.serving;
        snapshot.mtu = self.stack.config().mtu.into();
        snapshot.listeners = self.listeners.len() as u64;
        snapshot.paths = self.paths.remembered() as u64;
        snapshot.held_frames = self.held.len() as u64;
        (snapshot.receive_memory, snapshot.send_memory) = self.memory.held();
        let live = self.sessions.iter().map(|(_, session)| session);
        let mut shares = Shares::of(SESSIONS);
        for session in live.filter(|session| session.ended.is_none()) {
            snapshot.attached += 1;
            if shares.take(session.process.uid) {
                let core = session.region.core.get();
                let pid = session.process.pid;
                let wanted = session.region.core.wanted();
                let facts = (session.number, pid, session.counters, core, wanted);
                snapshot.sessions.push(facts);
            }
        }
        let mut shares = Shares::of(LISTENERS);
        for listener in self.listeners.iter() {
            let session = self.listener_process(listener);
            // One that waits for the child of a fork has nobody for a moment.
            let user = session.map_or(u32::MAX, |session| session.process.uid);
            if let Some(counts) = self.stack.listener_counts(listener.id)
                && shares.take(user)
            {
                let row = (listener.local, listener.backlog, counts);
                snapshot.listening.push(row);
            }
        }
    }

    /// Some sockets, from where the last answer ended: listeners first, then connections, half-open ones
    /// and pairs in TIME-WAIT by slot. An answer looks at a bounded number of slots, so it can be empty
    /// and yet not the last.
    pub(super) fn socket_rows(&self, after: Option<u64>, page: &mut Page) {
        let mut at = after.unwrap_or(0);
        if at < Table::Connections.first() {
            let skip = usize::try_from(at).unwrap_or(usize::MAX);
            let some = self.listeners.iter().skip(skip).take(page.room);
            page.rows
                .extend(some.map(|listener| self.listener_row(listener)));
            if page.rows.len() == page.room {
                page.next = Some(at + page.room as u64);
                return;
            }
            at = Table::Connections.first();
        }
        let mut looks = LOOKS;
        for table in Table::ALL {
            let slots = match table {
                Table::Connections => self.connections.slots(),
                Table::HalfOpen => self.stack.half_open_slots(),
                Table::TimeWait => self.stack.time_wait_slots(),
            };
            let end = table.first() + u64::from(slots);
            at = at.max(table.first());
            while at < end {
                if page.rows.len() == page.room || looks == 0 {
                    page.next = Some(at);
                    return;
                }
                let slot = (at - table.first()) as u32;
                page.rows.extend(self.row_of(table, slot));
                looks -= 1;
                at += 1;
            }
        }
        page.next = None;
    }

    fn row_of(&self, table: Table, slot: u32) -> Option<Row> {
        let info = match table {
            Table::Connections => return self.connection_row(self.connections.at(slot)?),
            Table::HalfOpen => self.stack.half_open_at(self.now, slot)?,
            Table::TimeWait => self.stack.time_wait_at(self.now, slot)?,
        };
        let (local, remote) = self.ends(info.local, info.remote);
        Some(Row {
            owner: None,
            cores: None,
            wanted: None,
            kind: RowKind::Pair {
                within: self.is_here(info.remote.ip()),
                info: tcp::PairInfo {
                    local,
                    remote,
                    ..info
                },
            },
        })
    }

    /// The ends of a connection as programs name them.
    pub(super) fn ends(&self, local: SocketAddr, remote: SocketAddr) -> (SocketAddr, SocketAddr) {
        let scope = self.network.scope_of(local.ip());
        (scoped(local, scope), scoped(remote, scope))
    }

    fn listener_row(&self, listener: &Listener) -> Row {
        let session = self.listener_process(listener);
        Row {
            owner: session.map(owner),
            cores: session.and_then(cores),
            wanted: session.and_then(wanted),
            kind: RowKind::Listener {
                local: listener.local,
                waiting: self.stack.waiting(listener.id) as u64,
                backlog: listener.backlog,
                v6_only: listener.v6_only,
            },
        }
    }

    /// The interface by which a connection leaves, if there are several and it has sent something.
    fn nic_of(&self, conn: &Conn) -> Option<NicId> {
        let path = conn.path.filter(|_| !self.nics.is_one());
        path.map(|path| self.paths.nic(path))
    }

    fn connection_row(&self, conn: &Conn) -> Option<Row> {
        let mut info = self.stack.info(self.now, conn.id)?;
        let within = self.is_here(info.remote.ip());
        (info.local, info.remote) = self.ends(info.local, info.remote);
        let session = conn.owner.and_then(|owner| self.sessions.get(owner));
        Some(Row {
            owner: session.map(owner),
            cores: session.and_then(cores),
            wanted: session.and_then(wanted),
            kind: RowKind::Connection {
                conn: conn.id,
                within,
                nic: self.nic_of(conn).filter(|_| !within),
                info,
                age: self.age(conn.id),
            },
        })
    }

    /// What the engine has of a process: listeners, as many as there is room for, and the number of
    /// connections with other machines and within this one.
    pub(super) fn explain(&self, pid: u32, listeners: &mut Vec<Listening>) -> [usize; 2] {
        let theirs = |session: SessionId| {
            self.sessions
                .get(session)
                .is_some_and(|s| s.process.pid == pid)
        };
        let room = listeners.capacity();
        let own = self.listeners.iter().filter_map(|listener| {
            let members = listener.members.iter();
            let own = members.filter(|member| theirs(member.session));
            let credit = own.map(Member::willing).reduce(u32::saturating_add)?;
            Some(Listening {
                local: listener.local,
                waiting: self.stack.waiting(listener.id) as u32,
                backlog: listener.backlog,
                credit,
                enough: self.sharing.users.is_beyond(listener.uid),
                confined: listener.is_confined(&self.confined),
            })
        });
        listeners.extend(own.take(room));
        let sessions = || {
            let all = self.sessions.iter().map(|(_, session)| session);
            all.filter(|s| s.process.pid == pid && s.ended.is_none())
        };
        let all: usize = sessions().map(|session| session.connections.len()).sum();
        let is_within = |id: &&tcp::ConnId| {
            let info = self.stack.info(self.now, **id);
            info.is_some_and(|info| self.is_here(info.remote.ip()))
        };
        let within = match self.local {
            Some(_) => sessions()
                .flat_map(|session| &session.connections)
                .filter(is_within)
                .count(),
            None => 0,
        };
        [all - within, within]
    }

    /// How long ago the engine first had to do with a connection.
    pub(super) fn age(&self, id: tcp::ConnId) -> core::time::Duration {
        let conn = self.connections.get(id);
        conn.map_or(core::time::Duration::ZERO, |conn| {
            self.now.saturating_duration_since(conn.since)
        })
    }

    fn listener_process(&self, listener: &Listener) -> Option<&Session> {
        // Of several processes (a master and its workers) the one that joined last: it accepts.
        self.sessions.get(listener.members.last()?.session)
    }
}

/// Places in an answer, of which one user can have two thirds: whoever makes many listeners does not take
/// those of others' from where the operator looks.
struct Shares {
    left: usize,
    each: u16,
    taken: [(u32, u16); Self::USERS],
}

impl Shares {
    /// Users that are told apart; all further ones are one.
    const USERS: usize = 16;

    fn of(places: usize) -> Self {
        Self {
            left: places,
            each: (places * 2 / 3) as u16,
            taken: [(0, 0); Self::USERS],
        }
    }

    /// One more place for a user, if there is one.
    fn take(&mut self, user: u32) -> bool {
        let known = self
            .taken
            .iter()
            .position(|(who, n)| *n == 0 || *who == user);
        let (who, taken) = &mut self.taken[known.unwrap_or(Self::USERS - 1)];
        if self.left == 0 || *taken == self.each {
            return false;
        }
        *who = user;
        *taken += 1;
        self.left -= 1;
        true
    }
}

fn owner(session: &Session) -> (u32, u32, Arc<str>) {
    let process = &session.process;
    (session.number, process.pid, Arc::clone(&process.program))
}

/// How a program wants to be waited for.
fn wanted(session: &Session) -> Option<Profile> {
    session.region.core.wanted()
}

/// The core that a program named, and that of this worker.
fn cores(session: &Session) -> Option<(u32, u32)> {
    let core = u32::try_from(session.region.core.get()?).ok()?;
    let here = u32::try_from(rustix::thread::sched_getcpu()).ok()?;
    Some((core, here))
}

#[cfg(test)]
mod tests {
    use super::Shares;

    #[test]
    fn one_user_leaves_places_to_others() {
        let mut shares = Shares::of(6);
        let took = |shares: &mut Shares, user| (0..9).filter(|_| shares.take(user)).count();
        assert_eq!(took(&mut shares, 7), 4);
        assert_eq!(took(&mut shares, 0), 2);
        assert_eq!(took(&mut shares, 8), 0);
    }

    #[test]
    fn more_users_than_are_told_apart_share_what_is_there() {
        let mut shares = Shares::of(48);
        let took = (0..100).filter(|user| shares.take(*user)).count();
        assert_eq!(took, 15 + 32);
    }
}
