//! Neighbours: which hardware address a next hop has. The kernel resolves them (ARP, neighbour
//! discovery); the engine asks for the entries it needs, hears of their changes, asks for a probe
//! where one is missing or stale, and confirms those through which acknowledgements arrive.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::netlink::{
    A_MOMENT, CREATE, Message, Netlink, Notified, ROUTE, RequestMessage, address_of, family,
};
use super::netlink::{u16_at, u32_at};
use queue_pair::control::Neighbour;
use rustix::io::Errno;
use wire::ethernet::MacAddr;

const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const RTM_GETNEIGH: u16 = 30;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_INCOMPLETE: u16 = 0x01;
const NUD_REACHABLE: u16 = 0x02;
/// Nobody has heard from it for a while; it is about to be probed; it is being probed. All of that ends with a
/// confirmation.
const NUD_STALE: u16 = 0x04;
const NUD_DELAY: u16 = 0x08;
const NUD_PROBE: u16 = 0x10;
const NUD_FAILED: u16 = 0x20;
/// "I am about to use it": the kernel starts to resolve or to probe.
const NTF_USE: u8 = 0x01;
/// `RTMGRP_NEIGH`.
const GROUPS: u32 = 0x4;
/// Length of `struct ndmsg`.
const NDMSG_LEN: usize = 12;

/// What the kernel knows about a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    /// Its hardware address; `stale` if the kernel would want it confirmed.
    Resolved {
        /// Where frames to this neighbour go.
        mac: MacAddr,
        /// The kernel has not heard from it for a while.
        stale: bool,
    },
    /// The kernel is asking for it, or has not been told to.
    Unresolved,
    /// The kernel asked and nobody answered.
    Failed,
}

impl Knowledge {
    /// As programs are told of it, with the hardware address if there is one.
    pub fn as_told(self) -> (Neighbour, Option<[u8; 6]>) {
        match self {
            Self::Resolved { mac, stale: false } => (Neighbour::Reachable, Some(mac.0)),
            Self::Resolved { mac, stale: true } => (Neighbour::Stale, Some(mac.0)),
            Self::Unresolved => (Neighbour::Unknown, None),
            Self::Failed => (Neighbour::Failed, None),
        }
    }
}

/// A neighbour's entry changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The neighbour.
    pub address: IpAddr,
    /// What is known about it now.
    pub knowledge: Knowledge,
}

/// Asks the kernel about neighbours on one interface. It answers under its lock of all that changes in networks
/// (RTNL), before Linux 6.17 at least: whoever asks may wait.
#[derive(Debug)]
pub struct Neighbours {
    interface: u32,
    requests: Netlink,
}

impl Neighbours {
    /// For the interface with this index.
    pub fn on_interface(interface: u32) -> rustix::io::Result<Self> {
        let requests = Netlink::open(ROUTE)?;
        Ok(Self {
            interface,
            requests,
        })
    }

    /// What the kernel knows about `address` now.
    pub fn ask(&mut self, address: IpAddr) -> rustix::io::Result<Knowledge> {
        let mut request = self.request(RTM_GETNEIGH, address, 0, 0);
        let mut knowledge = Knowledge::Unresolved;
        let interface = self.interface;
        match self.requests.ask(&mut request, 0, |message| {
            if let Some(change) = change(interface, &message) {
                knowledge = change.knowledge;
            }
        }) {
            Ok(()) => Ok(knowledge),
            Err(Errno::NOENT) => Ok(Knowledge::Unresolved),
            Err(error) => Err(error),
        }
    }

    /// Has the kernel resolve `address`, or probe it if its entry is stale.
    pub fn probe(&mut self, address: IpAddr) -> rustix::io::Result<()> {
        let mut request = self.request(RTM_NEWNEIGH, address, 0, NTF_USE);
        self.requests.ask(&mut request, CREATE, |_| ())
    }

    /// Tells the kernel that `address` answers: forward progress was made (RFC 4861, section 7.3.1). It names no
    /// hardware address: the kernel keeps the one that it has, and refuses where it has none (`INVAL`).
    pub fn confirm(&mut self, address: IpAddr) -> rustix::io::Result<()> {
        let mut request = self.request(RTM_NEWNEIGH, address, NUD_REACHABLE, 0);
        self.requests.ask(&mut request, 0, |_| ())
    }

    fn request(&self, kind: u16, address: IpAddr, state: u16, flags: u8) -> RequestMessage {
        let mut header = [0u8; NDMSG_LEN];
        header[0] = family(address);
        header[4..8].copy_from_slice(&self.interface.to_ne_bytes());
        header[8..10].copy_from_slice(&state.to_ne_bytes());
        header[10] = flags;
        let mut request = RequestMessage::new(kind, &header);
        request.address(NDA_DST, address);
        request
    }
}

/// Hears what becomes of neighbours on one interface.
#[derive(Debug)]
pub struct NeighbourChanges {
    interface: u32,
    notifications: Netlink,
}

impl NeighbourChanges {
    /// For the interface with this index.
    pub fn on_interface(interface: u32) -> rustix::io::Result<Self> {
        let notifications = Netlink::subscribe(ROUTE, GROUPS)?;
        Ok(Self {
            interface,
            notifications,
        })
    }

    /// Reads what the kernel has announced. [`Notified::Overrun`]: everything must be asked again.
    pub fn update(&mut self, mut each: impl FnMut(Change)) -> rustix::io::Result<Notified> {
        let interface = self.interface;
        self.notifications.notifications(A_MOMENT, |message| {
            if let Some(change) = change(interface, &message) {
                each(change);
            }
        })
    }
}

impl AsFd for NeighbourChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }
}

fn change(interface: u32, message: &Message<'_>) -> Option<Change> {
    if message.kind != RTM_NEWNEIGH && message.kind != RTM_DELNEIGH {
        return None;
    }
    let (header, attributes) = message.split::<NDMSG_LEN>()?;
    if u32_at(header, 4) != Some(interface) {
        return None;
    }
    let address = attributes.find(NDA_DST).and_then(address_of)?;
    let state = u16_at(header, 8)?;
    let mac = attributes
        .find(NDA_LLADDR)
        .and_then(|value| <[u8; 6]>::try_from(value).ok());
    let knowledge = match mac {
        _ if message.kind == RTM_DELNEIGH => Knowledge::Unresolved,
        _ if state & NUD_FAILED != 0 => Knowledge::Failed,
        Some(mac) if state & NUD_INCOMPLETE == 0 => Knowledge::Resolved {
            mac: MacAddr(mac),
            stale: state & (NUD_STALE | NUD_DELAY | NUD_PROBE) != 0,
        },
        _ => Knowledge::Unresolved,
    };
    Some(Change { address, knowledge })
}
