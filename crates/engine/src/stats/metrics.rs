//! Counters as metrics: name, labels, value, and what it counts in a sentence.

use std::collections::HashSet;
use std::net::SocketAddr;

use queue_pair::Profile;
use queue_pair::control::{BbrInfo, ConnInfo, Histogram, Metric, MetricKind};
use rustix::time::{ClockId, clock_gettime};
use tcp::State;
use wire::segment::Malformed;

use super::{Counters, Drop};
use crate::exchange::OfSession;

/// The label of what one worker counts. There is one worker so far.
const WORKER: &[(&str, &str)] = &[("worker", "0")];

/// Collects metrics.
#[derive(Debug, Default)]
pub struct Metrics {
    all: Vec<Metric>,
    /// Their names.
    names: HashSet<String>,
}

impl Metrics {
    /// A value that only grows.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.add(name, help, MetricKind::Counter, &[], value as f64);
    }

    /// A value that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.add(name, help, MetricKind::Gauge, &[], value as f64);
    }

    /// One of several counts under one name, told apart by a label.
    pub fn labelled(&mut self, name: &str, help: &str, label: (&str, &str), value: u64) {
        self.add(name, help, MetricKind::Counter, &[label], value as f64);
    }

    /// Any metric.
    pub fn add(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricKind,
        labels: &[(&str, &str)],
        value: f64,
    ) {
        // The help stands once for each name.
        let first = !self.names.contains(name);
        if first {
            self.names.insert(name.to_owned());
        }
        self.all.push(Metric {
            name: name.to_owned(),
            labels: labels
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            kind,
            value,
            help: if first {
                help.to_owned()
            } else {
                String::new()
            },
            histogram: None,
        });
    }

    /// A count of the worker's.
    fn of_worker(&mut self, name: &str, help: &str, value: u64) {
        self.add(name, help, MetricKind::Counter, WORKER, value as f64);
    }

    /// A count of the device or of one of its receive queues, which the worker serves.
    pub fn of_device(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        let labels = [labels, WORKER].concat();
        self.add(name, help, MetricKind::Counter, &labels, value as f64);
    }

    /// The core that the worker runs on, and those that programs named.
    pub fn cores(&mut self, worker: u64, sessions: &[OfSession]) {
        let help = "The core that the worker runs on";
        self.add(
            "worker_core",
            help,
            MetricKind::Gauge,
            WORKER,
            worker as f64,
        );
        for (number, pid, _, core, wanted) in sessions {
            let Some(core) = core else { continue };
            let (number, pid) = (number.to_string(), pid.to_string());
            let mut labels = vec![("session", number.as_str()), ("pid", pid.as_str())];
            // Not by a name of its own: all must fit in one message.
            labels.extend(wanted.map(|wanted| ("profile", wanted.name())));
            let help =
                "The core that the program last ran on, as it says, and the profile that it wants";
            let value = *core as f64;
            self.add("session_core", help, MetricKind::Gauge, &labels, value);
        }
    }

    /// How the worker waits now.
    pub fn profile(&mut self, serving: Profile) {
        let help = "How the worker waits: 1 for the profile by which it serves now";
        for profile in Profile::ALL {
            let labels = [WORKER[0], ("profile", profile.name())];
            let value = f64::from(u8::from(profile == serving));
            self.add("worker_profile", help, MetricKind::Gauge, &labels, value);
        }
    }

    /// Spans of time that the worker measured.
    fn times(&mut self, name: &str, help: &str, of: &tcp::Histogram) {
        let count = of.count() as f64;
        self.add(name, help, MetricKind::Histogram, WORKER, count);
        if let Some(metric) = self.all.last_mut() {
            let buckets = of.classes();
            metric.histogram = Some(Histogram {
                sum: of.sum().as_secs_f64(),
                longest: of.longest().as_secs_f64(),
                buckets: buckets
                    .map(|(limit, count)| (limit.as_secs_f64(), count))
                    .collect(),
            });
        }
    }

    /// The counts of some of all listeners.
    pub fn listeners(&mut self, some: &[(SocketAddr, u32, tcp::ListenerCounts)], all: u64) {
        let names: Vec<String> = some.iter().map(|(local, ..)| local.to_string()).collect();
        let mut each = |name, help, kind, value: fn(u32, &tcp::ListenerCounts) -> u64| {
            for (listener, (_, backlog, counts)) in names.iter().zip(some) {
                let labels = [("listener", listener.as_str())];
                self.add(name, help, kind, &labels, value(*backlog, counts) as f64);
            }
        };
        let help = "Connections made to a listener";
        each("listener_accepts", help, MetricKind::Counter, |_, c| {
            c.accepts
        });
        let help = "Connections that wait in a listener's queue";
        each("listener_waiting", help, MetricKind::Gauge, |_, c| {
            c.waiting.into()
        });
        let help = "Connections that may wait in a listener's queue";
        each("listener_backlog", help, MetricKind::Gauge, |backlog, _| {
            backlog.into()
        });
        let help = "Handshakes under way at a listener";
        each("listener_half_open", help, MetricKind::Gauge, |_, c| {
            c.half_open.into()
        });
        let help = "Segments that a listener refused, by reason";
        for (listener, (_, _, counts)) in names.iter().zip(some) {
            let denied = (Drop::Denied.name(), counts.denied);
            let drops = counts.drops().map(|(reason, count)| (reason.name(), count));
            for (reason, count) in drops.chain([denied]) {
                let labels = [("listener", listener.as_str()), ("reason", reason)];
                let name = "listener_dropped";
                self.add(name, help, MetricKind::Counter, &labels, count as f64);
            }
        }
        let help = "Listeners whose counts are only in the totals, there being so many";
        let left_out = all.saturating_sub(some.len() as u64);
        self.gauge("listeners_left_out", help, left_out);
    }

    /// What was collected.
    pub fn into_vec(self) -> Vec<Metric> {
        self.all
    }

    /// The worker's own counts.
    pub fn worker(&mut self, counters: &Counters) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let help = "Time of the worker: busy, looking for work, asleep";
        for (state, ns) in [
            ("busy", counters.busy_ns),
            ("spin", counters.spin_ns),
            ("sleep", counters.sleep_ns),
        ] {
            let labels = [WORKER[0], ("state", state)];
            self.add(
                "worker_seconds",
                help,
                MetricKind::Counter,
                &labels,
                seconds(ns),
            );
        }
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        self.add(
            "process_cpu_seconds",
            "Time that the engine's process had a processor",
            MetricKind::Counter,
            &[],
            cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
        );
        self.of_worker("turns", "Turns of the worker's loop", counters.turns);
        let help = "How long turns took, with what the core was taken away for";
        self.times("turn_seconds", help, &counters.turn_times);
        if counters.turn_core_times.count() > 0 {
            let help = "For how long the worker had its core in a turn";
            self.times("turn_core_seconds", help, &counters.turn_core_times);
            let help = "For how long of that it was in one call by which the kernel sends";
            self.times("flush_core_seconds", help, &counters.flush_core_times);
        }
        let help = "How long the first frame had waited when the worker woke";
        self.times("wake_up_seconds", help, &counters.wake_ups);
        let help =
            "How long connections waited, from the end of their handshake until they were accepted";
        self.times("accept_wait_seconds", help, &counters.accept_waits);
        self.add(
            "longest_turn_seconds",
            "The longest turn, with what the core was taken away for",
            MetricKind::Gauge,
            WORKER,
            counters.turn_times.longest().as_secs_f64(),
        );
        self.of_worker(
            "empty_turns",
            "Turns that found nothing",
            counters.empty_turns,
        );
        self.of_worker("rx_batches", "Turns that received frames", counters.batches);
        self.of_worker("rx_frames", "Frames received", counters.frames);
        self.of_worker(
            "local_frames",
            "Frames between programs on this machine",
            counters.local_frames,
        );
        self.of_worker("tx_frames", "Frames and large segments sent", counters.sent);
        self.of_worker("tx_large", "Large segments sent", counters.large_sends);
        self.of_worker("sleeps", "Times the worker slept", counters.sleeps);
        self.of_worker(
            "worker_moves",
            "Times the worker went to the core of a program",
            counters.core_moves,
        );
        self.of_worker(
            "moderated_sleeps",
            "Sleeps that frames could not interrupt for a while",
            counters.moderated_sleeps,
        );
        self.of_worker(
            "polls",
            "Looks at descriptors without sleeping",
            counters.polls,
        );
        let help = "Looks for work before the worker slept, by how they ended";
        let found = counters.looks.saturating_sub(counters.looks_in_vain);
        for (end, count) in [("found", found), ("vain", counters.looks_in_vain)] {
            self.labelled("looks", help, ("end", end), count);
        }
        self.counter("doorbells", "Doorbells rung", counters.doorbells);
        self.counter(
            "host_sends",
            "Sends that programs submitted",
            counters.host_sends,
        );
        self.counter(
            "host_exchanges",
            "Sends of programs that had read something since their last one",
            counters.host_exchanges,
        );
        self.counter("sessions", "Sessions attached", counters.sessions);
        self.counter(
            "violations",
            "Sessions that broke the rules",
            counters.violations,
        );
        self.counter(
            "handed_over",
            "Connections handed to processes",
            counters.handed,
        );
        self.counter(
            "given_back",
            "Connections that came back untouched",
            counters.given_back,
        );
        self.counter(
            "buffers_posted",
            "Buffers of programs into which data was placed as it came",
            counters.buffers_posted,
        );
        self.counter(
            "file_sends",
            "Sends from files that the engine reads",
            counters.file_sends,
        );
        self.counter(
            "file_waits",
            "Times that a connection waited for part of its file to be in memory",
            counters.file_waits,
        );
        self.counter(
            "files_short",
            "Connections reset because their file did not have any more what they were to send",
            counters.files_short,
        );
        self.counter(
            "receive_memory_given_back",
            "Bytes to receive into that were given back to the machine",
            counters.memory_given_back,
        );
        self.counter(
            "offers_retracted",
            "Connections that a process was offered and did not accept, so that another got them",
            counters.offers_retracted,
        );
        self.counter(
            "frames_handed",
            "Frames that came to one worker and were handed to another, whose connection they are for",
            counters.frames_handed,
        );
        self.counter(
            "connections_moved",
            "Connections that waited to be accepted and went to a worker where somebody accepts",
            counters.connections_moved,
        );
        self.counter(
            "grants_moved",
            "Times that another process went on reading a connection, since a fork",
            counters.grants_moved,
        );
        self.counter(
            "shared_sends",
            "Sends on connections that several processes have",
            counters.shared_sends,
        );
        self.counter(
            "passed",
            "Connections that a program has passed to another",
            counters.tickets,
        );
        self.counter(
            "passed_claimed",
            "Times that a program has taken a connection that was passed to it",
            counters.tickets_claimed,
        );
        self.counter(
            "passed_late",
            "Connections that were passed to programs which had not waited for them, since the engine did not run",
            counters.tickets_late,
        );
        self.counter(
            "passed_unclaimed",
            "Connections that were passed to programs which cannot use them",
            counters.tickets_unclaimed,
        );
        let help = "Frames that are no TCP segments, by reason";
        for reason in Malformed::ALL {
            let count = counters.refused_frames(*reason);
            self.labelled("rx_malformed", help, ("reason", reason.name()), count);
        }
        let help = "Dropped or refused by the engine, by reason";
        for reason in Drop::ALL {
            let label = ("reason", reason.name());
            self.labelled("dropped", help, label, counters.dropped(*reason));
        }
    }

    /// The TCP's counts.
    pub fn tcp(&mut self, c: &tcp::Counters) {
        self.counter("tcp_segments_in", "Segments that arrived", c.segments_in);
        self.counter("tcp_segments_out", "Segments sent", c.segments_out);
        self.counter("tcp_bytes_in", "Bytes received in order", c.bytes_in);
        self.counter("tcp_bytes_out", "Bytes sent", c.bytes_out);
        self.counter("tcp_active_opens", "Connections opened", c.active_opens);
        self.counter("tcp_passive_opens", "Connections accepted", c.passive_opens);
        self.counter(
            "tcp_syn_cookies_sent",
            "SYNs answered by a cookie",
            c.cookies_sent,
        );
        self.counter(
            "tcp_syn_cookies_accepted",
            "Connections made of a cookie",
            c.cookies_accepted,
        );
        self.counter(
            "tcp_syn_cookies_refused",
            "Acknowledgements that brought no cookie of ours",
            c.cookies_refused,
        );
        self.counter(
            "tcp_fast_opens",
            "Connections opened by a SYN with data (RFC 7413)",
            c.fast_opens_in,
        );
        self.counter(
            "tcp_fast_opens_sent",
            "SYNs sent with data (RFC 7413)",
            c.fast_opens_out,
        );
        self.counter(
            "tcp_fast_open_cookies",
            "Cookies given to clients for Fast Open",
            c.fast_open_cookies,
        );
        self.counter(
            "tcp_fast_opens_refused",
            "SYNs with data that were answered by a whole handshake",
            c.fast_opens_refused,
        );
        self.counter("tcp_failures", "Connections that failed", c.failures);
        self.counter(
            "tcp_retransmits",
            "Segments sent again",
            c.retransmitted_segments,
        );
        self.counter("tcp_timeouts", "Retransmission timeouts", c.timeouts);
        self.counter(
            "tcp_fast_recoveries",
            "Recoveries without timeout",
            c.fast_recoveries,
        );
        self.counter(
            "tcp_out_of_order",
            "Segments kept out of order",
            c.out_of_order_segments,
        );
        self.counter("tcp_resets_in", "RSTs that ended a connection", c.resets_in);
        self.counter("tcp_resets_out", "RSTs sent", c.resets_out);
        self.counter(
            "tcp_challenge_acks",
            "Challenge acknowledgements",
            c.challenge_acks,
        );
        self.counter(
            "tcp_rate_limited",
            "Answers withheld by a limit",
            c.rate_limited,
        );
        self.counter(
            "tcp_time_wait_recycled",
            "TIME-WAIT cut short",
            c.time_wait_recycled,
        );
        for (name, help, value) in [
            (
                "tcp_data_segments_in",
                "Segments with data",
                c.data_segments_in,
            ),
            (
                "tcp_prompt_segments_in",
                "Of these, those whose sender had waited for what was sent before",
                c.prompt_segments_in,
            ),
            (
                "tcp_icmp_errors_in",
                "ICMP errors about segments of ours",
                c.icmp_errors_in,
            ),
            (
                "tcp_path_mtu_reductions",
                "Path MTUs that fell by a router's word",
                c.path_mtu_reductions,
            ),
            (
                "tcp_path_mtu_black_holes",
                "Path MTUs that fell because nothing full-sized got through",
                c.path_mtu_black_holes,
            ),
            (
                "tcp_windows_limited",
                "Windows offered smaller, memory being scarce",
                c.windows_limited,
            ),
            (
                "tcp_out_of_order_shed_bytes",
                "Bytes out of order let go of, memory being scarce",
                c.out_of_order_shed,
            ),
            (
                "tcp_orphans_killed",
                "Closed connections ended by RST or by time",
                c.orphans_killed,
            ),
            (
                "tcp_half_open_timeouts",
                "Handshakes that nobody completed",
                c.half_open_timeouts,
            ),
            (
                "tcp_control_overflows",
                "Answers to no connection that found no room",
                c.control_overflows,
            ),
            (
                "tcp_urgent_segments",
                "Segments with urgent data, taken as ordinary data",
                c.urgent_segments,
            ),
        ] {
            self.counter(name, help, value);
        }
        let help = "Round-trip times, one a window at most (RFC 6298)";
        self.times("tcp_round_trip_seconds", help, &c.round_trips);
        let help = "Segments not used by the TCP, by reason";
        for (reason, count) in c.drops() {
            self.labelled("tcp_dropped", help, ("reason", reason.name()), count);
        }
    }
}

