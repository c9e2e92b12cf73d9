//! What the opener is asked, and what of that it refuses. All requests have one length, and are judged before
//! anything is done for them.

use std::net::{IpAddr, Ipv6Addr};

use rustix::io::{Errno, Result};
use wire::ethernet::MacAddr;

/// Bytes of a name, with the zero that ends it: what nf_tables allows.
const NAME: usize = 256;
const NUMBER: usize = 2;
const INTERFACE: usize = NUMBER + 2;
const ADDRESS: usize = INTERFACE + 4;
const MAC: usize = ADDRESS + 16;
const TABLE: usize = MAC + 8;
const SET: usize = TABLE + NAME;
/// Bytes of a request.
pub const LEN: usize = SET + NAME;

/// What of nf_tables is dumped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dump {
    /// The tables.
    Tables,
    /// The chains of all.
    Chains,
    /// Their rules.
    Rules,
    /// Their sets, without the elements.
    Sets,
}

impl Dump {
    const ALL: [Self; 4] = [Self::Tables, Self::Chains, Self::Rules, Self::Sets];
}

/// What a request asks for: an operation that takes a privilege.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Have the kernel resolve a neighbour on one of the interfaces, or probe it.
    Probe {
        /// The interface's index.
        interface: u32,
        /// The neighbour.
        address: IpAddr,
    },
    /// Tell the kernel that a neighbour answers from where the kernel has it.
    Confirm {
        /// The interface's index.
        interface: u32,
        /// The neighbour.
        address: IpAddr,
        /// Where it was heard from.
        mac: MacAddr,
    },
    /// An AF_XDP socket that is bound to nothing.
    Socket,
    /// A socket with a dump of nf_tables that has begun.
    Rules(Dump),
    /// The same of a set's elements.
    Elements {
        /// The family of its table.
        family: u8,
        /// Its table.
        table: String,
        /// Its name.
        set: String,
    },
    /// A socket that hears when rules change.
    RuleChanges,
    /// The programs of a cgroup, whose directory comes along.
    Hooks,
    /// Only an answer.
    Alive,
    /// Whether IPsec has policies.
    Policies,
    /// A socket that hears when those change; none where there can be none.
    PolicyChanges,
    /// Have the device of one of the interfaces take the tags of VLANs off, or leave them on.
    VlanTags {
        /// The interface's index.
        interface: u32,
        /// They are to be taken off.
        strip: bool,
    },
}

/// The number of a request; 0 of what is none.
pub fn number(bytes: &[u8]) -> u16 {
    let number = bytes.get(NUMBER..INTERFACE).unwrap_or_default();
    number.try_into().map_or(0, u16::from_ne_bytes)
}

impl Operation {
    /// As it travels, with a number by which its answer is known.
    ///
    /// # Errors
    /// `NAMETOOLONG`: nf_tables has no such name.
    pub fn encode(&self, number: u16) -> Result<[u8; LEN]> {
        let mut bytes = [0; LEN];
        bytes[NUMBER..INTERFACE].copy_from_slice(&number.to_ne_bytes());
        match self {
            Self::Probe { interface, address } => put_neighbour(&mut bytes, *interface, *address),
            Self::Confirm {
                interface,
                address,
                mac,
            } => {
                put_neighbour(&mut bytes, *interface, *address);
                bytes[MAC..MAC + 6].copy_from_slice(&mac.0);
            }
            Self::Rules(what) => bytes[1] = *what as u8,
            Self::Elements { family, table, set } => {
                bytes[1] = *family;
                put_name(&mut bytes[TABLE..SET], table)?;
                put_name(&mut bytes[SET..], set)?;
            }
            Self::VlanTags { interface, strip } => {
                bytes[1] = (*strip).into();
                bytes[INTERFACE..ADDRESS].copy_from_slice(&interface.to_ne_bytes());
            }
            Self::Socket
            | Self::RuleChanges
            | Self::Hooks
            | Self::Alive
            | Self::Policies
            | Self::PolicyChanges => {}
        }
        bytes[0] = match self {
            Self::Probe { .. } => 1,
            Self::Confirm { .. } => 2,
            Self::Socket => 3,
            Self::Rules(_) => 4,
            Self::Elements { .. } => 5,
            Self::RuleChanges => 6,
            Self::Hooks => 7,
            Self::Alive => 8,
            Self::Policies => 9,
            Self::PolicyChanges => 10,
            Self::VlanTags { .. } => 11,
        };
        Ok(bytes)
    }

