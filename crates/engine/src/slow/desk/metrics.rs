//! Every counter and gauge, told in pages: a message has a limit, and listeners and sessions have none that
//! people would think of.

use std::collections::VecDeque;
use std::net::SocketAddr;

use queue_pair::control::{ChannelError, Encoded, Fds, Metric, MetricKind, Placed, Reply};
use rustix::io::Errno;

use super::Desk;
use super::readers::Readers;
use crate::config::Interfaces;
use crate::exchange::{ClientKey, LISTENERS, Snapshot};
use crate::fast::session::SessionCounters;
use crate::slow::kernel::opener::Opener;
use crate::slow::kernel::privileges::Rights;
use crate::stats::{Counters, Metrics};

/// Answers of which a rest is kept, of one user and of all.
const KEPT_OF_USER: usize = 4;
const KEPT: usize = 64;

/// One of the counts of a receive queue.
type CountOfQueue = fn(&netdev::Counters) -> u64;

/// One of the counts of a session.
type Count = fn(&SessionCounters) -> u64;

/// What of their last answers was not asked for yet, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Rests(VecDeque<Rest>);

#[derive(Debug)]
struct Rest {
    client: ClientKey,
    uid: u32,
    pages: VecDeque<Encoded>,
}

impl Rests {
    /// Keeps the rest of an answer, if there is one, instead of what this client has not asked for, and of the
    /// oldest ones where there are too many.
    fn keep(&mut self, client: ClientKey, uid: u32, pages: VecDeque<Encoded>) {
        self.0.retain(|rest| rest.client != client);
        if pages.is_empty() {
            return;
        }
        let of_user = |rest: &Rest| rest.uid == uid;
        let oldest = match self.0.iter().filter(|rest| of_user(rest)).count() {
            KEPT_OF_USER.. => self.0.iter().position(of_user),
            _ => (self.0.len() == KEPT).then_some(0),
        };
        if let Some(oldest) = oldest {
            self.0.remove(oldest);
        }
        self.0.push_back(Rest { client, uid, pages });
    }

    /// The next page of a client's.
    fn next(&mut self, client: ClientKey) -> Option<Encoded> {
        let index = self.0.iter().position(|rest| rest.client == client)?;
        let rest = &mut self.0[index];
        let page = rest.pages.pop_front();
        if rest.pages.is_empty() {
            self.0.remove(index);
        }
        page
    }

    /// A client asks for no more.
    pub(super) fn forget(&mut self, client: ClientKey) {
        self.0.retain(|rest| rest.client != client);
    }
}

impl Desk {
    /// The first page of every counter and gauge; the rest is kept until it is asked for.
    pub(super) fn first_metrics(
        &mut self,
        key: ClientKey,
        of: &Snapshot,
    ) -> Result<(), ChannelError> {
        let mut pages = pages(self.metrics(of))?;
        let Some(first) = pages.pop_front() else {
            return Ok(());
        };
        if let Some(client) = self.control.client_named(key) {
            let uid = client.uid;
            self.rests.keep(key, uid, pages);
        }
        self.control.send(key.slot, first, Fds::new())
    }

    /// The next page.
    pub(super) fn more_metrics(&mut self, key: ClientKey) -> Result<(), ChannelError> {
        match self.rests.next(key) {
            Some(page) => self.control.send(key.slot, page, Fds::new()),
            None => {
                let reply = Reply::Error {
                    errno: Errno::AGAIN.raw_os_error(),
                    message: "the rest of the counters is not kept any more: ask for all anew"
                        .into(),
                };
                self.control.reply(key.slot, &reply, Fds::new())
            }
        }
    }

    /// As many counters as one message has room for.
    pub(super) fn some_metrics(&self, of: &Snapshot) -> Reply {
        let mut metrics = self.metrics(of);
        while Encoded::new(&Reply::Stats(metrics.clone())).is_err() {
            metrics.truncate(metrics.len() * 3 / 4);
        }
        Reply::Stats(metrics)
    }

    fn metrics(&self, of: &Snapshot) -> Vec<Metric> {
        let chains = self.netfilter_chains().len() as u64;
        let names = &self.facts.interface;
        let mut all = metrics(
            of,
            names,
            &self.counters,
            chains,
            self.rights.as_ref(),
            &self.opener,
        );
        all.extend(of_sockets(self.are_sockets_unknown()));
        let placed: Vec<_> = self.all_placed().take(LISTENERS).collect();
        all.extend(of_placed(&placed));
        all.extend(of_readers(self.readers));
        all
    }
}

/// Answers that hold them all, in their order.
fn pages(metrics: Vec<Metric>) -> Result<VecDeque<Encoded>, ChannelError> {
    let mut pages = VecDeque::new();
    // What is still to be told, the last first.
    let mut left = vec![metrics];
    while let Some(metrics) = left.pop() {
        let more = !left.is_empty();
        let reply = Reply::Metrics { metrics, more };
        match (Encoded::new(&reply), reply) {
            (Ok(page), _) => pages.push_back(page),
            (Err(_), Reply::Metrics { mut metrics, .. }) if metrics.len() > 1 => {
                let rest = metrics.split_off(metrics.len() / 2);
                left.extend([rest, metrics]);
            }
            (Err(error), _) => return Err(error),
        }
    }
    Ok(pages)
}