/// The facts of a connection as the control socket carries them.
pub fn conn_info(info: &tcp::ConnInfo, age: core::time::Duration) -> ConnInfo {
    let us = |span: Option<core::time::Duration>| {
        span.map_or(0, |s| u32::try_from(s.as_micros()).unwrap_or(u32::MAX))
    };
    let ms = |span: core::time::Duration| u32::try_from(span.as_millis()).unwrap_or(u32::MAX);
    ConnInfo {
        state: state_name(info.state).to_owned(),
        rtt_us: us(info.srtt),
        rtt_var_us: us(info.rttvar),
        rto_us: us(Some(info.rto)),
        send_mss: info.send_mss.into(),
        congestion_window: info.cwnd,
        slow_start_threshold: info.ssthresh.unwrap_or(u32::MAX),
        send_window: info.send_window,
        receive_window: info.receive_window,
        in_flight: info.in_flight.into(),
        unacked: info.send_queue,
        unread: info.receive_queue,
        bytes_acked: info.bytes_acked,
        bytes_received: info.bytes_received,
        retransmits: info.retransmits.into(),
        min_rtt_us: us(info.min_rtt),
        receive_mss: info.receive_mss.into(),
        announced_mss: info.announced_mss.into(),
        path_mtu: info.path_mtu.into(),
        congestion: info.congestion.name().to_owned(),
        bbr: info.bbr.map(|bbr| BbrInfo {
            bandwidth: bbr.bandwidth,
            min_rtt_us: us(Some(bbr.min_rtt)),
            pacing_gain: bbr.pacing_gain,
            cwnd_gain: bbr.cwnd_gain,
        }),
        timestamps: info.timestamps,
        selective_acks: info.selective_acks,
        fast_open: info.fast_open,
        window_scales: info.window_scales,
        backoff: info.backoff,
        unanswered: info.unanswered,
        probes: info.keep_alive_probes,
        recovering: info.recovering,
        lost: info.lost,
        reported: info.sacked,
        resent: info.retransmitted,
        out_of_order: info.out_of_order,
        reordering: info.reordering,
        segments_in: info.segments_in,
        segments_out: info.segments_out,
        data_segments_in: info.data_segments_in,
        data_segments_out: info.data_segments_out,
        bytes_sent: info.bytes_sent,
        bytes_resent: info.bytes_retransmitted,
        delivery_rate: info.delivery_rate,
        pacing_rate: info.pacing_rate,
        since_sent_ms: ms(info.since_sent),
        since_received_ms: ms(info.since_received),
        age_ns: u64::try_from(age.as_nanos()).unwrap_or(u64::MAX),
        timer: info.timer.map(|(name, left)| (name.to_owned(), ms(left))),
        receive_buffer: info.receive_buffer,
    }
}

/// The facts of two ends without a connection: their state and what they wait for, and nothing else.
pub fn pair_info(info: &tcp::PairInfo) -> ConnInfo {
    let (what, left) = info.timer;
    let left = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
    ConnInfo {
        state: state_name(info.state).to_owned(),
        unanswered: info.unanswered,
        timer: Some((what.to_owned(), left)),
        ..ConnInfo::default()
    }
}

/// The state's name in RFC 9293.
pub fn state_name(state: State) -> &'static str {
    match state {
        State::SynSent => "SYN-SENT",
        State::SynReceived => "SYN-RECEIVED",
        State::Established => "ESTABLISHED",
        State::FinWait1 => "FIN-WAIT-1",
        State::FinWait2 => "FIN-WAIT-2",
        State::CloseWait => "CLOSE-WAIT",
        State::Closing => "CLOSING",
        State::LastAck => "LAST-ACK",
        State::TimeWait => "TIME-WAIT",
        State::Closed => "CLOSED",
    }
}
