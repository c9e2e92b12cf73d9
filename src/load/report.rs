//! The summary, as text and JSON.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};
use stateless::client::path::{Handshake, Path, hops};

use super::outcome::{Details, Outcome};
use super::progress::{short, time};
use super::sides::Between;

const QUANTILES: [f64; 8] = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1.0];

/// For people.
pub fn text(outcome: &Outcome, sides: Option<&Between>, whole: bool) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = summary(&mut text, outcome, whole);
    if let Some(sides) = sides {
        text += &sides.text();
    }
    text
}

fn summary(text: &mut String, outcome: &Outcome, whole: bool) -> std::fmt::Result {
    let reached = &outcome.progress;
    let seconds = reached.seconds.max(1e-9);
    writeln!(
        text,
        "{} requests and {} connections in {seconds:.2} s, {} bytes received",
        reached.requests, reached.connections, reached.bytes
    )?;
    writeln!(
        text,
        "{} requests/s, {} connections/s, {} bit/s, {} errors",
        short(reached.requests as f64 / seconds),
        short(reached.connections as f64 / seconds),
        short(reached.bytes as f64 * 8.0 / seconds),
        reached.errors
    )?;
    if let Some(users) = outcome.users {
        let every = users as f64 * seconds / (reached.requests as f64).max(1.0);
        writeln!(
            text,
            "{} users, who had an answer every {} on average",
            users,
            time(every * 1e6)
        )?;
    }
    if reached.unfinished > 0 {
        writeln!(
            text,
            "{} requests were still under way at the end, and are counted as errors: --grace waits \
             longer",
            reached.unfinished
        )?;
    }
    if reached.backlog > 0 {
        writeln!(
            text,
            "{} were due and not begun in time: the limit on connections (-c) or the client does not \
             keep up",
            reached.backlog
        )?;
    }
    if !outcome.latency.is_empty() {
        latency(
            text,
            "Latency of requests, from when they were due",
            &outcome.latency,
        )?;
        if whole {
            distribution(text, &outcome.latency)?;
        }
    }
    if let Some(details) = &outcome.details {
        if !details.connect.is_empty() {
            latency(text, "Latency of SYN-ACKs", &details.connect)?;
        }
        steps(text, details)?;
        path(text, details)?;
    }
    if let Some(seed) = outcome.seed {
        writeln!(text, "Seed {seed} (repeat with --seed)")?;
    }
    Ok(())
}

fn latency(text: &mut String, title: &str, histogram: &Histogram<u64>) -> std::fmt::Result {
    write!(text, "{title}\n  mean {}", time(histogram.mean()))?;
    for quantile in [0.5, 0.9, 0.99, 0.999] {
        let value = histogram.value_at_quantile(quantile) as f64;
        write!(text, "  p{} {}", quantile * 100.0, time(value))?;
    }
    writeln!(text, "  max {}", time(histogram.max() as f64))
}

fn distribution(text: &mut String, histogram: &Histogram<u64>) -> std::fmt::Result {
    writeln!(
        text,
        "  {:>10} {:>12} {:>12}",
        "share", "latency", "requests"
    )?;
    for value in histogram.iter_quantiles(2) {
        writeln!(
            text,
            "  {:>9.4}% {:>12} {:>12}",
            value.quantile_iterated_to() * 100.0,
            time(value.value_iterated_to() as f64),
            histogram.count_between(0, value.value_iterated_to())
        )?;
    }
    Ok(())
}

fn steps(text: &mut String, details: &Details) -> std::fmt::Result {
    let counters = &details.counters;
    writeln!(text, "By step               first     again      lost")?;
    for (name, first, again, lost) in [
        ("SYN sent", counters.syns, counters.syns_again, None),
        (
            "SYN-ACK received",
            counters.syn_acks,
            counters.syn_acks_again,
            Some(counters.lost_opening),
        ),
        (
            "request sent",
            counters.requests,
            counters.requests_again,
            None,
        ),
        (
            "response received",
            counters.responses,
            counters.responses_again,
            Some(counters.lost_asked),
        ),
        (
            "FIN received",
            counters.fins_received,
            0,
            Some(counters.lost_closing),
        ),
    ] {
        let lost = lost.map_or(String::new(), |lost| lost.to_string());
        writeln!(text, "  {name:17} {first:>9} {again:>9} {lost:>9}")?;
    }
    let others: Vec<_> = counters
        .iter()
        .filter(|(name, count)| *count > 0 && OTHERS.contains(name))
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if !others.is_empty() {
        writeln!(text, "  also: {}", others.join(", "))?;
    }
    let dropped = details.device.receive_dropped_ring_full + details.device.receive_dropped_kernel;
    if dropped > 0 {
        writeln!(text, "  {dropped} frames were lost at our own receive ring")?;
    }
    Ok(())
}

/// What is worth a word if it happened.
const OTHERS: &[&str] = &[
    "status_1xx",
    "status_3xx",
    "status_4xx",
    "status_5xx",
    "closed_early",
    "unanswered",
    "timed_out",
    "reset",
    "refused",
    "malformed",
    "foreign",
    "stale",
    "displaced",
    "not_a_state",
    "out_of_order",
    "not_http",
    "excess",
    "table_full",
    "bodies_wrong",
    "timestamps_wrong",
    "no_room",
];

