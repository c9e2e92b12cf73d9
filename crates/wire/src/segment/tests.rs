use super::*;
use crate::checksum::Sum;
use crate::ethernet::Tag;
use crate::seq::SeqNumber;
use crate::tcp::{Flags, Options, SackBlocks, Timestamps};
use proptest::prelude::*;
use std::vec::Vec;

fn vlan() -> impl Strategy<Value = Vlan> {
    let tag = |control| Tag {
        kind: EtherType::VLAN,
        control,
    };
    prop_oneof![
        Just(Vlan::None),
        any::<u16>().prop_map(move |control| Vlan::Single(tag(control))),
        any::<(u16, u16)>().prop_map(move |(outer, inner)| Vlan::Double {
            outer: Tag {
                kind: EtherType::SERVICE_VLAN,
                control: outer
            },
            inner: tag(inner),
        }),
    ]
}

/// Two addresses of single hosts, of one family.
fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(u16, u16)>().prop_map(|(a, b)| {
            let host = |n: u16| IpAddr::from([10, 1, (n >> 8) as u8, n as u8]);
            (host(a), host(b))
        }),
        any::<(u16, u16)>().prop_map(|(a, b)| {
            let host = |n| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 1, n]);
            (host(a), host(b))
        }),
    ]
}

prop_compose! {
    fn headers()(
        macs: ([u8; 6], [u8; 6]), vlan in vlan(), addresses in addresses(), hop_limit: u8,
        dscp in 0..64_u8, ecn: u8,
        ports: (u16, u16), seq: u32, ack: Option<u32>, flags: u8, window: u16, mss: Option<u16>,
        timestamps in proptest::option::of(any::<(u32, u32)>()),
    ) -> Headers {
        Headers {
            link: Link { src: MacAddr(macs.0), dst: MacAddr(macs.1), vlan },
            src: addresses.0,
            dst: addresses.1,
            hop_limit,
            dscp,
            ecn: Ecn::from_bits(ecn),
            tcp: tcp::Repr {
                src_port: ports.0,
                dst_port: ports.1,
                seq: SeqNumber(seq),
                ack: ack.map(SeqNumber),
                flags: Flags::from_bits(flags).with(Flags::ACK, ack.is_some()),
                window,
                options: Options {
                    mss,
                    window_scale: None,
                    sack_permitted: false,
                    timestamps: timestamps.map(|(value, echo)| Timestamps { value, echo }),
                    fast_open: None,
                    sack: SackBlocks::EMPTY,
                },
            },
        }
    }
}

fn frame(headers: &Headers, payload: &[u8]) -> Vec<u8> {
    let mut frame = std::vec![0xee; MAX_HEADERS_LEN];
    let checksum = TcpChecksum::Complete(Sum::of(payload));
    let len = headers.emit(payload.len(), checksum, &mut frame).unwrap();
    assert_eq!(len, headers.len());
    frame.truncate(len);
    frame.extend_from_slice(payload);
    frame
}

fn example() -> Headers {
    Headers {
        link: Link::default(),
        src: IpAddr::from([10, 0, 0, 1]),
        dst: IpAddr::from([10, 0, 0, 2]),
        hop_limit: 64,
        dscp: 0,
        ecn: Ecn::NotCapable,
        tcp: tcp::Repr {
            src_port: 1,
            dst_port: 2,
            seq: SeqNumber(3),
            ack: None,
            flags: Flags::SYN,
            window: 4,
            options: Options::NONE,
        },
    }
}

