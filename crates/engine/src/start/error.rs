//! Why an engine did not start.

use std::io;
use std::path::PathBuf;

use netdev::xdp;

use crate::config::ConfigError;

/// The oldest kernel that has what the engine is built on, and that it is tried on.
pub(super) const OLDEST_LINUX: (u32, u32) = (6, 1);

/// Why an engine did not start, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Older than what the engine was tried on.
    #[error(
        "this is Linux {release}: the engine needs {major}.{minor} or later",
        major = OLDEST_LINUX.0,
        minor = OLDEST_LINUX.1
    )]
    OldKernel {
        /// What the kernel calls itself.
        release: String,
    },
    /// There is no such interface.
    #[error("{interface}: {error}")]
    Interface {
        /// Its name.
        interface: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// It was there.
    #[error("{0} is gone, and its connections with it: the engine ends")]
    InterfaceGone(String),
    /// Its frames are none of Ethernet.
    #[error(
        "{interface} is a tunnel{}: its packets have no Ethernet header. Name the interface by which \
         they leave, or leave what comes by it to the kernel",
        .kind.as_ref().map_or_else(String::new, |kind| format!(" ({kind})"))
    )]
    Tunnel {
        /// Its name.
        interface: String,
        /// What the kernel calls it.
        kind: Option<String>,
    },
    /// It is a part of another one.
    #[error("{interface} is a port of the {kind} {master}, which has the addresses: name {master}")]
    Port {
        /// Its name.
        interface: String,
        /// The name of that which it is a port of.
        master: String,
        /// What that is.
        kind: String,
    },
    /// Its routes are in a table of their own.
    #[error(
        "{interface} is in the VRF {vrf}, whose routes an engine of several interfaces does not ask for: give each \
         an engine of its own"
    )]
    InVrf {
        /// Its name.
        interface: String,
        /// The name of the VRF.
        vrf: String,
    },
    /// Frames of VLANs would be taken for frames of none.
    #[error(
        "{interface} takes the tags of VLANs off before a frame can be looked at, and has VLAN devices on it \
         ({}): what comes by those would look as if it were of no VLAN. Have it leave the tags on (ethtool \
         -K {interface} rxvlan off; of a veth, txvlan off at its other end as well), or name a VLAN device",
        .vlans.join(", ")
    )]
    VlanTags {
        /// Its name.
        interface: String,
        /// The names of the VLAN devices.
        vlans: Vec<String>,
    },
    /// Not allowed.
    #[error(
        "an engine needs to be started as root, or with CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, \
         CAP_PERFMON and CAP_IPC_LOCK"
    )]
    NotPermitted,
    /// The core is not there.
    #[error("there is no core {0} that an engine could run on: they are numbered from 0 (lscpu)")]
    NoSuchCore(usize),
    /// A worker would have nothing to do.
    #[error(
        "{workers} workers are too many for {queues} receive queue{} of {interface}: queue n is that of worker n modulo \
         {workers}, and worker {idle} would have none. Start fewer (--workers), or give the interface \
         more queues (ethtool -L)",
        if *queues == 1 { "" } else { "s" }
    )]
    IdleWorker {
        /// Of which interface.
        interface: String,
        /// The first that would have none.
        idle: usize,
        /// How many there were to be.
        workers: usize,
        /// How many queues are served.
        queues: usize,
    },
    /// Rules would be bypassed.
    #[error(
        "netfilter has rules of the older kind, which what is steered would not see: {}. Move them \
         to nftables (iptables-legacy-save | iptables-nft-restore, then iptables-legacy -F and -P INPUT \
         ACCEPT, -P OUTPUT ACCEPT; so with ip6tables), whose rules are followed, or to the engine's access \
         lists, or start with --ignore-netfilter",
        .0.join("; ")
    )]
    Netfilter(Vec<String>),
    /// The steering program.
    #[error(transparent)]
    Steering(#[from] netdev::steering::SteeringError),
    /// The device.
    #[error(transparent)]
    Device(#[from] xdp::OpenError),
    /// The control socket.
    #[error("control socket {}: {error}", .path.display())]
    Control {
        /// Where it was to be.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// Something else.
    #[error("cannot {doing}: {error}")]
    Step {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

pub(super) fn step<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> StartError {
    move |error| StartError::Step {
        doing,
        error: error.into(),
    }
}
