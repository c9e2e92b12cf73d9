//! What is measured, ready to be measured again and again: a world of its own with an unmodified
//! nginx, on the kernel's TCP or on the engine. Server and engine share the first core, the client
//! has the second.

pub use super::cost::{CLIENT_CORE, Cost, ENGINE, SERVER, SERVER_CORE};

use super::Setup;
use super::each::Each;
use crate::apache;
use crate::cores;
use crate::cycles;
use crate::load::Closed;
use crate::nginx::{Lines, Nginx, PORT};
use crate::outboard::Outboard;
use crate::process::Process;
use crate::receiving;
use crate::sampler::account::Watched;
use crate::sampler::children;
use crate::world::{Side, World};
use anyhow::{Context, Result};
use std::path::Path;

/// What a report says of that.
pub const ROLES: &str = "server and engine on core 0, client on core 1; the interrupts of both, by \
    where a veth does its work, wherever the sender is";
/// What a report calls the two.
pub const STACKS: [&str; 2] = ["kernel", "engine"];

/// The kernel with its receive work where its server is, as by a NIC whose interrupt is there.
pub const RECEIVED: &str = "kernel, received on its core";
/// What the name of any subject ends with that is on that.
const ON_ITS_CORE: &str = ", received on its core";

/// The stack of a subject whose name ends with that of its stack, as "nginx on the engine".
pub fn stack_of(subject: &str) -> &'static str {
    STACKS[usize::from(subject.ends_with(STACKS[1]))]
}

/// One of the two stacks with a server on it.
pub struct Bed {
    nginx: Option<Nginx>,
    /// Another server, where nginx would be.
    serve: Option<Process>,
    /// Whether that has processes of its own which do the work.
    has_children: bool,
    engine: Option<(Outboard, Process)>,
    /// Where the engine is, if there is one.
    engine_core: usize,
    // Last: it must outlive what runs in it.
    world: World,
}

impl Bed {
    /// A stack by its name, one of [`STACKS`], and no server yet.
    pub fn bare(setup: &Setup, stack: &str) -> Result<Self> {
        Self::in_world(setup, stack, World::new()?)
    }

    /// The stack of a subject, whose name ends with that of the stack or as that of [`RECEIVED`], and no server yet.
    pub fn of(setup: &Setup, subject: &str) -> Result<Self> {
        Self::bare(setup, stack_of(subject))?.receiving_as(subject)
    }

    /// The same with its receive work where its server is, if the name of this subject says so.
    pub fn receiving_as(self, subject: &str) -> Result<Self> {
        if subject.ends_with(ON_ITS_CORE) {
            receiving::on_core(&self.world, Side::Server, SERVER_CORE)?;
        }
        Ok(self)
    }

    /// As [`bare`](Self::bare), in a world that was made, and bent, before.
    pub fn in_world(setup: &Setup, stack: &str, world: World) -> Result<Self> {
        Self::with_engine_on(setup, stack, world, SERVER_CORE)
    }

    /// As [`in_world`](Self::in_world), with the engine on this core.
    pub fn with_engine_on(setup: &Setup, stack: &str, world: World, core: usize) -> Result<Self> {
        Self::with_engine_told(setup, stack, world, core, &[])
    }

    /// As [`with_engine_on`](Self::with_engine_on), with further options for the engine.
    pub fn with_engine_told(
        setup: &Setup,
        stack: &str,
        world: World,
        core: usize,
        options: &[&str],
    ) -> Result<Self> {
        let engine = if stack == STACKS[1] {
            let outboard = Outboard::new(&setup.binary, &world);
            let process = outboard.start_engine_told(&world, Some(core), options)?;
            // It is counted once, before anything is measured.
            let _ = cycles::of(core);
            Some((outboard, process))
        } else {
            None
        };
        Ok(Self {
            nginx: None,
            serve: None,
            has_children: false,
            engine,
            engine_core: core,
            world,
        })
    }

    /// A stack with nginx on it, which serves what `fill` puts into a directory.
    pub fn with_nginx(
        setup: &Setup,
        stack: &str,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        Self::with_nginx_and(setup, stack, |site| {
            fill(site)?;
            Ok(String::new())
        })
    }

    /// As [`with_nginx`](Self::with_nginx), with the further lines of configuration that `fill` returns.
    pub fn with_nginx_and(
        setup: &Setup,
        stack: &str,
        fill: impl FnOnce(&Path) -> Result<String>,
    ) -> Result<Self> {
        Self::bare(setup, stack)?.serving(|site| Ok(fill(site)?.into()))
    }

    /// The same with nginx, which serves what `fill` puts into a directory, and has the lines of configuration
    /// that it returns.
    pub fn serving(mut self, fill: impl FnOnce(&Path) -> Result<Lines>) -> Result<Self> {
        let bed = &mut self;
        let site = bed.world.site(&[])?;
        let further = fill(&site)?;
        let core = Some(SERVER_CORE);
        let nginx = Nginx::start_with(&bed.world, bed.outboard(), &site, core, &further)?;
        bed.nginx = Some(nginx);
        Ok(self)
    }

