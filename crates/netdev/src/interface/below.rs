//! What an interface stands on: a VLAN's device on another interface, a bond on its members.

use std::io;

use super::Interface;
use super::netlink::{describe, find_all};

const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINK_NETNSID: u16 = 37;

/// What is below an interface.
enum Below {
    /// No other interface.
    Hardware,
    /// These, by their names.
    Interfaces(Vec<String>),
    /// One in another network, of which nothing can be said here.
    Elsewhere,
}

impl Interface {
    pub(super) fn stands_on_partial_checksums(&self) -> bool {
        match Below::of(self) {
            Ok(Below::Interfaces(names)) => names
                .iter()
                .any(|name| Self::find(name).is_ok_and(|below| below.delivers_partial_checksums())),
            Ok(Below::Elsewhere) => true,
            Ok(Below::Hardware) | Err(_) => false,
        }
    }
}

impl Below {
    /// What is below the interface that has this index.
    fn of(interface: &Interface) -> io::Result<Self> {
        let index = interface.index;
        let description = describe(index)?;
        if description.attribute(IFLA_LINK_NETNSID).is_some() {
            return Ok(Self::Elsewhere);
        }
        // What stands on nothing is said to stand on itself.
        match description.number(IFLA_LINK) {
            Some(below) if below != 0 && below != index => {
                let below = describe(below)?.name();
                Ok(Self::Interfaces(below.into_iter().collect()))
            }
            _ => {
                let members = find_all(|member| member.number(IFLA_MASTER) == Some(index))?;
                Ok(match members.is_empty() {
                    true => Self::Hardware,
                    false => Self::Interfaces(members),
                })
            }
        }
    }
}
