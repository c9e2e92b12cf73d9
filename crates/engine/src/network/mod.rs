//! The network that the engine's interfaces are on: own addresses, next hops, and the steering of
//! ports. The kernel knows all of it ([`KernelNetwork`]); a test states it ([`FixedNetwork`]).

mod arriving;
mod fixed;
mod held;
mod nic;
mod of_kernel;
mod paths;
mod scope;

use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use netdev::steering::Endpoint;
use rustix::io::Errno;
use tcp::Instant;
use wire::ethernet::MacAddr;

use crate::slow::kernel::asking::AsOf;
use crate::slow::kernel::link::LinkState;
use crate::slow::kernel::neighbours::Knowledge;

pub use fixed::FixedNetwork;
pub use held::HeldFrames;
pub use nic::{NicId, OnLink};
pub use of_kernel::{KernelNetwork, Steer};
pub use paths::{Later, PathId, Paths, Reach};
pub use scope::{canonical, is_link_local, scoped};

/// For how long a SYN cookie of the kernel's may be answered: `MAX_SYNCOOKIE_AGE` times `TCP_SYNCOOKIE_PERIOD`
/// (include/net/tcp.h).
pub const COOKIE_LIFE: Duration = Duration::from_secs(120);

/// How new connections are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shared {
    /// So many of [`SHARE_ALL`](netdev::steering::SHARE_ALL) are the engine's.
    pub share: u32,
    /// Where what comes is counted.
    pub slot: u16,
}

/// How the segments to a port are divided between engine and kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Steered {
    /// All to the engine: the port is leased.
    Leased,
    /// All to the engine. This and the next two are a listener's: new connections come where the kernel would give them
    /// to a socket that was [shown](Network::show_socket).
    Engine,
    /// Connections that the kernel has stay the kernel's; everything else goes to the engine.
    Mixed,
    /// New connections are divided, and each stays whose it is.
    Shared(Shared),
    /// As mixed, but new connections are the kernel's too: the listener is gone, and what is left
    /// of its connections is still the engine's.
    Closing,
}

/// The first of the machines on the way to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// By which interface, and whose hardware address frames carry.
    pub neighbour: OnLink<IpAddr>,
    /// Bytes of the largest packet on this way, if its route states it.
    pub mtu: Option<u16>,
}

/// Something about the network changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkChange {
    /// The own addresses.
    Addresses,
    /// Some route: every next hop must be asked for again.
    Routes,
    /// An interface itself; none if it is gone.
    Link(NicId, Option<LinkState>),
    /// An interface has this many receive queues, more than before.
    Queues(NicId, u32),
    /// A neighbour.
    Neighbour(OnLink<IpAddr>, Knowledge),
    /// What is known of a neighbour, to a question of that time.
    Answer(OnLink<IpAddr>, Knowledge, AsOf),
    /// Neighbours changed so fast that some changes were lost: all must be asked for again.
    AllNeighbours,
}

/// What comes of a question about a next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The answer.
    Known(Knowledge),
    /// It comes as a change.
    Later,
    /// Nothing: there is no room for more questions now.
    Missed,
}

/// What the engine asks about its network, and changes in it.
pub trait Network {
    /// An interface's number in the kernel.
    fn index(&self, nic: NicId) -> u32;

    /// The interface with this number in the kernel, if it is one of the engine's.
    fn nic_at(&self, index: u32) -> Option<NicId>;

    /// The interface that has an own address; the first of all for any other address.
    fn nic_of(&self, own: IpAddr) -> NicId;

    /// The number of the interface that has an own address: the scope of link-local addresses on its link.
    fn scope_of(&self, own: IpAddr) -> u32 {
        self.index(self.nic_of(own))
    }

    /// An interface's own hardware address.
    fn mac(&self, nic: NicId) -> MacAddr;

    /// How many interfaces there are.
    fn nics(&self) -> usize;

    /// The interface by which a frame came that was sent to this hardware address, with a packet for this own
    /// address. Where several have the one, or none has it (any more), the other decides: no question to the kernel,
    /// since strangers can have as many of these asked as they like.
    fn nic_with(&self, mac: MacAddr, own: IpAddr) -> NicId {
        if self.nics() == 1 {
            return NicId::default();
        }
        let has = |nic: &NicId| self.mac(*nic) == mac;
        let mut with = (0..self.nics()).map(NicId::at).filter(has);
        let by_address = self.nic_of(own);
        match (with.next(), with.next()) {
            (Some(only), None) => only,
            (Some(first), Some(_)) if !has(&by_address) => first,
            _ => by_address,
        }
    }

    /// The interfaces' own addresses.
    fn addresses(&self) -> &[IpAddr];

    /// Whether an address is of this machine, and of those within which the engine may connect: one
    /// of the interfaces', or of loopback.
    fn is_here(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.addresses().contains(&address)
    }

    /// Where frames from `source` to `destination` go first by these interfaces. Errors are those of connect(2);
    /// it is one, too, that the way leads by another interface only.
    fn next_hop(&mut self, source: IpAddr, destination: IpAddr) -> Result<NextHop, Errno>;

    /// The source address for a connection to `destination`, `wanted` if that is given: an error if it is this machine, or
    /// not reached through the engine's interfaces (`OPNOTSUPP`: the kernel must do it). A link-local destination is
    /// on the link of the interface with the number `scope`.
    fn source_for(
        &mut self,
        destination: IpAddr,
        scope: u32,
        wanted: Option<IpAddr>,
    ) -> Result<IpAddr, Errno>;

