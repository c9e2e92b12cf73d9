//! A claim: what one server sends to a range of our addresses and ports.
//!
//! [Steering](crate::steering) is a table of endpoints, made for servers. A load client has
//! millions of endpoints, but they are a few ranges, and there is one peer: the program in
//! `bpf/claim.bpf.c` compares instead of looking up. Like the other it hangs on the interface by a
//! link, and goes with its owner, however that ends.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd};

use aya::maps::{Array, MapData, XskMap};
use aya::{Ebpf, include_bytes_aligned};

use crate::interface::{Interface, XdpMode};
use crate::programs::{fd_of, load_error, load_program, take_map, test_run};
use crate::steering::{Link, MAX_QUEUES, Placement, SteeringError, Verdict, attach_program};

/// The compiled program.
static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/claim.bpf.o"));

/// The name of the program in its object.
const PROGRAM: &str = "claim_replies";

/// Most ranges of addresses in a claim.
pub const MAX_RANGES: usize = 16;

/// What is claimed: segments from `server` to one of the addresses and one of the ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The server's address and port.
    pub server: SocketAddr,
    /// Ranges of our addresses: the first and the last of each, at most [`MAX_RANGES`].
    pub addresses: Vec<(IpAddr, IpAddr)>,
    /// Our ports.
    pub ports: RangeInclusive<u16>,
}

/// `struct address`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Address {
    high: u64,
    low: u64,
}

impl Address {
    fn of(address: IpAddr) -> Self {
        let bits = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        Self {
            high: (bits >> 64) as u64,
            low: bits as u64,
        }
    }
}

/// `struct range`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Range {
    first: Address,
    last: Address,
}

/// `struct claim`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Entry {
    server: Address,
    server_port: u16,
    first_port: u16,
    last_port: u16,
    ranges_used: u16,
    ranges: [Range; MAX_RANGES],
}

// SAFETY: integers only, without padding: 16 + 4 * 2 + 16 * 32 bytes.
unsafe impl aya::Pod for Entry {}
const _: () = assert!(size_of::<Entry>() == 16 + 8 + MAX_RANGES * 32);

impl Entry {
    fn of(claimed: &Claimed) -> Self {
        let mut ranges = [Range::default(); MAX_RANGES];
        for (range, (first, last)) in ranges.iter_mut().zip(&claimed.addresses) {
            *range = Range {
                first: Address::of(*first),
                last: Address::of(*last),
            };
        }
        Self {
            server: Address::of(claimed.server.ip()),
            server_port: claimed.server.port(),
            first_port: *claimed.ports.start(),
            last_port: *claimed.ports.end(),
            ranges_used: claimed.addresses.len().min(MAX_RANGES) as u16,
            ranges,
        }
    }
}

/// The program and its tables. Dropping it detaches the program.
pub struct Claim {
    /// Holds the program; its maps were taken out.
    object: Ebpf,
    claims: Array<MapData, Entry>,
    sockets: XskMap<MapData>,
    attached: Option<(Link, XdpMode)>,
}

impl Claim {
    /// Loads the program without attaching it.
    ///
    /// # Errors
    /// As [`Steering::load`](crate::Steering::load).
    pub fn load(claimed: &Claimed) -> Result<Self, SteeringError> {
        let mut object = Ebpf::load(OBJECT).map_err(|error| load_error(&error))?;
        let mut claims = take_map(&mut object, "claims", Array::try_from)?;
        let sockets = take_map(&mut object, "sockets", XskMap::try_from)?;
        load_program(&mut object, PROGRAM)?;
        claims.set(0, Entry::of(claimed), 0)?;
        Ok(Self {
            object,
            claims,
            sockets,
            attached: None,
        })
    }

    /// Loads the program and attaches it to an interface.
    ///
    /// # Errors
    /// As [`Steering::attach`](crate::Steering::attach).
    pub fn attach(
        interface: &Interface,
        placement: Placement,
        claimed: &Claimed,
    ) -> Result<Self, SteeringError> {
        let mut claim = Self::load(claimed)?;
        let fd = fd_of(&claim.object, PROGRAM)?;
        claim.attached = Some(attach_program(fd.as_fd(), interface, placement)?);
        Ok(claim)
    }

    /// Where the program runs; `None` if it is not attached.
    pub fn mode(&self) -> Option<XdpMode> {
        self.attached.as_ref().map(|(_, mode)| *mode)
    }

    /// Claims something else from now on.
    ///
    /// # Errors
    /// [`SteeringError::Map`].
    pub fn set(&mut self, claimed: &Claimed) -> Result<(), SteeringError> {
        Ok(self.claims.set(0, Entry::of(claimed), 0)?)
    }

    /// Gives what is claimed and arrives on a receive queue to the AF_XDP socket bound to it.
    ///
    /// # Errors
    /// [`SteeringError::NoSuchQueue`] from [`MAX_QUEUES`] on; [`SteeringError::Map`].
    pub fn connect_queue(&mut self, queue: u32, socket: impl AsFd) -> Result<(), SteeringError> {
        if queue >= MAX_QUEUES {
            return Err(SteeringError::NoSuchQueue(queue));
        }
        Ok(self.sockets.set(queue, socket.as_fd().as_raw_fd(), 0)?)
    }

    /// Runs the program over one frame, as if it had arrived on `queue` of an interface of the
    /// caller's namespace, and returns what it decided.
    ///
    /// # Errors
    /// [`SteeringError::TestRun`].
    pub fn test_run(
        &self,
        frame: &[u8],
        interface: u32,
        queue: u32,
    ) -> Result<Verdict, SteeringError> {
        let run = test_run(&self.object, PROGRAM, frame, (interface, queue), 1, 0)?;
        Ok(run.verdict)
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Claim")
            .field("attached", &self.attached)
            .finish_non_exhaustive()
    }
}
