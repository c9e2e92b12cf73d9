//! What the engine tells people: metrics and sockets.

use netdev::Device;
use queue_pair::control::{Explanation, Metric, MetricKind, SocketRow};

use super::{SessionId, Worker};
use crate::fast::connections::Conn;
use crate::fast::listeners::Listener;
use crate::fast::session::{SessionCounters, conn_ref};
use crate::network::{Network, scoped};
use crate::sockets::SocketFilter;
use crate::stats::{Metrics, conn_info, state_name};

/// Sockets in one answer: a control message has room for so many.
const ROWS: usize = 24;

/// Slots of connections that are looked at for one answer.
const LOOKS: u32 = 1024;

/// Where connections begin among what an answer ends at; listeners are below.
const FIRST_CONNECTION: u64 = 1 << 32;

/// Receive queues whose counts fit in an answer.
const QUEUES: usize = 64;

/// One of the counts of a session.
type Count = fn(&SessionCounters) -> u64;

/// One of the counts of a receive queue.
type CountOfQueue = fn(&netdev::Counters) -> u64;

/// Sessions whose counts fit in an answer.
const SESSIONS: usize = 32;

impl<D: Device, N: Network> Worker<D, N> {
    /// Every counter and gauge.
    pub(super) fn metrics(&mut self) -> Vec<Metric> {
        let mut metrics = Metrics::default();
        metrics.worker(&self.counters);
        metrics.tcp(self.stack.counters());
        let device = self.device.counters();
        for (name, value) in device.iter() {
            let help = "Counts of the device";
            metrics.labelled("device", help, ("count", name), value);
        }
        let queues = self.device.queues();
        let of_queues: [(_, _, CountOfQueue); 2] = [
            ("queue_frames", "Frames received by a receive queue", |c| {
                c.received_frames
            }),
            (
                "queue_dropped",
                "Frames to a receive queue that were lost before the engine saw them",
                netdev::Counters::receive_dropped,
            ),
        ];
        for (name, help, count) in of_queues {
            for (queue, counters) in queues.iter().take(QUEUES) {
                let queue = queue.to_string();
                metrics.labelled(name, help, ("queue", queue.as_str()), count(counters));
            }
        }
        for (reason, count) in self.network.steering_counts() {
            let help = "Frames seen by the steering program, by what became of them and why";
            metrics.labelled("steering", help, ("reason", reason), count);
        }
        let connections = u64::from(self.stack.connection_count());
        let sessions = self.sessions.iter().filter(|(_, s)| s.ended.is_none());
        metrics.gauge("connections", "Connections, orphans included", connections);
        metrics.gauge(
            "half_open",
            "Handshakes under way",
            self.stack.half_open_count().into(),
        );
        metrics.gauge(
            "time_wait",
            "Pairs in TIME-WAIT",
            self.stack.time_wait_count().into(),
        );
        let mtu = self.stack.config().mtu.into();
        metrics.gauge("mtu", "Bytes of the largest packet that is sent", mtu);
        metrics.gauge("listeners", "Listeners", self.listeners.len() as u64);
        metrics.gauge("attached", "Sessions attached now", sessions.count() as u64);
        metrics.gauge("paths", "Destinations remembered", self.paths.len() as u64);
        metrics.gauge(
            "held_frames",
            "Frames waiting for a neighbour",
            self.held.len() as u64,
        );
        let attached = || {
            let live = self.sessions.iter().map(|(_, session)| session);
            live.filter(|session| session.ended.is_none())
                .take(SESSIONS)
        };
        // All of one name together, as readers of metrics want it.
        let of_sessions: [(_, _, Count); 4] = [
            ("session_submissions", "Submissions taken", |c| {
                c.submissions
            }),
            ("session_completions", "Completions posted", |c| {
                c.completions
            }),
            ("session_doorbells", "Doorbells rung", |c| c.doorbells),
            ("session_refused", "Requests refused", |c| c.refused),
        ];
        for (name, help, count) in of_sessions {
            for session in attached() {
                let (number, pid) = (session.number.to_string(), session.process.pid.to_string());
                let labels = [("session", number.as_str()), ("pid", pid.as_str())];
                let value = count(&session.counters) as f64;
                metrics.add(name, help, MetricKind::Counter, &labels, value);
            }
        }
        metrics.into_vec()
    }

