//! Endpoints that engine and kernel share by connections, in the kernel's test run of the steering program.

#[path = "steering/bench.rs"]
mod bench;
mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use bench::{Bench, OURS, PEER, PORT, v4};
use common::{ACK, Frame, SYN};
use lab::{Side, World};
use netdev::steering::{Endpoint, Load, MAX_SLOTS, Reason, SHARE_ALL, STALE, Share, Verdict};

const FIN: u8 = 0x01;
const RST: u8 = 0x04;

/// What is to become of a frame.
type Fate = (Verdict, Reason);
const ENGINE: Fate = (Verdict::Redirect, Reason::Engine);
const KERNEL: Fate = (Verdict::Kernel, Reason::Shared);

const PEER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const OURS6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// The engine has this share of port 80 of both addresses.
fn bench(share: u32) -> Bench {
    let mut bench = Bench::of(&[OURS.into(), OURS6.into()]);
    bench.listen();
    set(&mut bench, share);
    bench
}

/// Counted under the last number that there is.
fn shared(share: u32) -> Share {
    let slot = MAX_SLOTS - 1;
    Share::Shared { share, slot }
}

fn set(bench: &mut Bench, share: u32) {
    for address in [IpAddr::V4(OURS), IpAddr::V6(OURS6)] {
        let endpoint = Endpoint::new(address, PORT);
        let changed = bench.steering.set_share(endpoint, shared(share));
        changed.expect("it is steered");
    }
}

/// A segment of the client with this port.
fn segment(port: u16, flags: u8) -> Frame {
    v4().with(|f| (f.src_port, f.tcp_flags) = (port, flags))
}

fn expect(bench: &Bench, what: &str, frame: &Frame, (verdict, reason): Fate) {
    bench.expect(what, frame, verdict, reason);
}

#[test]
fn the_share_decides_over_new_connections() {
    if lab::skip_without_root("the_share_decides_over_new_connections") {
        return;
    }
    const EACH: u16 = 1000;
    for (share, least, most) in [
        (0, 0, 0),
        // A quarter of each thousand, by more than ten standard deviations.
        (SHARE_ALL / 4, 100, 400),
        (SHARE_ALL, 1000, 1000),
        (u32::MAX, 1000, 1000),
    ] {
        let bench = bench(share);
        let of_v4 = (0..EACH).map(|n| segment(30_000 + n, SYN));
        let of_v6 = (0..EACH)
            .map(|n| Frame::new(PEER6, OURS6, PORT).with(|frame| frame.src_port = 30_000 + n));
        let to_engine = |frame: &Frame| match bench.run(&frame.build()) {
            ENGINE => true,
            KERNEL => false,
            other => panic!("{other:?}"),
        };
        for engines in [
            of_v4.filter(to_engine).count(),
            of_v6.filter(to_engine).count(),
        ] {
            assert!((least..=most).contains(&engines), "{engines} of {share}");
        }
    }
}

#[test]
fn the_addresses_count_too_and_nobody_else_can_tell_how() {
    if lab::skip_without_root("the_addresses_count_too_and_nobody_else_can_tell_how") {
        return;
    }
    let (one, other) = (bench(SHARE_ALL / 2), bench(SHARE_ALL / 2));
    let clients: Vec<_> = (0..=255u8)
        .map(|n| v4().with(|f| f.src = Ipv4Addr::new(198, 51, 100, n).into()))
        .collect();
    let of = |bench: &Bench| -> Vec<Fate> {
        let fates = clients.iter().map(|frame| bench.run(&frame.build()));
        fates.collect()
    };
    let (one, other) = (of(&one), of(&other));
    assert!(one.contains(&ENGINE) && one.contains(&KERNEL), "{one:?}");
    assert_ne!(one, other, "each program has its own key");
}

#[test]
fn another_share_moves_no_connection() {
    if lab::skip_without_root("another_share_moves_no_connection") {
        return;
    }
    let mut bench = bench(0);
    expect(&bench, "a SYN", &segment(1, SYN), KERNEL);
    expect(&bench, "established", &segment(1, ACK), KERNEL);
    expect(&bench, "half open", &segment(2, SYN), KERNEL);
    set(&mut bench, SHARE_ALL);
    expect(&bench, "of the kernel", &segment(1, ACK), KERNEL);
    expect(&bench, "a SYN again", &segment(2, SYN), KERNEL);
    expect(&bench, "its answer", &segment(2, ACK), KERNEL);
    expect(&bench, "a new one", &segment(3, SYN), ENGINE);
    expect(&bench, "established", &segment(3, ACK), ENGINE);
    expect(&bench, "half open", &segment(4, SYN), ENGINE);
    set(&mut bench, 0);
    expect(&bench, "of the engine", &segment(3, ACK), ENGINE);
    expect(&bench, "a SYN in the midst", &segment(3, SYN), ENGINE);
    expect(&bench, "a SYN again", &segment(4, SYN), ENGINE);
    expect(&bench, "its answer", &segment(4, ACK), ENGINE);
    expect(&bench, "a new one", &segment(5, SYN), KERNEL);
    // What the table does not know, and the kernel neither, is older than the sharing.
    expect(&bench, "unknown", &segment(6, ACK), ENGINE);
}

