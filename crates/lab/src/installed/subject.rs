//! One of those that are compared: its servers in a world of its own.

use super::Plan;
use super::case::FILES;
use super::servers::{Server, Started};
use crate::nginx::Nginx;
use crate::outboard::Outboard;
use crate::postgres;
use crate::process::{ENDING, Process, Program};
use crate::programs::find;
use crate::world::{Side, World};
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

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
/// The kernel's TCP, where client and server share a core.
pub(crate) const KERNEL_NEAR: &str = "kernel, on one core";
/// The engine that looks for work for a millisecond after the last, on the other core, and programs that do the same.
pub(crate) const LATENCY: &str = "latency, on the other core";
/// Its settings.
const LOOKS: &str = "profile = \"latency\"\ncore = 1\n";
/// How its programs wait.
const WAITS: &str = "latency";
/// Where clients and servers of these are.
const SHARED: usize = 0;

pub(crate) struct Subject {
    name: String,
    /// Where its servers and their clients are, if that is set.
    core: Option<usize>,
    floor: Option<Process>,
    nginx: Option<Nginx>,
    /// Those beside nginx, each since somebody wanted something of it.
    servers: BTreeMap<Server, Started>,
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
            subjects.push(Self::serving(name, Some(engine), None)?);
        }
        if plan.floor {
            subjects.push(Self::floor(&plan.binary)?);
        }
        Ok(subjects)
    }

    /// One of those that every run has, on an engine of `binary` if it has one.
    pub(crate) fn named(name: &str, binary: &Path) -> Result<Self> {
        let set = |settings: &str| Some((binary, Some(settings.to_owned())));
        let (engine, core) = match name {
            KERNEL => (None, None),
            ENGINE => (Some((binary, None)), None),
            ADAPTIVE => (set(PLACES), None),
            KERNEL_NEAR => (None, Some(SHARED)),
            LATENCY => (set(LOOKS), Some(SHARED)),
            _ => bail!("no {name}"),
        };
        Self::serving(name.to_owned(), engine, core)
    }

    /// A world with all servers, on an engine of `binary` with settings, or on the kernel; servers and clients on
    /// `core`, if they are to be on one.
    fn serving(
        name: String,
        engine: Option<(&Path, Option<String>)>,
        core: Option<usize>,
    ) -> Result<Self> {
        let world = World::new()?;
        let engine = match engine {
            Some((binary, settings)) => {
                let mut outboard = Outboard::new(binary, &world);
                if name == LATENCY {
                    outboard = outboard.waiting_by(WAITS);
                }
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
        settle(&world)?;
        let nginx = Nginx::start(&world, outboard, &site, core)?;
        Ok(Self {
            name,
            core,
            floor: None,
            nginx: Some(nginx),
            servers: BTreeMap::new(),
            engine,
            world,
        })
    }

    /// The stateless responder where nginx would be.
    fn floor(binary: &Path) -> Result<Self> {
        let world = World::new()?;
        let peer = format!("{}/{}", world.name(Side::Client), Side::Client.interface());
        let outboard = Outboard::new(binary, &world);
        let responder = outboard.start_respond(&world, &["--peer", &peer])?;
        Ok(Self {
            name: "floor".into(),
            core: None,
            floor: Some(responder),
            nginx: None,
            servers: BTreeMap::new(),
            engine: None,
            world,
        })
    }

    /// Starts a server, unless it runs.
    ///
    /// # Errors
    /// It does not start, or what it is asked for cannot be put there.
    pub(super) fn start(&mut self, server: Server) -> Result<()> {
        if let Some(started) = self.servers.get_mut(&server)
            && started.process.ended()?.is_none()
        {
            return Ok(());
        }
        // What one that has ended by itself has left is in the way.
        self.end(server);
        let started = self.started(server)?;
        self.servers.insert(server, started);
        Ok(())
    }

    /// Ends a server, if it was started.
    pub(super) fn end(&mut self, server: Server) {
        self.servers.remove(&server);
    }

    fn started(&self, server: Server) -> Result<Started> {
        let (world, name) = (&self.world, server.name());
        let directory = world.scratch().join(name);
        // What an attempt has left that failed is in the way.
        if directory.exists() {
            std::fs::remove_dir_all(&directory)?;
        }
        std::fs::create_dir_all(&directory)?;
        let behind = match server {
            Server::Haproxy => Some(Nginx::start_behind(world, &directory)?),
            _ => None,
        };
        let command = server.command(world, &directory)?;
        let (program, arguments) = command.split_first().context("no command")?;
        let outboard = self.engine.as_ref().map(|(outboard, _)| outboard);
        let program: Program = match outboard {
            Some(outboard) => outboard.on_engine(world, program),
            None => world.program(Side::Server, program),
        };
        let log = directory.join("output.log");
        let program = match server.ends_by() {
            Some(signal) => program.ends_by(signal),
            None => program,
        };
        let program = self.placed(program);
        let mut process = program.args(arguments).log(&log).start()?;
        let is_up = || server.is_up(world, &log);
        match outboard {
            Some(outboard) => {
                outboard.wait_until_taken(&mut process, STARTING, server.port(), is_up)?;
            }
            None => process.wait_until(STARTING, is_up)?,
        }
        if server == Server::Postgres {
            self.pgbench()?.args(["-i", "-q", "postgres"]).output()?;
            // What it has not written yet it would write while it is measured.
            let file = directory.join("checkpoint.sql");
            std::fs::write(&file, "CHECKPOINT;\n")?;
            let asked = self.pgbench()?.args(["-n", "-t", "1", "-f"]).arg(&file);
            asked.arg("postgres").output()?;
            settle(world)?;
        }
        Ok(Started {
            process,
            behind,
            directory,
        })
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

    /// A client: a program on the other side.
    pub(super) fn client(&self, program: impl AsRef<OsStr>) -> Program {
        self.placed(self.world.program(Side::Client, program))
    }

    /// A pgbench that asks the server's PostgreSQL.
    ///
    /// # Errors
    /// It is not installed.
    pub(super) fn pgbench(&self) -> Result<Program> {
        let program = find(postgres::PGBENCH).context("pgbench is not installed")?;
        Ok(self
            .client(program)
            .args(["-h", &Side::Server.ipv4().to_string()])
            .args(["-p", &Server::Postgres.port().to_string()])
            .args(["-U", "postgres"]))
    }

    /// On the core of servers and clients, if there is one.
    fn placed(&self, program: Program) -> Program {
        match self.core {
            Some(core) => program.on_core(core),
            None => program,
        }
    }

    /// The path that is asked for: the responder has one page, whose size is that of nginx's.
    pub(super) fn path(&self) -> &'static str {
        if self.is_floor() { "/" } else { "/64" }
    }

    /// The process that serves HTTP.
    fn http(&self) -> Option<u32> {
        self.nginx.as_ref().map(Nginx::worker)
    }

    /// The process that answers: a server, or that of HTTP.
    pub(super) fn server(&self, server: Option<Server>) -> Option<u32> {
        match server {
            Some(server) => self.servers.get(&server).map(|it| it.process.id()),
            None => self.http(),
        }
    }

    /// What stands behind a server that passes requests on.
    pub(super) fn behind(&self, server: Option<Server>) -> Option<u32> {
        let started = self.servers.get(&server?)?;
        started.behind.as_ref().map(Nginx::worker)
    }

    /// Where a server has its files.
    ///
    /// # Errors
    /// It was not started.
    pub(super) fn directory(&self, server: Server) -> Result<&Path> {
        Ok(&self.running(server)?.directory)
    }

    fn running(&self, server: Server) -> Result<&Started> {
        let started = self.servers.get(&server);
        started.with_context(|| format!("{} was not started", server.name()))
    }

    /// Interrupts a server that says then what it has done, and returns that: all that it has printed, once `is_said`
    /// holds of it. It is ended by that: whoever wants something of it starts another.
    ///
    /// # Errors
    /// It was not started, or does not say it.
    pub(super) fn says(
        &mut self,
        server: Server,
        is_said: impl Fn(&str) -> bool,
    ) -> Result<String> {
        self.running(server)?.process.signal(Signal::INT)?;
        let started = self.servers.remove(&server);
        let process = started.context("it was started")?.process;
        let began = Instant::now();
        loop {
            let printed = process.printed();
            if is_said(&printed) {
                return Ok(printed);
            }
            if began.elapsed() > ENDING {
                bail!("{} does not say what it has done: {printed}", server.name());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The engine, to be asked what it did: not one of another build, which may say that in other words.
    pub(super) fn outboard(&self) -> Option<&Outboard> {
        let is_ours = [ENGINE, ADAPTIVE, LATENCY].contains(&self.name.as_str());
        let engine = self.engine.as_ref().filter(|_| is_ours);
        engine.map(|(outboard, _)| outboard)
    }

    /// The engine's process.
    pub(super) fn engine(&self) -> Option<u32> {
        self.engine.as_ref().map(|(_, process)| process.id())
    }
}

/// Waits until what was written is on the disk: what is left would be written while something is measured.
fn settle(world: &World) -> Result<()> {
    let scratch = std::fs::File::open(world.scratch())?;
    Ok(rustix::fs::syncfs(scratch)?)
}

#[cfg(test)]
mod tests {
    use super::{KERNEL, Server, Subject};
    use crate::nginx::PORT;
    use crate::skip_without;
    use crate::world::Side;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
    use std::net::{SocketAddr, TcpListener};
    use std::path::Path;

    /// The next attempt finds the ports free.
    #[test]
    fn a_server_that_does_not_start_leaves_nothing_of_what_is_behind_it() {
        let test = "a_server_that_does_not_start_leaves_nothing_of_what_is_behind_it";
        if skip_without(test, &["nginx", "haproxy"]) {
            return;
        }
        let mut subject = Subject::named(KERNEL, Path::new("none")).unwrap();
        let (server, client) = (Side::Server.ipv4(), Side::Client.ipv4());
        let taken = subject.world().on(Side::Server, || {
            // Nobody is reached there, and nobody else can have it: no program either that another test starts meanwhile.
            let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
            let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
            bind(&socket, &SocketAddr::from((server, Server::Haproxy.port())))?;
            Ok(socket)
        });
        let taken = taken.unwrap();
        let error = subject.start(Server::Haproxy).unwrap_err().to_string();
        assert!(error.contains("haproxy ended"), "{error}");
        let free = subject.world().on(Side::Client, || {
            Ok(TcpListener::bind(SocketAddr::from((client, PORT)))?)
        });
        drop(free.unwrap());
        drop(taken);
        subject.start(Server::Haproxy).unwrap();
        let behind = subject.behind(Some(Server::Haproxy)).unwrap();
        subject.end(Server::Haproxy);
        assert!(!Path::new(&format!("/proc/{behind}")).exists());
    }

    /// It is about to end, and whoever found it there would ask it in vain.
    #[test]
    fn a_server_that_was_interrupted_is_no_more_there() {
        let test = "a_server_that_was_interrupted_is_no_more_there";
        if skip_without(test, &["nginx", "sockperf"]) {
            return;
        }
        let mut subject = Subject::named(KERNEL, Path::new("none")).unwrap();
        subject.start(Server::Sockperf).unwrap();
        let first = subject.server(Some(Server::Sockperf));
        assert!(first.is_some());
        subject.says(Server::Sockperf, |_| true).unwrap();
        assert_eq!(subject.server(Some(Server::Sockperf)), None);
        let error = subject.says(Server::Sockperf, |_| true).unwrap_err();
        assert!(error.to_string().contains("was not started"), "{error}");
        subject.start(Server::Sockperf).unwrap();
        assert_ne!(subject.server(Some(Server::Sockperf)), first);
    }
}
