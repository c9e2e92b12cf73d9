//! What people are told: sockets, explanations.

use queue_pair::control::{Encoded, Explanation, Reply, SocketRow};
use tcp::State;

use super::Desk;
use crate::config::Interfaces;
use crate::exchange::{Listening, Row, RowKind};
use crate::fast::session::conn_ref;
use crate::stats::{conn_info, pair_info, state_name};

/// Why nothing comes of a connection that a process had.
const PASSED: &str = "passed to a program that has not taken it";

/// Why new connections to a listener are the kernel's whose user has many.
const ENOUGH: &str = "new connections are left to the kernel: its user has as many as its share of \
                      limits.connections";

/// And whose socket is bound to an interface since.
const CONFINED: &str = "new connections are left to the kernel: its socket is bound to an interface by now, and here \
                        it would get those that come by any";

/// What the engine does for a listener in vain where it cannot know better.
const UNKNOWN: &str = "; the kernel does not say which sockets it has (modprobe tcp_diag), so each segment is looked up in \
                       its tables, and the listener is believed until its program ends";

impl Desk {
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
            if self.are_sockets_unknown() {
                detail += UNKNOWN;
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
            if listening.enough {
                explanation.reason = ENOUGH.to_owned();
            }
            if listening.confined {
                explanation.reason = CONFINED.to_owned();
            }
            if let Some(why) = self.refused_by_netfilter(listening.local) {
                explanation.reason = why;
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
            explained.extend(self.vlans.explain());
            explained.extend(self.traffic.explain());
            explained.extend(self.explain_confinement(pid));
        }
        fitting(explained)
    }
}

/// As many of the lines as one answer has room for, and how many are not told: a program says of its sockets what it
/// likes, and an answer that is too long would end the connection of who asks.
fn fitting(mut lines: Vec<Explanation>) -> Vec<Explanation> {
    let all = lines.len();
    let mut told = all;
    while told > 0 && Encoded::new(&Reply::Explained(lines.clone())).is_err() {
        told = told * 3 / 4;
        lines.truncate(told);
        lines.push(Explanation {
            fd: Explanation::NO_DESCRIPTOR,
            kind: format!("{} more", all - told),
            reason: "not told here: one answer has no room for them".to_owned(),
            detail: String::new(),
        });
    }
    lines
}

/// Whether a FIN of ours is not acknowledged: it has a place in the sequence, and ss(8) counts it as a byte.
fn owes_fin(state: State) -> bool {
    matches!(state, State::FinWait1 | State::Closing | State::LastAck)
}

/// A socket as people see it, of an engine on these interfaces.
pub(super) fn row(row: Row, interfaces: &Interfaces) -> SocketRow {
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
            interface: None,
        },
        RowKind::Connection {
            conn,
            within,
            nic,
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
            interface: nic.map(|nic| interfaces.name(nic.index()).to_owned()),
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
            interface: None,
        },
    }
}