    /// Some sockets, from where the last answer ended: listeners first, then connections by slot. An
    /// answer looks at a bounded number of slots, so it can be empty and yet not the last.
    pub(super) fn socket_rows(
        &self,
        after: Option<u64>,
        filter: &SocketFilter,
    ) -> (Vec<SocketRow>, Option<u64>) {
        let start = after.unwrap_or(0);
        let wanted = |row: &SocketRow| filter.wants(row);
        let mut rows = Vec::new();
        if start < FIRST_CONNECTION {
            let skip = usize::try_from(start).unwrap_or(usize::MAX);
            let some = self.listeners.iter().skip(skip).take(ROWS);
            let some: Vec<SocketRow> = some.map(|l| self.listener_row(l)).collect();
            let looked_at = some.len();
            rows.extend(some.into_iter().filter(wanted));
            if looked_at == ROWS {
                return (rows, Some(start + ROWS as u64));
            }
        }
        let first = start.saturating_sub(FIRST_CONNECTION);
        let first = u32::try_from(first).unwrap_or(u32::MAX);
        let end = self.connections.slots().min(first.saturating_add(LOOKS));
        for slot in first..end {
            if rows.len() == ROWS {
                return (rows, Some(FIRST_CONNECTION + u64::from(slot)));
            }
            rows.extend(
                self.connections
                    .at(slot)
                    .and_then(|c| self.connection_row(c))
                    .filter(wanted),
            );
        }
        let more = end < self.connections.slots();
        (rows, more.then(|| FIRST_CONNECTION + u64::from(end)))
    }

    fn listener_row(&self, listener: &Listener) -> SocketRow {
        let session = self.listener_process(listener);
        SocketRow {
            conn: None,
            session: session.map(|s| s.number),
            pid: session.map(|s| s.process.pid),
            program: session.map_or_else(String::new, |s| s.process.program.clone()),
            local: listener.local,
            peer: None,
            within: false,
            state: "LISTEN".to_owned(),
            receive_queue: self.stack.waiting(listener.id) as u64,
            send_queue: listener.backlog.into(),
            info: None,
        }
    }

    fn connection_row(&self, conn: &Conn) -> Option<SocketRow> {
        let info = self.stack.info(self.now, conn.id)?;
        let session = conn.owner.and_then(|owner| self.sessions.get(owner));
        Some(SocketRow {
            conn: Some(conn_ref(conn.id)),
            session: session.map(|s| s.number),
            pid: session.map(|s| s.process.pid),
            program: session.map_or_else(String::new, |s| s.process.program.clone()),
            local: scoped(info.local, self.network.index()),
            peer: Some(scoped(info.remote, self.network.index())),
            within: self.is_here(info.remote.ip()),
            state: state_name(info.state).to_owned(),
            receive_queue: info.receive_queue,
            send_queue: info.send_queue,
            info: Some(conn_info(&info, self.age(conn.id))),
        })
    }

    /// What became of a process's sockets: what the engine has of it (with the descriptors that the
    /// process has told), then what the process reported as left to the kernel.
    pub(super) fn explanations(&self, pid: u32) -> Vec<Explanation> {
        let theirs = |session: SessionId| {
            self.sessions
                .get(session)
                .is_some_and(|s| s.process.pid == pid)
        };
        let offloaded = |kind: String| Explanation {
            fd: Explanation::NO_DESCRIPTOR,
            kind,
            reason: String::new(),
        };
        let (accepting, mut told): (Vec<_>, Vec<_>) = self
            .control
            .explanations(pid)
            .into_iter()
            .partition(Explanation::is_offloaded_listener);
        let listeners = self
            .listeners
            .iter()
            .filter(|listener| listener.members.iter().any(|member| theirs(member.session)))
            .take(ROWS)
            .map(|listener| {
                // The process has said which descriptor it is. What it said of others is past: they
                // are closed, or the engine that had them is.
                let kind = Explanation::listener(listener.local);
                let known = accepting.iter().find(|told| told.kind == kind).cloned();
                known.unwrap_or_else(|| offloaded(kind))
            });
        let mut explained: Vec<Explanation> = listeners.collect();
        let connections = self.stack.connections().filter(|id| {
            let owner = self.connections.get(*id).and_then(|conn| conn.owner);
            owner.is_some_and(theirs)
        });
        let (within, across): (Vec<_>, Vec<_>) = connections.partition(|id| {
            let info = self.stack.info(self.now, *id);
            info.is_some_and(|info| self.is_here(info.remote.ip()))
        });
        for (kind, count) in [
            ("connection", across.len()),
            ("local connection", within.len()),
        ] {
            match count {
                0 => {}
                1 => explained.push(offloaded(format!("1 {kind}"))),
                count => explained.push(offloaded(format!("{count} {kind}s"))),
            }
        }
        explained.append(&mut told);
        explained
    }

    /// How long ago the engine first had to do with a connection.
    pub(super) fn age(&self, id: tcp::ConnId) -> core::time::Duration {
        let conn = self.connections.get(id);
        conn.map_or(core::time::Duration::ZERO, |conn| {
            self.now.saturating_duration_since(conn.since)
        })
    }

    fn listener_process(&self, listener: &Listener) -> Option<&crate::fast::session::Session> {
        // Of several processes (a master and its workers) the one that joined last: it accepts.
        self.sessions.get(listener.members.last()?.session)
    }
}
