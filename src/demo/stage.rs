//! A private network with or without an engine, and the servers that are tried on it.

use super::site::{LARGE, LARGE_SIZE, Site};
use ::lab::nginx::{self, Nginx};
use ::lab::outboard::{Counter, Outboard, total};
use ::lab::{Process, Side, World, sampler};
use anyhow::Result;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// The port of the built-in server.
const BUILT_IN_PORT: u16 = 8080;

/// A world, and its engine if it has one.
pub struct Stage {
    engine: Option<(Outboard, Process)>,
    /// For what runs on the kernel too: there it finds no engine.
    outboard: Outboard,
    // Last: it must outlive what runs in it.
    world: World,
}

/// How often the large file is fetched: one fetch alone says little on a shared machine.
const LARGE_FETCHES: usize = 3;

/// A server that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `outboard serve`.
    BuiltIn,
    /// nginx, as Debian ships it.
    Nginx,
}

/// A server that runs.
pub enum Server {
    /// `outboard serve`.
    BuiltIn(Process),
    /// nginx.
    Nginx(Nginx),
}

/// What came of fetching what a server has.
pub struct Fetched {
    /// Pages that arrived as they are.
    pub pages: usize,
    /// Whether the large file arrived as it is.
    pub large_equal: bool,
    /// How fast it came, in bytes a second: the median of some fetches.
    pub speed: f64,
    /// CPU of the server for the large file.
    pub large_cpu: Duration,
    /// Connections that were made.
    pub connections: usize,
}

impl Kind {
    /// What the account calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "outboard serve",
            Self::Nginx => "nginx",
        }
    }

    /// Where clients find it.
    pub fn address(self) -> SocketAddr {
        let port = match self {
            Self::BuiltIn => BUILT_IN_PORT,
            Self::Nginx => nginx::PORT,
        };
        (Side::Server.ipv4(), port).into()
    }
}

impl Server {
    /// The process that serves.
    pub fn pid(&self) -> u32 {
        match self {
            Self::BuiltIn(process) => process.id(),
            Self::Nginx(nginx) => nginx.worker(),
        }
    }
}

impl Stage {
    /// A new world, with an engine on its server's side if asked for.
    pub fn new(binary: &Path, with_engine: bool) -> Result<Self> {
        let world = World::new()?;
        let outboard = Outboard::new(binary, &world);
        let engine = if with_engine {
            let process = outboard.start_engine(&world, None)?;
            Some((outboard.clone(), process))
        } else {
            None
        };
        Ok(Self {
            engine,
            outboard,
            world,
        })
    }

    /// The world.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// What talks to the engine.
    pub fn outboard(&self) -> &Outboard {
        &self.outboard
    }

    /// The engine's process.
    pub fn engine(&mut self) -> Option<&mut Process> {
        self.engine.as_mut().map(|(_, process)| process)
    }

    /// Starts a server and waits until it answers.
    pub fn start(&self, kind: Kind, site: &Site) -> Result<Server> {
        match kind {
            Kind::Nginx => {
                let engine = self.engine.as_ref().map(|(outboard, _)| outboard);
                Nginx::start(&self.world, engine, site.directory(), None).map(Server::Nginx)
            }
            Kind::BuiltIn => {
                let (world, site) = (&self.world, site.directory());
                let process = self.outboard.start_serve(world, site, kind.address())?;
                Ok(Server::BuiltIn(process))
            }
        }
    }

    /// Fetches what the site has, and checks it.
    pub fn fetch_all(&self, kind: Kind, server: &Server, site: &Site) -> Result<Fetched> {
        let mut pages = 0;
        for page in Site::pages() {
            pages += usize::from(self.fetch(kind, page, site)?.0);
        }
        let mut large_equal = true;
        let mut times = [Duration::ZERO; LARGE_FETCHES];
        let cpu = sampler::run_time(server.pid())?;
        for time in &mut times {
            let (equal, took) = self.fetch(kind, LARGE, site)?;
            large_equal &= equal;
            *time = took;
        }
        let spent = sampler::run_time(server.pid())?.saturating_sub(cpu);
        times.sort_unstable();
        let took = times[LARGE_FETCHES / 2];
        Ok(Fetched {
            pages,
            large_equal,
            speed: LARGE_SIZE as f64 / took.as_secs_f64(),
            large_cpu: spent / LARGE_FETCHES as u32,
            connections: Site::pages().count() + LARGE_FETCHES,
        })
    }

    /// Fetches a file with curl; whether it arrived as it is, and in which time.
    fn fetch(&self, kind: Kind, name: &str, site: &Site) -> Result<(bool, Duration)> {
        let copy = self.world.scratch().join("copy");
        let url = format!("http://{}/{name}", kind.address());
        let curl = self
            .world
            .program(Side::Client, "curl")
            .args([
                "--silent",
                "--show-error",
                "--fail",
                "--max-time",
                "60",
                "-o",
            ])
            .arg(&copy)
            .arg(&url);
        let started = Instant::now();
        curl.output()?;
        let took = started.elapsed();
        let equal = site.is_equal(name, &copy)?;
        std::fs::remove_file(&copy)?;
        Ok((equal, took))
    }

    /// Connections that the engine has accepted so far, if there is an engine.
    pub fn accepted(&self) -> Result<Option<u64>> {
        let counters = self.counters()?;
        Ok(counters.map(|counters| total(&counters, "tcp_passive_opens") as u64))
    }

    /// The engine's counters, if there is an engine.
    pub fn counters(&self) -> Result<Option<Vec<Counter>>> {
        self.engine
            .as_ref()
            .map(|(outboard, _)| outboard.stats())
            .transpose()
    }
}
