//! What a claim covers, by the kernel's test run: no device needed.

#[allow(dead_code, reason = "the other tests use the rest")]
mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use common::{ACK, Frame};
use netdev::steering::Verdict;
use netdev::{Claim, Claimed, Interface, XdpDevice, xdp};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

fn claim(server: IpAddr, addresses: &[(IpAddr, IpAddr)]) -> Claim {
    Claim::load(&Claimed {
        server: (server, 80).into(),
        addresses: addresses.to_vec(),
        ports: 20_000..=29_999,
    })
    .expect("a program that loads")
}

fn v4(last: u16) -> IpAddr {
    let [high, low] = last.to_be_bytes();
    Ipv4Addr::new(10, 9, high, low).into()
}

/// A frame of the server's.
fn reply(to: IpAddr, port: u16) -> Frame {
    let server: IpAddr = if to.is_ipv4() {
        SERVER.into()
    } else {
        Ipv6Addr::LOCALHOST.into()
    };
    Frame::new(server, to, port).with(|frame| {
        frame.src_port = 80;
        frame.tcp_flags = ACK;
    })
}

/// Runs `check` with the index of a loopback that has a socket in the program's map, so that what
/// is claimed is told from what is not by the verdict.
fn with_receiver(mut claim: Claim, check: impl FnOnce(&mut dyn FnMut(&Frame) -> Verdict) + Send) {
    let world = lab::World::new().expect("a private network");
    world
        .on(lab::Side::Client, move || {
            let interface = Interface::find(lab::Side::Client.interface())?;
            let device = XdpDevice::open(&interface, xdp::Config::default())?;
            claim.connect_queue(0, &device)?;
            check(&mut |frame| {
                claim
                    .test_run(&frame.build(), interface.index, 0)
                    .expect("a test run")
            });
            Ok(())
        })
        .expect("the check");
}

#[test]
fn only_replies_to_our_addresses_and_ports_are_claimed() {
    if lab::skip_without_root("only_replies_to_our_addresses_and_ports_are_claimed") {
        return;
    }
    let claim = claim(SERVER.into(), &[(v4(1), v4(2)), (v4(500), v4(700))]);
    with_receiver(claim, |run| {
        let ours = reply(v4(500), 20_000);
        assert_eq!(run(&ours), Verdict::Redirect);
        for (address, port, expected) in [
            (0, 20_000, Verdict::Kernel),
            (1, 20_000, Verdict::Redirect),
            (2, 29_999, Verdict::Redirect),
            (3, 20_000, Verdict::Kernel),
            (499, 20_000, Verdict::Kernel),
            (700, 25_000, Verdict::Redirect),
            (701, 20_000, Verdict::Kernel),
            (600, 19_999, Verdict::Kernel),
            (600, 30_000, Verdict::Kernel),
        ] {
            assert_eq!(run(&reply(v4(address), port)), expected, "{address} {port}");
        }
        for (what, frame) in [
            ("another port", ours.clone().with(|f| f.src_port = 81)),
            ("another server", ours.clone().with(|f| f.src = v4(9))),
            ("a fragment", ours.clone().with(|f| f.fragment = 0x2000)),
            ("UDP", ours.clone().with(|f| f.protocol = 17)),
            ("a VLAN", ours.clone().with(|f| f.tags = vec![(0x8100, 5)])),
            ("options", ours.with(|f| f.ip_options = vec![1, 1, 1, 0])),
        ] {
            assert_eq!(run(&frame), Verdict::Kernel, "{what}");
        }
    });
}

#[test]
fn ipv6_is_claimed_over_all_its_bits() {
    if lab::skip_without_root("ipv6_is_claimed_over_all_its_bits") {
        return;
    }
    let address =
        |high: u16, low: u16| -> IpAddr { Ipv6Addr::new(0xfd00, 0, 0, high, 0, 0, 0, low).into() };
    let range = (address(1, 0xfff0), address(2, 5));
    let claim = claim(Ipv6Addr::LOCALHOST.into(), &[range]);
    with_receiver(claim, |run| {
        for (high, low, expected) in [
            (1, 0xffef, Verdict::Kernel),
            (1, 0xfff0, Verdict::Redirect),
            (2, 5, Verdict::Redirect),
            (2, 6, Verdict::Kernel),
            (0, 0xffff, Verdict::Kernel),
        ] {
            assert_eq!(
                run(&reply(address(high, low), 20_000)),
                expected,
                "{high} {low}"
            );
        }
    });
}
