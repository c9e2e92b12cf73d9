//! Does what the opener is asked for: here, or in its process.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use netdev::cgroup;
use netdev::interface::VlanTags;
use netdev::xdp;
use rustix::io::{Errno, Result};

use super::words::{Dump, Operation};
use crate::slow::kernel::neighbours::{Knowledge, Neighbours};
use crate::slow::kernel::netlink::{self, NETFILTER, NFTABLES, Netlink};
use crate::slow::kernel::xfrm;

const GETTABLE: u16 = NFTABLES | 1;
const GETCHAIN: u16 = NFTABLES | 4;
const GETRULE: u16 = NFTABLES | 7;
const GETSET: u16 = NFTABLES | 10;
const GETSETELEM: u16 = NFTABLES | 13;
/// The number of the rules' last change.
const GETGEN: u16 = NFTABLES | 16;
const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
/// Length of `struct nfgenmsg`, which begins with the family.
const GENMSG_LEN: usize = 4;
/// `NFNLGRP_NFTABLES`, as a mask.
const NFTABLES_GROUP: u32 = 1 << 6;

/// Begins a dump, on a socket by which a large message has been received before: the kernel makes room in an answer as
/// for those that were, and ends a dump, without a word, whose first entry finds none.
fn begin_dump(request: &mut netlink::RequestMessage) -> Result<Done> {
    let mut first = netlink::RequestMessage::new(GETGEN, &[0; GENMSG_LEN]);
    Netlink::begin_dump(NETFILTER, &mut first, request).map(Done::from)
}

/// What comes of an operation.
#[derive(Debug, Default)]
pub struct Done {
    /// The descriptor that was asked for.
    pub fd: Option<OwnedFd>,
    /// What there is to tell.
    pub told: Vec<u8>,
}

impl From<OwnedFd> for Done {
    fn from(fd: OwnedFd) -> Self {
        let fd = Some(fd);
        Self {
            fd,
            ..Self::default()
        }
    }
}

/// So many neighbours are probed at once, and so many in a second after that: each may make an entry in a table that all
/// networks of the machine share.
const PROBES: f64 = 512.0;

/// What may be probed still.
#[derive(Debug)]
struct Bucket {
    left: f64,
    as_of: Option<Instant>,
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            left: PROBES,
            as_of: None,
        }
    }
}

impl Bucket {
    fn take(&mut self, now: Instant) -> Result<()> {
        let since = self.as_of.replace(now).unwrap_or(now);
        let since = now.saturating_duration_since(since).as_secs_f64();
        self.left = (self.left + since * PROBES).min(PROBES);
        if self.left < 1.0 {
            return Err(Errno::BUSY);
        }
        self.left -= 1.0;
        Ok(())
    }
}

/// Who does it.
#[derive(Debug, Default)]
pub struct Doer {
    /// By the indices of their interfaces.
    neighbours: Vec<(u32, Neighbours)>,
    /// The same; without those whose devices cannot be asked.
    tags: Vec<(u32, VlanTags)>,
    probes: Bucket,
}

