//! What follows from the rules: which listeners the engine takes, from which peers, and whether it opens
//! connections.
//!
//! The engine takes only what the rules accept in both directions, whatever else is unknown; where they
//! drop some peers, it drops the same. Everything else is the kernel's, which knows what to do with it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::matching::FIRST_PORT;
use super::packet::{Interface, Packet, Segment, Way};
use super::ranges::Ranges;
use super::rules::Ruleset;
use super::walk::{Outcome, Place};

/// Ranges of peers of one listener that are refused; with more of them it is left to the kernel.
const MOST_RANGES: usize = 65_536;

/// Whose connections are refused: of those with IPv4, and of those with IPv6.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    v4: Ranges,
    v6: Ranges,
}

impl Refused {
    /// Whether this peer is.
    pub fn contains(&self, peer: IpAddr) -> bool {
        match peer {
            IpAddr::V4(v4) => self.v4.contains(u32::from(v4).into()),
            IpAddr::V6(v6) => self.v6.contains(v6.into()),
        }
    }

    /// Whether nobody is.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

/// Whether the engine takes something: all but what is refused, or nothing, for this reason.
pub type Access = Result<Refused, String>;

/// What the rules say of everything that the engine has, or might.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Of listeners: an address is on one link here, whatever scope it was named with.
    pub listeners: HashMap<(IpAddr, u16), Access>,
    /// Of connections that programs open, from ports that are not privileged.
    pub connections: Option<Access>,
    /// There are rules for which a privileged port might make a difference.
    pub any: bool,
}

impl Policy {
    /// Whether a listener is the engine's; one that was not asked about is.
    pub fn admits_listener(&self, local: SocketAddr) -> bool {
        self.of_listener(local).is_none_or(Result::is_ok)
    }

    /// What they say of a listener that was asked about.
    pub fn of_listener(&self, local: SocketAddr) -> Option<&Access> {
        self.listeners.get(&(local.ip(), local.port()))
    }

    /// Whether there is nobody to refuse.
    pub fn is_open(&self) -> bool {
        let all = self.listeners.values();
        all.flatten().all(Refused::is_empty)
    }

    /// Whether a peer may connect to this address and port.
    pub fn admits_peer(&self, own: SocketAddr, peer: IpAddr) -> bool {
        let any = match own.ip() {
            IpAddr::V4(_) => [IpAddr::from([0; 4]), IpAddr::from([0; 16])],
            IpAddr::V6(_) => [IpAddr::from([0; 16]); 2],
        };
        let mut of = [own.ip(), any[0], any[1]].into_iter();
        let access = of.find_map(|ip| self.listeners.get(&(ip, own.port())));
        access.is_none_or(|access| access.as_ref().is_ok_and(|refused| !refused.contains(peer)))
    }

    /// Whether a program may open a connection from this port, or any if it is 0, to this peer by the
    /// engine.
    pub fn admits_connection(&self, own: u16, peer: IpAddr) -> bool {
        if self.any && (1..FIRST_PORT).contains(&own) {
            return false;
        }
        match &self.connections {
            None => true,
            Some(access) => access.as_ref().is_ok_and(|refused| !refused.contains(peer)),
        }
    }
}

impl Ruleset {
    /// Whether the engine takes connections to `local`, where `own` are the addresses of its interface.
    pub fn listener(&self, interface: &Interface, own: &[IpAddr], local: SocketAddr) -> Access {
        let covers = |address: &&IpAddr| match local.ip() {
            IpAddr::V6(any) if any.is_unspecified() => true,
            IpAddr::V4(any) if any.is_unspecified() => address.is_ipv4(),
            specific => specific.to_canonical() == **address,
        };
        let segments = [
            (Way::In, Segment::Syn),
            (Way::Out, Segment::SynAck),
            (Way::In, Segment::Other),
            (Way::Out, Segment::Other),
        ];
        self.access(
            interface,
            own.iter().filter(covers),
            segments,
            Some(local.port()),
        )
    }

    /// Whether the engine opens connections for programs, from the addresses `own` of its interface.
    pub fn connections(&self, interface: &Interface, own: &[IpAddr]) -> Access {
        let segments = [
            (Way::Out, Segment::Syn),
            (Way::In, Segment::SynAck),
            (Way::Out, Segment::Other),
            (Way::In, Segment::Other),
        ];
        self.access(interface, own.iter(), segments, None)
    }

    fn access<'a>(
        &self,
        interface: &Interface,
        own: impl Iterator<Item = &'a IpAddr>,
        segments: [(Way, Segment); 4],
        own_port: Option<u16>,
    ) -> Access {
        let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = own.partition(|address| address.is_ipv4());
        let mut refused = Refused::default();
        for (own, refused) in [(&v4, &mut refused.v4), (&v6, &mut refused.v6)] {
            if own.is_empty() {
                continue;
            }
            let packets = segments.map(|(way, segment)| Packet {
                interface,
                way,
                segment,
                own,
                own_port,
            });
            *refused = self.refused(&packets)?;
        }
        Ok(refused)
    }

    /// The peers that are refused, if each gets a clear answer and one at least is accepted.
    fn refused(&self, packets: &[Packet<'_>]) -> Result<Ranges, String> {
        let mut going = Ranges::all(packets.first().map_or(32, Packet::bits));
        let mut dropped: Option<Place> = None;
        let mut refused = Ranges::NONE;
        for packet in packets {
            let mut on = Ranges::NONE;
            for (peers, outcome) in self.verdict(packet, going) {
                match outcome {
                    Outcome::Accepted => on = on.union(&peers),
                    Outcome::Dropped(place) => {
                        dropped.get_or_insert(place);
                        refused = refused.union(&peers);
                    }
                    Outcome::Elsewhere(place) => {
                        return Err(format!("{place} brings it where only the kernel can"));
                    }
                    Outcome::Unclear(place) => {
                        return Err(format!("{place} asks for what only the kernel knows"));
                    }
                }
            }
            going = on;
        }
        match dropped {
            Some(place) if going.is_empty() => Err(format!("{place} lets nobody in")),
            _ if refused.iter().count() > MOST_RANGES => {
                Err("the rules refuse too many different peers".to_owned())
            }
            _ => Ok(refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV6;

    #[test]
    fn a_listener_of_a_link_is_known_with_its_scope_and_without() {
        let peers = Ranges::all(128);
        let refused = Refused {
            v6: peers,
            ..Refused::default()
        };
        let ip = "fe80::1".parse().unwrap();
        let local = SocketAddr::from(SocketAddrV6::new(ip, 80, 0, 3));
        let mut policy = Policy::default();
        policy.listeners.insert((local.ip(), 80), Ok(refused));
        let peer = "fe80::2".parse().unwrap();
        assert!(policy.admits_listener(local));
        assert!(!policy.admits_peer(local, peer));
        assert!(!policy.admits_peer(SocketAddr::new(local.ip(), 80), peer));
        let closed = Err("closed".to_owned());
        policy.listeners.insert((local.ip(), 80), closed);
        assert!(!policy.admits_listener(local));
    }
}
