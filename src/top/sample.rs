//! What the engine said at a moment, and what happened between two.

use super::Sort;
use queue_pair::control::{Metric, SocketRow};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Instant;

/// Whose sockets: the program's name, and the number of its process.
type Who = (String, Option<u32>);

/// Bytes received and sent, and segments sent again, of one connection.
type Amounts = [u64; 3];

/// What the engine said.
#[derive(Debug, Clone)]
pub struct Sample {
    at: Instant,
    /// By name; metrics of one name that labels tell apart are added up.
    totals: HashMap<String, f64>,
    /// By name and label.
    labelled: BTreeMap<(String, String), f64>,
    connections: HashMap<(SocketAddr, SocketAddr), (Who, Amounts)>,
    listeners: BTreeMap<Who, Vec<SocketAddr>>,
}

/// What happened between two samples, a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Between {
    /// Connections that are open.
    pub connections: u64,
    pub accepted: f64,
    pub failed: f64,
    pub exchanges: f64,
    pub bytes_in: f64,
    pub bytes_out: f64,
    pub retransmits: f64,
    pub drops: f64,
    /// Cores that the engine's process used.
    pub cpu: f64,
    /// The worker's time by its state, as shares.
    pub worker: Vec<(String, f64)>,
    pub programs: Vec<Program>,
}

/// One program.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    pub name: String,
    pub pid: Option<u32>,
    pub listens: Vec<SocketAddr>,
    pub connections: u64,
    pub bytes_in: f64,
    pub bytes_out: f64,
    pub retransmits: f64,
}

impl Sample {
    /// With what is counted.
    pub fn new(at: Instant, metrics: &[Metric]) -> Self {
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
            connections: HashMap::new(),
            listeners: BTreeMap::new(),
        }
    }

    /// Adds a socket.
    pub fn add(&mut self, row: &SocketRow) {
        let who = (row.program.clone(), row.pid);
        let Some(peer) = row.peer else {
            self.listeners.entry(who).or_default().push(row.local);
            return;
        };
        let amounts = row.info.as_ref().map_or([0; 3], |info| {
            [info.bytes_received, info.bytes_sent, info.retransmits]
        });
        self.connections.insert((row.local, peer), (who, amounts));
    }
}

impl Between {
    /// From two samples.
    pub fn of(before: &Sample, after: &Sample) -> Self {
        let seconds = after
            .at
            .saturating_duration_since(before.at)
            .as_secs_f64()
            .max(1e-3);
        let total = |sample: &Sample, name: &str| sample.totals.get(name).copied().unwrap_or(0.0);
        // An engine that was started anew begins at nothing.
        let rate = |name: &str| (total(after, name) - total(before, name)).max(0.0) / seconds;
        let worker = after
            .labelled
            .iter()
            .filter(|((name, _), _)| name == "worker_seconds")
            .map(|((name, state), value)| {
                let key = (name.clone(), state.clone());
                let was = before.labelled.get(&key).copied().unwrap_or(0.0);
                (state.clone(), (value - was).max(0.0) / seconds)
            })
            .collect();
        Self {
            connections: total(after, "connections") as u64,
            accepted: rate("tcp_passive_opens"),
            failed: rate("tcp_failures"),
            exchanges: rate("host_exchanges"),
            bytes_in: rate("tcp_bytes_in"),
            bytes_out: rate("tcp_bytes_out"),
            retransmits: rate("tcp_retransmits"),
            drops: rate("dropped") + rate("rx_malformed"),
            cpu: rate("process_cpu_seconds"),
            worker,
            programs: programs(before, after, seconds),
        }
    }

