//! What people are told: metrics, sockets, explanations.

use std::net::SocketAddr;

use queue_pair::control::{Channel, Explanation, Metric, MetricKind, Placed, Reply, SocketRow};
use tcp::State;

use super::Desk;
use crate::exchange::{LISTENERS, Listening, Row, RowKind, Snapshot};
use crate::fast::session::{SessionCounters, conn_ref};
use crate::slow::kernel::privileges::Rights;
use crate::stats::{Counters, Metrics, conn_info, pair_info, state_name};

/// Receive queues whose counts fit in an answer.
const QUEUES: usize = 32;

/// Why nothing comes of a connection that a process had.
const PASSED: &str = "passed to a program that has not taken it";

/// One of the counts of a receive queue.
type CountOfQueue = fn(&netdev::Counters) -> u64;

/// One of the counts of a session.
type Count = fn(&SessionCounters) -> u64;

impl Desk {
    /// Every counter and gauge.
    pub(super) fn metrics(&self, of: &Snapshot) -> Reply {
        let chains = self.netfilter_chains().len() as u64;
        let all = metrics(of, &self.counters, chains, self.rights.as_ref());
        let placed: Vec<_> = self.all_placed().take(LISTENERS).collect();
        with_placed(all, &placed)
    }

    /// What became of a process's sockets: what the engine has of it (with the descriptors that the
    /// process has told), then what the process reported as left to the kernel.
    pub(super) fn explanations(
        &self,
        pid: u32,
        listeners: &[Listening],
        [across, within]: [usize; 2],
    ) -> Vec<Explanation> {
        let offloaded = |kind: String| Explanation {
            fd: Explanation::NO_DESCRIPTOR,
            kind,
            reason: String::new(),
            detail: String::new(),
        };
        let (accepting, mut told): (Vec<_>, Vec<_>) = self
            .control
            .explanations(pid)
            .into_iter()
            .partition(Explanation::is_offloaded_listener);
        let listeners = listeners.iter().map(|listening| {
            // The process has said which descriptor it is. What it said of others is past: they
            // are closed, or the engine that had them is.
            let kind = Explanation::listener(listening.local);
            let known = accepting.iter().find(|told| told.kind == kind).cloned();
            let placed = self.placed(listening.local);
            let mut detail = format!(
                "{} of {} wait to be accepted, credit for {}",
                listening.waiting, listening.backlog, listening.credit
            );
            if let Some(placed) = &placed {
                detail += &format!("; new connections are the {}'s: {placed}", placed.place);
            }
            let reason = match placed {
                Some(placed) if placed.is_kernel() => format!("placed there: {placed}"),
                _ => String::new(),
            };
            let mut explanation = Explanation {
                detail,
                reason,
                ..known.unwrap_or_else(|| offloaded(kind))
            };
            if let Some(why) = self.refused_by_netfilter(listening.local) {
                explanation.reason = format!("new connections are left to the kernel: {why}");
            }
            explanation
        });
        let mut explained: Vec<Explanation> = listeners.collect();
        explained.extend(self.strangers.explain(pid));
        explained.extend_from_slice(self.last_words.explain(pid));
        let listeners_or_connections = !explained.is_empty() || across + within > 0;
        for (kind, count) in [("connection", across), ("local connection", within)] {
            match count {
                0 => {}
                1 => explained.push(offloaded(format!("1 {kind}"))),
                count => explained.push(offloaded(format!("{count} {kind}s"))),
            }
        }
        let passed = match self.control.passed_unclaimed(pid) {
            0 => None,
            1 => Some("1 connection".to_owned()),
            count => Some(format!("{count} connections")),
        };
        explained.extend(passed.map(|kind| Explanation {
            reason: PASSED.to_owned(),
            ..offloaded(kind)
        }));
        explained.append(&mut told);
        if listeners_or_connections {
            explained.extend(self.explain_netfilter());
            explained.extend(self.explain_confinement(pid));
        }
        explained
    }
}

/// Metrics, and those of placed listeners, as many as have room beside them in an answer.
fn with_placed(all: Vec<Metric>, placed: &[(SocketAddr, Placed)]) -> Reply {
    let mut count = placed.len();
    while count > 0 {
        let of_placed = of_placed(&placed[..count]);
        let reply = Reply::Stats(all.iter().cloned().chain(of_placed).collect());
        if Channel::fits(&reply) {
            return reply;
        }
        count /= 2;
    }
    Reply::Stats(all)
}