impl Doer {
    /// For the interfaces with these indices.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn of(interfaces: &[u32]) -> Result<Self> {
        let each = interfaces.iter().map(|index| {
            let neighbours = Neighbours::on_interface(*index)?;
            Ok((*index, neighbours))
        });
        let neighbours = each.collect::<Result<_>>()?;
        let tags = interfaces
            .iter()
            .filter_map(|index| Some((*index, VlanTags::of_index(*index).ok()?)));
        Ok(Self {
            neighbours,
            tags: tags.collect(),
            ..Self::default()
        })
    }

    /// Does what is asked for, with the descriptor that came along.
    ///
    /// # Errors
    /// The kernel's.
    pub fn perform(&mut self, operation: &Operation, came: Option<BorrowedFd<'_>>) -> Result<Done> {
        match operation {
            Operation::Probe { interface, address } => {
                let address = *address;
                let neighbours = self.on(*interface)?;
                // A permanent entry would become one like others, whose neighbour is asked.
                if !matches!(
                    neighbours.ask(address)?,
                    Knowledge::Resolved { stale: false, .. }
                ) {
                    self.probes.take(Instant::now())?;
                    self.on(*interface)?.probe(address)?;
                }
                Ok(Done::default())
            }
            Operation::Confirm {
                interface,
                address,
                mac,
            } => {
                let neighbours = self.on(*interface)?;
                match neighbours.ask(*address)? {
                    Knowledge::Resolved { mac: has, stale } if has == *mac => {
                        if stale {
                            neighbours.confirm(*address)?;
                        }
                        Ok(Done::default())
                    }
                    // Who is believed about this could say who an address is.
                    _ => Err(Errno::ACCESS),
                }
            }
            Operation::Alive => Ok(Done::default()),
            Operation::Socket => xdp::new_socket().map(Done::from).map_err(|error| {
                tracing::debug!(%error, "no AF_XDP socket");
                match error {
                    xdp::OpenError::NotPermitted => Errno::PERM,
                    xdp::OpenError::NoKernelSupport => Errno::AFNOSUPPORT,
                    _ => Errno::NFILE,
                }
            }),
            Operation::Rules(what) => {
                let number = match what {
                    Dump::Tables => GETTABLE,
                    Dump::Chains => GETCHAIN,
                    Dump::Rules => GETRULE,
                    Dump::Sets => GETSET,
                };
                let mut request = netlink::RequestMessage::new(number, &[0; GENMSG_LEN]);
                begin_dump(&mut request)
            }
            Operation::Elements { family, table, set } => {
                let mut request = netlink::RequestMessage::new(GETSETELEM, &[*family, 0, 0, 0]);
                let with_end = |name: &str| [name.as_bytes(), &[0]].concat();
                request
                    .attribute(NFTA_SET_ELEM_LIST_TABLE, &with_end(table))
                    .attribute(NFTA_SET_ELEM_LIST_SET, &with_end(set));
                begin_dump(&mut request)
            }
            Operation::RuleChanges => {
                let hears = Netlink::subscribe(NETFILTER, NFTABLES_GROUP)?;
                Ok(OwnedFd::from(hears).into())
            }
            Operation::VlanTags { interface, strip } => {
                let mut tags = self.tags.iter();
                let of = tags.find(|(index, _)| index == interface);
                let (_, tags) = of.ok_or(Errno::OPNOTSUPP)?;
                tags.strip(*strip)
                    .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::OPNOTSUPP))?;
                Ok(Done::default())
            }
            Operation::Policies => Ok(Done {
                fd: None,
                told: vec![xfrm::has_policies()?.into()],
            }),
            Operation::PolicyChanges => Ok(Done {
                fd: xfrm::changes()?,
                told: Vec::new(),
            }),
            Operation::Hooks => {
                let hooks = cgroup::hooks(came.ok_or(Errno::BADF)?);
                let hooks = hooks
                    .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::OPNOTSUPP))?;
                let told = cgroup::Hook::encode(&hooks);
                Ok(Done { fd: None, told })
            }
        }
    }

    fn on(&mut self, interface: u32) -> Result<&mut Neighbours> {
        let mut all = self.neighbours.iter_mut();
        let of = all.find(|(index, _)| *index == interface);
        of.map(|(_, neighbours)| neighbours).ok_or(Errno::ACCESS)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn neighbours_are_probed_so_often_and_no_more() {
        let mut bucket = Bucket::default();
        let begin = Instant::now();
        for _ in 0..512 {
            bucket.take(begin).expect("at once");
        }
        assert_eq!(bucket.take(begin), Err(Errno::BUSY));
        let later = begin + Duration::from_millis(500);
        for _ in 0..256 {
            bucket.take(later).expect("again");
        }
        assert_eq!(bucket.take(later), Err(Errno::BUSY));
        // A clock that goes back gives nothing.
        assert_eq!(bucket.take(begin), Err(Errno::BUSY));
    }
}