    /// What is asked, if whoever was told of these interfaces does it.
    ///
    /// # Errors
    /// `BADMSG`: it is no request. `ACCESS`: the interface is none of those. `INVAL`: nobody has such an address
    /// to himself (multicast, unspecified, loopback, limited broadcast).
    pub fn judge(bytes: &[u8], interfaces: &[u32]) -> Result<Self> {
        let bytes: &[u8; LEN] = bytes.try_into().map_err(|_| Errno::BADMSG)?;
        Ok(match bytes[0] {
            1 => {
                let (interface, address) = neighbour(bytes, interfaces)?;
                Self::Probe { interface, address }
            }
            2 => {
                let (interface, address) = neighbour(bytes, interfaces)?;
                let mac = bytes[MAC..MAC + 6].try_into().map_err(|_| Errno::BADMSG)?;
                let mac = MacAddr(mac);
                Self::Confirm {
                    interface,
                    address,
                    mac,
                }
            }
            3 => Self::Socket,
            4 => {
                let what = Dump::ALL.into_iter().find(|it| *it as u8 == bytes[1]);
                Self::Rules(what.ok_or(Errno::BADMSG)?)
            }
            5 => Self::Elements {
                family: bytes[1],
                table: name(&bytes[TABLE..SET])?,
                set: name(&bytes[SET..])?,
            },
            6 => Self::RuleChanges,
            7 => Self::Hooks,
            8 => Self::Alive,
            9 => Self::Policies,
            10 => Self::PolicyChanges,
            11 => Self::VlanTags {
                interface: one_of(bytes, interfaces)?,
                strip: bytes[1] != 0,
            },
            _ => return Err(Errno::BADMSG),
        })
    }
}

fn put_neighbour(bytes: &mut [u8; LEN], interface: u32, address: IpAddr) {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    bytes[INTERFACE..ADDRESS].copy_from_slice(&interface.to_ne_bytes());
    bytes[ADDRESS..MAC].copy_from_slice(&address.octets());
}

/// Which of the interfaces it is about.
fn one_of(bytes: &[u8; LEN], interfaces: &[u32]) -> Result<u32> {
    let interface = bytes[INTERFACE..ADDRESS]
        .try_into()
        .map_err(|_| Errno::BADMSG)?;
    let interface = u32::from_ne_bytes(interface);
    match interfaces.contains(&interface) {
        true => Ok(interface),
        false => Err(Errno::ACCESS),
    }
}

fn neighbour(bytes: &[u8; LEN], interfaces: &[u32]) -> Result<(u32, IpAddr)> {
    let interface = one_of(bytes, interfaces)?;
    let address: [u8; 16] = bytes[ADDRESS..MAC].try_into().map_err(|_| Errno::BADMSG)?;
    let address = IpAddr::V6(Ipv6Addr::from(address)).to_canonical();
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() || is_broadcast {
        return Err(Errno::INVAL);
    }
    Ok((interface, address))
}

fn put_name(place: &mut [u8], name: &str) -> Result<()> {
    let room = place.get_mut(..name.len()).filter(|_| name.len() < NAME);
    room.ok_or(Errno::NAMETOOLONG)?
        .copy_from_slice(name.as_bytes());
    Ok(())
}

