//! What the steering program and this process both know: keys, values, numbers.
//!
//! The other half is at the top of `bpf/steering.bpf.c`.

use std::fmt;
use std::net::IpAddr;
use std::ops::AddAssign;

/// The name of the program in its object.
pub(super) const PROGRAM: &str = "steer";

/// The name of the same program once more.
pub(super) const PROGRAM_AGAIN: &str = "steer_again";

/// Most endpoints that can be steered at once.
pub const MAX_ENDPOINTS: u32 = 65_536;

/// Receive queues of an interface that can be connected: 0 up to, not including, this.
pub const MAX_QUEUES: u32 = 256;

/// All of a [share](Share::Shared).
pub const SHARE_ALL: u32 = 65_536;

/// Numbers under which [loads](super::Loads) are counted: 0 up to, not including, this.
pub const MAX_SLOTS: u16 = 1024;

/// Connections to [shared](Share::Shared) endpoints that are remembered. With more than these, what is not
/// remembered is looked up in the kernel's tables.
pub const MAX_FLOWS: u32 = 65_536;

/// `IPPROTO_TCP`.
const TCP: u8 = 6;

/// A local endpoint of TCP, by an address of the interface: a wildcard is one of these for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The local address. An IPv4-mapped IPv6 address is the same as the IPv4 address.
    pub address: IpAddr,
    /// The local port.
    pub port: u16,
    /// The outer and the inner VLAN that the frames are tagged with; 0 for none.
    pub vlan: [u16; 2],
}

impl Endpoint {
    /// The endpoint in frames without a VLAN tag.
    pub fn new(address: IpAddr, port: u16) -> Self {
        Self {
            address: address.to_canonical(),
            port,
            vlan: [0, 0],
        }
    }

    /// The same endpoint in frames of a VLAN.
    #[must_use]
    pub const fn on_vlan(mut self, id: u16) -> Self {
        self.vlan = [id, 0];
        self
    }

    /// The key in the program's table.
    pub(super) fn key(self) -> EndpointKey {
        let address = match self.address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        EndpointKey {
            address: address.octets(),
            port: self.port.to_be(),
            vlan: self.vlan,
            protocol: TCP,
            zero: 0,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::net::SocketAddr::new(self.address, self.port).fmt(formatter)?;
        for vlan in self.vlan.into_iter().filter(|id| *id != 0) {
            write!(formatter, " vlan {vlan}")?;
        }
        Ok(())
    }
}

/// `struct endpoint`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EndpointKey {
    address: [u8; 16],
    /// In network byte order.
    port: u16,
    vlan: [u16; 2],
    protocol: u8,
    zero: u8,
}

// SAFETY: integers only, 24 bytes without padding.
unsafe impl aya::Pod for EndpointKey {}
const _: () = assert!(size_of::<EndpointKey>() == 24);

/// What happens to the frames of an endpoint.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// They go to the AF_XDP socket of their queue.
    Engine = 0,
    /// They go to the program of the stateless responder.
    Responder = 1,
}

/// How much of what arrives at an endpoint is the engine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Share {
    /// Every segment.
    All,
    /// Every segment, for a listener: new connections are the kernel's unless it would give them to a socket that
    /// was [shown](super::Steering::show_socket). So a listener ends for them in the moment in which its program
    /// closes it. Once the kernel was left one, it is as [`Mixed`](Self::Mixed) until [that is
    /// over](super::Steering::forget_left).
    Listener,
    /// As [`Listener`](Self::Listener), but for the segments of connections that the kernel has there:
    /// established, half open, closing or in TIME-WAIT, or to be known again by a SYN cookie of its own.
    Mixed,
    /// As [`Mixed`](Self::Mixed), and new connections are divided by a keyed hash of their 4-tuples. A connection stays whose it is, also
    /// when the share changes, and a SYN that is sent again goes where the first went.
    Shared {
        /// So many of [`SHARE_ALL`] are the engine's; more than all are all.
        share: u32,
        /// Where what comes is [counted](super::Loads), below [`MAX_SLOTS`]: with everything else that has
        /// this number.
        slot: u16,
    },
    /// As [`Mixed`](Self::Mixed), and new connections are the kernel's: for an endpoint whose
    /// listener is gone while some of its connections are not.
    Closing,
}

/// `struct treatment`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Treatment {
    action: u8,
    flags: u8,
    slot: u16,
    share: u32,
    epoch: u32,
    number: u32,
}

// SAFETY: integers only, 16 bytes without padding.
unsafe impl aya::Pod for Treatment {}
const _: () = assert!(size_of::<Treatment>() == 16);

impl Treatment {
    const MIXED: u8 = 1;
    const CLOSING: u8 = 2;
    const SHARED: u8 = 4;
    const LISTENER: u8 = 8;

    /// Of an endpoint that has this epoch, if it is [shared](Share::Shared).
    pub(super) const fn new(action: Action, share: Share, epoch: u32) -> Self {
        let (flags, share, slot) = match share {
            Share::All => (0, 0, 0),
            Share::Listener => (Self::LISTENER, 0, 0),
            Share::Mixed => (Self::LISTENER | Self::MIXED, 0, 0),
            Share::Shared { share, slot } => (Self::LISTENER | Self::SHARED, share, slot),
            Share::Closing => (Self::MIXED | Self::CLOSING, 0, 0),
        };
        Self {
            action: action as u8,
            flags,
            slot,
            share,
            epoch,
            number: 0,
        }
    }

