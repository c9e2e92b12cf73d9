//! Whether a next hop can be reached, and how often that may be asked.

use std::net::{IpAddr, Ipv4Addr};

use wire::ethernet::MacAddr;

use crate::network::{NicId, OnLink};

/// Whether frames can be sent along a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// To this hardware address, by this interface.
    At(OnLink<MacAddr>),
    /// Its next hop, which has this address, is being resolved.
    Resolving(OnLink<IpAddr>),
    /// It leads to this machine: no frame goes out.
    Here,
    /// There is no route, or nobody answers for the next hop.
    Unreachable,
}

/// Any address: what stands where there is none.
pub(super) const VACANT: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
/// The same of neighbours.
pub(super) const NOBODY: OnLink<IpAddr> = OnLink {
    nic: NicId(0),
    address: VACANT,
};

/// Questions that are left in a turn.
#[derive(Debug)]
pub(super) struct Questions(pub u32);

impl Questions {
    /// Whether one more may be asked in this turn, which it then is.
    pub(super) fn take(&mut self) -> bool {
        let may = self.0 > 0;
        self.0 -= u32::from(may);
        may
    }
}
