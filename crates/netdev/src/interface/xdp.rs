//! Which XDP program an interface has: `IFLA_XDP`.

use std::io;

use super::netlink::{attribute, describe, u32_at};

const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;

/// Where an XDP program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the kernel's receive path, after the driver made an skb: every driver can, slower.
    Generic,
}

/// A program that is attached to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachedProgram {
    /// The id that `bpftool prog show id N` takes; 0 if the kernel did not say.
    pub id: u32,
    /// Where it runs; `None` for several at once, or on the NIC itself.
    pub mode: Option<XdpMode>,
}

pub(super) fn attached_program(index: u32) -> io::Result<Option<AttachedProgram>> {
    let interface = describe(index)?;
    let Some(xdp) = interface.attribute(IFLA_XDP) else {
        return Ok(None);
    };
    let attached = attribute(xdp, IFLA_XDP_ATTACHED).and_then(|value| value.first().copied());
    let mode = match attached {
        None | Some(0) => return Ok(None),
        Some(1) => Some(XdpMode::Native),
        Some(2) => Some(XdpMode::Generic),
        Some(_) => None,
    };
    let id = attribute(xdp, IFLA_XDP_PROG_ID)
        .and_then(|value| u32_at(value, 0))
        .unwrap_or(0);
    Ok(Some(AttachedProgram { id, mode }))
}
