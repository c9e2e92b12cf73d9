//! Connections that are there when the rules change: whose segments are dropped from then on.
//!
//! In the kernel every segment passes the rules, not the first one alone. So when a rule comes that drops
//! those of a peer before what is established is accepted, its connections stand still, and go on when the
//! rule goes. The engine drops the same segments. Ending the connections would be quicker, and could not
//! be taken back: a rule that its author withdraws a moment later costs nobody anything on the kernel.
//!
//! Which peers these are does not depend on which connections there are. So nothing is looked at when rules
//! change but the rules, and a segment is looked at only while some peer is cut off.

use std::net::IpAddr;

use super::packet::{Interface, Packet, Segment, Way};
use super::ranges::Ranges;
use super::rules::Ruleset;
use super::walk::Outcome;

/// Whose segments are dropped at one address and port of this end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cut {
    arriving: Ranges,
    leaving: Ranges,
    /// By what: the first that was met.
    pub by: String,
}

impl Cut {
    /// Whether a segment on this way from or to this peer is dropped.
    pub fn drops(&self, way: Way, peer: IpAddr) -> bool {
        match way {
            Way::In => self.arriving.contains_address(peer),
            Way::Out => self.leaving.contains_address(peer),
        }
    }
}

impl Ruleset {
    /// Whose segments are dropped of connections that are there between `own`, with this port or one that
    /// is not privileged, and anybody; none if nobody's are. What only the kernel can decide is not
    /// dropped.
    pub fn cut(&self, interface: &Interface, own: IpAddr, own_port: Option<u16>) -> Option<Cut> {
        let mut cut = Cut::default();
        for way in [Way::In, Way::Out] {
            let packet = Packet {
                interface,
                way,
                segment: Segment::Other,
                own: &[own],
                own_port,
            };
            let dropped = match way {
                Way::In => &mut cut.arriving,
                Way::Out => &mut cut.leaving,
            };
            for (peers, outcome) in self.verdict(&packet, Ranges::all(packet.bits())) {
                let Outcome::Dropped(place, _) = outcome else {
                    continue;
                };
                if cut.by.is_empty() {
                    cut.by = place.to_string();
                }
                *dropped = dropped.union(&peers);
            }
        }
        (!cut.by.is_empty()).then_some(cut)
    }
}
