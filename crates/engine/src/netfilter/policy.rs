//! What follows from the rules: which listeners the engine takes, from which peers, and whether it opens
//! connections.
//!
//! The engine takes only what the rules accept in both directions, whatever else is unknown; where they
//! drop some peers, it drops the same. Everything else is the kernel's, which knows what to do with it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::cuts::Cut;
use super::octet::FIRST_PORT;
use super::packet::{Interface, Packet, Segment, Way};
use super::ranges::Ranges;
use super::rules::{Answer, Ruleset};
use super::walk::{Outcome, Place};

/// Ranges of peers of one listener that are refused; with more of them it is left to the kernel.
const MOST_RANGES: usize = 65_536;

/// Whose connections are refused: of those with IPv4, and of those with IPv6.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    v4: Ranges,
    v6: Ranges,
    /// Who of them is told so, and how.
    told: Vec<(Answer, IsV6, Ranges)>,
    /// Of one family all are, for this reason: they are the kernel's.
    left: Option<(IsV6, String)>,
}

/// Whether addresses are of IPv6.
pub type IsV6 = bool;

/// What a family is called.
pub const fn family(is_v6: IsV6) -> &'static str {
    if is_v6 { "IPv6" } else { "IPv4" }
}

impl Refused {
    /// Those of the family that is the kernel's, if one is, and why.
    pub fn left(&self) -> Option<(IsV6, &str)> {
        self.left.as_ref().map(|(is_v6, why)| (*is_v6, &why[..]))
    }

    /// These, and all of the other family.
    fn leaving(mut self, is_v6: IsV6, why: String) -> Self {
        match is_v6 {
            true => self.v6 = Ranges::all(128),
            false => self.v4 = Ranges::all(32),
        }
        self.left = Some((is_v6, why));
        self
    }

    /// What a peer is told who is refused.
    pub fn answer(&self, peer: IpAddr) -> Option<Answer> {
        let told = self
            .told
            .iter()
            .find(|(_, is_v6, peers)| *is_v6 == peer.is_ipv6() && peers.contains_address(peer));
        told.map(|(answer, ..)| *answer)
    }

    /// Whether this peer is.
    pub fn contains(&self, peer: IpAddr) -> bool {
        let refused = if peer.is_ipv4() { &self.v4 } else { &self.v6 };
        refused.contains_address(peer)
    }

    /// Whether nobody is.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

/// Whether the engine takes something: all but what is refused, or nothing, for this reason.
pub type Access = Result<Refused, String>;

/// What is said of each family by itself, where these are the addresses of this end: what only the kernel can decide of
/// one holds up nothing of the other.
pub fn by_family<'a>(
    own: impl Iterator<Item = &'a IpAddr>,
    of: impl Fn(&[IpAddr]) -> Access,
) -> Access {
    let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = own.partition(|address| address.is_ipv4());
    let of = |own: Vec<IpAddr>| (!own.is_empty()).then(|| of(&own));
    match (of(v4), of(v6)) {
        (None, None) => Ok(Refused::default()),
        (Some(only), None) | (None, Some(only)) => only,
        (Some(Err(why)), Some(Err(_))) => Err(why),
        (Some(Ok(v4)), Some(Err(why))) => Ok(v4.leaving(true, why)),
        (Some(Err(why)), Some(Ok(v6))) => Ok(v6.leaving(false, why)),
        (Some(Ok(v4)), Some(Ok(v6))) => Ok(Refused {
            v4: v4.v4,
            v6: v6.v6,
            told: [v4.told, v6.told].concat(),
            left: None,
        }),
    }
}

