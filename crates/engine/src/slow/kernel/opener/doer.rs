//! Does what the opener is asked for: here, or in its process.

use std::os::fd::{BorrowedFd, OwnedFd};

use netdev::cgroup;
use netdev::xdp;
use rustix::io::{Errno, Result};

use super::words::{Dump, Request};
use crate::slow::kernel::neighbours::Neighbours;
use crate::slow::kernel::netlink::{self, NETFILTER, Netlink};

const NFNL_SUBSYS_NFTABLES: u16 = 10 << 8;
const GETTABLE: u16 = NFNL_SUBSYS_NFTABLES | 1;
const GETCHAIN: u16 = NFNL_SUBSYS_NFTABLES | 4;
const GETRULE: u16 = NFNL_SUBSYS_NFTABLES | 7;
const GETSET: u16 = NFNL_SUBSYS_NFTABLES | 10;
const GETSETELEM: u16 = NFNL_SUBSYS_NFTABLES | 13;
const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
/// Length of `struct nfgenmsg`, which begins with the family.
const GENMSG_LEN: usize = 4;
/// `NFNLGRP_NFTABLES`, as a mask.
const NFTABLES_GROUP: u32 = 1 << 6;

/// What comes of a request.
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

/// Who does it.
#[derive(Debug, Default)]
pub struct Doer {
    /// By the indices of their interfaces.
    neighbours: Vec<(u32, Neighbours)>,
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
        Ok(Self { neighbours })
    }

    /// Does what a request asks for, with the descriptor that came along.
    ///
    /// # Errors
    /// The kernel's.
    pub fn perform(&mut self, request: &Request, came: Option<BorrowedFd<'_>>) -> Result<Done> {
        match request {
            Request::Probe { interface, address } => {
                self.on(*interface)?.probe(*address)?;
                Ok(Done::default())
            }
            Request::Confirm {
                interface,
                address,
                mac,
            } => {
                self.on(*interface)?.confirm(*address, *mac)?;
                Ok(Done::default())
            }
            Request::Socket => xdp::new_socket().map(Done::from).map_err(|error| {
                tracing::debug!(%error, "no AF_XDP socket");
                match error {
                    xdp::OpenError::NotPermitted => Errno::PERM,
                    xdp::OpenError::NoKernelSupport => Errno::AFNOSUPPORT,
                    _ => Errno::NFILE,
                }
            }),
            Request::Rules(what) => {
                let number = match what {
                    Dump::Tables => GETTABLE,
                    Dump::Chains => GETCHAIN,
                    Dump::Rules => GETRULE,
                    Dump::Sets => GETSET,
                };
                let mut request = netlink::Request::new(number, &[0; GENMSG_LEN]);
                Netlink::begin_dump(NETFILTER, &mut request).map(Done::from)
            }
            Request::Elements { family, table, set } => {
                let mut request = netlink::Request::new(GETSETELEM, &[*family, 0, 0, 0]);
                let with_end = |name: &str| [name.as_bytes(), &[0]].concat();
                request
                    .attribute(NFTA_SET_ELEM_LIST_TABLE, &with_end(table))
                    .attribute(NFTA_SET_ELEM_LIST_SET, &with_end(set));
                Netlink::begin_dump(NETFILTER, &mut request).map(Done::from)
            }
            Request::RuleChanges => {
                let hears = Netlink::subscribe(NETFILTER, NFTABLES_GROUP)?;
                Ok(OwnedFd::from(hears).into())
            }
            Request::Hooks => {
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
