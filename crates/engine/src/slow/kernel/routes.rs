//! Routes are the kernel's: for each new destination it is asked where the next hop is. The
//! answers are cached by `network::paths`; a notification of any change of routes, of the rules that choose their
//! tables, or of the objects that routes name as next hops makes them stale.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::netlink::{
    A_MOMENT, Attributes, Netlink, Notified, ROUTE, RequestMessage, address_of, family, u32_at,
};
use rustix::io::Errno;

const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_VIA: u16 = 18;
const RTAX_MTU: u16 = 2;
/// The destination is one of this machine's own addresses.
const RTN_LOCAL: u8 = 2;
const RTN_UNICAST: u8 = 1;
/// `RTNLGRP_IPV4_ROUTE`, `RTNLGRP_IPV6_ROUTE`, `RTNLGRP_IPV4_RULE`, `RTNLGRP_IPV6_RULE` and `RTNLGRP_NEXTHOP`, as masks.
const GROUPS: u32 = 1 << 6 | 1 << 10 | 1 << 7 | 1 << 18 | 1 << 31;
/// The answer is to be of an entry of the tables, and an error if there is none.
const RTM_F_FIB_MATCH: u32 = 0x2000;
/// Length of `struct rtmsg`.
const RTMSG_LEN: usize = 12;

/// Where the kernel would send a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Whose hardware address the frame carries: a gateway, or the destination itself.
    pub next_hop: IpAddr,
    /// Index of the interface it leaves by.
    pub interface: u32,
    /// The source address that the kernel would choose.
    pub source: Option<IpAddr>,
    /// The route's own MTU, if it has one.
    pub mtu: Option<u32>,
    /// The destination is this machine: the kernel's business.
    pub local: bool,
}

/// Asks the kernel for routes, and hears when they change.
#[derive(Debug)]
pub struct Routes {
    requests: Netlink,
    notifications: Netlink,
}

impl Routes {
    /// Opens the two sockets that this takes.
    pub fn open() -> rustix::io::Result<Self> {
        Ok(Self {
            requests: Netlink::open(ROUTE)?,
            notifications: Netlink::subscribe(ROUTE, GROUPS)?,
        })
    }

    /// The route to `destination`: the kernel's free choice, or the one through `interface`. What is
    /// sent from `source` may have rules of its own (`ip rule`).
    ///
    /// Errors are the kernel's: `NETUNREACH`, `HOSTUNREACH`, `ACCESS` for prohibited ones, `INVAL` for
    /// a source that is not this machine's.
    pub fn to(
        &mut self,
        destination: IpAddr,
        source: Option<IpAddr>,
        interface: Option<u32>,
    ) -> rustix::io::Result<Route> {
        let mut request = question(destination, source, interface, 0);
        let mut found = None;
        self.requests.ask(&mut request, 0, |message| {
            if message.kind != RTM_NEWROUTE {
                return;
            }
            let Some((header, attributes)) = message.split::<RTMSG_LEN>() else {
                return;
            };
            if !matches!(header[7], RTN_UNICAST | RTN_LOCAL) {
                return;
            }
            // RTA_VIA: a gateway of the other family, after two bytes of family.
            let gateway = attributes
                .find(RTA_GATEWAY)
                .and_then(address_of)
                .or_else(|| {
                    attributes
                        .find(RTA_VIA)
                        .and_then(|via| address_of(via.get(2..)?))
                });
            found = Some(Route {
                next_hop: gateway.unwrap_or(destination),
                interface: attributes
                    .find(RTA_OIF)
                    .and_then(|v| u32_at(v, 0))
                    .unwrap_or(0),
                source: attributes.find(RTA_PREFSRC).and_then(address_of),
                mtu: attributes
                    .find(RTA_METRICS)
                    .and_then(|metrics| Attributes::nested(metrics).find(RTAX_MTU))
                    .and_then(|v| u32_at(v, 0)),
                local: header[7] == RTN_LOCAL,
            });
        })?;
        found.ok_or(Errno::HOSTUNREACH)
    }

    /// Whether a table has an entry by which `destination` is reached through `interface`. Without one the
    /// kernel takes an IPv4 destination for a station on that link.
    pub fn has_entry(
        &mut self,
        destination: IpAddr,
        source: Option<IpAddr>,
        interface: u32,
    ) -> bool {
        let mut request = question(destination, source, Some(interface), RTM_F_FIB_MATCH);
        let mut found = false;
        let asked = self.requests.ask(&mut request, 0, |message| {
            found |= message.kind == RTM_NEWROUTE;
        });
        asked.is_ok() && found
    }

    /// Reads what the kernel has announced; true if any route may have changed.
    pub fn update(&mut self) -> rustix::io::Result<bool> {
        let mut changed = false;
        let notified = self.notifications.notifications(A_MOMENT, |message| {
            changed |= matches!(
                message.kind,
                RTM_NEWROUTE
                    | RTM_DELROUTE
                    | RTM_NEWRULE
                    | RTM_DELRULE
                    | RTM_NEWNEXTHOP
                    | RTM_DELNEXTHOP
            );
        })?;
        Ok(changed || notified == Notified::Overrun)
    }
}

/// Asks for the route to `destination`.
fn question(
    destination: IpAddr,
    source: Option<IpAddr>,
    interface: Option<u32>,
    flags: u32,
) -> RequestMessage {
    let mut header = [0u8; RTMSG_LEN];
    header[0] = family(destination);
    header[1] = if destination.is_ipv4() { 32 } else { 128 };
    header[8..].copy_from_slice(&flags.to_ne_bytes());
    let mut request = RequestMessage::new(RTM_GETROUTE, &header);
    request.address(RTA_DST, destination);
    if let Some(source) = source {
        request.address(RTA_SRC, source);
    }
    if let Some(index) = interface {
        request.attribute(RTA_OIF, &index.to_ne_bytes());
    }
    request
}

impl AsFd for Routes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_local() {
        let mut routes = Routes::open().expect("netlink answers");
        if let Ok(route) = routes.to("127.0.0.1".parse().unwrap(), None, None) {
            assert!(route.local);
            assert_eq!(route.interface, 1);
        }
    }
}
