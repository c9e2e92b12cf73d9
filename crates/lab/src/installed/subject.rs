//! One of those that are compared: its servers in a world of its own.

use super::Plan;
use super::case::FILES;
use crate::nginx::Nginx;
use crate::outboard::Outboard;
use crate::process::{Process, Program};
use crate::tool;
use crate::world::{Side, World};
use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// How long a server may take to be ready, on however busy a machine.
const STARTING: Duration = Duration::from_secs(60);
/// The kernel's TCP.
pub(crate) const KERNEL: &str = "kernel";
/// The engine as it is installed.
pub(crate) const ENGINE: &str = "engine";
/// The engine that places listeners by what comes to them.
pub(crate) const ADAPTIVE: &str = "adaptive";
/// Its settings.
const PLACES: &str = "placement = \"adaptive\"\n";
/// redis-server's port.
pub(super) const REDIS: u16 = 6379;
/// memcached's port.
pub(super) const MEMCACHED: u16 = 11_211;
/// sockperf's port.
pub(super) const PING_PONG: u16 = 7007;

pub(crate) struct Subject {
    name: String,
    floor: Option<Process>,
    nginx: Option<Nginx>,
    redis: Option<Process>,
    memcached: Option<Process>,
    ping_pong: Option<Process>,
    engine: Option<(Outboard, Process)>,
    // Last: it must outlive what runs in it.
    world: World,
}

impl Subject {
    /// All that the plan wants: the kernel, the engine, one that leaves to the kernel what that does for less,
    /// those beside it, the floor.
    pub(crate) fn all(plan: &Plan) -> Result<Vec<Self>> {
        let mut subjects = vec![
            Self::named(KERNEL, &plan.binary)?,
            Self::named(ENGINE, &plan.binary)?,
            Self::named(ADAPTIVE, &plan.binary)?,
        ];
        for beside in &plan.beside {
            let name = beside.display().to_string();
            let is_settings = beside.extension().is_some_and(|end| end == "toml");
            let engine = if is_settings {
                let settings = std::fs::read_to_string(beside).with_context(|| name.clone())?;
                (plan.binary.as_path(), Some(settings))
            } else {
                (beside.as_path(), None)
            };
            subjects.push(Self::serving(name, Some(engine))?);
        }
        if plan.floor {
            subjects.push(Self::floor(&plan.binary)?);
        }
        Ok(subjects)
    }

    /// One of those that every run has, on an engine of `binary` if it has one.
    pub(crate) fn named(name: &str, binary: &Path) -> Result<Self> {
        let engine = match name {
            KERNEL => None,
            ENGINE => Some((binary, None)),
            ADAPTIVE => Some((binary, Some(PLACES.to_owned()))),
            _ => bail!("no {name}"),
        };
        Self::serving(name.to_owned(), engine)
    }

    /// A world with all servers, on an engine of `binary` with settings, or on the kernel.
    fn serving(name: String, engine: Option<(&Path, Option<String>)>) -> Result<Self> {
        let world = World::new()?;
        let engine = match engine {
            Some((binary, settings)) => {
                let outboard = Outboard::new(binary, &world);
                let process = match settings {
                    Some(settings) => outboard.start_engine_with(&world, &settings)?,
                    None => outboard.start_engine(&world, None)?,
                };
                Some((outboard, process))
            }
            None => None,
        };
        let outboard = engine.as_ref().map(|(outboard, _)| outboard);
        let largest = FILES.iter().map(|file| file.size).max().unwrap_or(0);
        let bytes: Vec<u8> = (0..largest).map(|at| (at % 251) as u8).collect();
        let site = world.site(&FILES.map(|file| (file.name, &bytes[..file.size])))?;
        let nginx = Nginx::start(&world, outboard, &site, None)?;
        let mut subject = Self {
            name,
            floor: None,
            nginx: Some(nginx),
            redis: None,
            memcached: None,
            ping_pong: None,
            engine,
            world,
        };
        let address = Side::Server.ipv4().to_string();
        if tool::find("redis-server").is_some() {
            let port = REDIS.to_string();
            let bind = ["--bind", &address, "--port", &port];
            let open = ["--save", "", "--protected-mode", "no"];
            let arguments = [bind, open].concat();
            subject.redis = Some(subject.server("redis-server", &arguments, REDIS)?);
        }
        if tool::find("memcached").is_some() {
            let port = MEMCACHED.to_string();
            // Whoever is root has to say so; and nobody asks by UDP.
            let arguments = ["-u", "root", "-U", "0", "-l", &address, "-p", &port];
            subject.memcached = Some(subject.server("memcached", &arguments, MEMCACHED)?);
        }
        if tool::find("sockperf").is_some() {
            let port = PING_PONG.to_string();
            let arguments = ["server", "--tcp", "-i", &address, "-p", &port];
            subject.ping_pong = Some(subject.server("sockperf", &arguments, PING_PONG)?);
        }
        Ok(subject)
    }

    /// The stateless responder where nginx would be.
    fn floor(binary: &Path) -> Result<Self> {
        let world = World::new()?;
        let peer = format!("{}/{}", world.name(Side::Client), Side::Client.interface());
        let outboard = Outboard::new(binary, &world);
        let responder = outboard.start_respond(&world, &["--peer", &peer])?;
        Ok(Self {
            name: "floor".into(),
            floor: Some(responder),
            nginx: None,
            redis: None,
            memcached: None,
            ping_pong: None,
            engine: None,
            world,
        })
    }

    fn server(&self, name: &str, arguments: &[&str], port: u16) -> Result<Process> {
        let outboard = self.engine.as_ref().map(|(outboard, _)| outboard);
        let program: Program = match outboard {
            Some(outboard) => outboard.on_engine(&self.world, name),
            None => self.world.program(Side::Server, name),
        };
        let mut process = program
            .args(arguments)
            .log(self.world.scratch().join(format!("{name}.log")))
            .start()?;
        let address: SocketAddr = (Side::Server.ipv4(), port).into();
        let is_up = || self.world.is_reached(address);
        match outboard {
            Some(outboard) => outboard.wait_until_taken(&mut process, STARTING, port, is_up)?,
            None => process.wait_until(STARTING, is_up)?,
        }
        Ok(process)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_floor(&self) -> bool {
        self.floor.is_some()
    }

    pub(super) fn world(&self) -> &World {
        &self.world
    }

    /// The path that is asked for: the responder has one page, whose size is that of nginx's.
    pub(super) fn path(&self) -> &'static str {
        if self.is_floor() { "/" } else { "/64" }
    }

    /// The process that serves HTTP.
    pub(super) fn http(&self) -> Option<u32> {
        self.nginx.as_ref().map(Nginx::worker)
    }

    /// The process of redis.
    pub(super) fn redis(&self) -> Option<u32> {
        self.redis.as_ref().map(Process::id)
    }

    /// The process of memcached.
    pub(super) fn memcached(&self) -> Option<u32> {
        self.memcached.as_ref().map(Process::id)
    }

    /// The process of sockperf.
    pub(super) fn ping_pong(&self) -> Option<u32> {
        self.ping_pong.as_ref().map(Process::id)
    }

    /// The engine's process.
    pub(super) fn engine(&self) -> Option<u32> {
        self.engine.as_ref().map(|(_, process)| process.id())
    }
}
