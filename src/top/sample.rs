//! What the engine said at a moment, and what happened between two.

use super::cores::{Core, Threads};
use super::served::{Amounts, By, Connection, Served, Sort, Who};
use queue_pair::control::{Metric, SocketRow};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Instant;

/// What the engine said.
#[derive(Debug, Clone)]
pub struct Sample {
    at: Instant,
    /// By name; metrics of one name that labels tell apart are added up.
    totals: HashMap<String, f64>,
    /// By name and label.
    labelled: BTreeMap<(String, String), f64>,
    threads: Threads,
    pub(super) connections: HashMap<(SocketAddr, SocketAddr), Connection>,
    /// Who listens where, and how many connections wait there to be accepted.
    pub(super) listeners: BTreeMap<(Who, SocketAddr), u64>,
}

/// What happened between two samples, a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Between {
    /// Connections that are open.
    pub connections: u64,
    pub accepted: f64,
    pub failed: f64,
    pub exchanges: f64,
    pub segments: f64,
    pub bytes_in: f64,
    pub bytes_out: f64,
    pub retransmits: f64,
    pub drops: f64,
    /// Why, those of the most first.
    pub reasons: Vec<(String, f64)>,
    /// Cores that the engine's process used.
    pub cpu: f64,
    /// The worker's time by its state, as shares.
    pub worker: Vec<(String, f64)>,
    /// The core that the engine says its worker is on, where it says so.
    pub worker_core: Option<u64>,
    /// The longest turn of the worker since it started, in seconds.
    pub longest_turn: f64,
    /// Where the engine's threads ran.
    pub cores: Vec<Core>,
    programs: Vec<Served>,
    listeners: Vec<Served>,
}

impl Sample {
    /// With what is counted, and where the engine's threads were.
    pub fn new(at: Instant, metrics: &[Metric], threads: Threads) -> Self {
        let mut totals = HashMap::new();
        let mut labelled = BTreeMap::new();
        for metric in metrics {
            *totals.entry(metric.name.clone()).or_insert(0.0) += metric.value;
            // Of several workers together: which one it is comes first.
            if let Some((_, label)) = metric.labels.last() {
                let key = (metric.name.clone(), label.clone());
                *labelled.entry(key).or_insert(0.0) += metric.value;
            }
        }
        Self {
            at,
            totals,
            labelled,
            threads,
            connections: HashMap::new(),
            listeners: BTreeMap::new(),
        }
    }

    /// Adds a socket.
    pub fn add(&mut self, row: &SocketRow) {
        let who = (row.program.clone(), row.pid);
        let Some(peer) = row.peer else {
            self.listeners.insert((who, row.local), row.receive_queue);
            return;
        };
        let amounts = row
            .info
            .as_ref()
            .map_or(Amounts::default(), |info| Amounts {
                segments: u64::from(info.segments_in) + u64::from(info.segments_out),
                bytes_in: info.bytes_received,
                bytes_out: info.bytes_sent,
                retransmits: info.retransmits,
            });
        let connection = Connection {
            who,
            amounts,
            unread: row.receive_queue,
            unacked: row.send_queue,
        };
        self.connections.insert((row.local, peer), connection);
    }
}

impl Between {
    /// From two samples.
    pub fn of(before: &Sample, after: &Sample) -> Self {
        let elapsed = after.at.saturating_duration_since(before.at);
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let total = |sample: &Sample, name: &str| sample.totals.get(name).copied().unwrap_or(0.0);
        // An engine that was started anew begins at nothing.
        let rate = |name: &str| (total(after, name) - total(before, name)).max(0.0) / seconds;
        let by_label = |wanted: &str| -> Vec<(String, f64)> {
            let of_name = after
                .labelled
                .iter()
                .filter(|((name, _), _)| name == wanted);
            of_name
                .map(|(key, value)| {
                    let was = before.labelled.get(key).copied().unwrap_or(0.0);
                    (key.1.clone(), (value - was).max(0.0) / seconds)
                })
                .collect()
        };
        let mut reasons = by_label("dropped");
        reasons.extend(by_label("rx_malformed"));
        reasons.retain(|(_, rate)| *rate > 0.0);
        reasons.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        Self {
            connections: total(after, "connections") as u64,
            accepted: rate("tcp_passive_opens"),
            failed: rate("tcp_failures"),
            exchanges: rate("host_exchanges"),
            segments: rate("tcp_segments_in") + rate("tcp_segments_out"),
            bytes_in: rate("tcp_bytes_in"),
            bytes_out: rate("tcp_bytes_out"),
            retransmits: rate("tcp_retransmits"),
            drops: rate("dropped") + rate("rx_malformed"),
            reasons,
            cpu: rate("process_cpu_seconds"),
            worker: by_label("worker_seconds"),
            worker_core: after.totals.get("worker_core").map(|core| *core as u64),
            longest_turn: total(after, "longest_turn_seconds"),
            cores: Core::between(&before.threads, &after.threads, seconds),
            programs: served(By::Program, before, after, seconds),
            listeners: served(By::Listener, before, after, seconds),
        }
    }