/// What the rules say of everything that the engine has, or might.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Of listeners: an address is on one link here, whatever scope it was named with.
    pub listeners: HashMap<(IpAddr, u16), Access>,
    /// Of connections that programs open, from ports that are not privileged.
    pub connections: Option<Access>,
    /// There are rules for which a privileged port might make a difference.
    pub any: bool,
    /// Whose segments are dropped of connections that are there: by this end's address and the port of a
    /// listener, 0 for what programs have opened.
    pub cuts: HashMap<(IpAddr, u16), Cut>,
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

    /// The family whose connections to a listener are the kernel's, if those of the other are not.
    pub fn leaves(&self, local: SocketAddr) -> Option<IsV6> {
        let access = self.of_listener(local)?.as_ref().ok()?;
        access.left().map(|(is_v6, _)| is_v6)
    }

    /// Whether there is nobody to refuse.
    pub fn is_open(&self) -> bool {
        let all = self.listeners.values();
        all.flatten().all(Refused::is_empty)
    }

    /// Whether a peer may connect to this address and port.
    pub fn admits_peer(&self, own: SocketAddr, peer: IpAddr) -> bool {
        self.of_own(own)
            .is_none_or(|access| access.as_ref().is_ok_and(|refused| !refused.contains(peer)))
    }

    /// What is told to a peer that may not.
    pub fn answer(&self, own: SocketAddr, peer: IpAddr) -> Option<Answer> {
        self.of_own(own)?.as_ref().ok()?.answer(peer)
    }

    /// What they say of the listener that an address of this end and its port belong to.
    fn of_own(&self, own: SocketAddr) -> Option<&Access> {
        let any = match own.ip() {
            IpAddr::V4(_) => [IpAddr::from([0; 4]), IpAddr::from([0; 16])],
            IpAddr::V6(_) => [IpAddr::from([0; 16]); 2],
        };
        let mut of = [own.ip(), any[0], any[1]].into_iter();
        of.find_map(|ip| self.listeners.get(&(ip, own.port())))
    }

    /// Whether they drop a segment on this way of a connection that is there. Asked only while
    /// [`cuts`](Self::cuts) has any.
    pub fn drops(&self, way: Way, own: SocketAddr, peer: IpAddr) -> bool {
        let port = match self.of_own(own) {
            Some(_) => own.port(),
            None if own.port() >= FIRST_PORT => 0,
            None => return false,
        };
        let cut = self.cuts.get(&(own.ip(), port));
        cut.is_some_and(|cut| cut.drops(way, peer))
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

/// Whether who listens on `local` listens on this address of the interface's.
pub fn covers(local: IpAddr, own: IpAddr) -> bool {
    match local {
        IpAddr::V6(any) if any.is_unspecified() => true,
        IpAddr::V4(any) if any.is_unspecified() => own.is_ipv4(),
        specific => specific.to_canonical() == own,
    }
}

impl Ruleset {
    /// Whether the engine takes connections to `local`, where `own` are the addresses of its interface.
    pub fn listener(&self, interface: &Interface, own: &[IpAddr], local: SocketAddr) -> Access {
        let segments = [
            (Way::In, Segment::Syn),
            (Way::Out, Segment::SynAck),
            (Way::In, Segment::Other),
            (Way::Out, Segment::Other),
        ];
        self.access(
            interface,
            own.iter().filter(|own| covers(local.ip(), **own)),
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
        let Refused {
            v4: of_v4,
            v6: of_v6,
            told,
            left: _,
        } = &mut refused;
        for (own, refused) in [(&v4, of_v4), (&v6, of_v6)] {
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
            *refused = self.refused(&packets, told)?;
        }
        Ok(refused)
    }

    /// The peers that are refused, if each gets a clear answer and one at least is accepted. Adds what those
    /// of them are `told` whose packets are.
    fn refused(
        &self,
        packets: &[Packet<'_>],
        told: &mut Vec<(Answer, IsV6, Ranges)>,
    ) -> Result<Ranges, String> {
        let mut going = Ranges::all(packets.first().map_or(32, Packet::bits));
        let mut dropped: Option<Place> = None;
        let mut refused = Ranges::NONE;
        for packet in packets {
            let mut on = Ranges::NONE;
            for (peers, outcome) in self.verdict(packet, going) {
                match outcome {
                    Outcome::Accepted => on = on.union(&peers),
                    Outcome::Dropped(place, answer) => {
                        dropped.get_or_insert(place);
                        // What is rejected on its way out this machine hears of, and not the peer.
                        let answer = answer.filter(|_| packet.way == Way::In);
                        told.extend(answer.map(|answer| (answer, packet.is_v6(), peers.clone())));
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
    use super::super::rules::{
        Base, Chain, Comparison, Header, Hook, Load, Rejection, Rule, RuleVerdict, Step, Table,
        Test,
    };
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

    #[test]
    fn segments_are_dropped_by_the_listener_that_they_belong_to() {
        let rules = one_chain(Hook::Input, true, Chain::default());
        let eth = Interface {
            index: 2,
            name: "eth".to_owned(),
            has_others: false,
        };
        let own: IpAddr = "10.0.0.1".parse().unwrap();
        let everybody = rules.cut(&eth, own, None).expect("its policy drops");
        let peer = "10.0.0.2".parse().unwrap();
        let mut policy = Policy::default();
        let drops = |policy: &Policy, port| policy.drops(Way::In, SocketAddr::new(own, port), peer);
        policy.cuts.insert((own, 0), everybody.clone());
        assert!(drops(&policy, 1024) && !drops(&policy, 1023), "opened from");
        // A listener has an entry of its own, or nobody is cut off there.
        let any = IpAddr::from([0; 16]);
        policy.listeners.insert((any, 8080), Ok(Refused::default()));
        assert!(!drops(&policy, 8080));
        policy.cuts.insert((own, 8080), everybody);
        assert!(drops(&policy, 8080));
        assert!(!policy.drops(Way::Out, SocketAddr::new(own, 8080), peer));
    }

    #[test]
    fn a_listener_covers_the_addresses_of_its_families() {
        let of = |local: &str, own: &str| covers(local.parse().unwrap(), own.parse().unwrap());
        assert!(of("::", "10.0.0.1") && of("::", "fd00::1"));
        assert!(of("0.0.0.0", "10.0.0.1") && !of("0.0.0.0", "fd00::1"));
        assert!(of("10.0.0.1", "10.0.0.1") && !of("10.0.0.2", "10.0.0.1"));
        assert!(of("::ffff:10.0.0.1", "10.0.0.1"));
    }

    /// A chain at a hook, whose policy drops or accepts.
    fn one_chain(hook: Hook, drops: bool, chain: Chain) -> Ruleset {
        let table = Table {
            family: 1,
            name: "t".to_owned(),
        };
        let mut rules = Ruleset::default();
        rules.bases.push(Base {
            table: table.clone(),
            chain: "c".to_owned(),
            hook,
            nat: false,
            drops,
            priority: 0,
            devices: Vec::new(),
        });
        rules.chains.insert((table, "c".to_owned()), chain);
        rules
    }

    /// Rules that drop at one hook what this holds of.
    fn dropping(hook: Hook, test: Test) -> Ruleset {
        let rule = Rule {
            handle: 7,
            steps: vec![Step::Test(test), Step::Verdict(RuleVerdict::Drop)],
        };
        one_chain(hook, false, Chain { rules: vec![rule] })
    }

    #[test]
    fn every_segment_of_a_connection_has_to_pass() {
        const SYN: u8 = 2;
        const ACK: u8 = 16;
        let eth = Interface {
            index: 2,
            name: "eth".to_owned(),
            has_others: false,
        };
        let own: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let local = SocketAddr::from(([0, 0, 0, 0], 80));
        let nobody = |access: Access| access.is_err_and(|why| why.contains("lets nobody in"));
        let (new, answers, later) = (SYN, SYN | ACK, ACK);
        for (hook, flags, listens, connects) in [
            (Hook::Input, new, false, true),
            (Hook::Input, answers, true, false),
            (Hook::Input, later, false, false),
            (Hook::Output, new, true, false),
            (Hook::Output, answers, false, true),
            (Hook::Output, later, false, false),
        ] {
            let rules = dropping(hook, Test::Flags(SYN | ACK, flags));
            let listener = rules.listener(&eth, &own, local);
            let connections = rules.connections(&eth, &own);
            assert_eq!(!nobody(listener), listens, "{hook:?} {flags}");
            assert_eq!(!nobody(connections), connects, "{hook:?} {flags}");
        }
        // Nothing is asked of a listener on no address of the interface's.
        let elsewhere = SocketAddr::from(([10, 0, 0, 9], 80));
        let rules = dropping(Hook::Input, Test::Flags(0, 0));
        assert_eq!(
            rules.listener(&eth, &own, elsewhere),
            Ok(Refused::default())
        );
        assert!(nobody(rules.listener(&eth, &own, local)));
    }

    /// As firewalld drops who would not be answered by the interface that he came by.
    fn without_a_way_back() -> Ruleset {
        const META_NFPROTO: u32 = 15;
        const NFPROTO_IPV6: u8 = 10;
        const FIB_OIF: u32 = 1;
        const FIB_SADDR_IIF_PRESENT: u32 = 1 | 8 | 32;
        let load = |what, len| Step::Load { what, len, to: 0 };
        let equals = |with: Vec<u8>| Step::Compare {
            at: 0,
            is: Comparison::Equal,
            with,
        };
        let way_back = Load::Fib {
            result: FIB_OIF,
            flags: FIB_SADDR_IIF_PRESENT,
        };
        let rule = Rule {
            handle: 7,
            steps: vec![
                load(Load::Meta(META_NFPROTO), 1),
                equals(vec![NFPROTO_IPV6]),
                load(way_back, 1),
                equals(vec![0]),
                Step::Verdict(RuleVerdict::Drop),
            ],
        };
        one_chain(Hook::Prerouting, false, Chain { rules: vec![rule] })
    }

    #[test]
    fn what_is_unclear_of_one_family_holds_up_nothing_of_the_other() {
        let rules = without_a_way_back();
        let own: [IpAddr; 3] = ["10.0.0.1", "fd00::1", "fe80::1"].map(|it| it.parse().unwrap());
        let [v4, v6] = ["10.0.0.2", "fd00::2"].map(|it| it.parse().unwrap());
        for has_others in [false, true] {
            let eth = Interface {
                index: 2,
                name: "eth".to_owned(),
                has_others,
            };
            let connections = by_family(own.iter(), |own| rules.connections(&eth, own));
            let any = "[::]:80".parse().unwrap();
            let listener = by_family(own.iter(), |own| rules.listener(&eth, own, any));
            let mut policy = Policy {
                connections: Some(connections.clone()),
                ..Policy::default()
            };
            policy.listeners.insert((any.ip(), 80), listener.clone());
            for access in [connections, listener] {
                let access = access.expect("IPv4 goes on");
                let left = access.left().map(|(is_v6, why)| (family(is_v6), why));
                let unclear =
                    "rule 7 of chain c in table inet t asks for what only the kernel knows";
                assert_eq!(left, has_others.then_some(("IPv6", unclear)));
            }
            assert!(policy.admits_connection(0, v4));
            assert_eq!(policy.admits_connection(0, v6), !has_others);
            assert!(policy.admits_listener(any) && policy.admits_peer(any, v4));
            assert_eq!(policy.admits_peer(any, v6), !has_others);
            assert_eq!(policy.leaves(any), has_others.then_some(true));
            let only = by_family(own[1..].iter(), |own| rules.connections(&eth, own));
            assert_eq!(only.is_err(), has_others, "there is nothing else");
        }
        let neither = by_family(own.iter(), |_| Err("closed".to_owned()));
        assert_eq!(neither, Err("closed".to_owned()));
        assert_eq!(
            by_family([].iter(), |_| neither.clone()),
            Ok(Refused::default())
        );
    }

    #[test]
    fn what_is_refused_of_each_family_is_refused() {
        let own: [IpAddr; 2] = ["10.0.0.1", "fd00::1"].map(|it| it.parse().unwrap());
        let rules = dropping(Hook::Input, Test::Flags(0, 0));
        let refused = by_family(own.iter(), |own| {
            let peers = Ranges::of([(7, 9)]);
            let is_v6 = own[0].is_ipv6();
            let told = vec![(Answer::Reset, is_v6, peers.clone())];
            let (v4, v6) = match is_v6 {
                true => (Ranges::NONE, peers),
                false => (peers, Ranges::NONE),
            };
            let left = None;
            Ok(Refused { v4, v6, told, left })
        });
        let refused = refused.expect("some may");
        for peer in ["0.0.0.8", "::8"] {
            let peer = peer.parse().unwrap();
            assert!(refused.contains(peer));
            assert_eq!(refused.answer(peer), Some(Answer::Reset));
        }
        assert_eq!(refused.left(), None);
        let eth = Interface {
            index: 2,
            name: "eth".to_owned(),
            has_others: false,
        };
        let closed = by_family(own.iter(), |own| rules.connections(&eth, own));
        assert!(closed.is_err());
    }

    #[test]
    fn refused_are_the_same_peers_on_each_way() {
        let peer = |text: &str| text.parse::<IpAddr>().unwrap();
        let refused = Refused {
            v4: Ranges::of([(0x0a00_0005, 0x0a00_0007)]),
            ..Refused::default()
        };
        assert!(refused.contains(peer("10.0.0.5")) && !refused.contains(peer("10.0.0.8")));
        assert!(!refused.contains(peer("::a00:5")), "of another family");
        assert!(!refused.is_empty() && Refused::default().is_empty());
        let mut policy = Policy::default();
        assert!(
            policy.admits_connection(80, peer("10.0.0.5")),
            "nobody asks"
        );
        policy.connections = Some(Ok(refused));
        assert!(policy.admits_connection(80, peer("10.0.0.4")));
        assert!(!policy.admits_connection(80, peer("10.0.0.5")));
        policy.any = true;
        assert!(
            !policy.admits_connection(1023, peer("10.0.0.4")),
            "it may matter"
        );
        assert!(policy.admits_connection(1024, peer("10.0.0.4")));
        assert!(policy.admits_connection(0, peer("10.0.0.4")));
        policy.connections = Some(Err("closed".to_owned()));
        assert!(!policy.admits_connection(0, peer("10.0.0.4")));
    }

    #[test]
    fn who_is_rejected_is_told_so_and_nobody_else() {
        let peer = |text: &str| text.parse::<IpAddr>().unwrap();
        let peers = Ranges::of([(0x0a00_0005, 0x0a00_0007)]);
        let refused = Refused {
            v4: peers.union(&Ranges::of([(0x0a00_0009, 0x0a00_0009)])),
            told: vec![(Answer::Reset, false, peers)],
            ..Refused::default()
        };
        assert_eq!(refused.answer(peer("10.0.0.5")), Some(Answer::Reset));
        assert_eq!(refused.answer(peer("10.0.0.9")), None, "dropped only");
        assert_eq!(refused.answer(peer("::a00:5")), None, "of another family");
        let mut policy = Policy::default();
        let own = SocketAddr::from(([10, 0, 0, 1], 80));
        policy.listeners.insert((own.ip(), 80), Ok(refused));
        assert_eq!(policy.answer(own, peer("10.0.0.7")), Some(Answer::Reset));
        let other = SocketAddr::from(([10, 0, 0, 1], 81));
        assert_eq!(policy.answer(other, peer("10.0.0.7")), None);
    }

    #[test]
    fn what_is_rejected_as_it_arrives_is_answered_by_the_familys_message() {
        let eth = Interface {
            index: 2,
            name: "eth".to_owned(),
            has_others: false,
        };
        let own: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let rejection = Rejection {
            v4: Some(Answer::Unreachable(13)),
            v6: Some(Answer::Reset),
        };
        for (own, hook, at, peer, answer) in [
            (
                own[0],
                Hook::Input,
                12,
                "32.0.0.9",
                Some(Answer::Unreachable(13)),
            ),
            (own[0], Hook::Output, 16, "32.0.0.9", None),
            (own[1], Hook::Input, 8, "2000::9", Some(Answer::Reset)),
            (own[1], Hook::Output, 24, "2000::9", None),
        ] {
            let mut rules = dropping(hook, Test::Flags(0, 0));
            // Who has an address that begins with 32.
            let steps = vec![
                Step::Load {
                    what: Load::Header(Header::Network, at),
                    len: 1,
                    to: 0,
                },
                Step::Compare {
                    at: 0,
                    is: Comparison::Equal,
                    with: vec![32],
                },
                Step::Verdict(RuleVerdict::Reject(rejection)),
            ];
            for chain in rules.chains.values_mut() {
                chain.rules = vec![Rule {
                    handle: 7,
                    steps: steps.clone(),
                }];
            }
            let refused = rules.listener(&eth, &[own], SocketAddr::new(own, 80));
            let refused = refused.expect("the others may");
            let peer = peer.parse().unwrap();
            assert!(refused.contains(peer), "{own} {hook:?}");
            assert_eq!(refused.answer(peer), answer, "{own} {hook:?}");
        }
    }
}