#[test]
fn a_pair_of_ports_is_free_again_when_its_client_has_ended() {
    if lab::skip_without_root("a_pair_of_ports_is_free_again_when_its_client_has_ended") {
        return;
    }
    let mut bench = bench(SHARE_ALL);
    for (port, last) in [(1, FIN | ACK), (2, RST), (3, FIN | ACK)] {
        for flags in [SYN, ACK, last, ACK] {
            expect(&bench, "opened and ended", &segment(port, flags), ENGINE);
        }
    }
    let data = segment(3, ACK).with(|f| f.payload = vec![7; 10]);
    expect(&bench, "who ended says no more", &data, ENGINE);
    set(&mut bench, 0);
    expect(&bench, "again", &segment(1, SYN), KERNEL);
    expect(&bench, "again", &segment(2, SYN), KERNEL);
    expect(&bench, "it had not ended", &segment(3, SYN), ENGINE);
}

#[test]
fn errors_and_fragments_go_where_their_connection_goes() {
    if lab::skip_without_root("errors_and_fragments_go_where_their_connection_goes") {
        return;
    }
    let mut bench = bench(0);
    expect(&bench, "the kernel's", &segment(1, SYN), KERNEL);
    set(&mut bench, SHARE_ALL);
    expect(&bench, "the engine's", &segment(2, SYN), ENGINE);
    let about = |port| {
        let sent = Frame::new(OURS, PEER, port).with(|f| f.src_port = PORT);
        sent.icmp_error(PEER, 3, 4, 1400)
    };
    let error = (Verdict::Redirect, Reason::EngineError);
    expect(&bench, "an error", &about(1), KERNEL);
    expect(&bench, "an error", &about(2), error);
    // It is not the client's answer.
    expect(&bench, "a SYN again", &segment(1, SYN), KERNEL);
    set(&mut bench, 0);
    expect(&bench, "a SYN again", &segment(2, SYN), ENGINE);
    let fragment = |port| segment(port, SYN).with(|f| f.fragment = 0x2000);
    let refused = (Verdict::Drop, Reason::FragmentRefused);
    expect(&bench, "a fragment", &fragment(1), KERNEL);
    expect(&bench, "a fragment", &fragment(2), refused);
}

#[test]
fn what_is_remembered_from_an_earlier_sharing_counts_for_nothing() {
    if lab::skip_without_root("what_is_remembered_from_an_earlier_sharing_counts_for_nothing") {
        return;
    }
    let mut bench = bench(0);
    expect(&bench, "a SYN", &segment(1, SYN), KERNEL);
    let endpoint = Endpoint::new(OURS.into(), PORT);
    bench
        .steering
        .set_share(endpoint, Share::All)
        .expect("steered");
    expect(&bench, "all", &segment(1, ACK), ENGINE);
    set(&mut bench, 0);
    // The kernel does not have it.
    expect(&bench, "shared again", &segment(1, ACK), ENGINE);
    expect(&bench, "opened again", &segment(1, SYN), KERNEL);
    expect(&bench, "and established", &segment(1, ACK), KERNEL);
    bench.steering.remove_port(endpoint).expect("steered");
    bench
        .steering
        .add_port(endpoint, shared(SHARE_ALL))
        .expect("there is room");
    expect(&bench, "another listener", &segment(1, SYN), ENGINE);
}

