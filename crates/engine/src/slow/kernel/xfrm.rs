//! IPsec: policies by which the kernel encrypts what is sent and refuses what comes bare. What is offloaded passes
//! none of them, so where there are any, all that is new is the kernel's.

use std::os::fd::OwnedFd;

use rustix::io::{Errno, Result};

use super::netlink::{Netlink, RequestMessage, XFRM, u32_at};

const NEWSPDINFO: u16 = 0x24;
const GETSPDINFO: u16 = 0x25;
/// Since Linux 5.15.
const GETDEFAULT: u16 = 0x28;
/// `struct xfrmu_spdinfo`: how many policies there are, of those that are no single socket's.
const XFRMA_SPD_INFO: u16 = 1;
/// `XFRM_USERPOLICY_BLOCK`: what no policy speaks of is dropped.
const BLOCK: u8 = 1;
/// `XFRMNLGRP_POLICY` and `XFRMNLGRP_EXPIRE`, as masks.
const CHANGES: u32 = 1 << 3 | 1 << 1;

/// Whether there are policies for what comes to this machine or leaves it, in this network namespace.
///
/// # Errors
/// The kernel's: who has no CAP_NET_ADMIN may not ask.
pub fn has_policies() -> Result<bool> {
    let mut netlink = match Netlink::open(XFRM) {
        // A kernel without IPsec.
        Err(Errno::PROTONOSUPPORT | Errno::OPNOTSUPP) => return Ok(false),
        opened => opened?,
    };
    let mut any = false;
    let mut request = RequestMessage::new(GETSPDINFO, &[0; 4]);
    netlink.ask(&mut request, 0, |message| {
        let info = message
            .split::<4>()
            .and_then(|(_, attributes)| attributes.find(XFRMA_SPD_INFO));
        let count = |at| info.and_then(|info| u32_at(info, at)).unwrap_or(0);
        any |= message.kind == NEWSPDINFO && (count(0) != 0 || count(4) != 0);
    })?;
    let mut request = RequestMessage::new(GETDEFAULT, &[0; 4]);
    let asked = netlink.ask(&mut request, 0, |message| {
        let defaults = message.split::<3>();
        any |= defaults.is_some_and(|([come, _, leave], _)| *come == BLOCK || *leave == BLOCK);
    });
    match asked {
        Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(any),
        Err(error) => Err(error),
    }
}

/// A socket that hears when policies change; none in a kernel without IPsec.
///
/// # Errors
/// The kernel's: who has no CAP_NET_ADMIN may not hear.
pub fn changes() -> Result<Option<OwnedFd>> {
    match Netlink::subscribe(XFRM, CHANGES) {
        Ok(netlink) => Ok(Some(netlink.into())),
        Err(Errno::PROTONOSUPPORT | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers() {
        if rustix::process::geteuid().is_root() {
            has_policies().expect("a kernel with or without IPsec answers");
        }
    }
}
