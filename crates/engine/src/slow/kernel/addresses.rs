//! The interface's own addresses: what a wildcard listener stands for, and what a connection may
//! be opened from.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::netlink::{A_MOMENT, Netlink, Notified, ROUTE, RequestMessage, address_of, u32_at};

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
/// What is kept of what is told while a question is under way.
const MOST: usize = 1024;
/// Length of `struct ifaddrmsg`.
const IFADDR_LEN: usize = 8;

/// The addresses of one interface, kept true by the kernel's notifications.
#[derive(Debug)]
pub struct Addresses {
    interface: u32,
    notifications: Netlink,
    list: Vec<IpAddr>,
    /// The number of the question that counts, if one is under way, and what was told since.
    question: Option<(u32, Vec<Told>)>,
    /// That of the last one.
    number: u32,
}

/// An address has come, or has gone.
#[derive(Debug, Clone, Copy)]
struct Told {
    address: IpAddr,
    usable: bool,
}

impl Addresses {
    /// Subscribes, then asks for what is there, so that no change falls in between.
    pub fn of_interface(interface: u32) -> rustix::io::Result<Self> {
        Ok(Self {
            interface,
            // First, so that the list is not older.
            notifications: Netlink::subscribe(ROUTE, GROUPS)?,
            list: ask(interface)?,
            question: None,
            number: 0,
        })
    }

    /// The usable addresses, in no particular order.
    pub fn list(&self) -> &[IpAddr] {
        &self.list
    }

    /// Whether `address` is the interface's own.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.list.contains(&address)
    }

    /// Reads what the kernel has announced: whether the list changed, and the number of the question that is to be
    /// [answered](Self::answered) if some was lost.
    pub fn update(&mut self) -> rustix::io::Result<(bool, Option<u32>)> {
        let mut changed = false;
        let (interface, list, question) = (self.interface, &mut self.list, &mut self.question);
        let notified = self.notifications.notifications(A_MOMENT, |message| {
            let Some(told) = told(interface, &message) else {
                return;
            };
            changed |= apply(list, told);
            if let Some((_, since)) = question {
                since.push(told);
                if since.len() > MOST {
                    // As if more had been lost.
                    *question = None;
                }
            }
        })?;
        let asks = (notified == Notified::Overrun).then(|| self.asks());
        Ok((changed, asks))
    }

    /// The same for who may wait: there is nothing left to be answered.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn update_and_ask(&mut self) -> rustix::io::Result<()> {
        if let (_, Some(question)) = self.update()? {
            // Nothing was told since: it is not read in between.
            let _ = self.answered(question, ask(self.interface)?);
        }
        Ok(())
    }

    /// The number of a new question, in place of any other.
    fn asks(&mut self) -> u32 {
        self.number = self.number.wrapping_add(1);
        self.question = Some((self.number, Vec::new()));
        self.number
    }

    /// The list, to the question of this number: whether that is news. `Err`: the number of the question to be
    /// asked instead, since more was told meanwhile than is kept.
    pub fn answered(&mut self, question: u32, mut list: Vec<IpAddr>) -> Result<bool, u32> {
        if question != self.number {
            return Ok(false);
        }
        let Some((_, since)) = self.question.take() else {
            return Err(self.asks());
        };
        // Whether the answer is older than these or not, they are what holds of their addresses.
        for told in since {
            apply(&mut list, told);
        }
        let same = list.len() == self.list.len() && list.iter().all(|it| self.contains(*it));
        self.list = list;
        Ok(!same)
    }
}

/// Asks for the usable addresses of an interface. It may wait for the kernel's lock.
///
/// # Errors
/// The kernel does not say.
pub fn ask(interface: u32) -> rustix::io::Result<Vec<IpAddr>> {
    let mut list = Vec::new();
    let mut request = RequestMessage::new(RTM_GETADDR, &[0; IFADDR_LEN]);
    Netlink::open(ROUTE)?.dump(&mut request, |message| {
        if let Some(told) = told(interface, &message) {
            apply(&mut list, told);
        }
    })?;
    Ok(list)
}

impl AsFd for Addresses {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }
}

fn told(interface: u32, message: &super::netlink::Message<'_>) -> Option<Told> {
    if message.kind != RTM_NEWADDR && message.kind != RTM_DELADDR {
        return None;
    }
    let (info, attributes) = message.split::<IFADDR_LEN>()?;
    if u32_at(info, 4) != Some(interface) {
        return None;
    }
    // IFA_LOCAL is ours on point-to-point links, where IFA_ADDRESS is the other end.
    let own = attributes.find(IFA_LOCAL).or(attributes.find(IFA_ADDRESS));
    let address = own.and_then(address_of)?;
    let flags = attributes
        .find(IFA_FLAGS)
        .and_then(|value| u32_at(value, 0))
        .unwrap_or(u32::from(info[2]));
    let usable = message.kind == RTM_NEWADDR && flags & IFA_F_UNUSABLE == 0;
    Some(Told { address, usable })
}

/// Whether that changes the list. The kernel also tells of an address whose lifetime goes on, with each router
/// advertisement: that is no change.
fn apply(list: &mut Vec<IpAddr>, Told { address, usable }: Told) -> bool {
    let place = list.iter().position(|&known| known == address);
    match place {
        Some(place) if !usable => {
            list.remove(place);
        }
        None if usable => list.push(address),
        _ => return false,
    }
    true
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

    #[test]
    fn an_answer_holds_but_for_what_was_told_since() {
        let at = |last: u8| IpAddr::from([192, 0, 2, last]);
        let mut addresses = Addresses::of_interface(1).expect("netlink answers");
        addresses.list = vec![at(1), at(2)];
        let old = addresses.asks();
        let question = addresses.asks();
        assert_eq!(addresses.answered(old, vec![]), Ok(false), "asked again");
        let tells = |addresses: &mut Addresses, last, usable| {
            let address = at(last);
            let told = Told { address, usable };
            apply(&mut addresses.list, told);
            let (_, since) = addresses.question.as_mut().expect("asked");
            since.push(told);
        };
        tells(&mut addresses, 2, false);
        tells(&mut addresses, 3, true);
        // The kernel had lost the first, and answered before or after the others.
        for (list, is_news) in [(vec![at(2), at(4)], true), (vec![at(4), at(3)], false)] {
            let question = match is_news {
                true => question,
                false => addresses.asks(),
            };
            assert_eq!(addresses.answered(question, list), Ok(is_news));
            let mut list = addresses.list().to_vec();
            list.sort();
            assert_eq!(list, [at(3), at(4)]);
        }
        // More was told than is kept.
        let question = addresses.asks();
        addresses.question = None;
        let again = addresses.answered(question, vec![]);
        assert_eq!(again, Err(question + 1));
        assert_eq!(addresses.list().len(), 2);
        assert_eq!(addresses.answered(question + 1, vec![]), Ok(true));
    }
}
