use super::*;

const OWN_PORT: u16 = 8080;

fn interface(name: &str) -> Interface {
    Interface {
        index: 3,
        name: name.to_owned(),
        has_others: false,
    }
}

fn with<R>(way: Way, segment: Segment, test: impl FnOnce(&Packet<'_>) -> R) -> R {
    let own = ["10.0.0.1".parse().unwrap()];
    test(&Packet {
        interface: &interface("eth3"),
        way,
        segment,
        own: &own,
        own_port: Some(OWN_PORT),
    })
}

fn bits(value: u8, known: u8) -> Octet {
    Octet::Bits { value, known }
}

#[test]
fn marks_and_states_are_known_where_nobody_marks() {
    with(Way::In, Segment::Syn, |packet| {
        assert_eq!(packet.load(Load::Meta(META_MARK), 4, false), known(&[0; 4]));
        assert_eq!(packet.load(Load::Ct(CT_MARK), 4, false), known(&[0; 4]));
        let new = known(&NEW.to_ne_bytes());
        assert_eq!(packet.load(Load::Ct(CT_STATE), 4, false), new);
        assert_eq!(packet.test(&Test::State(NEW), false), Truth::Yes);
        assert_eq!(packet.test(&Test::State(ESTABLISHED), false), Truth::No);
        for what in [Load::Meta(META_MARK), Load::Ct(CT_MARK), Load::Ct(CT_STATE)] {
            let unknown = [Octet::UNKNOWN; 4];
            assert_eq!(packet.load(what, 4, true), unknown, "{what:?}");
        }
        assert_eq!(packet.test(&Test::State(NEW), true), Truth::Maybe);
        // It was never expected nor rewritten; whether it was seen both ways, who knows.
        let status = packet.load(Load::Ct(CT_STATUS), 4, false);
        let known: Vec<u8> = status
            .iter()
            .map(|octet| match octet {
                Octet::Bits { value: 0, known } => *known,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(known, NEVER.to_ne_bytes());
    });
}

#[test]
fn ports_are_this_ends_or_anybodys() {
    let port = |side, ranges: &[(u16, u16)]| Test::Port {
        side,
        ranges: ranges.to_vec(),
    };
    for (way, own, peers) in [
        (Way::In, Side::Destination, Side::Source),
        (Way::Out, Side::Source, Side::Destination),
    ] {
        with(way, Segment::Other, |packet| {
            let is = |side, ranges| packet.test(&port(side, ranges), false);
            assert_eq!(is(own, &[(OWN_PORT, OWN_PORT)]), Truth::Yes);
            assert_eq!(is(own, &[(1, 2), (8000, 8080)]), Truth::Yes);
            assert_eq!(is(own, &[(8081, 9000)]), Truth::No);
            assert_eq!(is(own, &[(1, 8079)]), Truth::No);
            assert_eq!(is(peers, &[(OWN_PORT, OWN_PORT)]), Truth::Maybe);
            assert_eq!(is(peers, &[(0, u16::MAX)]), Truth::Yes);
            assert_eq!(is(peers, &[]), Truth::No);
            assert_eq!(is(Side::Either, &[(OWN_PORT, OWN_PORT)]), Truth::Yes);
            assert_eq!(is(Side::Either, &[(1, 2)]), Truth::Maybe);
        });
    }
    // One that is not known is none of the privileged.
    let own = ["10.0.0.1".parse().unwrap()];
    let packet = Packet {
        interface: &interface("eth3"),
        way: Way::Out,
        segment: Segment::Syn,
        own: &own,
        own_port: None,
    };
    let is = |ranges| packet.test(&port(Side::Source, ranges), false);
    assert_eq!(is(&[(1, 1023)]), Truth::No);
    assert_eq!(is(&[(1, 1024)]), Truth::Maybe);
    assert_eq!(is(&[(1024, u16::MAX)]), Truth::Yes);
    assert_eq!(is(&[(u16::MAX, u16::MAX)]), Truth::Maybe);
}

#[test]
fn flags_are_those_of_the_segment() {
    for (segment, mask, set, truth) in [
        (Segment::Syn, SYN | ACK, SYN, Truth::Yes),
        (Segment::SynAck, SYN | ACK, SYN, Truth::No),
        (Segment::SynAck, SYN | ACK, SYN | ACK, Truth::Yes),
        (Segment::Other, SYN | ACK, ACK, Truth::Yes),
        (Segment::Other, 1, 1, Truth::Maybe),
        (Segment::Other, 1, 0, Truth::Maybe),
        (Segment::Syn, 0x40, 0x40, Truth::Maybe),
    ] {
        let test = Test::Flags(mask, set);
        let is = with(Way::In, segment, |packet| packet.test(&test, false));
        assert_eq!(is, truth, "{segment:?} {mask} {set}");
    }
}

#[test]
fn kinds_of_addresses_are_this_machines_and_the_peers() {
    let kinds = |destination, kind: u16| Test::AddressKind {
        destination,
        kinds: 1 << kind,
    };
    for (way, own) in [(Way::In, true), (Way::Out, false)] {
        with(way, Segment::Syn, |packet| {
            let is = |test| packet.test(&test, false);
            assert_eq!(is(kinds(own, LOCAL)), Truth::Yes);
            assert_eq!(is(kinds(own, UNICAST)), Truth::No);
            assert_eq!(is(kinds(!own, UNICAST)), Truth::Yes);
            assert_eq!(is(kinds(!own, LOCAL)), Truth::No);
        });
    }
    with(Way::In, Segment::Syn, |packet| {
        let both = |second| Test::All(vec![kinds(true, LOCAL), kinds(false, second)]);
        assert_eq!(packet.test(&both(UNICAST), false), Truth::Yes);
        assert_eq!(packet.test(&both(LOCAL), false), Truth::No);
        assert_eq!(packet.test(&Test::All(Vec::new()), false), Truth::Yes);
        let not = Test::Not(Box::new(kinds(true, LOCAL)));
        assert_eq!(packet.test(&not, false), Truth::No);
    });
}

#[test]
fn headers_have_the_addresses_and_ports_where_they_belong() {
    let whose = |octets: &[Octet]| {
        let of = |octet: &Octet| match octet {
            Octet::Address { whose, at, .. } => Some((*whose, *at)),
            _ => None,
        };
        octets.iter().map(of).collect::<Vec<_>>()
    };
    let peer = [0, 1, 2, 3].map(|at| Some((Address::Peer, at)));
    let own = [0, 1, 2, 3].map(|at| Some((Address::Own, at)));
    with(Way::In, Segment::Syn, |packet| {
        let addresses = packet.load(Load::Header(Header::Network, 12), 8, false);
        assert_eq!(whose(&addresses), [peer, own].concat());
        let protocol = packet.load(Load::Header(Header::Network, 9), 1, false);
        assert_eq!(protocol, known(&[IPPROTO_TCP]));
        let ports = packet.load(Load::Header(Header::Transport, 0), 4, false);
        let unknown = vec![Octet::UNKNOWN; 2];
        assert_eq!(ports, [unknown, known(&OWN_PORT.to_be_bytes())].concat());
        let flags = packet.load(Load::Header(Header::Transport, 13), 1, false);
        assert_eq!(flags, [bits(SYN, ALL_BUT_ECN)]);
        let rest = packet.load(Load::Header(Header::Transport, 14), 2, false);
        assert_eq!(rest, [Octet::UNKNOWN; 2]);
    });
    with(Way::Out, Segment::Syn, |packet| {
        let addresses = packet.load(Load::Header(Header::Network, 12), 8, false);
        assert_eq!(whose(&addresses), [own, peer].concat());
        let source = packet.load(Load::Header(Header::Transport, 0), 2, false);
        assert_eq!(source, known(&OWN_PORT.to_be_bytes()));
    });
    let own = ["fd00::1".parse().unwrap()];
    let packet = Packet {
        interface: &interface("eth3"),
        way: Way::In,
        segment: Segment::Syn,
        own: &own,
        own_port: None,
    };
    let header = packet.load(Load::Header(Header::Network, 6), 4, false);
    assert_eq!(whose(&header)[1..3], [None, Some((Address::Peer, 0))]);
    let ends = packet.load(Load::Header(Header::Network, 23), 2, false);
    assert_eq!(
        whose(&ends),
        [Some((Address::Peer, 15)), Some((Address::Own, 0))]
    );
    assert_eq!(packet.own_bytes().next().map(|bytes| bytes.len()), Some(16));
    let port = packet.load(Load::Header(Header::Transport, 2), 2, false);
    assert_eq!(port, [Octet::Port(0), Octet::Port(1)]);
}

#[test]
fn interfaces_are_known_where_the_packet_passes_them() {
    let unknown = |key, way| {
        with(way, Segment::Syn, |packet| {
            packet.load(Load::Meta(key), 4, false) == [Octet::UNKNOWN; 4]
        })
    };
    for key in [META_IIF, META_IIFNAME, META_IIFTYPE, META_PKTTYPE] {
        assert!(!unknown(key, Way::In) && unknown(key, Way::Out), "{key}");
    }
    for key in [META_OIF, META_OIFNAME, META_OIFTYPE] {
        assert!(unknown(key, Way::In) && !unknown(key, Way::Out), "{key}");
    }
    with(Way::In, Segment::Syn, |packet| {
        let meta = |key| packet.load(Load::Meta(key), 1, false);
        assert_eq!(meta(META_IIF), known(&3_u32.to_ne_bytes()));
        assert_eq!(meta(META_IIFTYPE), known(&ARPHRD_ETHER.to_ne_bytes()));
        assert_eq!(meta(META_PKTTYPE), known(&[0]));
        assert_eq!(meta(META_PROTOCOL), known(&[8, 0]));
        assert_eq!(meta(META_NFPROTO), known(&[NFPROTO_IPV4]));
        assert_eq!(meta(META_L4PROTO), known(&[IPPROTO_TCP]));
        assert_eq!(meta(0), [Octet::UNKNOWN], "the length");
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"eth3");
        assert_eq!(meta(META_IIFNAME), known(&name));
    });
    // Names have no more than 16 bytes, whatever somebody calls it.
    let own = ["10.0.0.1".parse().unwrap()];
    let packet = Packet {
        interface: &interface("a-name-that-is-too-long"),
        way: Way::In,
        segment: Segment::Syn,
        own: &own,
        own_port: None,
    };
    assert_eq!(
        packet.load(Load::Meta(META_IIFNAME), 16, false),
        known(b"a-name-that-is-t")
    );
}

#[test]
fn routes_say_what_addresses_are_and_whether_there_is_a_way_back() {
    let fib = |way, result, flags| {
        with(way, Segment::Syn, |packet| {
            packet.load(Load::Fib { result, flags }, 4, false)
        })
    };
    let kind = |kind: u16| known(&u32::from(kind).to_ne_bytes());
    const FIB_DADDR: u32 = 2;
    assert_eq!(fib(Way::In, FIB_ADDRTYPE, FIB_DADDR), kind(LOCAL));
    assert_eq!(fib(Way::In, FIB_ADDRTYPE, FIB_SADDR), kind(UNICAST));
    assert_eq!(fib(Way::Out, FIB_ADDRTYPE, FIB_DADDR), kind(UNICAST));
    assert_eq!(fib(Way::Out, FIB_ADDRTYPE, FIB_SADDR), kind(LOCAL));
    let back = FIB_SADDR | FIB_IIF;
    assert_eq!(fib(Way::In, FIB_OIF, back), known(&3_u32.to_ne_bytes()));
    assert_eq!(fib(Way::In, FIB_OIF, back | FIB_PRESENT), known(&[1]));
    let unknown = [Octet::UNKNOWN; 4];
    assert_eq!(fib(Way::Out, FIB_OIF, FIB_DADDR | FIB_IIF), unknown);
    assert_eq!(
        fib(Way::In, FIB_OIF, FIB_SADDR),
        unknown,
        "by any interface"
    );
    assert_eq!(fib(Way::In, FIB_OIF, FIB_DADDR | FIB_IIF), unknown);
    assert_eq!(fib(Way::In, 2, back), unknown, "a name");
    // Who came by one of several may be answered by another.
    let several = Interface {
        has_others: true,
        ..interface("eth3")
    };
    with(Way::In, Segment::Syn, |packet| {
        let packet = Packet {
            interface: &several,
            ..*packet
        };
        let (result, flags) = (FIB_OIF, back | FIB_PRESENT);
        assert_eq!(packet.load(Load::Fib { result, flags }, 4, false), unknown);
    });
}