/// Where listeners are placed, and the figure that this follows from.
fn of_placed(some: &[(SocketAddr, Placed)]) -> Vec<Metric> {
    let mut metrics = Metrics::default();
    let mut each = |name, help, value: fn(&Placed) -> u64| {
        for (local, placed) in some {
            let local = local.to_string();
            let labels = [("listener", local.as_str())];
            metrics.add(name, help, MetricKind::Gauge, &labels, value(placed) as f64);
        }
    };
    let help = "Whether the kernel gets a listener's new connections";
    each("listener_on_kernel", help, |placed| {
        placed.is_kernel().into()
    });
    let help = "What comes to a listener whose placement is to be decided: connections and segments with \
                data, a second";
    each("listener_rate", help, |placed| placed.rate);
    metrics.into_vec()
}

/// Every counter and gauge: of the fast half, what the slow half has refused, how many of the kernel's
/// chains nothing of it passes, and what the engine may do.
fn metrics(of: &Snapshot, refused: &Counters, chains: u64, rights: Option<&Rights>) -> Vec<Metric> {
    let mut metrics = Metrics::default();
    let mut counters = of.worker.clone();
    counters.add_drops(refused);
    metrics.worker(&counters);
    metrics.tcp(&of.tcp);
    for (name, value) in of.device.iter() {
        let help = "Counts of the device";
        metrics.of_device("device", help, ("count", name), value);
    }
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
        for (queue, counters) in of.queues.iter().take(QUEUES) {
            let queue = queue.to_string();
            metrics.of_device(name, help, ("queue", queue.as_str()), count(counters));
        }
    }
    for (reason, count) in &of.steering {
        let help = "Frames seen by the steering program, by what became of them and why";
        metrics.labelled("steering", help, ("reason", reason), *count);
    }
    for (name, help, value) in [
        (
            "connections",
            "Connections, orphans included",
            of.connections,
        ),
        ("half_open", "Handshakes under way", of.half_open),
        ("time_wait", "Pairs in TIME-WAIT", of.time_wait),
        ("mtu", "Bytes of the largest packet that is sent", of.mtu),
        ("listeners", "Listeners", of.listeners),
        ("attached", "Sessions attached now", of.attached),
        ("paths", "Destinations remembered", of.paths),
        (
            "held_frames",
            "Frames waiting for a neighbour",
            of.held_frames,
        ),
    ] {
        metrics.gauge(name, help, value);
    }
    metrics.cores(of.core, &of.sessions);
    metrics.profile(of.serving);
    metrics.listeners(&of.listening, of.listeners);
    let help = "Sessions whose counts are only in the totals, there being so many";
    let left_out = of.attached.saturating_sub(of.sessions.len() as u64);
    metrics.gauge("sessions_left_out", help, left_out);
    let help = "Chains of netfilter with rules for what is offloaded";
    metrics.gauge("netfilter_chains", help, chains);
    if let Some(rights) = rights {
        let help = "Capabilities that the engine has kept";
        for name in rights.names() {
            let labels = [("name", name.as_str())];
            metrics.add("capability", help, MetricKind::Gauge, &labels, 1.0);
        }
        let help = "Whether the engine can make no system calls but those that it needs";
        metrics.gauge("confined", help, rights.confined.into());
    }
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
        for (number, pid, counters, ..) in &of.sessions {
            let (number, pid) = (number.to_string(), pid.to_string());
            let labels = [("session", number.as_str()), ("pid", pid.as_str())];
            let value = count(counters) as f64;
            metrics.add(name, help, MetricKind::Counter, &labels, value);
        }
    }
    metrics.into_vec()
}

/// Whether a FIN of ours is not acknowledged: it has a place in the sequence, and ss(8) counts it as a byte.
fn owes_fin(state: State) -> bool {
    matches!(state, State::FinWait1 | State::Closing | State::LastAck)
}