    /// Connections that wait to be accepted, at all listeners together.
    pub fn waiting(&self) -> u64 {
        self.listeners.iter().map(|listener| listener.waiting).sum()
    }

    /// Those who are served and have `filter` in their names or addresses, in order.
    pub fn served(&self, by: By, sort: Sort, reverse: bool, filter: &str) -> Vec<&Served> {
        let all = match by {
            By::Program => &self.programs,
            By::Listener => &self.listeners,
        };
        let mut rows: Vec<&Served> = all.iter().filter(|row| row.has(filter)).collect();
        rows.sort_by(|one, other| sort.order(one, other));
        if reverse {
            rows.reverse();
        }
        rows
    }
}

/// What the connections that there are did between two samples.
fn served(by: By, before: &Sample, after: &Sample, seconds: f64) -> Vec<Served> {
    let mut all: BTreeMap<(Who, Option<SocketAddr>), Served> = BTreeMap::new();
    let place = |place: SocketAddr| Some(place).filter(|_| by == By::Listener);
    for ((who, local), waiting) in &after.listeners {
        let row = row(&mut all, who, place(*local));
        row.listens.push(*local);
        row.waiting += waiting;
    }
    for (ends, connection) in &after.connections {
        let came_to = after.listener_of(ends.0).filter(|_| by == By::Listener);
        let row = match came_to {
            Some((owner, local)) => row(&mut all, owner, Some(*local)),
            None => row(&mut all, &connection.who, None),
        };
        // Of a connection that is new, or another between the same ends, all is new.
        let was = before.connections.get(ends).map(|was| was.amounts);
        let was = was.filter(|was| was.is_before(&connection.amounts));
        row.add(connection, &was.unwrap_or_default(), seconds);
    }
    all.into_values().collect()
}

fn row<'a>(
    all: &'a mut BTreeMap<(Who, Option<SocketAddr>), Served>,
    who: &Who,
    place: Option<SocketAddr>,
) -> &'a mut Served {
    all.entry((who.clone(), place)).or_insert_with(|| Served {
        name: who.0.clone(),
        pid: who.1,
        ..Served::default()
    })
}

