//! What is measured.

/// One kind of load.
#[derive(Debug)]
pub struct Case {
    /// What tables call it.
    pub name: &'static str,
    pub(super) load: Load,
}

/// Who asks for what, how often.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// wrk at nginx: each connection asks again when it is answered.
    Closed { connections: usize, close: bool },
    /// Requests to nginx that are due at a rate, whatever the answers do.
    Rate { per_second: f64 },
    /// redis-benchmark GET, so many requests for each second of the window.
    Redis { clients: usize, per_second: u64 },
    /// sockperf ping-pong, 64 bytes.
    PingPong,
}

impl Case {
    /// The programs that it needs beside nginx and wrk.
    pub(crate) fn needs(&self) -> &'static [&'static str] {
        match self.load {
            Load::Closed { .. } | Load::Rate { .. } => &[],
            Load::Redis { .. } => &["redis-server", "redis-benchmark"],
            Load::PingPong => &["sockperf"],
        }
    }

    /// Whether the stateless responder can stand in for the server.
    pub(super) fn has_floor(&self) -> bool {
        matches!(self.load, Load::Closed { .. } | Load::Rate { .. })
    }
}

/// Connections that requests at a rate are spread over.
pub(super) const CONNECTIONS: usize = 32;

/// All cases, in the order of the report.
pub const CASES: &[Case] = &[
    Case {
        name: "nginx, one connection",
        load: Load::Closed {
            connections: 1,
            close: false,
        },
    },
    Case {
        name: "nginx, 1,000/s",
        load: Load::Rate {
            per_second: 1_000.0,
        },
    },
    Case {
        name: "nginx, 5,000/s",
        load: Load::Rate {
            per_second: 5_000.0,
        },
    },
    Case {
        name: "nginx, 20,000/s",
        load: Load::Rate {
            per_second: 20_000.0,
        },
    },
    Case {
        name: "nginx, 32 connections",
        load: Load::Closed {
            connections: 32,
            close: false,
        },
    },
    Case {
        name: "nginx, close",
        load: Load::Closed {
            connections: 32,
            close: true,
        },
    },
    Case {
        name: "redis, one client",
        load: Load::Redis {
            clients: 1,
            per_second: 8_000,
        },
    },
    Case {
        name: "redis, 50 clients",
        load: Load::Redis {
            clients: 50,
            per_second: 50_000,
        },
    },
    Case {
        name: "ping-pong",
        load: Load::PingPong,
    },
];
