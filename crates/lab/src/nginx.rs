//! An unmodified nginx, with one worker as a rule, on the kernel's TCP or on the engine's.

use crate::outboard::Outboard;
use crate::process::{Process, Program};
use crate::world::{Side, World};
use crate::{sampler, tool};
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long nginx may take to be ready, and to end, on however busy a machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The port that it listens on.
pub const PORT: u16 = 80;

/// What nginx answers at `/64`: 64 bytes.
pub const BODY_64: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Further lines of its configuration.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// At the top: modules.
    pub top: String,
    /// In the part about HTTP.
    pub http: String,
    /// In that of its only server: places.
    pub server: String,
    /// How many processes serve; one if it is none.
    pub processes: usize,
}

impl From<String> for Lines {
    /// Lines of the server.
    fn from(server: String) -> Self {
        Self {
            server,
            ..Self::default()
        }
    }
}

/// A running nginx.
pub struct Nginx {
    master: Process,
    worker: u32,
}

impl Nginx {
    /// Whether nginx is installed.
    pub fn is_installed() -> bool {
        tool::find("nginx").is_some()
    }

    /// Starts nginx for the files in `site` on the server's side of `world`, on the engine behind
    /// `outboard` or, without one, on the kernel.
    pub fn start(
        world: &World,
        outboard: Option<&Outboard>,
        site: &Path,
        core: Option<usize>,
    ) -> Result<Self> {
        let at = (Side::Server, PORT);
        Self::start_on(world, outboard, site, core, at, &Lines::default())
    }

    /// As [`start`](Self::start), on the client's side, where it is behind whatever passes requests on.
    pub fn start_behind(world: &World, site: &Path) -> Result<Self> {
        let at = (Side::Client, PORT);
        Self::start_on(world, None, site, None, at, &Lines::default())
    }

    /// As [`start`](Self::start), with `further` lines in its configuration.
    pub fn start_with(
        world: &World,
        outboard: Option<&Outboard>,
        site: &Path,
        core: Option<usize>,
        further: &Lines,
    ) -> Result<Self> {
        Self::start_on(world, outboard, site, core, (Side::Server, PORT), further)
    }

    /// As [`start`](Self::start), where the kernel likes, at another port.
    pub fn start_at(
        world: &World,
        outboard: Option<&Outboard>,
        site: &Path,
        port: u16,
    ) -> Result<Self> {
        let at = (Side::Server, port);
        Self::start_on(world, outboard, site, None, at, &Lines::default())
    }

    fn start_on(
        world: &World,
        outboard: Option<&Outboard>,
        site: &Path,
        core: Option<usize>,
        (side, port): (Side, u16),
        further: &Lines,
    ) -> Result<Self> {
        let name = match side {
            Side::Server => format!("nginx-{port}"),
            Side::Client => format!("nginx-behind-{port}"),
        };
        let prepared = Prepared::new(world, &name, |directory| {
            Ok(configure(directory, site, port, further))
        })?;
        let program = match outboard {
            Some(outboard) => outboard.on_engine(world, &prepared.nginx),
            None => world.program(side, &prepared.nginx),
        };
        let is_up = |pid| {
            !sampler::children(pid).is_empty() && world.is_reached((side.ipv4(), port).into())
        };
        let master = prepared.start(program, outboard, core, port, is_up)?;
        let pid = master.id();
        let worker = *sampler::children(pid)
            .first()
            .context("nginx has no worker")?;
        Ok(Self { master, worker })
    }

    /// The process that serves.
    pub fn worker(&self) -> u32 {
        self.worker
    }

    /// The process that looks after the worker.
    pub fn master(&mut self) -> &mut Process {
        &mut self.master
    }

    /// Where clients find it.
    pub fn address() -> SocketAddr {
        (Side::Server.ipv4(), PORT).into()
    }

    /// Ends it as its users do (SIGTERM), and waits for that.
    pub fn stop(self) -> Result<()> {
        self.master.stop(LIMIT).map(drop)
    }
}

/// An nginx that is about to be started: the program, and a directory with its configuration.
pub(crate) struct Prepared {
    /// The program.
    pub nginx: PathBuf,
    /// Where it has its files.
    pub directory: PathBuf,
}

impl Prepared {
    /// One with a directory of this name, and what `configure` says of it.
    ///
    /// # Errors
    /// nginx is not installed, or the files cannot be written.
    pub fn new(
        world: &World,
        name: &str,
        configure: impl FnOnce(&Path) -> Result<String>,
    ) -> Result<Self> {
        let Some(nginx) = tool::find("nginx") else {
            bail!("nginx is not installed: apt-get install nginx-light");
        };
        let directory = world.scratch().join(name);
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join("nginx.conf"), configure(&directory)?)?;
        Ok(Self { nginx, directory })
    }

    /// Starts `program`, which ends with nginx and gets its arguments here, and waits until `is_up` holds of
    /// its process and, if it is on an engine, that takes its connections at `port`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(
        &self,
        mut program: Program,
        outboard: Option<&Outboard>,
        core: Option<usize>,
        port: u16,
        is_up: impl Fn(u32) -> bool,
    ) -> Result<Process> {
        if let Some(core) = core {
            program = program.on_core(core);
        }
        let mut process = program
            .arg("-e")
            .arg(self.directory.join("error.log"))
            .arg("-p")
            .arg(&self.directory)
            .arg("-c")
            .arg(self.directory.join("nginx.conf"))
            .log(self.directory.join("output.log"))
            // Its workers do not notice if it is killed, and keep the port.
            .ends_by(Signal::TERM)
            .start()?;
        let pid = process.id();
        match outboard {
            Some(outboard) => {
                outboard.wait_until_taken(&mut process, LIMIT, port, || is_up(pid))?;
            }
            None => process.wait_until(LIMIT, || is_up(pid))?,
        }
        Ok(process)
    }
}

fn configure(directory: &Path, site: &Path, port: u16, further: &Lines) -> String {
    let types = Path::new("/etc/nginx/mime.types");
    let include = if types.exists() {
        format!("include {};", types.display())
    } else {
        String::new()
    };
    format!(
        "{top}daemon off;
worker_processes {processes};
worker_rlimit_nofile 65536;
pid {directory}/nginx.pid;
events {{ worker_connections 20000; }}
http {{
    {include}
{http}
    default_type application/octet-stream;
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
    open_file_cache max=1000 inactive=600s;
    open_file_cache_valid 600s;
    server {{
        listen 0.0.0.0:{port} backlog=4096;
        listen [::]:{port} backlog=4096;
        root {site};
        location = /64 {{ return 200 \"{BODY_64}\"; }}
{server}
    }}
}}
",
        top = further.top,
        processes = further.processes.max(1),
        http = further.http,
        server = further.server,
        directory = directory.display(),
        site = site.display(),
    )
}