impl Sample {
    /// The listener that a connection with this end came to: the one at the very address, or else
    /// the one at all addresses.
    fn listener_of(&self, local: SocketAddr) -> Option<&(Who, SocketAddr)> {
        let of_port = || {
            self.listeners
                .keys()
                .filter(|(_, at)| at.port() == local.port())
        };
        let exact = of_port().find(|(_, at)| at.ip() == local.ip());
        exact.or_else(|| of_port().find(|(_, at)| at.ip().is_unspecified()))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use queue_pair::control::{ConnInfo, MetricKind};
    use std::time::Duration;

    fn metric(name: &str, labels: &[(&str, &str)], value: f64) -> Metric {
        Metric {
            name: name.into(),
            labels: labels
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
            kind: MetricKind::Counter,
            value,
            help: String::new(),
            histogram: None,
        }
    }

    /// Bytes received and sent, and segments sent again.
    fn row(program: &str, local: &str, peer: Option<u16>, amounts: [u64; 3]) -> SocketRow {
        SocketRow {
            both_families: false,
            conn: None,
            session: Some(1),
            pid: Some(7),
            program: program.into(),
            local: local.parse().unwrap(),
            peer: peer.map(|port| ([10, 0, 0, 2], port).into()),
            within: false,
            state: "ESTABLISHED".into(),
            receive_queue: 5,
            send_queue: 9,
            cores: None,
            profile: None,
            placed: None,
            interface: None,
            info: Some(ConnInfo {
                bytes_received: amounts[0],
                bytes_sent: amounts[1],
                retransmits: amounts[2],
                segments_in: amounts[0] as u32 / 100,
                segments_out: amounts[1] as u32 / 100,
                ..ConnInfo::default()
            }),
        }
    }

    /// Two seconds in the life of an engine with nginx and curl on it.
    pub fn two_seconds() -> Between {
        let at = Instant::now();
        let metrics = |of: f64| {
            [
                metric("connections", &[], 3.0),
                metric("tcp_bytes_out", &[], 4000.0 * of),
                metric("dropped", &[("reason", "a")], of),
                metric("dropped", &[("reason", "b")], 3.0 * of),
                metric(
                    "worker_seconds",
                    &[("worker", "0"), ("state", "busy")],
                    of / 4.0,
                ),
                metric(
                    "worker_seconds",
                    &[("worker", "1"), ("state", "busy")],
                    of * 0.75,
                ),
                metric("process_cpu_seconds", &[], of),
            ]
        };
        let threads = |ns| Threads::of([(11, "worker", 1, ns), (12, "control", 0, 7)]);
        let mut before = Sample::new(at, &metrics(1.0), threads(1_000_000_000));
        let later = at + Duration::from_secs(2);
        let mut after = Sample::new(later, &metrics(2.0), threads(2_000_000_000));
        let site = "10.0.0.1:80";
        before.add(&row("nginx", site, Some(1), [100, 1000, 0]));
        before.add(&row("nginx", site, Some(2), [900, 900, 9]));
        after.add(&row("nginx", "0.0.0.0:80", None, [0; 3]));
        after.add(&row("nginx", "0.0.0.0:443", None, [0; 3]));
        after.add(&row("nginx", site, Some(1), [300, 5000, 2]));
        // Another connection between the same ends.
        after.add(&row("nginx", site, Some(2), [100, 0, 0]));
        after.add(&row("curl", "10.0.0.1:40000", Some(3), [4, 2, 6]));
        Between::of(&before, &after)
    }

    #[test]
    fn rates_are_of_what_has_grown() {
        let between = two_seconds();
        assert_eq!(
            (between.bytes_out, between.drops, between.cpu),
            (2000.0, 2.0, 0.5)
        );
        assert_eq!(between.worker, [("busy".to_owned(), 0.5)]);
        let reasons = [("b".to_owned(), 1.5), ("a".to_owned(), 0.5)];
        assert_eq!(between.reasons, reasons);
        let core = &between.cores[1];
        assert_eq!(
            (core.number, core.engine, core.threads.as_str()),
            (1, 0.5, "worker")
        );
        let [nginx, curl] = between.served(By::Program, Sort::Bytes, false, "")[..] else {
            panic!("{between:?}");
        };
        assert_eq!((nginx.name.as_str(), nginx.connections), ("nginx", 2));
        assert_eq!((nginx.bytes_in, nginx.bytes_out), (150.0, 2000.0));
        assert_eq!((nginx.retransmits, nginx.listens.len()), (1.0, 2));
        assert_eq!(nginx.segments, (2.0 + 40.0 + 1.0) / 2.0);
        assert_eq!((nginx.waiting, nginx.unread, nginx.unacked), (10, 10, 18));
        assert_eq!((curl.name.as_str(), curl.bytes_in), ("curl", 2.0));
    }

    #[test]
    fn those_who_are_served_are_sorted_and_filtered() {
        let between = two_seconds();
        let first = |sort, reverse| {
            between.served(By::Program, sort, reverse, "")[0]
                .name
                .clone()
        };
        assert_eq!(first(Sort::Retrans, false), "curl");
        assert_eq!(first(Sort::Retrans, true), "nginx");
        assert_eq!(first(Sort::Name, false), "curl");
        for sort in [Sort::Conns, Sort::Segs, Sort::Waits] {
            assert_eq!(first(sort, false), "nginx", "{sort:?}");
        }
        let rows = between.served(By::Program, Sort::Conns, false, "ngi");
        assert_eq!(rows.len(), 1);
    }

    #[test]
    fn a_listener_has_the_connections_that_came_to_it() {
        let between = two_seconds();
        let rows = between.served(By::Listener, Sort::Conns, false, "");
        let seen: Vec<(String, u64)> = rows
            .iter()
            .map(|row| (row.places(), row.connections))
            .collect();
        // What a program opened itself came to no listener.
        let expected = [("0.0.0.0:80", 2), ("(opened)", 1), ("0.0.0.0:443", 0)];
        assert_eq!(
            seen,
            expected.map(|(place, count)| (place.to_owned(), count))
        );
        let of_port = between.served(By::Listener, Sort::Conns, false, ":443");
        assert_eq!(of_port.len(), 1);
    }
}
