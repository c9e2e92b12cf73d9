//! SYN cookies of the kernel's, at endpoints that it shares with the engine: who answers one is its own.

#[path = "steering/bench.rs"]
#[allow(
    dead_code,
    reason = "here all addresses are those of a private network"
)]
mod bench;
mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::time::{Duration, Instant};

use bench::Bench;
use common::{ACK, Frame, SYN};
use lab::{Side, World};
use netdev::Interface;
use netdev::packet::{FrameBatch, RawSocket};
use netdev::steering::{Endpoint, Reason, SHARE_ALL, Share, Verdict};

const LIMIT: Duration = Duration::from_secs(60);
const RST: u8 = 0x04;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Sends this to the server, and returns the number of the SYN-ACK by which its kernel answers.
fn answered(world: &World, syn: &Frame) -> u32 {
    let server = world.on(Side::Server, || {
        Ok(Interface::find(Side::Server.interface())?.mac)
    });
    let server = server.expect("interface");
    let number = world.on(Side::Client, || {
        let interface = Interface::find(Side::Client.interface())?;
        let socket = RawSocket::open(&interface)?;
        let syn = syn.clone().with(|frame| {
            frame.dst_mac = server;
            frame.src_mac = interface.mac;
        });
        socket.send(&syn.build())?;
        let header = if syn.src.is_ipv4() { 20 } else { 40 };
        let mut batch = FrameBatch::new(2048);
        let begin = Instant::now();
        loop {
            assert!(begin.elapsed() < LIMIT, "the kernel answers");
            socket.receive(&mut batch)?;
            for frame in batch.frames() {
                let segment = frame.get(ETHERNET + header..).unwrap_or_default();
                let is_answer = segment.get(2..4) == Some(&syn.src_port.to_be_bytes())
                    && segment.get(13) == Some(&(SYN | ACK));
                if is_answer {
                    let number = segment[4..8].try_into().expect("four bytes");
                    return Ok(u32::from_be_bytes(number));
                }
            }
            std::thread::yield_now();
        }
    });
    number.expect("an answer")
}

/// A client that nobody is, of which the server knows where it is.
fn client(world: &World, server: IpAddr) -> IpAddr {
    let client: IpAddr = match server {
        IpAddr::V4(_) => Ipv4Addr::new(10, 77, 0, 99).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0x99).into(),
    };
    let mac = world.on(Side::Client, || {
        Ok(Interface::find(Side::Client.interface())?.mac)
    });
    let mac = mac.expect("interface").map(|byte| format!("{byte:02x}"));
    let (mac, device) = (mac.join(":"), Side::Server.interface());
    let known = format!("neigh replace {client} lladdr {mac} dev {device} nud permanent");
    world.ip(Side::Server, &known).expect("it is known");
    client
}

#[test]
fn who_answers_a_cookie_of_the_kernels_is_its_own() {
    if lab::skip_without_root("who_answers_a_cookie_of_the_kernels_is_its_own") {
        return;
    }
    let world = World::new().expect("a private network");
    // For every SYN.
    world
        .sysctl(Side::Server, "net.ipv4.tcp_syncookies", "2")
        .expect("a setting of the namespace");
    for server in [
        IpAddr::from(Side::Server.ipv4()),
        Side::Server.ipv6().into(),
    ] {
        let client = client(&world, server);
        let done = world.on(Side::Server, || {
            for share in [Share::Mixed, Share::Closing] {
                cookie(&world, client, server, share);
            }
            forgotten(&world, client, server);
            Ok(())
        });
        done.expect("on the server's side");
    }
}

fn cookie(world: &World, client: IpAddr, server: IpAddr, share: Share) {
    let listener = TcpListener::bind((server, 0)).expect("listen");
    let port = listener.local_addr().expect("address").port();
    let mut bench = Bench::of(&[]);
    bench
        .steering
        .add_port(Endpoint::new(server, port), share)
        .expect("add_port");
    let segment = |flags, seq, ack| {
        Frame::new(client, server, port).with(|frame| {
            (frame.tcp_flags, frame.seq, frame.ack) = (flags, seq, ack);
        })
    };
    let engines = (Verdict::Redirect, Reason::Engine);
    let kernels = (Verdict::Kernel, Reason::KernelConnection);
    let syn = segment(SYN, 100, 0);
    let before = segment(ACK, 101, 1);
    bench.expect("no cookie was sent", &before, engines.0, engines.1);
    let cookie = answered(world, &syn);
    let ack = segment(ACK, 101, cookie.wrapping_add(1));
    bench.expect("the answer", &ack, kernels.0, kernels.1);
    // The ACK may be lost, and what follows brings the same number.
    let with_data = ack.clone().with(|frame| frame.payload = vec![7; 9]);
    bench.expect("with data", &with_data, kernels.0, kernels.1);
    for (what, other) in [
        (
            "another number",
            segment(ACK, 101, cookie.wrapping_add(1 << 20)),
        ),
        (
            "another client",
            ack.clone().with(|frame| frame.src_port += 1),
        ),
        ("no answer", segment(ACK | RST, 101, cookie.wrapping_add(1))),
    ] {
        bench.expect(what, &other, engines.0, engines.1);
    }
}

/// At a shared endpoint, which has forgotten whose the client's SYN was: for a flood of others, say.
fn forgotten(world: &World, client: IpAddr, server: IpAddr) {
    const ROOM: u32 = 1024;
    let listener = TcpListener::bind((server, 0)).expect("listen");
    let port = listener.local_addr().expect("address").port();
    let endpoint = Endpoint::new(server, port);
    let shared = |share| Share::Shared { share, slot: 0 };
    let mut bench = Bench::remembering(ROOM);
    bench.show(&listener);
    let added = bench.steering.add_port(endpoint, shared(0));
    added.expect("add_port");
    let from = |client_port, flags, seq, ack| {
        Frame::new(client, server, port).with(|frame| {
            frame.src_port = client_port;
            (frame.tcp_flags, frame.seq, frame.ack) = (flags, seq, ack);
        })
    };
    const CLIENT: u16 = 40_000;
    let engines = (Verdict::Redirect, Reason::Engine);
    let kernels = (Verdict::Kernel, Reason::Shared);
    let syn = from(CLIENT, SYN, 100, 0);
    bench.expect("its SYN", &syn, kernels.0, kernels.1);
    let cookie = answered(world, &syn).wrapping_add(1);
    let changed = bench.steering.set_share(endpoint, shared(SHARE_ALL));
    changed.expect("it is steered");
    for stranger in 1..16 * ROOM as u16 {
        for flags in [SYN, ACK] {
            let stranger = from(stranger, flags, 7, 7);
            bench.expect("a stranger", &stranger, engines.0, engines.1);
        }
    }
    for (what, other) in [
        ("a wrong number", from(CLIENT, ACK, 101, cookie ^ 1 << 20)),
        ("another client", from(CLIENT + 1, ACK, 101, cookie)),
        ("no answer", from(CLIENT, ACK | RST, 101, cookie)),
    ] {
        bench.expect(what, &other, engines.0, engines.1);
    }
    let ack = from(CLIENT, ACK, 101, cookie);
    bench.expect("the answer", &ack, Verdict::Kernel, Reason::Forgotten);
    bench.expect("what follows", &ack, kernels.0, kernels.1);
}