/// Whether the kernel tells of its sockets.
fn of_sockets(unknown: bool) -> Vec<Metric> {
    let mut metrics = Metrics::default();
    let help = "Whether the kernel does not say which TCP sockets it has (modprobe tcp_diag)";
    metrics.gauge("sockets_unknown", help, unknown.into());
    metrics.into_vec()
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
                data, a second; of an adaptive one with a policy segments with data alone";
    each("listener_rate", help, |placed| placed.rate);
    metrics.into_vec()
}

/// Of files that programs have shown: whom a policy has had read them.
fn of_readers(readers: Readers) -> Vec<Metric> {
    let help = "Decisions of a policy about a file that a program showed, by who reads it then";
    let mut metrics = Metrics::default();
    for (by, count) in [("engine", readers.engine), ("program", readers.program)] {
        metrics.add(
            "policy_files",
            help,
            MetricKind::Counter,
            &[("by", by)],
            count as f64,
        );
    }
    metrics.into_vec()
}

/// Every counter and gauge: of the fast half, what the slow half has refused, how many of the kernel's
/// chains nothing of it passes, and what the engine may do.
fn metrics(
    of: &Snapshot,
    names: &Interfaces,
    refused: &Counters,
    chains: u64,
    rights: Option<&Rights>,
    opener: &Opener,
) -> Vec<Metric> {
    let mut metrics = Metrics::default();
    let mut counters = of.worker.clone();
    counters.add_drops(refused);
    metrics.worker(&counters);
    metrics.tcp(&of.tcp);
    for (name, value) in of.device.iter() {
        let help = "Counts of the device";
        metrics.of_device("device", help, &[("count", name)], value);
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
        for ((nic, queue), counters) in &of.queues {
            let queue = queue.to_string();
            let mut labels = vec![("queue", queue.as_str())];
            if names.are_several() {
                labels.push(("interface", names.name(nic.index())));
            }
            metrics.of_device(name, help, &labels, count(counters));
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
        (
            "receive_memory",
            "Bytes that sessions hold to receive into",
            of.receive_memory,
        ),
        (
            "send_memory",
            "Bytes that sessions hold to send from, when that was last looked at",
            of.send_memory,
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
    if let Some(rights) = opener.rights() {
        let help = "Whether the process that opens for the engine what takes privileges is there";
        metrics.gauge("opener", help, opener.is_there().into());
        let help = "Capabilities that the opener has kept";
        for name in rights.names() {
            let labels = [("name", name.as_str())];
            metrics.add("opener_capability", help, MetricKind::Gauge, &labels, 1.0);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(number: usize) -> Metric {
        Metric {
            name: "session_submissions".to_owned(),
            labels: vec![("session".to_owned(), number.to_string())],
            kind: MetricKind::Counter,
            value: number as f64,
            help: String::new(),
            histogram: None,
        }
    }

    fn told(page: Encoded) -> (Vec<f64>, bool) {
        let (mut engine, mut client) = queue_pair::control::Channel::pair().expect("a pair");
        engine.send_encoded(page, Fds::new()).expect("sent");
        match client.try_receive().expect("received") {
            Some((Reply::Metrics { metrics, more }, _)) => {
                (metrics.iter().map(|metric| metric.value).collect(), more)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_are_told_once_and_in_their_order_in_as_many_messages_as_it_takes() {
        for count in [0, 1, 1000, 30_000] {
            let pages: Vec<_> = pages((0..count).map(metric).collect())
                .expect("each fits")
                .into_iter()
                .map(told)
                .collect();
            let last = pages.len() - 1;
            let mores: Vec<bool> = pages.iter().map(|(_, more)| *more).collect();
            assert!((0..=last).all(|n| mores[n] == (n < last)), "{mores:?}");
            assert_eq!(last > 0, count == 30_000, "no more pages than it takes");
            let values: Vec<f64> = pages.into_iter().flat_map(|(values, _)| values).collect();
            assert_eq!(values, (0..count).map(|n| n as f64).collect::<Vec<_>>());
        }
        let mut long = metric(1);
        long.help = "x".repeat(queue_pair::control::MAX_MESSAGE);
        assert!(pages(vec![long]).is_err());
    }

    #[test]
    fn of_rests_a_user_has_four_and_all_have_sixty_four() {
        let page = || Encoded::new(&Reply::Done).expect("short");
        let client = |slot| ClientKey { slot, serial: 1 };
        let mut rests = Rests::default();
        for slot in 0..5 {
            rests.keep(client(slot), 1000, [page(), page()].into());
        }
        assert!(rests.next(client(0)).is_none(), "the oldest has gone");
        for slot in 1..5 {
            assert!(rests.next(client(slot)).is_some(), "{slot}");
        }
        // Who asks anew has no other place, and who has heard all has none.
        rests.keep(client(4), 1000, [page()].into());
        assert_eq!(rests.0.len(), 4);
        assert!(rests.next(client(4)).is_some() && rests.next(client(4)).is_none());
        rests.forget(client(3));
        rests.keep(client(2), 1000, VecDeque::new());
        assert_eq!(rests.0.len(), 1);
        for user in 0..200 {
            rests.keep(client(100 + user), 2000 + user, [page()].into());
        }
        assert_eq!(rests.0.len(), KEPT);
        assert!(rests.next(client(1)).is_none());
        assert!(rests.next(client(299)).is_some());
    }

    #[test]
    fn each_placed_listener_is_told_of() {
        let placed = |port: u16, place: &str| {
            let placed = Placed {
                place: place.to_owned(),
                rate: port.into(),
                ..Placed::default()
            };
            (SocketAddr::from(([10, 0, 0, 1], port)), placed)
        };
        let told = of_placed(&[placed(80, "kernel"), placed(81, "engine")]);
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