    /// The program notes under this number what it leaves to the kernel.
    pub(super) const fn noted_at(self, number: u32) -> Self {
        Self { number, ..self }
    }
}

/// `struct xdp_md`, as a test run takes it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_ifindex: u32,
    rx_queue_index: u32,
    egress_ifindex: u32,
}

impl Context {
    pub(crate) fn new(length: usize, interface: u32, queue: u32) -> Self {
        Self {
            data: 0,
            data_end: u32::try_from(length).unwrap_or(u32::MAX),
            data_meta: 0,
            ingress_ifindex: interface,
            rx_queue_index: queue,
            egress_ifindex: 0,
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        // SAFETY: integers only, without padding, borrowed from self.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }
}

/// What the program decided about a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// To nobody.
    Drop,
    /// To the kernel.
    Kernel,
    /// Back out of the interface.
    Transmit,
    /// To the AF_XDP socket.
    Redirect,
}

impl Verdict {
    /// From an XDP action code.
    pub(crate) const fn from_action(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Drop,
            2 => Self::Kernel,
            3 => Self::Transmit,
            4 => Self::Redirect,
            _ => return None,
        })
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal),+ $(,)?) => {
        /// Why a frame went where it went.
        #[repr(u32)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Reason {
            /// All of them, in the program's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// A stable name for statistics.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        const REASONS: usize = Reason::ALL.len();
    };
}

reasons! {
    /// To the engine.
    Engine = "engine",
    /// To the engine: an ICMP error about a segment that it sent.
    EngineError = "engine_icmp_error",
    /// To nobody: a fragment of a segment for the engine, which puts none together. The kernel does
    /// not know the connection, and would end it.
    FragmentRefused = "fragment_refused",
    /// To nobody: a segment of one of the engine's connections, on a queue that has no socket (yet).
    /// The kernel does not know the connection, and would end it; its sender sends again.
    UnservedQueue = "unserved_queue",
    /// To the stateless responder.
    Responder = "responder",
    /// To a program of the user's, which decides what becomes of it.
    Diverter = "diverter",
    /// To the kernel: the frame ends inside a header, or a header contradicts itself.
    Truncated = "kernel_truncated",
    /// To the kernel: for a multicast or broadcast link address.
    NotUnicast = "kernel_not_unicast",
    /// To the kernel: more than two VLAN tags.
    VlanDepth = "kernel_vlan_depth",
    /// To the kernel: neither IPv4 nor IPv6.
    NotIp = "kernel_not_ip",
    /// To the kernel: a fragment that does not show its port, or is not for the engine.
    Fragment = "kernel_fragment",
    /// To the kernel: IPv6 with more than four extension headers before the segment, or with a
    /// routing header that is not used up.
    ExtensionHeader = "kernel_extension_header",
    /// To the kernel: not TCP, nor an ICMP error about a segment of the engine's.
    NotTcp = "kernel_not_tcp",
    /// To the kernel: nobody asked for this endpoint.
    NotSteered = "kernel_not_steered",
    /// To the kernel: it has a connection with this 4-tuple, on a mixed endpoint.
    KernelConnection = "kernel_connection",
    /// To the kernel: a new connection, on a closing endpoint, or on that of a listener of which no socket listens
    /// there (any more).
    Closing = "kernel_new_connection",
    /// To the kernel: a new connection, on a queue that has no socket.
    NoReceiver = "kernel_no_receiver",
    /// To the kernel: meant for the responder, which is not there.
    NoResponder = "kernel_no_responder",
    /// To the kernel: a new connection, while the engine leaves frames waiting.
    Stale = "kernel_engine_stale",
    /// To the kernel: of a connection to a shared endpoint that its SYN gave to the kernel.
    Shared = "kernel_share",
    /// To the kernel: it has the connection, of which the table of shared endpoints does not know: it is full, or
    /// the connection is older than the sharing.
    Forgotten = "kernel_forgotten",
}

impl Reason {
    /// Its index in the program's table.
    pub(super) const fn index(self) -> u32 {
        self as u32
    }
}

/// Frames by [`Reason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts([u64; REASONS]);

impl Counts {
    pub(super) fn set(&mut self, reason: Reason, count: u64) {
        self.0[reason as usize] = count;
    }

    /// The frames that had this reason.
    pub const fn get(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + use<> {
        Reason::ALL.iter().copied().zip(self.0)
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|index| {
            self.0[index].wrapping_sub(earlier.0[index])
        }))
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        for (sum, more) in self.0.iter_mut().zip(more.0) {
            *sum += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_the_ipv4_address() {
        let plain = Endpoint::new("192.0.2.1".parse().expect("address"), 80);
        let mapped = Endpoint::new("::ffff:192.0.2.1".parse().expect("address"), 80);
        assert_eq!(plain, mapped);
        assert_eq!(plain.key(), mapped.key());
        assert_eq!(plain.to_string(), "192.0.2.1:80");
        assert_eq!(plain.on_vlan(7).to_string(), "192.0.2.1:80 vlan 7");
    }

    #[test]
    fn reasons_are_named_apart() {
        let names: std::collections::HashSet<_> =
            Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), REASONS);
    }
}
