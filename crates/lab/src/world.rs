//! Two network namespaces joined by a veth pair: a private network with a server and a client.

use crate::guardian::Guardian;
use crate::process::Program;
use crate::tool;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

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
    names: [String; 2],
    scratch: PathBuf,
    // Last: what it deletes is in use until the fields above are gone.
    _guardian: Guardian,
}

/// All our namespaces are called `outboard-PID-NUMBER-SIDE`, PID being that of their maker.
const PREFIX: &str = "outboard-";

/// Tells apart the worlds that one process makes.
static MADE: AtomicU32 = AtomicU32::new(0);

impl World {
    /// Makes the namespaces and joins them. Needs root. Worlds of processes that are no more are
    /// removed first.
    pub fn new() -> Result<Self> {
        if !crate::is_root() {
            bail!("making network namespaces needs root: run this with sudo");
        }
        sweep();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let names = ["server", "client"].map(|side| format!("{name}-{side}"));
        let scratch = std::env::temp_dir().join(&name);
        // From here on the guardian sees to it, also if the next line fails.
        let guardian = Guardian::new(&scratch, &names)?;
        let world = Self {
            names,
            scratch,
            _guardian: guardian,
        };
        world.build()?;
        Ok(world)
    }

    fn build(&self) -> Result<()> {
        std::fs::create_dir(&self.scratch)
            .with_context(|| format!("cannot make {}", self.scratch.display()))?;
        let [server, client] = &self.names;
        for name in &self.names {
            tool::run(&format!("ip netns add {name}"))?;
        }
        tool::run(&format!(
            "ip link add {} netns {server} type veth peer name {} netns {client}",
            Side::Server.interface(),
            Side::Client.interface(),
        ))?;
        for side in [Side::Server, Side::Client] {
            let (name, interface) = (self.name(side), side.interface());
            for line in [
                format!("addr add {}/24 dev {interface}", side.ipv4()),
                // No duplicate address detection: the address is usable at once.
                format!("addr add {}/64 dev {interface} nodad", side.ipv6()),
                format!("link set {interface} up"),
                "link set lo up".to_string(),
            ] {
                tool::run(&format!("ip -n {name} {line}"))?;
            }
        }
        // Sequences of many short connections need all the ports there are.
        self.sysctl(Side::Client, "net.ipv4.ip_local_port_range", "1024 65535")?;
        self.sysctl(Side::Client, "net.ipv4.tcp_tw_reuse", "1")
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

    /// A directory of this world's own, which goes with it.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// A program to be started on `side`.
    pub fn program(&self, side: Side, name: impl AsRef<std::ffi::OsStr>) -> Program {
        Program::new(name).within(self.name(side))
    }

    /// Moves the calling thread (only this one) into the network of `side`, for sockets that it
    /// opens from now on. There is no way back: use a thread made for it.
    pub fn enter(&self, side: Side) -> Result<()> {
        let path = namespace_file(self.name(side));
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        rustix::thread::move_into_link_name_space(
            std::os::fd::AsFd::as_fd(&file),
            Some(rustix::thread::LinkNameSpaceType::Network),
        )
        .with_context(|| format!("cannot enter {}", path.display()))?;
        Ok(())
    }

    /// Sets a value of the kernel's for `side` only, by its dotted name under `net`.
    pub fn sysctl(&self, side: Side, name: &str, value: &str) -> Result<()> {
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        // A shell, because the kernel resolves the path by the network of who opens it.
        let mut command = std::process::Command::new("nsenter");
        command
            .arg(format!(
                "--net={}",
                namespace_file(self.name(side)).display()
            ))
            .args(["sh", "-c", "echo \"$1\" >\"$2\"", "sh", value, &file]);
        tool::output(&mut command, &format!("sysctl {name}")).map(drop)
    }
}

/// The file by which the namespace `name` is entered.
pub(crate) fn namespace_file(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
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
