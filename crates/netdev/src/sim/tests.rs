//! The simulated link, and the offloads of its device.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::event::poll;
use wire::checksum::{Sum, pseudo_header};
use wire::segment::{ChecksumPolicy, parse};

use super::*;
use crate::faults::Faults;

fn send(device: &mut SimDevice, bytes: &[u8]) {
    let frame = device.frame().expect("the simulated device has room");
    frame[..bytes.len()].copy_from_slice(bytes);
    device.submit(bytes.len(), None);
}

fn receive(device: &mut SimDevice) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    device.receive(usize::MAX, |frame| frames.push(frame.to_vec()));
    frames
}

fn readable(device: &SimDevice) -> bool {
    let mut set = Vec::new();
    device.poll_fds(&mut set);
    poll(&mut set, Some(&rustix::event::Timespec::default())).expect("poll") > 0
}

#[test]
fn frames_arrive_in_order_and_only_after_flush() {
    let (mut a, mut b) = link(LinkConfig::default()).expect("link");
    send(&mut a, b"one");
    send(&mut a, b"two");
    assert!(receive(&mut b).is_empty());
    assert!(!readable(&b));
    assert_eq!(a.flush(), 0);
    assert!(readable(&b));
    assert_eq!(receive(&mut b), [b"one", b"two"]);
    assert!(!readable(&b));
    assert!(receive(&mut a).is_empty());
}

#[test]
fn a_budget_leaves_the_rest_and_the_descriptor_readable() {
    let (mut a, mut b) = link(LinkConfig::default()).expect("link");
    for _ in 0..3 {
        send(&mut a, b"frame");
    }
    a.flush();
    assert_eq!(b.receive(2, |_| ()), 2);
    assert!(readable(&b));
    assert_eq!(b.receive(2, |_| ()), 1);
}

#[test]
fn a_full_link_loses_and_counts() {
    let config = LinkConfig {
        capacity: 2,
        ..LinkConfig::default()
    };
    let (mut a, mut b) = link(config).expect("link");
    for byte in 0..5u8 {
        send(&mut a, &[byte]);
    }
    a.flush();
    assert_eq!(receive(&mut b), [[0], [1]]);
    assert_eq!(a.counters().link_full, 3);
}

#[test]
fn a_device_has_as_many_frames_as_it_is_given() {
    let config = LinkConfig {
        frames: 2,
        ..LinkConfig::default()
    };
    let (mut a, mut b) = link(config).expect("link");
    send(&mut a, b"1");
    send(&mut a, b"2");
    assert!(a.frame().is_none());
    a.flush();
    assert!(a.frame().is_none(), "they are on their way");
    assert_eq!(receive(&mut b).len(), 2);
    assert!(a.frame().is_some());
}

/// An Ethernet, IP and TCP header with the pseudo-header sum for `payload` bytes.
fn header(src: IpAddr, dst: IpAddr, flags: u8, payload: usize) -> (Vec<u8>, PartialChecksum) {
    let mut frame = vec![2; 12];
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend(((40 + payload) as u16).to_be_bytes());
            frame.extend([0x12, 0x34, 0x40, 0, 64, 6, 0, 0]);
            frame.extend(src.octets());
            frame.extend(dst.octets());
            let sum = Sum::of(&frame[14..34]).finish();
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(((20 + payload) as u16).to_be_bytes());
            frame.extend([6, 64]);
            frame.extend(src.octets());
            frame.extend(dst.octets());
        }
        _ => panic!("addresses of two families"),
    }
    let start = frame.len();
    frame.extend([0, 80, 0, 90, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 1]);
    frame.extend([0x50, flags, 0xff, 0xff]);
    let pseudo = pseudo_header(src, dst, 6, 20 + payload).expect("one family");
    frame.extend(pseudo.fold().to_be_bytes());
    frame.extend([0, 0]);
    (frame, PartialChecksum::tcp(start as u16))
}

const ENDS: [(IpAddr, IpAddr); 2] = [
    (
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
    ),
    (
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)),
    ),
];

