//! The interface's own addresses: what a wildcard listener stands for, and what a connection may
//! be opened from.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::netlink::{Netlink, Notified, ROUTE, Request, address_of, u32_at};

const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// Duplicate address detection is still running, or found a duplicate.
const IFA_F_UNUSABLE: u32 = 0x40 | 0x08;
/// `RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR`.
const GROUPS: u32 = 0x10 | 0x100;
/// Length of `struct ifaddrmsg`.
const IFADDR_LEN: usize = 8;

/// The addresses of one interface, kept true by the kernel's notifications.
#[derive(Debug)]
pub struct Addresses {
    interface: u32,
    notifications: Netlink,
    list: Vec<IpAddr>,
}

impl Addresses {
    /// Subscribes, then asks for what is there, so that no change falls in between.
    pub fn of_interface(interface: u32) -> rustix::io::Result<Self> {
        let mut addresses = Self {
            interface,
            notifications: Netlink::subscribe(ROUTE, GROUPS)?,
            list: Vec::new(),
        };
        addresses.list = addresses.ask()?;
        Ok(addresses)
    }

    /// The usable addresses, in no particular order.
    pub fn list(&self) -> &[IpAddr] {
        &self.list
    }

    /// Whether `address` is the interface's own.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.list.contains(&address)
    }

    fn ask(&self) -> rustix::io::Result<Vec<IpAddr>> {
        let mut list = Vec::new();
        let mut request = Request::new(RTM_GETADDR, &[0; IFADDR_LEN]);
        Netlink::open(ROUTE)?.dump(&mut request, |message| {
            apply(&mut list, self.interface, &message);
        })?;
        Ok(list)
    }

    /// Reads what the kernel has announced; true if the list changed.
    pub fn update(&mut self) -> rustix::io::Result<bool> {
        let before = self.list.clone();
        let (interface, list) = (self.interface, &mut self.list);
        let notified = self
            .notifications
            .notifications(|message| apply(list, interface, &message))?;
        if notified == Notified::Overrun {
            self.list = self.ask()?;
        }
        Ok(self.list != before)
    }
}

impl AsFd for Addresses {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }
}

fn apply(list: &mut Vec<IpAddr>, interface: u32, message: &super::netlink::Message<'_>) {
    if message.kind != RTM_NEWADDR && message.kind != RTM_DELADDR {
        return;
    }
    let Some((info, attributes)) = message.split::<IFADDR_LEN>() else {
        return;
    };
    if u32_at(info, 4) != Some(interface) {
        return;
    }
    // IFA_LOCAL is ours on point-to-point links, where IFA_ADDRESS is the other end.
    let own = attributes.find(IFA_LOCAL).or(attributes.find(IFA_ADDRESS));
    let Some(address) = own.and_then(address_of) else {
        return;
    };
    let flags = attributes
        .find(IFA_FLAGS)
        .and_then(|value| u32_at(value, 0))
        .unwrap_or(u32::from(info[2]));
    let usable = message.kind == RTM_NEWADDR && flags & IFA_F_UNUSABLE == 0;
    // The kernel also tells of an address whose lifetime goes on, with each router advertisement: that is no
    // change.
    match list.iter().position(|&known| known == address) {
        Some(place) if !usable => {
            list.remove(place);
        }
        None if usable => list.push(address),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_addresses_where_it_is_up() {
        let addresses = Addresses::of_interface(1).expect("netlink answers");
        // A fresh network namespace has lo down and without addresses: then there is none to find.
        assert!(addresses.list().iter().all(IpAddr::is_loopback));
    }
}
