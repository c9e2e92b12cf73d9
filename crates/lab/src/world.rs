//! Two network namespaces joined by a veth pair: a private network with a server and a client.
//! Or joined by way of a third, where whoever enters it decides what passes.

use crate::guardian::Guardian;
pub use crate::namespace::enter_namespace;
use crate::namespace::{enter_file, namespace_file};
use crate::process::Program;
use crate::tool;
use anyhow::{Context, Result, bail};
use netdev::interface::await_ipv6;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// One of the two ends of a [`World`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where the engine and the server run.
    Server,
    /// Where the clients run.
    Client,
}

impl Side {
    /// The name of this side's interface, in its own namespace.
    pub fn interface(self) -> &'static str {
        match self {
            Self::Server => "server0",
            Self::Client => "client0",
        }
    }

    /// This side's IPv4 address; the prefix is 24 bits long.
    pub fn ipv4(self) -> Ipv4Addr {
        match self {
            Self::Server => Ipv4Addr::new(10, 77, 0, 1),
            Self::Client => Ipv4Addr::new(10, 77, 0, 2),
        }
    }

    /// This side's IPv6 address; the prefix is 64 bits long.
    pub fn ipv6(self) -> Ipv6Addr {
        match self {
            Self::Server => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1),
            Self::Client => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2),
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Server => 0,
            Self::Client => 1,
        }
    }
}

/// A private network of two namespaces, and a scratch directory. All of it, with every program
/// that runs in it, goes when this is dropped or when the process that made it ends in any way.
pub struct World {
    /// By [`Side::index`], and the middle if there is one.
    names: Vec<String>,
    scratch: PathBuf,
    // Last: what it deletes is in use until the fields above are gone.
    _guardian: Guardian,
}

/// The interfaces of the middle: towards the server, and towards the client.
pub const MIDDLE_INTERFACES: [&str; 2] = ["toserver0", "toclient0"];

/// The interfaces of the second link, where one was added: the server's, and the client's.
pub const SECOND_INTERFACES: [&str; 2] = ["server1", "client1"];

/// Their addresses; the prefix is 24 bits long.
pub const SECOND_ADDRESSES: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 78, 0, 1), Ipv4Addr::new(10, 78, 0, 2)];

/// Where the name of the middle is among a world's names.
const MIDDLE: usize = 2;

/// All our namespaces are called `outboard-PID-NUMBER-SIDE`, PID being that of their maker.
const PREFIX: &str = "outboard-";

/// The files by which the namespaces of this process's worlds are entered.
pub(crate) fn own_namespaces() -> Vec<PathBuf> {
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let names = std::fs::read_dir(namespace_file("")).into_iter().flatten();
    let own = names.flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with(&prefix))
    });
    own.map(|entry| entry.path()).collect()
}

/// Tells apart the worlds that one process makes.
static MADE: AtomicU32 = AtomicU32::new(0);

impl World {
    /// Makes the namespaces and joins them. Needs root. Worlds of processes that are no more are
    /// removed first.
    pub fn new() -> Result<Self> {
        Self::of(&["server", "client"], None)
    }

    /// Makes the namespaces, and gives the interface at each end so many receive queues and transmit
    /// queues. `ethtool -L` can take some away and add them again.
    pub fn with_queues(queues: u32) -> Result<Self> {
        Self::of(&["server", "client"], Some(queues))
    }

    /// Makes the namespaces with a third between them. Nothing passes before somebody forwards it
    /// between the two interfaces there, [`MIDDLE_INTERFACES`]. All frames are within the MTU, and
    /// with finished checksums, as they would be on a wire: what the interfaces usually leave to
    /// each other is switched off.
    pub fn with_middle() -> Result<Self> {
        let world = Self::of(&["server", "client", "middle"], None)?;
        let middle = &world.names[MIDDLE];
        let ends = [
            (world.name(Side::Server), Side::Server.interface()),
            (world.name(Side::Client), Side::Client.interface()),
            (middle, MIDDLE_INTERFACES[0]),
            (middle, MIDDLE_INTERFACES[1]),
        ];
        for (name, interface) in ends {
            tool::run(&format!(
                "ip netns exec {name} ethtool -K {interface} tx off sg off tso off gso off gro off"
            ))?;
        }
        Ok(world)
    }

    fn of(places: &[&str], queues: Option<u32>) -> Result<Self> {
        if !crate::is_root() {
            bail!("making network namespaces needs root: run this with sudo");
        }
        sweep();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let names: Vec<_> = places
            .iter()
            .map(|place| format!("{name}-{place}"))
            .collect();
        let scratch = std::env::temp_dir().join(&name);
        // From here on the guardian sees to it, also if the next line fails.
        let guardian = Guardian::new(&scratch, &names)?;
        let world = Self {
            names,
            scratch,
            _guardian: guardian,
        };
        world.build(queues)?;
        Ok(world)
    }

