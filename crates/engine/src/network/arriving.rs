//! Leased ports on addresses that come and go: steered, or no longer, a few at a time. An interface may get
//! an address while thousands of ports are leased, and each of them on it is an entry of its own.

use std::collections::VecDeque;
use std::net::IpAddr;

/// An address whose leased ports are not yet as they are to be.
#[derive(Debug)]
struct Change {
    address: IpAddr,
    /// The ports that are left to do.
    ports: Vec<u16>,
    /// It has come; otherwise it has gone.
    come: bool,
}

/// One step: steer this port of this address if it has come, and leave it to the kernel if it has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub address: IpAddr,
    pub port: u16,
    pub come: bool,
}

/// What is left to do.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    changes: VecDeque<Change>,
    /// Addresses of which no leased port is steered: there is no room for all.
    without: Vec<IpAddr>,
}

impl Arriving {
    /// An address has come, or gone. In place of what was left to do of it before.
    pub fn add(&mut self, address: IpAddr, ports: impl Iterator<Item = u16>, come: bool) {
        self.forget(address);
        let ports: Vec<u16> = ports.collect();
        if !ports.is_empty() {
            let change = Change {
                address,
                ports,
                come,
            };
            self.changes.push_back(change);
        }
    }

    /// An address has come for whose ports there is no room.
    pub fn go_without(&mut self, address: IpAddr) {
        self.forget(address);
        self.without.push(address);
    }

    fn forget(&mut self, address: IpAddr) {
        self.changes.retain(|change| change.address != address);
        self.without.retain(|known| *known != address);
    }

    /// Whether connections can be opened from an address: answers to any leased port come to the engine.
    pub fn is_settled(&self, address: IpAddr) -> bool {
        !self.without.contains(&address)
            && !self.changes.iter().any(|change| change.address == address)
    }

    /// Whether nothing is steered on an address.
    pub fn goes_without(&self, address: IpAddr) -> bool {
        self.without.contains(&address)
    }

    /// The next step.
    pub fn step(&mut self) -> Option<Step> {
        let change = self.changes.front_mut()?;
        let (address, come) = (change.address, change.come);
        let port = change.ports.pop();
        if change.ports.is_empty() {
            self.changes.pop_front();
        }
        port.map(|port| Step {
            address,
            port,
            come,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn an_address_is_settled_when_all_of_its_ports_are() {
        let mut arriving = Arriving::default();
        arriving.add(address(1), [7, 8].into_iter(), true);
        arriving.add(address(2), std::iter::empty(), true);
        assert!(!arriving.is_settled(address(1)) && arriving.is_settled(address(2)));
        let steps = [8, 7].map(|port| Step {
            address: address(1),
            port,
            come: true,
        });
        assert_eq!(arriving.step(), Some(steps[0]));
        assert!(!arriving.is_settled(address(1)));
        assert_eq!(arriving.step(), Some(steps[1]));
        assert!(arriving.is_settled(address(1)));
        assert_eq!(arriving.step(), None);
    }

    #[test]
    fn what_comes_back_does_not_go() {
        let mut arriving = Arriving::default();
        arriving.add(address(1), [7, 8].into_iter(), false);
        arriving.add(address(1), [9].into_iter(), true);
        let only = Step {
            address: address(1),
            port: 9,
            come: true,
        };
        assert_eq!((arriving.step(), arriving.step()), (Some(only), None));
        arriving.go_without(address(1));
        assert!(!arriving.is_settled(address(1)) && arriving.goes_without(address(1)));
        arriving.add(address(1), std::iter::empty(), true);
        assert!(arriving.is_settled(address(1)));
    }
}
