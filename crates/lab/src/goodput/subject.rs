//! The servers: each stack with each congestion control, in a world with a wire.

use crate::experiment::used::{ENGINE, SERVER};
use crate::faults::{FaultyWire, Wire};
use crate::nginx::{Nginx, PORT};
use crate::outboard::Outboard;
use crate::process::Process;
use crate::sampler::account::Watched;
use crate::tool;
use crate::world::{Side, World};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

/// The file that is fetched again and again, and its bytes. It has contents, and stays in memory: a hole
/// without end has the kernel read ahead all the time, which was seen to hold a core for 18 ms at once.
pub(super) const FILE: (&str, usize) = ("large", 32 << 20);

/// Where the kernel's CUBIC is that a sender is put beside.
pub(crate) const HOST_PORT: u16 = 8080;
/// Bytes that the kernel may keep for a connection, at both ends: as many as the engine's limit, so that
/// congestion control is compared and not the limit of a buffer.
const BUFFER: &str = "4096 131072 33554432";

/// By which congestion control both stacks send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 9438.
    #[default]
    Cubic,
    /// Version 1 on the kernel, which takes no notice of loss; version 3 on the engine.
    Bbr,
}

impl Congestion {
    /// What Linux and the engine call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }

    /// The kernel's, and the engine's.
    pub(super) const fn senders(self) -> [Sender; 2] {
        match self {
            Self::Cubic => [Sender::KERNEL_CUBIC, Sender::ENGINE_CUBIC],
            Self::Bbr => [Sender::KERNEL_BBR, Sender::ENGINE_BBR],
        }
    }
}

/// Whose TCP sends, and by which congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    on_engine: bool,
    congestion: &'static str,
    /// What tables call it.
    pub name: &'static str,
}

impl Sender {
    pub const KERNEL_CUBIC: Self = Self::of(false, "cubic", "kernel CUBIC");
    pub const ENGINE_CUBIC: Self = Self::of(true, "cubic", "engine CUBIC");
    /// Linux's BBR is version 1, which takes no notice of loss.
    pub const KERNEL_BBR: Self = Self::of(false, "bbr", "kernel BBR");
    /// Version 3.
    pub const ENGINE_BBR: Self = Self::of(true, "bbr", "engine BBR");
    pub const ALL: [Self; 4] = [
        Self::KERNEL_CUBIC,
        Self::ENGINE_CUBIC,
        Self::KERNEL_BBR,
        Self::ENGINE_BBR,
    ];

    const fn of(on_engine: bool, congestion: &'static str, name: &'static str) -> Self {
        Self {
            on_engine,
            congestion,
            name,
        }
    }
}

/// A server that sends a large file, behind a wire.
pub(crate) struct Subject {
    server: Nginx,
    /// The kernel's that it is put beside.
    beside: Option<Nginx>,
    engine: Option<(Outboard, Process)>,
    // Last: it must outlive what runs in it.
    world: World,
}

impl Subject {
    /// The clients of the sender that is looked at have their world's own address; those of one that it
    /// is put beside have this.
    pub const BESIDE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);

    /// A server at port 80.
    pub fn new(binary: &Path, sender: Sender) -> Result<Self> {
        Self::with(binary, sender, false)
    }

    /// As [`new`](Self::new), and the kernel's CUBIC at [`host`](Self::host) for clients at
    /// [`BESIDE`](Self::BESIDE).
    pub fn beside_cubic(binary: &Path, sender: Sender) -> Result<Self> {
        Self::with(binary, sender, true)
    }

    fn with(binary: &Path, sender: Sender, beside: bool) -> Result<Self> {
        let world = World::with_middle()?;
        let site = world.scratch().join("site");
        std::fs::create_dir_all(&site)?;
        let (name, length) = FILE;
        let mut file = File::create(site.join(name))?;
        file.write_all(&vec![b'x'; length])?;
        // Not while something is measured.
        file.sync_all()?;
        choose_congestion(&world, Side::Client.ipv4(), sender.congestion)?;
        // Each connection begins without what earlier ones have learnt of the path.
        world.sysctl(Side::Server, "net.ipv4.tcp_no_metrics_save", "1")?;
        world.sysctl(Side::Server, "net.ipv4.tcp_wmem", BUFFER)?;
        world.sysctl(Side::Client, "net.ipv4.tcp_rmem", BUFFER)?;
        if beside {
            let (client, interface) = (world.name(Side::Client), Side::Client.interface());
            let address = Self::BESIDE;
            tool::run(&format!(
                "ip -n {client} addr add {address}/24 dev {interface}"
            ))?;
            choose_congestion(&world, address, "cubic")?;
        }
        let wire = FaultyWire::start(&world, Wire::PERFECT, 0)?;
        let outboard = Outboard::new(binary, &world);
        let settings = format!("[tcp]\ncongestion = \"{}\"\n", sender.congestion);
        let engine = sender
            .on_engine
            .then(|| outboard.start_engine_with(&world, &settings))
            .transpose()?;
        let on = sender.on_engine.then_some(&outboard);
        let server = Nginx::start_at(&world, on, &site, PORT)?;
        let other = || Nginx::start_at(&world, None, &site, HOST_PORT);
        let beside = beside.then(other).transpose()?;
        wire.stop()?;
        Ok(Self {
            server,
            beside,
            engine: engine.map(|process| (outboard, process)),
            world,
        })
    }

    /// As an account watches it.
    pub fn watched(&self) -> Watched {
        let beside = self.beside.as_ref();
        let engine = self.engine.as_ref();
        let servers = [
            Some((SERVER, self.server.worker())),
            beside.map(|nginx| ("server beside", nginx.worker())),
            engine.map(|(_, process)| (ENGINE, process.id())),
        ];
        Watched {
            processes: servers.into_iter().flatten().collect(),
            families: Vec::new(),
            engine: engine.map(|(outboard, _)| outboard.clone()),
        }
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    /// The kernel's CUBIC, where there is one beside.
    pub fn host() -> SocketAddr {
        (Side::Server.ipv4(), HOST_PORT).into()
    }
}

/// Has the kernel of the server's side use a congestion control towards a client. By the route: the setting
/// that all sockets of a namespace obey admits only what the machine's own setting does.
fn choose_congestion(world: &World, client: Ipv4Addr, congestion: &str) -> Result<()> {
    const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available =
        std::fs::read_to_string(AVAILABLE).with_context(|| format!("cannot read {AVAILABLE}"))?;
    if !available.split_whitespace().any(|name| name == congestion) {
        bail!("this kernel has no {congestion} to compare with: modprobe tcp_{congestion}");
    }
    tool::run(&format!(
        "ip -n {} route replace {client}/32 dev {} proto kernel scope link src {} congctl {congestion}",
        world.name(Side::Server),
        Side::Server.interface(),
        Side::Server.ipv4()
    ))
    .map(drop)
}