#[test]
fn a_checksum_left_to_the_device_is_right() {
    for (src, dst) in ENDS {
        let (mut a, mut b) = link(LinkConfig::default()).expect("link");
        let (mut frame, checksum) = header(src, dst, 0x10, 5);
        frame.extend(b"hello");
        a.frame().expect("room")[..frame.len()].copy_from_slice(&frame);
        a.submit(frame.len(), Some(checksum));
        a.flush();
        let frames = receive(&mut b);
        let segment = parse(&frames[0], ChecksumPolicy::Verify).expect("a good segment");
        assert_eq!(segment.payload, b"hello");
    }
}

#[test]
fn a_large_send_arrives_as_segments_of_the_size_asked_for() {
    for (src, dst) in ENDS {
        let (mut a, mut b) = link(LinkConfig::default()).expect("link");
        let data: Vec<u8> = (0..3001u16).map(|number| number as u8).collect();
        let shared: Vec<AtomicU8> = data.iter().copied().map(AtomicU8::new).collect();
        let pieces: Vec<&[AtomicU8]> = shared.chunks(701).collect();
        // FIN, PSH, ACK and CWR.
        let (header, checksum) = header(src, dst, 0x99, data.len());
        let how = LargeSend {
            segment_size: 1000,
            ipv6: src.is_ipv6(),
            checksum,
        };
        a.send_large(&header, &pieces, how).expect("send");
        let frames = receive(&mut b);
        let mut received = Vec::new();
        let mut flags = Vec::new();
        for frame in &frames {
            let segment = parse(frame, ChecksumPolicy::Verify).expect("a good segment");
            let expected = 0xffff_fff0u32.wrapping_add(received.len() as u32);
            assert_eq!(segment.tcp.seq.0, expected);
            received.extend_from_slice(segment.payload);
            flags.push(segment.tcp.flags.bits());
        }
        assert_eq!(received, data);
        assert_eq!(flags, [0x90, 0x10, 0x10, 0x19]);
    }
}

#[test]
fn large_sends_that_make_no_sense_are_refused() {
    let (mut a, _b) = link(LinkConfig::default()).expect("link");
    let (src, dst) = ENDS[0];
    let (header, checksum) = header(src, dst, 0x10, 1);
    let byte = [const { AtomicU8::new(0) }];
    let how = LargeSend {
        segment_size: 1000,
        ipv6: false,
        checksum,
    };
    let refused = Err(SendError::Refused(INVALID));
    let wrong = LargeSend { ipv6: true, ..how };
    assert_eq!(a.send_large(&header, &[&byte], wrong), refused);
    for length in 0..header.len() {
        let result = a.send_large(&header[..length], &[&byte], how);
        assert_eq!(result, refused, "{length}");
    }
    let many: Vec<&[AtomicU8]> = vec![&byte; PIECES_MAX + 1];
    let result = a.send_large(&header, &many, how);
    assert_eq!(result, Err(SendError::TooLarge));
    a.set_offloads(Offloads::NONE);
    let result = a.send_large(&header, &[&byte], how);
    assert_eq!(result, Err(SendError::Unsupported));
}

#[test]
fn faults_lose_repeat_and_reorder_and_nothing_stays_behind() {
    let config = LinkConfig {
        faults: Faults {
            loss: 0.1,
            duplication: 0.1,
            reorder: 0.2,
            reorder_distance: 8,
            ..Faults::NONE
        },
        seed: 3,
        ..LinkConfig::default()
    };
    let (mut a, mut b) = link(config).expect("link");
    for number in 0..500u16 {
        send(&mut a, &number.to_be_bytes());
    }
    a.flush();
    let numbers: Vec<u16> = receive(&mut b)
        .iter()
        .map(|frame| u16::from_be_bytes([frame[0], frame[1]]))
        .collect();
    let mut distinct = numbers.clone();
    distinct.sort_unstable();
    assert!(distinct != numbers, "nothing was reordered");
    distinct.dedup();
    assert!(distinct.len() < numbers.len(), "nothing was repeated");
    assert_eq!(distinct.len() as u64 + a.counters().link_lost, 500);
    assert!(a.counters().link_lost > 0, "nothing was lost");
}
