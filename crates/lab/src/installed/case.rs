//! What is measured.

use super::servers::Server;
use crate::catalogue::prime;
use crate::programs::find;

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
    /// sockperf throughput: 64 bytes again and again, which nobody answers.
    Stream,
    /// pgbench -S at PostgreSQL: a transaction that reads a row, on a connection for each client.
    Postgres { clients: usize },
    /// As closed, at HAProxy, which asks an nginx on the client's side.
    Haproxy { connections: usize },
    /// 64 bytes to a REP socket and back, again and again.
    ZeroMq,
    /// iperf3, one stream to the server, or from it.
    Bulk { from_server: bool },
}

impl Load {
    /// What answers it; nginx, if it is none of these.
    pub fn server(self) -> Option<Server> {
        match self {
            Self::Closed { .. } | Self::Rate { .. } => None,
            Self::Redis { .. } => Some(Server::Redis),
            Self::Memcached { .. } => Some(Server::Memcached),
            Self::PingPong | Self::Stream => Some(Server::Sockperf),
            Self::Postgres { .. } => Some(Server::Postgres),
            Self::Haproxy { .. } => Some(Server::Haproxy),
            Self::ZeroMq => Some(Server::ZeroMq),
            Self::Bulk { .. } => Some(Server::Iperf),
        }
    }
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
    /// What is not there of what it needs beside nginx and wrk.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        let needs = self.load.server().map_or(&[][..], Server::needs);
        needs
            .iter()
            .copied()
            .find(|program| find(program).is_none())
    }

    /// Why it is left out, where something is missing.
    pub(crate) fn left_out(&self) -> Option<String> {
        Some(format!("{} is not installed", self.missing()?))
    }

    /// Whether there is one client, which waits for each answer: what it waits is all that counts.
    pub(crate) fn is_of_one_client(&self) -> bool {
        matches!(
            self.load,
            Load::Closed { connections: 1, .. }
                | Load::PingPong
                | Load::Postgres { clients: 1 }
                | Load::ZeroMq
        )
    }

    /// What it counts as a request, where that needs a word.
    pub(crate) fn counts(&self) -> Option<String> {
        let counted = match self.load {
            Load::Bulk { .. } => "a megabyte",
            Load::Stream => "a message of 64 bytes",
            Load::Postgres { .. } => "a transaction",
            _ => return None,
        };
        Some(format!("{}: a request is {counted}", self.name))
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

const fn postgres(name: &'static str, clients: usize) -> Case {
    Case {
        name,
        load: Load::Postgres { clients },
    }
}

const fn one(name: &'static str, load: Load) -> Case {
    Case { name, load }
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
    postgres("PostgreSQL, one client", 1),
    postgres("PostgreSQL, 8 clients", 8),
    one("HAProxy, 32 connections", Load::Haproxy { connections: 32 }),
    one("ping-pong", Load::PingPong),
    one("ZeroMQ", Load::ZeroMq),
    one("sockperf, throughput", Load::Stream),
    one("iperf3, to the server", Load::Bulk { from_server: false }),
    one("iperf3, from the server", Load::Bulk { from_server: true }),
];

#[cfg(test)]
mod tests {
    use super::CASES;

    #[test]
    fn names_tell_cases_apart() {
        for (index, case) in CASES.iter().enumerate() {
            let others = &CASES[index + 1..];
            assert!(
                others.iter().all(|other| other.name != case.name),
                "{}",
                case.name
            );
        }
    }
}