    /// The same with `outboard serve`, which knows of its engine, where nginx would be, with these options of its own:
    /// for what `fill` puts into a directory.
    pub fn serving_natively(
        mut self,
        setup: &Setup,
        options: &[&str],
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let site = self.world.site(&[])?;
        fill(&site)?;
        // Without an engine there it is on the kernel.
        let outboard = Outboard::new(&setup.binary, &self.world);
        let (address, core) = (Nginx::address(), Some(SERVER_CORE));
        let serve = outboard.start_serve_told(&self.world, &site, address, core, options)?;
        self.serve = Some(serve);
        Ok(self)
    }

    /// The same with Apache where nginx would be, for what `fill` puts into a directory. It is on the kernel.
    pub fn serving_by_apache(mut self, fill: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        let site = self.world.site(&[])?;
        fill(&site)?;
        self.serve = Some(apache::start(&self.world, &site, PORT, SERVER_CORE)?);
        self.has_children = true;
        Ok(self)
    }

    /// Both stacks, and one that has its receive work where its server is, as far as they are asked for, each with nginx.
    pub fn both(setup: &Setup, fill: impl Fn(&Path) -> Result<()>) -> Result<Each<Self>> {
        Each::of(setup, |stack| {
            Self::of(setup, stack)?.serving(|site| {
                fill(site)?;
                Ok(Lines::default())
            })
        })
    }

    /// The network.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The engine, if there is one.
    pub fn outboard(&self) -> Option<&Outboard> {
        self.engine.as_ref().map(|(outboard, _)| outboard)
    }

    /// The process that serves, if there is one.
    pub fn server_process(&self) -> Option<u32> {
        let nginx = self.nginx.as_ref().map(Nginx::worker);
        nginx.or_else(|| self.serve.as_ref().map(Process::id))
    }

    /// The processes that serve, with those that they have started, as there are now.
    pub fn server_processes(&self) -> Vec<u32> {
        let first = self.server_process().into_iter();
        let children = |pid: u32| match self.has_children {
            true => children(pid),
            false => Vec::new(),
        };
        first
            .flat_map(|pid| std::iter::once(pid).chain(children(pid)))
            .collect()
    }

    /// The process of the engine, if there is one.
    pub fn engine_process(&self) -> Option<u32> {
        self.engine.as_ref().map(|(_, process)| process.id())
    }

    /// The cores on which it receives, one a bit, where that is not where the sender is.
    #[cfg(test)]
    pub fn receives_on(&self) -> u32 {
        let (world, interface) = (self.world.name(Side::Server), Side::Server.interface());
        let file = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
        let read = crate::tool::run(&format!("ip netns exec {world} cat {file}")).unwrap();
        u32::from_str_radix(read.trim(), 16).unwrap()
    }

    /// Does `work` and says what it cost, besides what it returned.
    pub fn account<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Cost)> {
        self.account_with(&[], work)
    }

    /// As [`account`](Self::account), with further processes that serve, and their children.
    pub fn account_with<T>(
        &self,
        servers: &[u32],
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Cost)> {
        self.account_closing(servers, |_| work())
    }

    /// As [`account_with`](Self::account_with), of the time until `work` says that its window is over: it may
    /// wait for stragglers after that.
    pub fn account_closing<T>(
        &self,
        servers: &[u32],
        work: impl FnOnce(&mut Closed<'_>) -> Result<T>,
    ) -> Result<(T, Cost)> {
        let server = self.server_process().map(|pid| (SERVER, pid));
        let (of_family, alone) = match self.has_children {
            true => (server, None),
            false => (None, server),
        };
        let mut processes: Vec<(&'static str, u32)> = alone.into_iter().collect();
        let further = servers.iter().map(|pid| (SERVER, *pid));
        let engine = self.engine.as_ref();
        processes.extend(engine.map(|(_, process)| (ENGINE, process.id())));
        let watched = Watched {
            processes,
            families: of_family.into_iter().chain(further).collect(),
            engine: self.outboard().cloned(),
        };
        let (done, mut spent) = watched.during(work)?;
        if let Some(engine) = &mut spent.engine {
            let clock = cycles::of(self.engine_core);
            engine.clock = clock.map(|clock| clock.rate);
            engine.of_tsc = clock.is_some_and(|clock| clock.of_tsc);
        }
        let cost = Cost {
            client: spent.own,
            spent,
            engine_is_with_client: self.engine_core == CLIENT_CORE,
        };
        Ok((done, cost))
    }

    /// Runs `work` in a thread on the client's side and core.
    pub fn on_client<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.world.on(Side::Client, || {
            cores::stay_on(CLIENT_CORE)?;
            work()
        })
    }
}

/// Writes a file of `size` bytes, none of them all zeros.
pub fn write_file(path: &Path, size: usize) -> Result<()> {
    let bytes: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
