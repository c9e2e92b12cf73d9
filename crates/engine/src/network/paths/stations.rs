//! The stations that frames come from, where no route leads back.
//!
//! A machine with two interfaces may have its default route by the other one. Who comes in by this one from
//! beyond its link then has no way back by it: the kernel would answer by the other interface, which the
//! engine has not got. His router on this link has sent his frames here, and takes the answers. So they go
//! to where his segments come from.
//!
//! Nobody is remembered before a route was missing for the first time: on most machines none ever is.

use wire::ethernet::MacAddr;

use super::known::{Ends, Known};
use crate::network::OnLink;

#[derive(Debug)]
pub(super) struct Stations {
    last: Known<OnLink<MacAddr>>,
    /// A route was missing.
    needed: bool,
    /// Somebody's frames come from another station than before.
    moved: bool,
}

impl Stations {
    /// Remembers at most `limit`.
    pub fn with_limit(limit: u32) -> Self {
        Self {
            last: Known::with_limit(limit),
            needed: false,
            moved: false,
        }
    }

    /// Whether segments are to be [heard](Self::heard).
    #[inline]
    pub const fn is_needed(&self) -> bool {
        self.needed
    }

    /// There is no route between these: the station that their segments come from, if it is known.
    pub fn instead_of_a_route(&mut self, ends: Ends) -> Option<OnLink<MacAddr>> {
        self.needed = true;
        self.find(ends)
    }

    /// The station that segments between these come from, if one is remembered.
    pub fn find(&mut self, ends: Ends) -> Option<OnLink<MacAddr>> {
        self.last.find(ends)
    }

    /// A segment of a connection has come from this station.
    pub fn heard(&mut self, ends: Ends, station: OnLink<MacAddr>) {
        match self.last.find(ends) {
            Some(known) if known == station => {}
            known => {
                self.moved |= known.is_some();
                self.last.set(ends, station);
            }
        }
    }

    /// Whether somebody has moved since that was [taken](Self::take_moved).
    pub const fn have_moved(&self) -> bool {
        self.moved
    }

    /// Whether somebody has moved since this was last asked.
    pub const fn take_moved(&mut self) -> bool {
        core::mem::replace(&mut self.moved, false)
    }
}
