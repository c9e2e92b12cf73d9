//! What a stranger asks: every request there is, about what is his, what is others' and what never was.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use queue_pair::ConnRef;
use queue_pair::control::{
    AdmissionLimit, AdmissionPolicy, Carried, Explanation, Request, VERSION,
};

use super::script::Script;

/// What a stranger has heard of, and may name.
#[derive(Default)]
pub struct Known {
    pub listeners: Vec<u32>,
    pub conns: Vec<ConnRef>,
    pub tokens: Vec<u64>,
    pub addresses: Vec<SocketAddr>,
}

impl Known {
    /// A connection: mostly one that there is.
    pub fn conn(&self, script: &mut Script<'_>) -> ConnRef {
        match script.one_of(&self.conns) {
            Some(conn) if script.below(8) != 0 => conn,
            _ => ConnRef::from_word(script.number()),
        }
    }

    /// A listener, likewise.
    pub fn listener(&self, script: &mut Script<'_>) -> u32 {
        match script.one_of(&self.listeners) {
            Some(listener) if script.below(8) != 0 => listener,
            _ => script.number() as u32,
        }
    }

    fn address(&self, script: &mut Script<'_>) -> SocketAddr {
        match script.one_of(&self.addresses) {
            Some(address) if script.below(8) != 0 => address,
            _ => SocketAddr::new(ip(script), script.number() as u16),
        }
    }
}

fn ip(script: &mut Script<'_>) -> IpAddr {
    match script.below(6) {
        0 => Ipv4Addr::UNSPECIFIED.into(),
        1 => Ipv6Addr::UNSPECIFIED.into(),
        2 => Ipv4Addr::new(10, 0, 0, script.byte()).into(),
        3 => Ipv4Addr::from_bits(script.number() as u32).into(),
        4 => Ipv6Addr::from_bits(u128::from(script.number()) << 64 | 1).into(),
        _ => Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().into(),
    }
}

fn text(script: &mut Script<'_>) -> String {
    match script.below(16) {
        0 => "x".repeat(20_000),
        1 => "dport = :80".to_owned(),
        2 => "( sport = :80 or dst 10.0.0.0/8 ) and state listening".to_owned(),
        3 => "(".repeat(9_000),
        4 => "not ".repeat(9_000),
        5 => "tcp[tcpflags] & tcp-syn != 0".to_owned(),
        _ => {
            let count = script.below(64);
            String::from_utf8_lossy(script.take(count)).into_owned()
        }
    }
}

fn limit(script: &mut Script<'_>) -> AdmissionLimit {
    AdmissionLimit {
        per_second: script.number() as u32,
        burst: script.number() as u32,
        in_flight: script.number() as u32,
    }
}

fn carried(script: &mut Script<'_>) -> Carried {
    let (options, kept) = (script.below(70), script.below(70));
    Carried {
        receive_low: script.number(),
        send_buffer: script.bit().then(|| script.number()),
        receive_timeout: script.number(),
        options: vec![(script.byte(), script.number() as u32); options],
        kept: vec![(6, script.number() as i32, script.number() as i32); kept],
        ..Carried::default()
    }
}

fn explanations(script: &mut Script<'_>) -> Vec<Explanation> {
    let one = Explanation {
        fd: script.number() as i32,
        kind: text(script),
        reason: text(script),
        detail: String::new(),
    };
    vec![one; script.below(3)]
}

/// The next request. All but the one that ends the engine, which its administrator may well ask for.
pub fn request(known: &Known, script: &mut Script<'_>) -> Request {
    match script.below(33) {
        0 | 1 => Request::Attach {
            version: match script.below(8) {
                0 => script.number() as u32,
                _ => VERSION,
            },
            oldest: script.bit().then(|| script.number() as u32),
            program: text(script),
            fork_token: match script.below(3) {
                0 => None,
                1 => Some(script.number()),
                _ => script.one_of(&known.tokens),
            },
        },
        2..=4 => Request::Listen {
            addr: known.address(script),
            v6only: script.bit(),
            backlog: script.number() as u32,
            pinned: script.bit(),
        },
        5 => Request::Unlisten {
            listener: known.listener(script),
        },
        6 => Request::Chosen {
            listener: known.listener(script),
            addr: known.address(script),
        },
        7 => Request::Admit {
            listener: known.listener(script),
            policy: AdmissionPolicy {
                all: limit(script),
                each: limit(script),
                bits_v4: script.byte(),
                bits_v6: script.byte(),
                reset: script.bit(),
            },
        },
        8 => Request::Admitted {
            listener: known.listener(script),
        },
        9 => Request::Bound {
            local: known.address(script),
        },
        10 => Request::Local {
            remote: known.address(script),
        },
        11 => Request::Waker,
        12 | 13 => Request::Fork,
        14 => Request::AdoptListener {
            listener: known.listener(script),
        },
        15 | 16 => Request::Ticket {
            conn: known.conn(script),
            carried: carried(script),
        },
        17 => Request::Claim,
        18 => Request::Disclaim,
        19 => Request::Settle,
        20 => Request::Info {
            conn: known.conn(script),
        },
        21 => Request::Engine,
        22 => Request::Way {
            remote: ip(script),
            doubted: script.bit(),
        },
        23 => Request::Report {
            fd: script.number() as i32,
            kind: text(script),
            reason: text(script),
        },
        24 => Request::LastWords(explanations(script)),
        25 => Request::Stats,
        26 => Request::Metrics { more: script.bit() },
        27 => Request::Sockets {
            after: script.bit().then(|| script.number()),
            filter: text(script),
        },
        28 => Request::Explain {
            pid: if script.bit() {
                std::process::id()
            } else {
                script.number() as u32
            },
        },
        29 => Request::Capture {
            filter: text(script),
        },
        30 | 31 => Request::File,
        _ => match script.below(7) {
            0 => Request::Respond {
                interface: script.number() as u32,
                endpoints: vec![(ip(script), script.number() as u16, [0, 0]); script.below(9)],
            },
            1 => Request::Divert {
                interface: script.number() as u32,
                name: text(script),
                // No program of the kernel's has this number.
                program: 0,
            },
            2 => Request::Undivert,
            3 => Request::Diverter,
            4 => Request::Trace {
                sends: script.number() as u32,
            },
            5 => Request::Traced,
            _ => Request::Reload,
        },
    }
}