fn name(place: &[u8]) -> Result<String> {
    let name = std::ffi::CStr::from_bytes_until_nul(place).map_err(|_| Errno::BADMSG)?;
    let name = name.to_str().map_err(|_| Errno::BADMSG)?;
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [u32; 2] = [3, 7];

    fn of(interface: u32, address: &str) -> Operation {
        let address = address.parse().expect("an address");
        Operation::Probe { interface, address }
    }

    fn judged(operation: &Operation) -> Result<Operation> {
        Operation::judge(&operation.encode(7)?, &OURS)
    }

    #[test]
    fn what_is_asked_of_what_is_configured_is_done() {
        let address = "10.1.2.3".parse().expect("an address");
        let all = [
            of(3, "10.1.2.3"),
            of(7, "fe80::1"),
            Operation::Confirm {
                interface: 7,
                address,
                mac: MacAddr([2, 0, 0, 0, 0, 9]),
            },
            Operation::Socket,
            Operation::Rules(Dump::Tables),
            Operation::Rules(Dump::Sets),
            Operation::Elements {
                family: 1,
                table: "filter".to_owned(),
                set: "n".repeat(255),
            },
            Operation::RuleChanges,
            Operation::Hooks,
            Operation::Alive,
            Operation::Policies,
            Operation::PolicyChanges,
            Operation::VlanTags {
                interface: 7,
                strip: true,
            },
            Operation::VlanTags {
                interface: 3,
                strip: false,
            },
        ];
        for (operation, its) in all.into_iter().zip(0xfe_u16..) {
            let bytes = operation.encode(its).expect("short");
            assert_eq!(number(&bytes), its);
            assert_eq!(judged(&operation), Ok(operation));
        }
        assert_eq!(number(&[1, 0, 9]), 0);
    }

    #[test]
    fn what_is_outside_of_the_configuration_is_refused() {
        for interface in [0, 1, 4, u32::MAX] {
            assert_eq!(judged(&of(interface, "10.1.2.3")), Err(Errno::ACCESS));
            let confirm = Operation::Confirm {
                interface,
                address: "fe80::1".parse().expect("an address"),
                mac: MacAddr([0; 6]),
            };
            assert_eq!(judged(&confirm), Err(Errno::ACCESS));
            let strip = true;
            let tags = Operation::VlanTags { interface, strip };
            assert_eq!(judged(&tags), Err(Errno::ACCESS));
        }
        let nothing = Operation::judge(&of(3, "10.1.2.3").encode(7).expect("short"), &[]);
        assert_eq!(nothing, Err(Errno::ACCESS));
        let strange = ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "127.0.0.1", "::1"];
        for address in strange.into_iter().chain(["255.255.255.255"]) {
            assert_eq!(judged(&of(3, address)), Err(Errno::INVAL), "{address}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let one = of(3, "10.1.2.3").encode(7).expect("short");
        for len in [0, 1, LEN - 1] {
            assert_eq!(Operation::judge(&one[..len], &OURS), Err(Errno::BADMSG));
        }
        let long = [&one[..], &[0]].concat();
        assert_eq!(Operation::judge(&long, &OURS), Err(Errno::BADMSG));
        for kind in (0..=u8::MAX).filter(|kind| !(1..=11).contains(kind)) {
            let mut bytes = [0; LEN];
            bytes[0] = kind;
            assert_eq!(Operation::judge(&bytes, &OURS), Err(Errno::BADMSG));
        }
        let mut dump = Operation::Rules(Dump::Sets).encode(7).expect("short");
        dump[1] = 4;
        assert_eq!(Operation::judge(&dump, &OURS), Err(Errno::BADMSG));
        // A name that does not end, one that is no text, and one that no table has.
        let mut elements = [b'n'; LEN];
        elements[0] = 5;
        assert_eq!(Operation::judge(&elements, &OURS), Err(Errno::BADMSG));
        elements = [0; LEN];
        (elements[0], elements[TABLE]) = (5, 0xff);
        assert_eq!(Operation::judge(&elements, &OURS), Err(Errno::BADMSG));
        let set = "n".repeat(256);
        let (family, table) = (1, String::new());
        let long = Operation::Elements { family, table, set };
        assert_eq!(long.encode(7), Err(Errno::NAMETOOLONG));
    }
}
