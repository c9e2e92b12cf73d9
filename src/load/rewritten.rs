//! What the path rewrote: the SYNs that arrived at the responder beside those that were sent, and
//! the SYN-ACKs that arrived here beside what the responder announces.

use std::collections::HashMap;
use std::fmt::{Display, Write};
use std::net::IpAddr;

use serde_json::{Value, json};

use super::outcome::{Details, Outcome};

/// What the responder sends in all its SYN-ACKs.
const THEIR_WINDOW: u64 = 65_535;
const THEIR_HOP_LIMIT: u64 = 64;

/// Something that did not arrive as it was sent.
#[derive(Debug, Clone, PartialEq)]
struct Change {
    what: &'static str,
    towards_responder: bool,
    /// In so many segments.
    count: u64,
    /// In one of them.
    sent: String,
    arrived: String,
}

/// The comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rewritten {
    /// SYNs at the responder that were compared.
    syns: u64,
    /// SYNs there that are none of ours, or of which both number and origin were rewritten.
    strange: u64,
    /// SYN-ACKs here that were compared.
    syn_acks: u64,
    changes: Vec<Change>,
}

/// Compares; `None` if the responder does not show what arrived. What it showed `before` the run is
/// not of the run.
pub fn compare(outcome: &Outcome, before: Option<&Value>, after: &Value) -> Option<Rewritten> {
    let details = outcome.details.as_ref()?;
    let witness = after.get("witness")?;
    let syns = |value: &Value| value["witness"]["syns"].as_array().cloned();
    let old = before
        .and_then(syns)
        .and_then(|syns| syns.last()?["number"].as_u64())
        .unwrap_or(0);
    let mut of_run = syns(after)?;
    of_run.retain(|syn| syn["number"].as_u64() > Some(old));
    let mut rewritten = Rewritten::default();
    let by_sequence = details.sent.by_sequence();
    for syn in &of_run {
        rewritten.syn(details, &by_sequence, syn);
    }
    // Timestamps come back where they arrived.
    let stamped = of_run
        .first()
        .map(|syn| !syn["timestamp"].is_null())
        .filter(|_| rewritten.syns > 0);
    rewritten.syn_acks(details, witness, stamped);
    Some(rewritten)
}

impl Rewritten {
    fn syn(&mut self, details: &Details, by_sequence: &HashMap<u32, (IpAddr, u16)>, syn: &Value) {
        let origin = || {
            let address: IpAddr = syn["from"].as_str()?.parse().ok()?;
            Some((address, u16::try_from(syn["from_port"].as_u64()?).ok()?))
        };
        let number = |name: &str| syn[name].as_u64();
        let (Some((from, port)), Some(sequence)) = (origin(), number("sequence")) else {
            return;
        };
        let known = u32::try_from(sequence)
            .ok()
            .and_then(|sequence| by_sequence.get(&sequence).copied());
        let (sent_from, sent_sequence) = match known {
            Some(place) => (place, sequence),
            None => match details.sent.last_from(from, port) {
                Some(sent) => ((from, port), u64::from(sent)),
                None => {
                    self.strange += 1;
                    return;
                }
            },
        };
        self.syns += 1;
        let said = &details.addressing;
        let server = (said.server.ip().to_string(), u64::from(said.server.port()));
        self.hold("source address", sent_from.0, from);
        self.hold("source port", sent_from.1, port);
        self.hold("destination address", &server.0[..], text(&syn["to"]));
        self.hold("destination port", server.1, text(&syn["to_port"]));
        self.hold("initial sequence number", sent_sequence, sequence);
        self.hold("window", said.window, text(&syn["window"]));
        self.hold("TTL", said.hop_limit, text(&syn["hop_limit"]));
        self.hold("MSS", said.mss, text(&syn["mss"]));
        self.hold(
            "window scale",
            said.window_scale,
            text(&syn["window_scale"]),
        );
        self.hold("SACK permitted", "no", yes(syn["sack"] == true));
        self.hold("timestamps", "yes", yes(!syn["timestamp"].is_null()));
    }

    fn syn_acks(&mut self, details: &Details, witness: &Value, stamped: Option<bool>) {
        let mss = if details.addressing.server.is_ipv4() {
            &witness["mss_ipv4"]
        } else {
            &witness["mss_ipv6"]
        };
        for (seen, count) in details.path.handshakes() {
            self.syn_acks += count;
            let mut hold = |what, sent: String, arrived: String| {
                self.note(what, false, *count, sent, arrived);
            };
            let optional = |value: Option<u64>| value.map_or("none".into(), |v| v.to_string());
            hold("MSS", text(mss), optional(seen.mss.map(u64::from)));
            hold(
                "window scale",
                "none".into(),
                optional(seen.window_scale.map(u64::from)),
            );
            hold("window", THEIR_WINDOW.to_string(), seen.window.to_string());
            hold(
                "TTL",
                THEIR_HOP_LIMIT.to_string(),
                seen.hop_limit.to_string(),
            );
            hold("SACK permitted", "no".into(), yes(seen.sack).into());
            if let Some(stamped) = stamped {
                hold(
                    "timestamps",
                    yes(stamped).into(),
                    yes(seen.timestamps).into(),
                );
            }
        }
    }

    /// Compares one thing of a SYN.
    fn hold(&mut self, what: &'static str, sent: impl Display, arrived: impl Display) {
        self.note(what, true, 1, sent.to_string(), arrived.to_string());
    }

    fn note(
        &mut self,
        what: &'static str,
        towards_responder: bool,
        count: u64,
        sent: String,
        arrived: String,
    ) {
        if sent == arrived {
            return;
        }
        let same = |change: &&mut Change| {
            change.what == what && change.towards_responder == towards_responder
        };
        match self.changes.iter_mut().find(same) {
            Some(change) => change.count += count,
            None => self.changes.push(Change {
                what,
                towards_responder,
                count,
                sent,
                arrived,
            }),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "What the path rewrote (of the last {} SYNs that the responder saw, and of {} SYN-ACKs)\n",
            self.syns, self.syn_acks
        );
        // Writing to a string does not fail.
        for change in &self.changes {
            let way = if change.towards_responder {
                "client → responder"
            } else {
                "responder → client"
            };
            let _ = writeln!(
                text,
                "  {way}  {:23} in {:>9}, as {} → {}",
                change.what, change.count, change.sent, change.arrived
            );
        }
        if self.changes.is_empty() && self.syns > 0 {
            text += "  nothing: addresses, ports, numbers, options, window and TTL are as they were sent\n";
        }
        if self.strange > 0 {
            let _ = writeln!(
                text,
                "  {} SYNs there are none of ours, or have neither our number nor our origin any more",
                self.strange
            );
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "syns_compared": self.syns,
            "syns_strange": self.strange,
            "syn_acks_compared": self.syn_acks,
            "changes": self.changes.iter().map(|change| json!({
                "what": change.what,
                "direction": direction(change.towards_responder),
                "count": change.count,
                "sent": change.sent,
                "arrived": change.arrived,
            })).collect::<Vec<_>>(),
        })
    }
}

/// The name of a direction.
pub const fn direction(towards_responder: bool) -> &'static str {
    if towards_responder {
        "to responder"
    } else {
        "to client"
    }
}

fn yes(whether: bool) -> &'static str {
    if whether { "yes" } else { "no" }
}

/// A string or number of the responder's.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