proptest! {
    //~ RFC 9293 MUST-2, MUST-3
    #[test]
    fn what_is_emitted_parses_back(
        headers in headers(),
        payload in proptest::collection::vec(any::<u8>(), 0..40),
        padding in 0..8_usize,
        broken: prop::sample::Index,
    ) {
        let mut frame = frame(&headers, &payload);
        let len = frame.len();
        frame.resize(len + padding, 0);
        let Headers { link, src, dst, hop_limit, dscp, ecn, tcp } = headers;
        let ip = &frame[headers.ip_offset()..];
        let traffic_class = if src.is_ipv4() { ip[1] } else { ip[0] << 4 | ip[1] >> 4 };
        prop_assert_eq!(traffic_class, dscp << 2 | ecn.bits());
        let expected = Segment { link, src, dst, hop_limit, ecn, tcp, payload: &payload };
        let parsed = parse(&frame, ChecksumPolicy::Verify).unwrap();
        prop_assert_eq!(parsed, expected);
        prop_assert_eq!(parsed.flow(), FlowKey {
            local: dst, remote: src, local_port: tcp.dst_port, remote_port: tcp.src_port,
        });
        for short in 0..len {
            prop_assert!(parse(&frame[..short], ChecksumPolicy::Verify).is_err());
            prop_assert!(parse(&frame[..short], ChecksumPolicy::Ignore).is_err());
        }
        // A single wrong bit in the TCP part never gets past the checksum.
        let at = headers.tcp_offset() + broken.index(len - headers.tcp_offset());
        frame[at] ^= 0x10;
        prop_assert!(parse(&frame, ChecksumPolicy::Verify).is_err());
    }

    #[test]
    fn any_frame_is_read_or_refused(
        mut frame in proptest::collection::vec(any::<u8>(), 0..200),
        ether_type in prop_oneof![Just(0x0800_u16), Just(0x86dd), Just(0x8100), any::<u16>()],
        version in prop_oneof![Just(0x45_u8), Just(0x60), any::<u8>()],
    ) {
        // Random bytes, but often enough with beginnings that get past the first check.
        if frame.len() > 24 {
            frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
            frame[14] = version;
            frame[16] = 0;
            frame[18] = 0;
            frame[20..22].fill(0);
            frame[23] = 6;
        }
        for policy in [ChecksumPolicy::Verify, ChecksumPolicy::AcceptPartial, ChecksumPolicy::Ignore] {
            if let Ok(segment) = parse(&frame, policy) {
                prop_assert!(segment.payload.len() < frame.len());
                let _ = (segment.flow(), segment.sequence_len());
            }
        }
    }
}

#[test]
fn a_partial_checksum_is_accepted_only_by_that_policy() {
    let payload = b"left to the device";
    let mut bytes = std::vec![0; example().len()];
    example()
        .emit(payload.len(), TcpChecksum::Partial, &mut bytes)
        .unwrap();
    bytes.extend_from_slice(payload);
    assert_eq!(
        parse(&bytes, ChecksumPolicy::Verify),
        Err(Malformed::TcpChecksum)
    );
    assert!(parse(&bytes, ChecksumPolicy::AcceptPartial).is_ok());
    assert!(parse(&bytes, ChecksumPolicy::Ignore).is_ok());
    // A complete checksum is good under every policy, a wrong one only when nobody looks.
    let mut complete = frame(&example(), payload);
    assert!(parse(&complete, ChecksumPolicy::AcceptPartial).is_ok());
    *complete.last_mut().unwrap() ^= 1;
    assert_eq!(
        parse(&complete, ChecksumPolicy::AcceptPartial),
        Err(Malformed::TcpChecksum)
    );
    assert!(parse(&complete, ChecksumPolicy::Ignore).is_ok());
}

