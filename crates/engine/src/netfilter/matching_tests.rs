use super::*;
use crate::netfilter::packet::{Interface, Segment, Way};
use crate::netfilter::rules::Element;
use std::net::IpAddr;

const PEER_V4: usize = 4;

fn with<R>(own: &[&str], test: impl FnOnce(&Packet<'_>) -> R) -> R {
    let own: Vec<IpAddr> = own.iter().map(|own| own.parse().unwrap()).collect();
    let interface = Interface {
        index: 3,
        name: "eth3".to_owned(),
        has_others: false,
    };
    test(&Packet {
        interface: &interface,
        way: Way::In,
        segment: Segment::Syn,
        own: &own,
        own_port: None,
    })
}

fn bits(value: u8, known: u8) -> Octet {
    Octet::Bits { value, known }
}

fn address(whose: Address, bytes: u8) -> Vec<Octet> {
    let byte = |at| Octet::Address {
        whose,
        at,
        mask: 0xff,
    };
    (0..bytes).map(byte).collect()
}

fn registers(octets: &[Octet]) -> Registers {
    let mut registers = Registers::default();
    registers.put(0, octets);
    registers
}

fn of(from: u32, to: u32) -> Truth {
    Truth::Of(Ranges::of([(from.into(), to.into())]))
}

#[test]
fn a_mask_keeps_what_is_known_and_makes_the_rest_known() {
    let cases = [
        // What is masked away is known, whatever it was; what stays is as known as before.
        (bits(0b0010, 0b0010), 0b0110, 0, bits(0b0010, 0xfb)),
        (bits(0b0010, 0b0010), 0b0110, 0b1100, bits(0b1010, 0xfb)),
        (Octet::UNKNOWN, 0, 0x31, bits(0x31, 0xff)),
        (Octet::UNKNOWN, 1, 1, bits(0, 0xfe)),
        (Octet::Port(0), 0xff, 0, Octet::UNKNOWN),
    ];
    for (octet, by, xor, expected) in cases {
        assert_eq!(octet.masked(by, xor), expected, "{octet:?} & {by} ^ {xor}");
    }
    let byte = |mask| Octet::Address {
        whose: Address::Peer,
        at: 2,
        mask,
    };
    assert_eq!(byte(0xf0).masked(0x3c, 0), byte(0x30));
    assert_eq!(byte(0xf0).masked(0x0f, 7), bits(7, 0xff));
    assert_eq!(byte(0xf0).masked(0x3c, 1), Octet::UNKNOWN);
}

#[test]
fn registers_are_filled_up_with_zeros_and_end() {
    let mut registers = Registers([bits(9, 0xff); REGISTERS]);
    registers.put(0, &[bits(1, 0xff), bits(2, 0xff)]);
    let zero = bits(0, 0xff);
    let begin = [bits(1, 0xff), bits(2, 0xff), zero, zero, bits(9, 0xff)];
    assert_eq!(registers.get(0, 5), begin);
    // What does not fit is not there.
    registers.put(REGISTERS - 2, &[bits(1, 0xff); 4]);
    assert_eq!(
        registers.get(REGISTERS - 1, 2),
        [bits(1, 0xff), Octet::UNKNOWN]
    );
    registers.put(REGISTERS + 4, &[bits(1, 0xff)]);
    assert_eq!(registers.get(REGISTERS + 4, 1), [Octet::UNKNOWN]);
}

#[test]
fn numbers_are_turned_round_each_for_itself() {
    let mut registers = registers(&[1, 2, 3, 4, 5, 6, 7, 8].map(|byte| bits(byte, 0xff)));
    registers.swap(0, 16, 8, 4);
    let bytes = |at| registers.get(at, 8).into_iter().map(|o| o.value().unwrap());
    assert_eq!(bytes(16).collect::<Vec<_>>(), [4, 3, 2, 1, 8, 7, 6, 5]);
    registers.swap(0, 16, 2, 0);
    assert_eq!(registers.get(16, 2), [bits(1, 0xff), bits(2, 0xff)]);
}

#[test]
fn what_is_known_in_part_may_be_equal() {
    with(&["10.0.0.1"], |packet| {
        let of = registers(&[bits(0b10, 0b11), bits(7, 0xff)]);
        assert_eq!(of.equal(packet, 0, &[0b11, 7]), Truth::No);
        assert_eq!(of.equal(packet, 0, &[0b110, 7]), Truth::Maybe);
        assert_eq!(
            of.equal(packet, 0, &[0b110, 8]),
            Truth::No,
            "the second is not"
        );
        assert_eq!(of.equal(packet, 1, &[7]), Truth::Yes);
    });
}

#[test]
fn a_port_that_is_not_privileged_is_none_that_is() {
    with(&["10.0.0.1"], |packet| {
        let of = registers(&[Octet::Port(0), Octet::Port(1)]);
        for (port, truth) in [(1023_u16, Truth::No), (1024, Truth::Maybe), (80, Truth::No)] {
            assert_eq!(of.equal(packet, 0, &port.to_be_bytes()), truth, "{port}");
        }
        // One byte alone: 3 could be that of 1023, and is of none from 1024 on.
        assert_eq!(of.equal(packet, 0, &[3]), Truth::No);
        assert_eq!(of.equal(packet, 0, &[4]), Truth::Maybe);
        assert_eq!(of.equal(packet, 1, &[0]), Truth::Maybe);
        let between =
            |from: u16, to: u16| of.between(packet, 0, &from.to_be_bytes(), &to.to_be_bytes());
        assert_eq!(between(0, 1023), Truth::No);
        assert_eq!(between(0, 1024), Truth::Maybe);
        assert_eq!(between(1024, u16::MAX), Truth::Yes);
        assert_eq!(between(1025, u16::MAX), Truth::Maybe);
        assert_eq!(between(1024, u16::MAX - 1), Truth::Maybe);
    });
}

#[test]
fn numbers_lie_between_their_bounds_and_on_them() {
    with(&["10.0.0.1"], |packet| {
        let of = registers(&[bits(1, 0xff), bits(7, 0xff)]);
        let between = |from: [u8; 2], to: [u8; 2]| of.between(packet, 0, &from, &to);
        assert_eq!(between([1, 7], [1, 7]), Truth::Yes);
        assert_eq!(between([1, 8], [9, 9]), Truth::No);
        assert_eq!(between([0, 0], [1, 6]), Truth::No);
        let compares = |is| of.compare(packet, 0, is, &[1, 7]);
        for (is, holds) in [
            (Comparison::Equal, true),
            (Comparison::NotEqual, false),
            (Comparison::Less, false),
            (Comparison::LessOrEqual, true),
            (Comparison::Greater, false),
            (Comparison::GreaterOrEqual, true),
        ] {
            assert_eq!(compares(is), Truth::is(holds), "{is:?}");
        }
        let largest = registers(&[bits(0xff, 0xff)]);
        let above = largest.compare(packet, 0, Comparison::Greater, &[0xfe]);
        assert_eq!(above, Truth::Yes);
        let not_below = largest.compare(packet, 0, Comparison::GreaterOrEqual, &[0x80]);
        assert_eq!(not_below, Truth::Yes);
        let unknown = registers(&[bits(1, 0xff), bits(0, 0xfe)]);
        assert_eq!(unknown.between(packet, 0, &[0, 0], &[9, 9]), Truth::Maybe);
    });
}

#[test]
fn own_addresses_agree_or_it_is_not_known() {
    let own = registers(&address(Address::Own, 4));
    with(&["10.0.0.1", "10.0.0.9"], |packet| {
        assert_eq!(own.equal(packet, 0, &[10, 0, 0, 1]), Truth::Maybe);
        assert_eq!(own.equal(packet, 0, &[10, 0]), Truth::Yes);
        assert_eq!(own.equal(packet, 0, &[10, 1]), Truth::No);
        let between = |to: u8| own.between(packet, 0, &[10, 0, 0, 0], &[10, 0, 0, to]);
        assert_eq!(between(0), Truth::No);
        assert_eq!(between(8), Truth::Maybe);
        assert_eq!(between(9), Truth::Yes);
    });
    with(&["10.0.0.1"], |packet| {
        assert_eq!(own.equal(packet, 0, &[10, 0, 0, 1]), Truth::Yes);
        let mut masked = own.clone();
        masked.mask(0, 0, &[0xff, 0xff, 0, 0], &[]);
        assert_eq!(masked.equal(packet, 0, &[10, 0, 0, 0]), Truth::Yes);
        assert_eq!(
            masked.equal(packet, 0, &[10, 0, 0, 1]),
            Truth::No,
            "masked away"
        );
    });
}

#[test]
fn peers_are_those_of_a_prefix_or_of_a_range() {
    let peer = registers(&address(Address::Peer, PEER_V4 as u8));
    with(&["10.0.0.1"], |packet| {
        let net = 0x0a01_0000;
        assert_eq!(peer.equal(packet, 0, &[10, 1]), of(net, net | 0xffff));
        let mut masked = peer.clone();
        masked.mask(0, 0, &[0xff, 0xfc, 0, 0], &[0; 4]);
        let prefix = masked.equal(packet, 0, &[10, 4, 0, 0]);
        assert_eq!(prefix, of(0x0a04_0000, 0x0a07_ffff));
        assert_eq!(
            masked.equal(packet, 0, &[10, 5, 0, 0]),
            Truth::No,
            "5 & 0xfc is 4"
        );
        // A mask with a hole.
        masked = peer.clone();
        masked.mask(0, 0, &[0xff, 0, 0xff, 0], &[0; 4]);
        assert_eq!(masked.equal(packet, 0, &[10, 0, 1, 0]), Truth::Maybe);
        let range = peer.between(packet, 0, &[10, 0, 0, 3], &[10, 0, 1, 2]);
        assert_eq!(range, of(0x0a00_0003, 0x0a00_0102));
        assert_eq!(
            peer.between(packet, 0, &[10], &[11]),
            of(0x0a00_0000, 0x0bff_ffff),
            "the front of it"
        );
        // From its second byte on it is no address.
        assert_eq!(peer.between(packet, 1, &[1], &[2]), Truth::Maybe);
    });
}

#[test]
fn sets_have_fields_of_their_own() {
    let element = |from: &[u8], to: &[u8]| Element {
        from: from.to_vec(),
        to: to.to_vec(),
        datum: None,
    };
    with(&["10.0.0.1"], |packet| {
        // An address, and two bytes of which two more follow that count for nothing.
        let mut registers = registers(&address(Address::Peer, 4));
        registers.put(4, &[bits(0, 0xff), bits(80, 0xff)]);
        let set = |elements| Set {
            fields: vec![4, 2],
            elements,
            ..Set::default()
        };
        let (from, to) = ([10, 0, 0, 1, 0, 80, 0, 0], [10, 0, 0, 9, 0, 90, 0, 0]);
        let range = set(vec![element(&from, &to)]);
        let found = registers.find(packet, 0, &range);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, of(0x0a00_0001, 0x0a00_0009));
        let (from, to) = ([10, 0, 0, 1, 0, 81, 0, 0], [10, 0, 0, 9, 0, 90, 0, 0]);
        let other = set(vec![element(&from, &to)]);
        assert!(registers.find(packet, 0, &other).is_empty(), "another port");
        // One key is compared as a whole.
        let key = [10, 0, 0, 1, 0, 80, 0, 0];
        let one = set(vec![element(&key, &key)]);
        assert_eq!(
            registers.find(packet, 0, &one)[0].0,
            of(0x0a00_0001, 0x0a00_0001)
        );
        // What is shorter than its fields is not understood.
        let short = set(vec![element(&[10, 0, 0, 1], &[10, 0, 0, 2])]);
        assert_eq!(registers.find(packet, 0, &short)[0].0, Truth::Maybe);
        // Of one field it is a range as it stands.
        let plain = Set {
            fields: vec![4],
            elements: vec![element(&[10, 0, 0, 1], &[10, 0, 0, 2])],
            ..Set::default()
        };
        let found = registers.find(packet, 0, &plain);
        assert_eq!(found[0].0, of(0x0a00_0001, 0x0a00_0002));
    });
}
