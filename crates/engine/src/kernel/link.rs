//! The interface itself: its index, hardware address and MTU.

use super::netlink::{Netlink, ROUTE, Request, u32_at};
use wire::ethernet::MacAddr;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFF_UP: u32 = 1;
/// Length of `struct ifinfomsg`.
const IFINFO_LEN: usize = 16;

/// What the engine needs to know about its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The kernel's index of the interface.
    pub index: u32,
    /// The interface's own hardware address.
    pub mac: MacAddr,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Whether the interface is administratively up.
    pub up: bool,
}

impl Link {
    /// Asks the kernel for the interface called `name`.
    pub fn find(name: &str) -> rustix::io::Result<Self> {
        let mut netlink = Netlink::open(ROUTE)?;
        let mut terminated = name.as_bytes().to_vec();
        terminated.push(0);
        let mut request = Request::new(RTM_GETLINK, &[0; IFINFO_LEN]);
        request.attribute(IFLA_IFNAME, &terminated);
        let mut found = None;
        netlink.ask(&mut request, 0, |message| {
            if message.kind != RTM_NEWLINK {
                return;
            }
            let Some((info, attributes)) = message.split::<IFINFO_LEN>() else {
                return;
            };
            let mac = attributes
                .find(IFLA_ADDRESS)
                .and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
            let mtu = attributes.find(IFLA_MTU).and_then(|b| u32_at(b, 0));
            found = Some(Self {
                index: u32_at(info, 4).unwrap_or(0),
                mac: MacAddr(mac.unwrap_or_default()),
                mtu: mtu.unwrap_or(1500),
                up: u32_at(info, 8).unwrap_or(0) & IFF_UP != 0,
            });
        })?;
        found.ok_or(rustix::io::Errno::NODEV)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found() {
        let link = Link::find("lo").expect("every network namespace has lo");
        assert_eq!(link.index, 1);
        assert!(link.mtu >= 1280);
    }

    #[test]
    fn a_missing_interface_is_an_error() {
        assert_eq!(Link::find("no-such-if0"), Err(rustix::io::Errno::NODEV));
    }
}