#[test]
fn an_engine_that_is_away_leaves_new_connections_to_the_kernel() {
    if lab::skip_without_root("an_engine_that_is_away_leaves_new_connections_to_the_kernel") {
        return;
    }
    let mut bench = bench(SHARE_ALL);
    bench.steering.beat();
    for flags in [SYN, ACK] {
        expect(&bench, "before", &segment(1, flags), ENGINE);
    }
    while bench.steering.waiting() < STALE {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let stale = (Verdict::Kernel, Reason::Stale);
    expect(&bench, "a SYN too many", &segment(2, SYN), stale);
    expect(&bench, "its answer", &segment(2, ACK), KERNEL);
    expect(&bench, "of the engine", &segment(1, ACK), ENGINE);
    expect(&bench, "a SYN in the midst", &segment(1, SYN), ENGINE);
    bench.steering.beat();
    expect(&bench, "it is back", &segment(3, SYN), ENGINE);
    expect(&bench, "the kernel keeps its own", &segment(2, ACK), KERNEL);

    bench.steering.disconnect_queue(0).expect("disconnect");
    let nobody = (Verdict::Kernel, Reason::NoReceiver);
    expect(&bench, "no receiver", &segment(4, SYN), nobody);
    expect(&bench, "its answer", &segment(4, ACK), KERNEL);
}

#[test]
fn the_load_is_counted_whoever_has_it() {
    if lab::skip_without_root("the_load_is_counted_whoever_has_it") {
        return;
    }
    let mut bench = bench(0);
    let loads = bench.steering.take_loads().expect("nobody has it yet");
    assert!(bench.steering.take_loads().is_none());
    let data = |port| segment(port, ACK).with(|f| f.payload = vec![7; 10]);
    let of = |bench: &Bench, frames: &[Frame]| {
        for frame in frames {
            bench.run(&frame.build());
        }
        loads.of_slot(MAX_SLOTS - 1).expect("it is there")
    };
    let syn = segment(1, SYN);
    let mut expected = Load {
        opened_kernel: 1,
        ..Load::default()
    };
    assert_eq!(of(&bench, &[syn.clone(), syn]), expected, "a SYN once");
    set(&mut bench, SHARE_ALL);
    let load = of(
        &bench,
        &[data(1), data(1), segment(1, ACK), segment(2, SYN)],
    );
    (expected.data_kernel, expected.opened_engine) = (2, 1);
    assert_eq!(load, expected, "data alone");
    let v6 = Frame::new(PEER6, OURS6, PORT);
    let load = of(&bench, &[data(2), data(9), v6]);
    (expected.data_engine, expected.opened_engine) = (2, 2);
    assert_eq!(load, expected, "unknown connections, and the other address");
    let mut load = of(&bench, &[segment(1, FIN | ACK), segment(1, FIN | ACK)]);
    assert!(load.lived_ns > 0, "{load:?}");
    let first = std::mem::take(&mut load.lived_ns);
    expected.ended = 1;
    assert_eq!(load, expected, "an end once");
    let load = of(&bench, &[segment(2, RST), segment(9, RST)]);
    assert!(load.lived_ns > first && load.ended == 2, "{load:?}");
    let other = loads.of_slot(0).expect("it is there");
    assert_eq!(other, Load::default());
    assert!(loads.of_slot(MAX_SLOTS).is_err());
}

/// In a network of its own, where the kernel has connections.
#[test]
fn what_is_forgotten_is_known_by_the_kernel() {
    if lab::skip_without_root("what_is_forgotten_is_known_by_the_kernel") {
        return;
    }
    let world = World::new().expect("a private network");
    std::thread::scope(|scope| {
        let test = scope.spawn(|| {
            world.enter(Side::Server).expect("enter");
            for address in [
                IpAddr::V4(Side::Server.ipv4()),
                IpAddr::V6(Side::Server.ipv6()),
            ] {
                connections_of_the_kernel(address);
            }
        });
        if let Err(panic) = test.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn connections_of_the_kernel(address: IpAddr) {
    const ROOM: u32 = 1024;
    let mut bench = Bench::remembering(ROOM);
    let listener = TcpListener::bind((address, 0)).expect("listen");
    bench.show(&listener);
    let server = listener.local_addr().expect("address");
    let endpoint = Endpoint::new(address, server.port());
    let all = shared(SHARE_ALL);
    bench.steering.add_port(endpoint, all).expect("add_port");
    let client = TcpStream::connect(server).expect("connect");
    let (accepted, peer) = listener.accept().expect("accept");
    let segment = |peer: SocketAddr, flags| {
        Frame::new(peer.ip(), address, server.port()).with(|frame| {
            frame.src_port = peer.port();
            frame.tcp_flags = flags;
        })
    };
    let forgotten = (Verdict::Kernel, Reason::Forgotten);
    let from = |what, flags, fate| expect(&bench, what, &segment(peer, flags), fate);

    from("older than the sharing", ACK, forgotten);
    from("known now", ACK, KERNEL);
    from("a SYN in the midst", SYN, KERNEL);
    from("known still", ACK, KERNEL);
    // Many more connections than there is room for, and in use: what is given up is not always the oldest.
    for n in 0..16 * ROOM as u16 {
        let stranger = SocketAddr::new(peer.ip(), 1 + n);
        for flags in [SYN, ACK].into_iter().filter(|_| stranger != peer) {
            expect(&bench, "a stranger", &segment(stranger, flags), ENGINE);
        }
    }
    from("forgotten", ACK, forgotten);
    from("and known again", ACK, KERNEL);
    // The server closes first, and keeps the pair of ports in TIME-WAIT.
    drop(accepted);
    drop(client);
    from("the last of it", FIN | ACK, KERNEL);
    from("TIME-WAIT", ACK, KERNEL);
    from("a new connection", SYN, ENGINE);
}
