//! What is measured.

use crate::catalogue::prime;

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
    Closed {
        connections: usize,
        close: bool,
        page: Page,
    },
    /// Requests to nginx that are due at a rate, whatever the answers do.
    Rate { per_second: f64 },
    /// redis-benchmark GET, so many requests for each second of the window, of which each client has so many
    /// under way.
    Redis {
        clients: usize,
        pipelined: usize,
        per_second: u64,
    },
    /// memcached: each connection asks again when it is answered, one command in ten sets.
    Memcached { connections: usize },
    /// sockperf ping-pong, 64 bytes.
    PingPong,
}

/// What is asked of nginx.
#[derive(Clone, Copy, Debug)]
pub(super) enum Page {
    /// 64 bytes, which nginx has in memory: whoever serves nothing else has them, too.
    Small,
    /// A file.
    File(&'static File),
}

/// A file that every nginx has.
#[derive(Debug)]
pub(super) struct File {
    pub name: &'static str,
    pub size: usize,
}

const KB16: File = File {
    name: "16K",
    size: 16 << 10,
};
const MB: File = File {
    name: "1M",
    size: 1 << 20,
};
const MB100: File = File {
    name: "100M",
    size: 100 << 20,
};
/// All of them.
pub(super) const FILES: [&File; 3] = [&KB16, &MB, &MB100];

impl Case {
    /// The programs that it needs beside nginx and wrk.
    pub(crate) fn needs(&self) -> &'static [&'static str] {
        match self.load {
            Load::Closed { .. } | Load::Rate { .. } => &[],
            Load::Redis { .. } => &["redis-server", "redis-benchmark"],
            Load::Memcached { .. } => &["memcached"],
            Load::PingPong => &["sockperf"],
        }
    }

    /// Whether the stateless responder can stand in for the server.
    pub(super) fn has_floor(&self) -> bool {
        matches!(
            self.load,
            Load::Rate { .. }
                | Load::Closed {
                    page: Page::Small,
                    ..
                }
        )
    }
}

/// Connections that requests at a rate are spread over.
pub(super) const CONNECTIONS: usize = 32;

const fn closed(name: &'static str, connections: usize, page: Page) -> Case {
    Case {
        name,
        load: Load::Closed {
            connections,
            close: false,
            page,
        },
    }
}

const fn rate(name: &'static str, per_second: f64) -> Case {
    Case {
        name,
        load: Load::Rate { per_second },
    }
}

const fn redis(name: &'static str, clients: usize, pipelined: usize, per_second: u64) -> Case {
    Case {
        name,
        load: Load::Redis {
            clients,
            pipelined,
            per_second,
        },
    }
}

const fn memcached(name: &'static str, connections: usize) -> Case {
    Case {
        name,
        load: Load::Memcached { connections },
    }
}

/// All cases, in the order of the report.
pub const CASES: &[Case] = &[
    closed("nginx, one connection", 1, Page::Small),
    rate("nginx, 997/s", prime(1_000)),
    rate("nginx, 4,999/s", prime(5_000)),
    rate("nginx, 19,997/s", prime(20_000)),
    closed("nginx, 32 connections", 32, Page::Small),
    closed("nginx, 128 connections", 128, Page::Small),
    Case {
        name: "nginx, close",
        load: Load::Closed {
            connections: 32,
            close: true,
            page: Page::Small,
        },
    },
    closed("nginx, 16 KB", 32, Page::File(&KB16)),
    closed("nginx, 1 MB", 8, Page::File(&MB)),
    closed("nginx, 100 MB", 2, Page::File(&MB100)),
    memcached("memcached, 16 connections", 16),
    memcached("memcached, 40 connections", 40),
    redis("redis, one client", 1, 1, 8_000),
    redis("redis, 50 clients", 50, 1, 50_000),
    redis("redis, pipelined", 50, 16, 400_000),
    Case {
        name: "ping-pong",
        load: Load::PingPong,
    },
];