    /// Asks what is known about a next hop, at a time of which so much has been told.
    fn neighbour(&mut self, next_hop: OnLink<IpAddr>, as_of: AsOf) -> Found;

    /// What is known about a next hop, if that can be said without a question that waits.
    fn neighbour_at_once(&mut self, next_hop: OnLink<IpAddr>) -> Option<Knowledge>;

    /// Has a next hop resolved or probed, at a time of which so much has been told; the answer comes as a change.
    /// False: there is no room for more questions now.
    fn probe(&mut self, next_hop: OnLink<IpAddr>, as_of: AsOf) -> bool;

    /// A next hop was heard from: it need not be probed. Where there is no room for more questions it will be.
    fn confirm(&mut self, next_hop: OnLink<IpAddr>, mac: MacAddr);

    /// Reads what has changed since the last call.
    fn changes(&mut self, each: &mut dyn FnMut(NetworkChange));

    /// Takes up again the addresses that are on another link than before, if there are any: they were told of as
    /// gone, so that nothing of theirs is steered on the link where they were.
    fn take_up_moved(&mut self) -> bool {
        false
    }

    /// Sends a port of an own address to the engine.
    fn steer(&mut self, address: IpAddr, port: u16, how: Steered) -> std::io::Result<()>;

    /// Leaves a port of an own address to the kernel.
    fn unsteer(&mut self, address: IpAddr, port: u16);

    /// What is new at the ports of listeners comes to the engine where the kernel would give it to the socket with
    /// this cookie, which counts as this user's if it is new.
    ///
    /// # Errors
    /// There is no room: `DQUOT` for this user alone.
    fn show_socket(&mut self, cookie: u64, uid: u32) -> std::io::Result<()>;

    /// Not any more.
    fn hide_socket(&mut self, cookie: u64);

    /// What time it is for the steering, in nanoseconds.
    fn now(&self) -> u64;

    /// When the kernel was last left a new connection at a port of an own address, by [`now`](Self::now), if it was since
    /// it was [found](Self::only_ours) to have none. What follows on it is the kernel's, too, whatever was said.
    fn noted(&self, address: IpAddr, port: u16) -> Option<u64>;

    /// Sends a mixed port of an own address to the engine: the kernel had no connections there when it was asked,
    /// which was at `as_of` or later. False if it may have got some since: then the port stays mixed.
    fn only_ours(&mut self, address: IpAddr, port: u16, as_of: u64) -> std::io::Result<bool> {
        let _ = as_of;
        self.steer(address, port, Steered::Engine).map(|()| true)
    }

    /// Has the steering call a program of the responder, if one comes along, and gives it these
    /// endpoints of the interface with this index, too.
    fn respond(
        &mut self,
        interface: u32,
        program: Option<BorrowedFd<'_>>,
        endpoints: &[Endpoint],
    ) -> std::io::Result<()> {
        let _ = (interface, program, endpoints);
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// Takes all of that back.
    fn end_responding(&mut self) {}

    /// Has the steering call a program of the user's for what comes to an interface and is nobody's, or none.
    fn divert(&mut self, program: Option<(NicId, BorrowedFd<'_>)>) -> std::io::Result<()> {
        let _ = program;
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// An interface has got more receive queues: what comes to them is divided, too.
    fn renew_steering(&mut self, nic: NicId) -> std::io::Result<()> {
        let _ = nic;
        Ok(())
    }

    /// Sends what is steered and comes to a receive queue of an interface to its socket.
    fn connect_queue(
        &mut self,
        nic: NicId,
        queue: u32,
        socket: BorrowedFd<'_>,
    ) -> std::io::Result<()> {
        let _ = (nic, queue, socket);
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// For how long the first frame has waited that came since the last [`beat`](Self::beat).
    fn waiting(&self) -> Duration {
        Duration::ZERO
    }

    /// What has come is about to be taken: for how long the first of it has waited.
    fn beat(&mut self) -> Duration {
        Duration::ZERO
    }

    /// The worker with this number has not taken for so long what was handed to it that new connections are to be the
    /// kernel's until it comes.
    fn note_late(&self, worker: u16);

    /// How often any worker of these tables has kept frames waiting for so long that new connections were the kernel's
    /// meanwhile: known when that one has come back.
    fn absences(&self) -> u64 {
        0
    }

    /// Leases a local port for a connection, `wanted` or any.
    fn lease_port(&mut self, now: Instant, wanted: Option<u16>) -> Result<u16, Errno>;

    /// Whether a port is leased.
    fn has_leased(&self, port: u16) -> bool;

    /// Keeps a port that is not leased from everybody else until what this returns is closed.
    fn hold_port(&mut self, port: u16) -> Result<OwnedFd, Errno>;

    /// Of the leased ports that which was used least recently, if that is `rest` ago.
    fn reuse_port(&mut self, now: Instant, rest: Duration) -> Option<u16>;

    /// Whether no more ports can be leased, and those that are have all been used a moment ago.
    fn ports_are_scarce(&self, now: Instant) -> bool {
        let _ = now;
        false
    }

    /// How many ports are leased.
    fn leased_ports(&self) -> usize;

    /// What the steering has counted, by what became of a frame and why.
    fn steering_counts(&self) -> Vec<(&'static str, u64)>;

    /// What to poll for changes.
    fn fds(&self) -> Vec<BorrowedFd<'_>>;
}
