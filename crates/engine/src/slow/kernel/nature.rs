//! What an interface is: of Ethernet or not, made of others, or a part of one.

use std::os::fd::{AsFd, BorrowedFd};

use super::netlink::{
    A_WHILE, Attributes, Message, Netlink, Notified, ROUTE, RequestMessage, u16_at, u32_at,
};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
/// The namespace that [`IFLA_LINK`] is an index of, where that is another.
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
/// `RTMGRP_LINK`.
const INTERFACES: u32 = 1;
/// `ARPHRD_ETHER` and `ARPHRD_LOOPBACK`: the frames of both have Ethernet's header.
const WITH_ETHERNET: [u16; 2] = [1, 772];
/// Length of `struct ifinfomsg`.
const IFINFO_LEN: usize = 16;

/// What the kernel says an interface is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nature {
    /// Its frames have Ethernet's header.
    pub has_ethernet: bool,
    /// What is not hardware, as `ip link add type` calls it: "bridge", "bond", "vlan", "wireguard".
    pub kind: Option<String>,
    /// The index of that which it is a port of, and the kind of that.
    pub master: Option<(u32, String)>,
}

impl Nature {
    /// Of the interface with this index.
    ///
    /// # Errors
    /// What netlink said; `NODEV` if there is none.
    pub fn of_interface(index: u32) -> rustix::io::Result<Self> {
        let mut header = [0; IFINFO_LEN];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut request = RequestMessage::new(RTM_GETLINK, &header);
        let mut nature = Self::default();
        Netlink::open(ROUTE)?.ask(&mut request, 0, |message| {
            if message.kind == RTM_NEWLINK {
                nature = read(&message).unwrap_or_default();
            }
        })?;
        Ok(nature)
    }

    /// Whether it hands out what came to it by several others, whose drivers know nothing of it.
    pub fn gathers(&self) -> bool {
        matches!(self.kind.as_deref(), Some("bond" | "team" | "bridge"))
    }
}

/// The names of the VLAN devices on the interface with this index.
///
/// # Errors
/// What netlink said.
pub fn vlans_on(index: u32) -> rustix::io::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut request = RequestMessage::new(RTM_GETLINK, &[0; IFINFO_LEN]);
    Netlink::open(ROUTE)?.dump(&mut request, |message| {
        if message.kind == RTM_NEWLINK {
            names.extend(vlan_on(&message, index));
        }
    })?;
    Ok(names)
}

/// The name of what a message is about, if it is a VLAN device on the interface with this index.
fn vlan_on(message: &Message<'_>, index: u32) -> Option<String> {
    let (_, attributes) = message.split::<IFINFO_LEN>()?;
    let below = below(&attributes)?;
    let is_vlan = read(message)?.kind.as_deref() == Some("vlan");
    (below == index && is_vlan).then(|| text_of(attributes.find(IFLA_IFNAME).unwrap_or(&[])))
}

/// Tells when an interface may have other VLAN devices on it, or may treat their frames otherwise.
#[derive(Debug)]
pub struct VlanWatch {
    notifications: Netlink,
    index: u32,
}

impl VlanWatch {
    /// Of the interface with this index, from now on.
    ///
    /// # Errors
    /// What netlink said.
    pub fn of_interface(index: u32) -> rustix::io::Result<Self> {
        let notifications = Netlink::subscribe(ROUTE, INTERFACES)?;
        Ok(Self {
            notifications,
            index,
        })
    }

    /// Reads what the kernel has announced; true if any of it is about that.
    ///
    /// # Errors
    /// What netlink said.
    pub fn update(&mut self) -> rustix::io::Result<bool> {
        let mut any = false;
        let index = self.index;
        let notified = self.notifications.notifications(A_WHILE, |message| {
            any |= is_about(&message, index);
        })?;
        Ok(any || notified == Notified::Overrun)
    }
}

impl AsFd for VlanWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }
}

/// Whether a message is about an interface, or about one that stands on it.
fn is_about(message: &Message<'_>, index: u32) -> bool {
    let Some((info, attributes)) = message.split::<IFINFO_LEN>() else {
        return false;
    };
    u32_at(info, 4) == Some(index) || below(&attributes) == Some(index)
}

/// The interface below another, if it is in this network namespace.
fn below(attributes: &Attributes<'_>) -> Option<u32> {
    let is_elsewhere = attributes.find(IFLA_LINK_NETNSID).is_some();
    let index = attributes.find(IFLA_LINK).filter(|_| !is_elsewhere)?;
    u32_at(index, 0)
}

fn read(message: &Message<'_>) -> Option<Nature> {
    let (info, attributes) = message.split::<IFINFO_LEN>()?;
    let linkinfo = Attributes::nested(attributes.find(IFLA_LINKINFO).unwrap_or(&[]));
    let text = |kind| linkinfo.find(kind).map(text_of);
    let master = attributes
        .find(IFLA_MASTER)
        .and_then(|value| u32_at(value, 0));
    Some(Nature {
        has_ethernet: u16_at(info, 2).is_some_and(|kind| WITH_ETHERNET.contains(&kind)),
        kind: text(IFLA_INFO_KIND),
        master: master.map(|index| (index, text(IFLA_INFO_SLAVE_KIND).unwrap_or_default())),
    })
}

/// A string that ends in a zero byte.
fn text_of(value: &[u8]) -> String {
    let text = value.split(|byte| *byte == 0).next().unwrap_or(&[]);
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_itself_and_nothing_is_no_interface() {
        let nature = Nature::of_interface(1).expect("netlink answers");
        assert!(nature.has_ethernet);
        assert_eq!((nature.kind, nature.master), (None, None));
        assert!(Nature::of_interface(0x7fff_0000).is_err());
    }
}
