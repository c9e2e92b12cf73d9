//! The servers beside nginx: what each needs, and how people start it.

use crate::nginx::{Nginx, PORT};
use crate::postgres;
use crate::process::Process;
use crate::programs::find;
use crate::world::{Side, World};
use crate::zeromq;
use anyhow::{Context, Result};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// A server beside nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Server {
    Redis,
    Memcached,
    Sockperf,
    Postgres,
    Haproxy,
    ZeroMq,
    Iperf,
}

impl Server {
    /// What tables and logs call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Memcached => "memcached",
            Self::Sockperf => "sockperf",
            Self::Postgres => "postgres",
            Self::Haproxy => "haproxy",
            Self::ZeroMq => "zeromq",
            Self::Iperf => "iperf3",
        }
    }

    /// The programs that it needs, those of its client included, and files, by whole paths.
    pub fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Redis => &["redis-server", "redis-benchmark"],
            Self::Memcached => &["memcached"],
            Self::Sockperf => &["sockperf"],
            Self::Postgres => &[postgres::SERVER, postgres::PGBENCH],
            Self::Haproxy => &["haproxy"],
            Self::ZeroMq => &zeromq::NEEDS,
            Self::Iperf => &["iperf3"],
        }
    }

    /// Where it listens.
    pub fn port(self) -> u16 {
        match self {
            Self::Redis => 6_379,
            Self::Memcached => 11_211,
            Self::Sockperf => 7_007,
            Self::Postgres => 5_432,
            Self::Haproxy => 8_080,
            Self::ZeroMq => 7_010,
            Self::Iperf => 5_201,
        }
    }

    /// Prepares it, in a directory of its own, and returns its command, the program first.
    ///
    /// # Errors
    /// It cannot be prepared.
    pub fn command(self, world: &World, directory: &Path) -> Result<Vec<String>> {
        let (address, port) = (Side::Server.ipv4(), self.port());
        let words = |line: String| Ok(line.split_whitespace().map(str::to_owned).collect());
        match self {
            // An empty word says that nothing is saved.
            Self::Redis => Ok([
                "redis-server",
                "--protected-mode",
                "no",
                "--save",
                "",
                "--bind",
            ]
            .map(String::from)
            .into_iter()
            .chain([address.to_string(), "--port".into(), port.to_string()])
            .collect()),
            // Whoever is root has to say so; and nobody asks by UDP.
            Self::Memcached => words(format!("memcached -u root -U 0 -l {address} -p {port}")),
            Self::Sockperf => words(format!("sockperf server --tcp -i {address} -p {port}")),
            Self::Postgres => {
                // Another user's files are in a directory of ours.
                world.open_scratch()?;
                let server = find(postgres::SERVER).context("PostgreSQL is not installed")?;
                postgres::prepare(&server, &directory.join("data"), port)
            }
            Self::Haproxy => {
                let file = directory.join("haproxy.cfg");
                std::fs::write(&file, configuration(&format!("{address}:{port}")))?;
                words(format!("haproxy -db -f {}", file.display()))
            }
            Self::ZeroMq => {
                let program = zeromq::compile(directory)?;
                words(format!("{} answer {}", program.display(), endpoint()))
            }
            // It tells at once that it listens, also a file.
            Self::Iperf => words(format!(
                "iperf3 --server --forceflush -B {address} -p {port}"
            )),
        }
    }

    /// By what it is asked to end, if it leaves something behind otherwise: PostgreSQL a piece of shared memory. This
    /// signal ends its clients, too.
    pub fn ends_by(self) -> Option<Signal> {
        (self == Self::Postgres).then_some(Signal::INT)
    }

    /// Whether all that it does is done by processes and threads that there are when it has done it. PostgreSQL has a
    /// process for each client, and iperf3 a thread.
    pub fn is_steady(self) -> bool {
        !matches!(self, Self::Postgres | Self::Iperf)
    }

    /// Whether it serves. Who only looks is a client to iperf3, which is for one at a time; and PostgreSQL takes
    /// connections before it has anything for them.
    pub fn is_up(self, world: &World, log: &Path) -> bool {
        let says =
            |words: &str| std::fs::read_to_string(log).is_ok_and(|said| said.contains(words));
        match self {
            Self::Iperf => says("Server listening"),
            Self::Postgres => says("ready to accept connections"),
            _ => world.is_reached((Side::Server.ipv4(), self.port()).into()),
        }
    }
}

/// Where the server of ZeroMQ is.
pub(super) fn endpoint() -> String {
    format!("tcp://{}:{}", Side::Server.ipv4(), Server::ZeroMq.port())
}

/// HAProxy's: nothing is set but what it refuses to do without. What it passes on goes to the client's side, as to
/// another machine.
fn configuration(bind: &str) -> String {
    format!(
        "defaults
    mode http
    timeout connect 20s
    timeout client 60s
    timeout server 60s
frontend in
    bind {bind}
    default_backend behind
backend behind
    server nginx {}:{PORT}
",
        Side::Client.ipv4()
    )
}

/// A server that was started.
pub(super) struct Started {
    pub process: Process,
    /// The nginx behind it, if it passes requests on.
    pub behind: Option<Nginx>,
    /// Where it has its files.
    pub directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::Server;
    use std::collections::BTreeSet;

    const ALL: [Server; 7] = [
        Server::Redis,
        Server::Memcached,
        Server::Sockperf,
        Server::Postgres,
        Server::Haproxy,
        Server::ZeroMq,
        Server::Iperf,
    ];

    /// They are all in one network, beside nginx.
    #[test]
    fn none_is_in_the_way_of_another() {
        let ports: BTreeSet<u16> = ALL.iter().map(|server| server.port()).collect();
        let names: BTreeSet<&str> = ALL.iter().map(|server| server.name()).collect();
        assert_eq!((ports.len(), names.len()), (ALL.len(), ALL.len()));
        assert!(!ports.contains(&crate::nginx::PORT));
        // Clients of the machine have ports above these.
        assert!(ports.iter().all(|port| *port < 32_768));
    }
}
