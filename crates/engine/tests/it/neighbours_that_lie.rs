//! Frames that no honest neighbour sends, and that the kernel would not take either.

use std::net::{IpAddr, Ipv4Addr};

use crate::world::{ENGINE, ENGINE_MAC, World};
use engine::stats::Drop;
use queue_pair::Submission;
use wire::checksum::Sum;
use wire::ethernet::{MacAddr, Vlan};
use wire::ip::Ecn;
use wire::segment::{Headers, Link, TcpChecksum};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr};

/// A SYN from an address, to a port of the engine's by a hardware address.
fn syn(src: IpAddr, port: u16, dst: MacAddr) -> Vec<u8> {
    let headers = Headers {
        link: Link {
            src: MacAddr([2, 0, 0, 0, 0, 2]),
            dst,
            vlan: Vlan::None,
        },
        src,
        dst: ENGINE,
        hop_limit: 64,
        dscp: 0,
        ecn: Ecn::NotCapable,
        tcp: Repr {
            src_port: 1024,
            dst_port: port,
            seq: SeqNumber(1),
            ack: None,
            flags: Flags::SYN,
            window: 64_240,
            options: Options::NONE,
        },
    };
    let mut frame = vec![0; headers.len()];
    let complete = TcpChecksum::Complete(Sum::ZERO);
    headers.emit(0, complete, &mut frame).expect("fits");
    frame
}

/// Handshakes that a frame has begun.
fn begun_by(frame: impl Fn(u16) -> Vec<u8>, reason: Drop) -> (u32, u64) {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, listener) = world.listen(&mut host);
    host.submit(Submission::Credit {
        listener,
        total: 8,
        waits: false,
    });
    world.settle();
    world.peer.inject(&frame(port));
    world.worker.turn(world.now);
    let dropped = world.worker.counters().dropped(reason);
    (world.worker.stack().half_open_count(), dropped)
}

#[test]
fn nobody_connects_from_an_address_of_this_machine() {
    let stranger = Ipv4Addr::new(10, 0, 0, 9).into();
    let honest = begun_by(|port| syn(stranger, port, ENGINE_MAC), Drop::Martian);
    assert_eq!(honest, (1, 0));
    for liar in [
        Ipv4Addr::LOCALHOST.into(),
        Ipv4Addr::new(127, 9, 9, 9).into(),
        ENGINE,
    ] {
        let begun = begun_by(|port| syn(liar, port, ENGINE_MAC), Drop::Martian);
        assert_eq!(begun, (0, 1), "{liar}");
    }
}

#[test]
fn frames_for_another_machine_are_not_taken() {
    let stranger = Ipv4Addr::new(10, 0, 0, 9).into();
    for differs in 0..6 {
        let mut mac = ENGINE_MAC;
        mac.0[differs] ^= 2;
        let begun = begun_by(|port| syn(stranger, port, mac), Drop::ForeignMac);
        assert_eq!(begun, (0, 1), "{mac:?}");
    }
}