fn path(text: &mut String, details: &Details) -> std::fmt::Result {
    for (handshake, count) in details.path.handshakes() {
        writeln!(text, "SYN-ACKs: {count} with {}", describe(handshake))?;
    }
    for remark in remarks(&details.path, details.counters.timestamps_wrong) {
        writeln!(text, "  {remark}")?;
    }
    Ok(())
}

fn describe(handshake: &Handshake) -> String {
    let mss = handshake.mss.map_or("none".into(), |mss| mss.to_string());
    let scale = handshake
        .window_scale
        .map_or("none".into(), |scale| scale.to_string());
    format!(
        "MSS {mss}, window scale {scale}, timestamps {}, window {}, TTL {} ({} hops)",
        if handshake.timestamps { "yes" } else { "no" },
        handshake.window,
        handshake.hop_limit,
        hops(handshake.hop_limit)
    )
}

/// What the path seems to have done, told from this end alone.
fn remarks(path: &Path, timestamps_wrong: u64) -> Vec<String> {
    let mut remarks = Vec::new();
    let kinds = path.handshakes();
    if let (Some((first, _)), Some((least, most))) = (kinds.first(), path.hop_limits())
        && (first.hop_limit != least || first.hop_limit != most)
    {
        remarks.push(format!(
            "TTL {} in the handshake, {least} to {most} afterwards: somebody on the way answers \
             for the server (a SYN proxy), or the path changes",
            first.hop_limit
        ));
    }
    if timestamps_wrong > 0 {
        remarks.push(format!(
            "{timestamps_wrong} timestamps echo none of ours: something on the way rewrites them"
        ));
    }
    if kinds.len() > 1 {
        remarks
            .push("SYN-ACKs differ: there is more than one server, or more than one path".into());
    }
    remarks
}

fn quantiles(histogram: &Histogram<u64>) -> Value {
    let mut object = Map::new();
    object.insert("count".into(), histogram.len().into());
    object.insert("mean_us".into(), json!(histogram.mean()));
    for quantile in QUANTILES {
        let name = if quantile == 1.0 {
            "max_us".to_owned()
        } else {
            format!("p{}_us", (quantile * 1e7).round() / 1e5)
        };
        object.insert(name, histogram.value_at_quantile(quantile).into());
    }
    object.into()
}

/// For programs.
pub fn json(outcome: &Outcome, sides: Option<&Between>) -> Value {
    let reached = &outcome.progress;
    let seconds = reached.seconds.max(1e-9);
    let mut value = json!({
        "seconds": reached.seconds,
        "connections": reached.connections,
        "requests": reached.requests,
        "bytes": reached.bytes,
        "errors": reached.errors,
        "outstanding": reached.outstanding,
        "backlog": reached.backlog,
        "unfinished": reached.unfinished,
        "failed": outcome.failed(),
        "connections_per_second": reached.connections as f64 / seconds,
        "requests_per_second": reached.requests as f64 / seconds,
        "bits_per_second": reached.bytes as f64 * 8.0 / seconds,
        "latency": quantiles(&outcome.latency),
        "per_second": outcome.seconds.iter().map(|second| json!({
            "seconds": second.reached.seconds,
            "outstanding": second.reached.outstanding,
            "connections_per_second": second.connections_rate,
            "requests_per_second": second.requests_rate,
            "bits_per_second": second.bits_rate,
            "latency_p50_us": second.latency[1],
            "latency_p99_us": second.latency[2],
        })).collect::<Vec<_>>(),
    });
    if let (Some(details), Some(object)) = (&outcome.details, value.as_object_mut()) {
        let map = |pairs: &mut dyn Iterator<Item = (&'static str, u64)>| -> Value {
            pairs
                .map(|(name, count)| (name.to_owned(), count.into()))
                .collect::<Map<_, _>>()
                .into()
        };
        object.insert("counters".into(), map(&mut details.counters.iter()));
        object.insert("device".into(), map(&mut details.device.iter()));
        object.insert("connect".into(), quantiles(&details.connect));
        object.insert("ledger_bytes".into(), details.memory.into());
        let kinds: Vec<_> = details.path.handshakes().iter().map(handshake).collect();
        object.insert(
            "path".into(),
            json!({
                "syn_acks": kinds,
                "remarks": remarks(&details.path, details.counters.timestamps_wrong),
            }),
        );
    }
    if let (Some(users), Some(object)) = (outcome.users, value.as_object_mut()) {
        object.insert("users".into(), users.into());
    }
    if let (Some(seed), Some(object)) = (outcome.seed, value.as_object_mut()) {
        object.insert("seed".into(), seed.into());
    }
    if let (Some(sides), Some(object)) = (sides, value.as_object_mut()) {
        object.insert("between".into(), sides.json());
    }
    value
}

fn handshake((kind, count): &(Handshake, u64)) -> Value {
    json!({
        "count": count,
        "mss": kind.mss,
        "window_scale": kind.window_scale,
        "sack": kind.sack,
        "timestamps": kind.timestamps,
        "window": kind.window,
        "hop_limit": kind.hop_limit,
        "hops": hops(kind.hop_limit),
    })
}