    /// Leaves out the programs that are not asked for, and orders the rest.
    pub fn arrange(&mut self, by: Sort, name: Option<&str>) {
        if let Some(name) = name {
            self.programs.retain(|program| program.name.contains(name));
        }
        let key = |program: &Program| match by {
            Sort::Bytes => program.bytes_in + program.bytes_out,
            Sort::Conns => program.connections as f64,
            Sort::Retrans => program.retransmits,
        };
        self.programs.sort_by(|one, other| {
            let order = key(other).total_cmp(&key(one));
            order.then_with(|| (&one.name, one.pid).cmp(&(&other.name, other.pid)))
        });
    }
}

fn programs(before: &Sample, after: &Sample, seconds: f64) -> Vec<Program> {
    let mut all: BTreeMap<&Who, Program> = BTreeMap::new();
    let new = |who: &Who| Program {
        name: who.0.clone(),
        pid: who.1,
        listens: Vec::new(),
        connections: 0,
        bytes_in: 0.0,
        bytes_out: 0.0,
        retransmits: 0.0,
    };
    for (who, listens) in &after.listeners {
        let program = all.entry(who).or_insert_with(|| new(who));
        program.listens.clone_from(listens);
        program.listens.sort();
    }
    for (ends, (who, amounts)) in &after.connections {
        let program = all.entry(who).or_insert_with(|| new(who));
        program.connections += 1;
        // Of a connection that is new, or another between the same ends, all is new.
        let was = before.connections.get(ends).map_or([0; 3], |(_, was)| *was);
        let was = if was.iter().zip(amounts).all(|(was, now)| was <= now) {
            was
        } else {
            [0; 3]
        };
        let grown = |index: usize| (amounts[index] - was[index]) as f64 / seconds;
        program.bytes_in += grown(0);
        program.bytes_out += grown(1);
        program.retransmits += grown(2);
    }
    all.into_values().collect()
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

    fn row(program: &str, peer: Option<u16>, amounts: Amounts) -> SocketRow {
        SocketRow {
            conn: None,
            session: Some(1),
            pid: Some(7),
            program: program.into(),
            local: "10.0.0.1:80".parse().unwrap(),
            peer: peer.map(|port| ([10, 0, 0, 2], port).into()),
            within: false,
            state: "ESTABLISHED".into(),
            receive_queue: 0,
            send_queue: 0,
            info: Some(ConnInfo {
                bytes_received: amounts[0],
                bytes_sent: amounts[1],
                retransmits: amounts[2],
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
        let mut before = Sample::new(at, &metrics(1.0));
        let mut after = Sample::new(at + Duration::from_secs(2), &metrics(2.0));
        before.add(&row("nginx", Some(1), [100, 1000, 0]));
        before.add(&row("nginx", Some(2), [900, 900, 9]));
        after.add(&row("nginx", None, [0; 3]));
        after.add(&row("nginx", Some(1), [300, 5000, 2]));
        // Another connection between the same ends.
        after.add(&row("nginx", Some(2), [100, 0, 0]));
        after.add(&row("curl", Some(3), [4, 2, 6]));
        Between::of(&before, &after)
    }

    #[test]
    fn rates_are_of_what_has_grown() {
        let mut between = two_seconds();
        assert_eq!(
            (between.bytes_out, between.drops, between.cpu),
            (2000.0, 2.0, 0.5)
        );
        assert_eq!(between.worker, [("busy".to_owned(), 0.5)]);
        between.arrange(Sort::Bytes, None);
        let [nginx, curl] = &between.programs[..] else {
            panic!("{between:?}");
        };
        assert_eq!((nginx.name.as_str(), nginx.connections), ("nginx", 2));
        assert_eq!((nginx.bytes_in, nginx.bytes_out), (150.0, 2000.0));
        assert_eq!((nginx.retransmits, nginx.listens.len()), (1.0, 1));
        assert_eq!((curl.name.as_str(), curl.bytes_in), ("curl", 2.0));
        between.arrange(Sort::Retrans, None);
        assert_eq!(between.programs[0].name, "curl");
        between.arrange(Sort::Conns, Some("ngi"));
        assert_eq!(between.programs.len(), 1);
    }
}
