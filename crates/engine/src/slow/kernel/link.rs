//! The interface itself: whether it is up, its hardware address, its MTU, and that it is still there.

use std::os::fd::{AsFd, BorrowedFd};

use wire::ethernet::MacAddr;

use super::netlink::{A_MOMENT, Message, Netlink, Notified, ROUTE, RequestMessage, u32_at};

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const IFLA_ADDRESS: u16 = 1;
const IFLA_MTU: u16 = 4;
const IFF_UP: u32 = 1;
const IFF_LOWER_UP: u32 = 0x1_0000;
/// `RTMGRP_LINK`.
const GROUPS: u32 = 1;
/// Length of `struct ifinfomsg`.
const IFINFO_LEN: usize = 16;

/// What the kernel says of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// Its hardware address.
    pub mac: MacAddr,
    /// Bytes of the largest IP packet that it carries.
    pub mtu: u32,
    /// It is up, and has a carrier: the kernel sends by it.
    pub up: bool,
}

/// Whether the kernel sends by an interface with these flags. Not only by one that is said to run (IFF_RUNNING): one
/// that waits to be let in by 802.1X ("dormant") is not, and has a carrier.
const fn sends(flags: u32) -> bool {
    flags & IFF_UP != 0 && flags & IFF_LOWER_UP != 0
}

/// One interface, kept true by the kernel's notifications.
#[derive(Debug)]
pub struct Link {
    interface: u32,
    notifications: Netlink,
    state: Option<LinkState>,
    /// The number of the question that counts, if one is under way: nothing was told since.
    question: Option<u32>,
    /// That of the last one.
    number: u32,
}

impl Link {
    /// Subscribes, then asks, so that no change falls in between.
    pub fn of_interface(interface: u32) -> rustix::io::Result<Self> {
        let notifications = Netlink::subscribe(ROUTE, GROUPS)?;
        Ok(Self {
            interface,
            notifications,
            state: ask(interface)?,
            question: None,
            number: 0,
        })
    }

    /// What it is like; `None` if it is gone.
    pub fn state(&self) -> Option<LinkState> {
        self.state
    }

    /// Reads what the kernel has announced: whether anything of it changed, and the number of the question that is
    /// to be [answered](Self::answered) if some was lost.
    pub fn update(&mut self) -> rustix::io::Result<(bool, Option<u32>)> {
        let before = self.state;
        let (interface, state, question) = (self.interface, &mut self.state, &mut self.question);
        let notified = self.notifications.notifications(A_MOMENT, |message| {
            if apply(state, interface, &message) {
                // Each tells all that there is to know.
                *question = None;
            }
        })?;
        let asks = (notified == Notified::Overrun).then(|| {
            self.number = self.number.wrapping_add(1);
            self.question = Some(self.number);
            self.number
        });
        Ok((self.state != before, asks))
    }

    /// What it is like, to the question of this number; true if that is news.
    pub fn answered(&mut self, question: u32, state: Option<LinkState>) -> bool {
        if self.question != Some(question) {
            return false;
        }
        self.question = None;
        core::mem::replace(&mut self.state, state) != state
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }
}

/// Asks what an interface is like now. It may wait for the kernel's lock.
///
/// # Errors
/// The kernel does not say.
pub fn ask(interface: u32) -> rustix::io::Result<Option<LinkState>> {
    let mut header = [0; IFINFO_LEN];
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
    let mut request = RequestMessage::new(RTM_GETLINK, &header);
    let mut state = None;
    let answer = Netlink::open(ROUTE)?.ask(&mut request, 0, |message| {
        apply(&mut state, interface, &message);
    });
    match answer {
        Ok(()) => Ok(state),
        Err(rustix::io::Errno::NODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a message says what the interface is like, which is known then.
fn apply(state: &mut Option<LinkState>, interface: u32, message: &Message<'_>) -> bool {
    if message.kind != RTM_NEWLINK && message.kind != RTM_DELLINK {
        return false;
    }
    let Some((info, attributes)) = message.split::<IFINFO_LEN>() else {
        return false;
    };
    // Bridges speak of their ports in the same messages, in a family of their own.
    if info[0] != 0 || u32_at(info, 4) != Some(interface) {
        return false;
    }
    if message.kind == RTM_DELLINK {
        *state = None;
        return true;
    }
    let flags = u32_at(info, 8).unwrap_or(0);
    let mac = attributes
        .find(IFLA_ADDRESS)
        .and_then(|value| <[u8; 6]>::try_from(value).ok());
    let mtu = attributes.find(IFLA_MTU).and_then(|value| u32_at(value, 0));
    let (Some(mac), Some(mtu)) = (mac, mtu) else {
        return false;
    };
    *state = Some(LinkState {
        mac: MacAddr(mac),
        mtu,
        up: sends(flags),
    });
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there_and_another_number_is_not() {
        let link = Link::of_interface(1).expect("netlink answers");
        let state = link.state().expect("every namespace has a loopback");
        assert_eq!(state.mac, MacAddr([0; 6]));
        assert!(state.mtu >= 1500);
        let none = Link::of_interface(0x7fff_0000).expect("netlink answers");
        assert_eq!(none.state(), None);
    }

    #[test]
    fn the_kernel_sends_where_there_is_a_carrier() {
        const IFF_RUNNING: u32 = 0x40;
        const IFF_DORMANT: u32 = 0x2_0000;
        assert!(sends(IFF_UP | IFF_RUNNING | IFF_LOWER_UP));
        assert!(sends(IFF_UP | IFF_LOWER_UP | IFF_DORMANT));
        assert!(!sends(IFF_UP) && !sends(IFF_LOWER_UP));
    }

    #[test]
    fn an_answer_counts_unless_something_was_told_or_asked_since() {
        let mut link = Link::of_interface(1).expect("netlink answers");
        let there = link.state();
        assert!(!link.answered(7, None), "nobody has asked");
        link.question = Some(8);
        assert!(!link.answered(7, None), "it was asked again");
        assert!(link.answered(8, None));
        assert_eq!(link.state(), None);
        link.question = Some(9);
        assert!(link.answered(9, there) && !link.answered(9, None));
        assert_eq!(link.state(), there);
    }
}
