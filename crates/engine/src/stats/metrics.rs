//! Counters as metrics: name, labels, value, and what it counts in a sentence.

use queue_pair::control::{ConnInfo, Metric, MetricKind};
use tcp::State;
use wire::segment::Malformed;

use super::{Counters, Drop};

/// Collects metrics.
#[derive(Debug, Default)]
pub struct Metrics(Vec<Metric>);

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
        let first = self.0.iter().all(|metric| metric.name != name);
        self.0.push(Metric {
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
        });
    }

    /// What was collected.
    pub fn into_vec(self) -> Vec<Metric> {
        self.0
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
            let labels = [("state", state)];
            self.add(
                "worker_seconds",
                help,
                MetricKind::Counter,
                &labels,
                seconds(ns),
            );
        }
        self.counter("turns", "Turns of the worker's loop", counters.turns);
        self.counter(
            "empty_turns",
            "Turns that found nothing",
            counters.empty_turns,
        );
        self.counter("rx_batches", "Turns that received frames", counters.batches);
        self.counter("rx_frames", "Frames received", counters.frames);
        self.counter("tx_frames", "Frames and large segments sent", counters.sent);
        self.counter("tx_large", "Large segments sent", counters.large_sends);
        self.counter("sleeps", "Times the worker slept", counters.sleeps);
        self.counter(
            "polls",
            "Looks at descriptors without sleeping",
            counters.polls,
        );
        self.counter("doorbells", "Doorbells rung", counters.doorbells);
        self.counter(
            "host_sends",
            "Sends that programs submitted",
            counters.host_sends,
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
            "adopted",
            "Connections that moved after a fork",
            counters.adopted,
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
        let help = "Segments not used by the TCP, by reason";
        for (reason, count) in c.drops() {
            self.labelled("tcp_dropped", help, ("reason", reason.name()), count);
        }
    }
}

/// The facts of a connection as the control socket carries them.
pub fn conn_info(info: &tcp::ConnInfo) -> ConnInfo {
    let us = |span: Option<core::time::Duration>| {
        span.map_or(0, |s| u32::try_from(s.as_micros()).unwrap_or(u32::MAX))
    };
    ConnInfo {
        state: state_name(info.state).to_owned(),
        rtt_us: us(info.round_trip),
        rtt_var_us: us(info.round_trip_variation),
        rto_us: us(Some(info.retransmission_timeout)),
        send_mss: info.send_mss.into(),
        congestion_window: info.congestion_window,
        slow_start_threshold: info.slow_start_threshold.unwrap_or(u32::MAX),
        send_window: info.send_window,
        receive_window: info.receive_window,
        in_flight: info.in_flight.into(),
        unacked: info.send_queue,
        unread: info.receive_queue,
        bytes_acked: info.bytes_acked,
        bytes_received: info.bytes_received,
        retransmits: info.retransmits.into(),
        age_ns: 0,
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
