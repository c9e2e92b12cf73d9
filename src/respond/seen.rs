//! The SYNs that arrived, as JSON.

use serde_json::{Value, json};
use stateless::responder::witness::Seen;
use wire::segment::{ChecksumPolicy, parse};

/// What is announced over IPv4 and IPv6, and what arrived.
pub fn json(announced: [u16; 2], seen: &[Seen]) -> Value {
    json!({
        "mss_ipv4": announced[0],
        "mss_ipv6": announced[1],
        "syns": seen.iter().filter_map(syn).collect::<Vec<_>>(),
    })
}

fn syn(seen: &Seen) -> Option<Value> {
    // It was answered, so it was right.
    let segment = parse(&seen.frame, ChecksumPolicy::Ignore).ok()?;
    let (tcp, options) = (&segment.tcp, &segment.tcp.options);
    Some(json!({
        "number": seen.number,
        "from": segment.src,
        "from_port": tcp.src_port,
        "to": segment.dst,
        "to_port": tcp.dst_port,
        "sequence": tcp.seq.0,
        "window": tcp.window,
        "hop_limit": segment.hop_limit,
        "mss": options.mss,
        "window_scale": options.window_scale,
        "sack": options.sack_permitted,
        "timestamp": options.timestamps.map(|both| both.value),
    }))
}