    fn build(&self, queues: Option<u32>) -> Result<()> {
        std::fs::create_dir(&self.scratch)
            .with_context(|| format!("cannot make {}", self.scratch.display()))?;
        for name in &self.names {
            tool::run(&format!("ip netns add {name}"))?;
        }
        let (server, client) = (self.name(Side::Server), self.name(Side::Client));
        let (at_server, at_client) = (Side::Server.interface(), Side::Client.interface());
        match self.names.get(MIDDLE) {
            None => join((server, at_server), (client, at_client), queues)?,
            Some(middle) => {
                // It has no addresses, and is to say nothing by itself.
                let quiet = "net.ipv6.conf.default.disable_ipv6";
                self.set(middle, quiet, "1")?;
                for (end, interface) in [(server, at_server), (client, at_client)]
                    .into_iter()
                    .zip(MIDDLE_INTERFACES)
                {
                    join(end, (middle, interface), None)?;
                    tool::run(&format!("ip -n {middle} link set {interface} up"))?;
                }
            }
        }
        for side in [Side::Server, Side::Client] {
            let interface = side.interface();
            for line in [
                format!("addr add {}/24 dev {interface}", side.ipv4()),
                // No duplicate address detection, which would take a second.
                format!("addr add {}/64 dev {interface} nodad", side.ipv6()),
                format!("link set {interface} up"),
                "link set lo up".to_string(),
            ] {
                self.ip(side, &line)?;
            }
        }
        for side in [Side::Server, Side::Client] {
            self.on(side, || Ok(await_ipv6(side.ipv6())?))?;
        }
        // Sequences of many short connections need all the ports there are.
        self.sysctl(Side::Client, "net.ipv4.ip_local_port_range", "1024 65535")?;
        self.sysctl(Side::Client, "net.ipv4.tcp_tw_reuse", "1")
    }

    /// Joins the two ends by a second link, [`SECOND_INTERFACES`], with so many queues at each end, or as
    /// many as the kernel gives. It has IPv4 addresses only, [`SECOND_ADDRESSES`].
    pub fn add_link(&self, queues: Option<u32>) -> Result<()> {
        let sides = [Side::Server, Side::Client];
        let [server, client] = sides.map(|side| (self.name(side), SECOND_INTERFACES[side.index()]));
        join(server, client, queues)?;
        for side in sides {
            let at = side.index();
            let (interface, address) = (SECOND_INTERFACES[at], SECOND_ADDRESSES[at]);
            self.ip(side, &format!("addr add {address}/24 dev {interface}"))?;
            self.ip(side, &format!("link set {interface} up"))?;
        }
        Ok(())
    }

    /// An `ip` command on `side`; what it printed.
    pub fn ip(&self, side: Side, what: &str) -> Result<String> {
        tool::run(&format!("ip -n {} {what}", self.name(side)))
    }

    /// The name of the namespace, as `ip netns` lists it.
    pub fn name(&self, side: Side) -> &str {
        &self.names[side.index()]
    }

    /// The address of `side`, in the family of `like`.
    pub fn address(side: Side, like: IpAddr) -> IpAddr {
        match like {
            IpAddr::V4(_) => side.ipv4().into(),
            IpAddr::V6(_) => side.ipv6().into(),
        }
    }

    /// The name of the middle's namespace. Fails in a world without one.
    pub fn middle(&self) -> Result<&str> {
        let name = self.names.get(MIDDLE).context("a world without a middle")?;
        Ok(name)
    }

    /// A program to be started in the middle. Fails in a world without one.
    pub fn program_in_middle(&self, name: impl AsRef<std::ffi::OsStr>) -> Result<Program> {
        Ok(Program::new(name).within(self.middle()?))
    }

    /// Makes the middle a router between the two ends, which still seem to be on one link: it
    /// answers for each of them (proxy ARP, RFC 1027). It has an address of its own, and forwards
    /// what its rules let through. IPv4 only.
    pub fn route_in_middle(&self, address: Ipv4Addr) -> Result<()> {
        let middle = self.middle()?;
        tool::run(&format!("ip -n {middle} link set lo up"))?;
        for (interface, side) in MIDDLE_INTERFACES
            .into_iter()
            .zip([Side::Server, Side::Client])
        {
            tool::run(&format!(
                "ip -n {middle} addr add {address}/32 dev {interface}"
            ))?;
            tool::run(&format!(
                "ip -n {middle} route add {}/32 dev {interface} src {address}",
                side.ipv4()
            ))?;
            self.set(middle, &format!("net.ipv4.conf.{interface}.proxy_arp"), "1")?;
        }
        self.set(middle, "net.ipv4.ip_forward", "1")
    }