//~ RFC 9293 MUST-57, MUST-63
#[test]
fn addresses_of_groups_are_refused() {
    let cases: [(IpAddr, IpAddr, Malformed); 6] = [
        (
            [224, 0, 0, 1].into(),
            [10, 0, 0, 2].into(),
            Malformed::SourceAddress,
        ),
        (
            [255; 4].into(),
            [10, 0, 0, 2].into(),
            Malformed::SourceAddress,
        ),
        (
            [0; 4].into(),
            [10, 0, 0, 2].into(),
            Malformed::SourceAddress,
        ),
        (
            [10, 0, 0, 1].into(),
            [255; 4].into(),
            Malformed::DestinationAddress,
        ),
        (
            [0xff02, 0, 0, 0, 0, 0, 0, 1].into(),
            [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
            Malformed::SourceAddress,
        ),
        (
            [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
            [0xff02, 0, 0, 0, 0, 0, 0, 1].into(),
            Malformed::DestinationAddress,
        ),
    ];
    for (src, dst, reason) in cases {
        let bytes = frame(
            &Headers {
                src,
                dst,
                ..example()
            },
            b"",
        );
        assert_eq!(
            parse(&bytes, ChecksumPolicy::Verify),
            Err(reason),
            "{src} to {dst}"
        );
    }
}

#[test]
fn headers_that_cannot_be_are_not_written() {
    let mut buffer = [0; MAX_HEADERS_LEN];
    let emit = |headers: &Headers, payload_len, buffer: &mut [u8]| {
        headers.emit(payload_len, TcpChecksum::Partial, buffer)
    };
    let mixed = Headers {
        dst: [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
        ..example()
    };
    assert_eq!(emit(&mixed, 0, &mut buffer), Err(EmitError::MixedFamilies));
    assert_eq!(emit(&example(), 65_495, &mut buffer), Ok(54));
    assert_eq!(
        emit(&example(), 65_496, &mut buffer),
        Err(EmitError::TooLong)
    );
    assert_eq!(
        emit(&example(), 1 << 20, &mut buffer),
        Err(EmitError::TooLong)
    );
    assert_eq!(
        emit(&example(), 0, &mut buffer[..53]),
        Err(EmitError::BufferTooSmall)
    );
}

#[test]
fn reasons_have_names_of_their_own() {
    let mut names: Vec<_> = Malformed::ALL.iter().map(|reason| reason.name()).collect();
    for name in &names {
        assert!(
            name.chars()
                .all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
        );
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Malformed::ALL.len());
    assert!(
        Malformed::ALL
            .iter()
            .enumerate()
            .all(|(at, &reason)| reason as usize == at)
    );
}

/// A good frame over IPv4, changed by `change` where its checksums do not cover it, or where they
/// are put right again.
fn broken_v4(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = frame(&example(), b"payload");
    change(&mut bytes);
    let header_end = (14 + usize::from(bytes[14] & 0x0f) * 4).clamp(34, bytes.len());
    bytes[24..26].fill(0);
    let checksum = Sum::of(&bytes[14..header_end]).finish();
    bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn broken_v6(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let host = |n| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n]);
    let headers = Headers {
        src: host(1),
        dst: host(2),
        ..example()
    };
    let mut bytes = frame(&headers, b"payload");
    change(&mut bytes);
    bytes
}

#[test]
fn every_reason_has_a_frame_that_is_refused_for_it() {
    let group = |address: [u8; 4], at: usize| {
        broken_v4(|bytes| bytes[at..at + 4].copy_from_slice(&address))
    };
    let frames = [
        (Malformed::EthernetTruncated, std::vec![0; 13]),
        (Malformed::VlanTags, {
            let mut bytes = std::vec![0; 60];
            for at in [12, 16, 20] {
                bytes[at] = 0x81;
            }
            bytes
        }),
        (Malformed::NotIp, broken_v4(|bytes| bytes[13] = 6)),
        (Malformed::NotTcp, broken_v4(|bytes| bytes[23] = 17)),
        (Malformed::IpVersion, broken_v4(|bytes| bytes[14] = 0x65)),
        (
            Malformed::IpTruncated,
            broken_v4(|bytes| bytes.truncate(60)),
        ),
        (
            Malformed::Ipv4HeaderLength,
            broken_v4(|bytes| bytes[14] = 0x44),
        ),
        (Malformed::Ipv4Checksum, {
            let mut bytes = frame(&example(), b"");
            bytes[22] ^= 1;
            bytes
        }),
        (Malformed::Ipv6Extension, broken_v6(|bytes| bytes[20] = 60)),
        (Malformed::Ipv6Extensions, {
            broken_v6(|bytes| {
                bytes[20] = 60;
                let extensions = [60, 0, 0, 0, 0, 0, 0, 0].repeat(9);
                bytes.splice(54..54, extensions);
                let len = (bytes.len() - 54) as u16;
                bytes[18..20].copy_from_slice(&len.to_be_bytes());
            })
        }),
        (Malformed::Ipv6Routing, {
            broken_v6(|bytes| {
                bytes[20] = 43;
                bytes.splice(54..54, [6, 0, 0, 1, 0, 0, 0, 0]);
                bytes[19] += 8;
            })
        }),
        (Malformed::Fragment, broken_v4(|bytes| bytes[20] = 0x20)),
        (Malformed::SourceAddress, group([224, 0, 0, 1], 26)),
        (Malformed::DestinationAddress, group([255; 4], 30)),
        (
            Malformed::TcpTruncated,
            broken_v4(|bytes| bytes[16..18].copy_from_slice(&30_u16.to_be_bytes())),
        ),
        (
            Malformed::TcpDataOffset,
            broken_v4(|bytes| bytes[46] = 0x40),
        ),
        (
            Malformed::TcpChecksum,
            broken_v4(|bytes| *bytes.last_mut().unwrap() ^= 1),
        ),
    ];
    let mut reasons = Vec::new();
    for (reason, bytes) in frames {
        assert_eq!(parse(&bytes, ChecksumPolicy::Verify), Err(reason));
        reasons.push(reason);
    }
    // Those of ICMP have their frames beside its parser.
    let of_icmp = |reason: &Malformed| matches!(reason, Malformed::Icmp | Malformed::IcmpChecksum);
    let mut all = Malformed::ALL.to_vec();
    all.retain(|reason| !of_icmp(reason));
    assert_eq!(reasons, all);
}