/// A socket as people see it.
pub(super) fn row(row: Row) -> SocketRow {
    let (session, pid, program) = match row.owner {
        Some((number, pid, program)) => (Some(number), Some(pid), program.as_ref().to_owned()),
        None => (None, None, String::new()),
    };
    let (cores, profile) = (row.cores, row.wanted);
    match row.kind {
        RowKind::Listener {
            local,
            waiting,
            backlog,
            v6_only,
        } => SocketRow {
            both_families: local.is_ipv6() && local.ip().is_unspecified() && !v6_only,
            conn: None,
            session,
            pid,
            program,
            local,
            peer: None,
            within: false,
            state: "LISTEN".to_owned(),
            receive_queue: waiting,
            send_queue: backlog.into(),
            info: None,
            cores,
            profile,
            placed: None,
        },
        RowKind::Connection {
            conn,
            within,
            info,
            age,
        } => SocketRow {
            both_families: false,
            conn: Some(conn_ref(conn)),
            session,
            pid,
            program,
            local: info.local,
            peer: Some(info.remote),
            within,
            state: state_name(info.state).to_owned(),
            receive_queue: info.receive_queue,
            send_queue: info.send_queue + u64::from(owes_fin(info.state)),
            info: Some(conn_info(&info, age)),
            cores,
            profile,
            placed: None,
        },
        RowKind::Pair { within, info } => SocketRow {
            both_families: false,
            conn: None,
            session,
            pid,
            program,
            local: info.local,
            peer: Some(info.remote),
            within,
            state: state_name(info.state).to_owned(),
            receive_queue: 0,
            send_queue: 0,
            info: Some(pair_info(&info)),
            cores,
            profile,
            placed: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::SESSIONS;
    use queue_pair::Profile;
    use queue_pair::control::Fds;
    use rustix::thread::CapabilitySet;

    #[test]
    fn whatever_there_is_to_tell_fits_in_a_message() {
        let mut of = Snapshot::default();
        let count = u64::MAX / 3;
        for n in 0..SESSIONS as u32 {
            let counts = SessionCounters {
                submissions: count,
                completions: count,
                doorbells: count,
                refused: count,
            };
            let core = Some(usize::MAX);
            let wanted = Some(Profile::Efficient);
            of.sessions
                .push((u32::MAX - n, u32::MAX, counts, core, wanted));
        }
        // More than there are make up for counts that are zero here and can grow.
        for port in 0..LISTENERS as u16 * 3 / 2 {
            let local = format!(
                "[2001:db8:1111:2222:3333:4444:5555:6666%4294967295]:{}",
                65_535 - port
            );
            let local = local.parse().expect("an address");
            of.listening
                .push((local, u32::MAX, tcp::ListenerCounts::default()));
        }
        for queue in 0..2 * QUEUES as u32 {
            of.queues
                .push((1_000_000 + queue, netdev::Counters::default()));
        }
        of.steering = vec![("a_reason_with_a_name_that_is_longer_than_others", count); 64];
        let all = Rights {
            capabilities: CapabilitySet::all(),
            confined: true,
        };
        let told = metrics(&of, &Counters::default(), count, Some(&all));
        let placed = Placed {
            rate: count,
            ..Placed::default()
        };
        let listeners = of.listening.iter();
        let placed: Vec<_> = listeners
            .map(|(local, ..)| (*local, placed.clone()))
            .collect();
        let told = with_placed(told, &placed);
        let (mut engine, _client) = Channel::pair().expect("a pair");
        let said = engine.send(&told, Fds::new());
        assert!(said.is_ok(), "{said:?}");
    }

    #[test]
    fn each_placed_listener_is_told_of_where_there_is_room() {
        let placed = |port: u16, place: &str| {
            let placed = Placed {
                place: place.to_owned(),
                rate: port.into(),
                ..Placed::default()
            };
            (SocketAddr::from(([10, 0, 0, 1], port)), placed)
        };
        let both = [placed(80, "kernel"), placed(81, "engine")];
        let Reply::Stats(told) = with_placed(Vec::new(), &both) else {
            panic!("counts");
        };
        let said = |name: &str| {
            let of_name = told.iter().filter(|metric| metric.name == name);
            let values = of_name.map(|metric| (&*metric.labels[0].1, metric.value));
            values.collect::<Vec<_>>()
        };
        let expected = [("10.0.0.1:80", 1.0), ("10.0.0.1:81", 0.0)];
        assert_eq!(said("listener_on_kernel"), expected);
        let expected = [("10.0.0.1:80", 80.0), ("10.0.0.1:81", 81.0)];
        assert_eq!(said("listener_rate"), expected);
    }
}