    /// The file by which the middle is entered. Fails in a world without one.
    pub(crate) fn middle_file(&self) -> Result<PathBuf> {
        let name = self.names.get(MIDDLE).context("a world without a middle")?;
        Ok(namespace_file(name))
    }

    /// A directory of this world's own, which goes with it.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Lets programs of other users look into the scratch directory.
    pub fn open_scratch(&self) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&self.scratch, std::fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// A directory of this world's own with these files, to be served. Made once.
    pub fn site(&self, files: &[(&str, &[u8])]) -> Result<PathBuf> {
        let site = self.scratch.join("site");
        std::fs::create_dir(&site).with_context(|| format!("cannot make {}", site.display()))?;
        for (name, bytes) in files {
            std::fs::write(site.join(name), bytes)
                .with_context(|| format!("cannot write {name} in {}", site.display()))?;
        }
        Ok(site)
    }

    /// A program to be started on `side`.
    pub fn program(&self, side: Side, name: impl AsRef<std::ffi::OsStr>) -> Program {
        Program::new(name).within(self.name(side))
    }

    /// Moves the calling thread (only this one) into the network of `side`, for sockets that it
    /// opens from now on. There is no way back: use a thread made for it.
    pub fn enter(&self, side: Side) -> Result<()> {
        enter_file(&namespace_file(self.name(side)))
    }

    /// Runs `work` in a thread of its own on `side`, and waits for it.
    pub fn on<T: Send>(&self, side: Side, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter(side)?;
                work()
            });
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Whether a client can connect to `address` on the server's side.
    pub fn is_reached(&self, address: SocketAddr) -> bool {
        let limit = Duration::from_millis(500);
        self.on(Side::Client, || {
            Ok(TcpStream::connect_timeout(&address, limit)?)
        })
        .is_ok()
    }

    /// Sets a value of the kernel's for `side` only, by its dotted name under `net`.
    pub fn sysctl(&self, side: Side, name: &str, value: &str) -> Result<()> {
        self.set(self.name(side), name, value)
    }

    fn set(&self, namespace: &str, name: &str, value: &str) -> Result<()> {
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        // A shell, because the kernel resolves the path by the network of who opens it.
        let mut command = std::process::Command::new("nsenter");
        command
            .arg(format!("--net={}", namespace_file(namespace).display()))
            .args(["sh", "-c", "echo \"$1\" >\"$2\"", "sh", value, &file]);
        tool::output(&mut command, &format!("sysctl {name}")).map(drop)
    }
}

/// Joins two namespaces by a veth pair, each given with the name of its interface.
fn join(one: (&str, &str), other: (&str, &str), queues: Option<u32>) -> Result<()> {
    let queues = queues.map_or_else(String::new, |count| {
        format!("numrxqueues {count} numtxqueues {count} ")
    });
    tool::run(&format!(
        "ip link add {} netns {} {queues}type veth peer name {} netns {} {queues}",
        one.1, one.0, other.1, other.0
    ))
    .map(drop)
}

/// Removes what is left of worlds whose makers are no more. (Their guardians do this; a guardian
/// can be killed too.) Failures are left for the next time.
fn sweep() {
    for directory in [Path::new("/run/netns"), &std::env::temp_dir()] {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(maker) = maker(&name) else { continue };
            if Path::new("/proc").join(maker.to_string()).exists() {
                continue;
            }
            if directory == Path::new("/run/netns") {
                for pid in tool::run(&format!("ip netns pids {name}"))
                    .unwrap_or_default()
                    .lines()
                    .filter_map(|line| line.trim().parse().ok())
                    .filter_map(rustix::process::Pid::from_raw)
                {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
                let _ = tool::run(&format!("ip netns del {name}"));
            } else {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// The process that made the namespace or directory called `name`, if it is one of ours.
fn maker(name: &str) -> Option<u32> {
    let (pid, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
    rest.starts_with(|c: char| c.is_ascii_digit())
        .then_some(())?;
    pid.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::maker;

    #[test]
    fn only_names_of_ours_have_a_maker() {
        assert_eq!(maker("outboard-123-0-server"), Some(123));
        assert_eq!(maker("outboard-123-7"), Some(123));
        assert_eq!(maker("outboard-build-7"), None);
        assert_eq!(maker("outboard-123"), None);
        assert_eq!(maker("somebody-123-0-server"), None);
    }
}
