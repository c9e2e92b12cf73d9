//! The steering program in the kernel's own test run: a frame in, a verdict and a count out.

#[path = "steering/bench.rs"]
mod bench;
mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use aya::{Ebpf, include_bytes_aligned};
use bench::{Bench, OURS, PEER, PORT, unbound_socket, v4};
use common::{ACK, Frame, SYN};
use lab::{Side, World};
use netdev::interface::Interface;
use netdev::programs::{fd_of, load_program};
use netdev::steering::{
    Endpoint, MAX_QUEUES, MAX_WORKERS, Reason, STALE, Share, SteeringError, Verdict, now_ns,
};

const PEER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const OURS6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// It steers port 80 of both of our addresses.
fn bench() -> Bench {
    Bench::of(&[OURS.into(), OURS6.into()])
}

fn v6() -> Frame {
    Frame::new(PEER6, OURS6, PORT)
}

#[test]
fn every_kind_of_frame_goes_where_it_belongs() {
    if lab::skip_without_root("every_kind_of_frame_goes_where_it_belongs") {
        return;
    }
    let bench = bench();
    let to_engine = [
        ("IPv4", v4()),
        ("IPv6", v6()),
        ("with data", v4().with(|f| f.payload = vec![7; 1000])),
        ("acknowledgement", v6().with(|f| f.tcp_flags = ACK)),
        ("IPv4 options", v4().with(|f| f.ip_options = vec![1; 4])),
        (
            "all IPv4 options",
            v4().with(|f| f.ip_options = vec![1; 40]),
        ),
        ("may be fragmented", v4().with(|f| f.fragment = 0)),
        ("reserved flag", v4().with(|f| f.fragment = 0x8000)),
        (
            "priority tag",
            v4().with(|f| f.tags = vec![(0x8100, 0xe000)]),
        ),
        (
            "extension headers",
            v6().with(|f| {
                let long = [&[1][..], &[0; 14]].concat();
                f.extensions = vec![options(0), (60, long), options(43), options(60)];
            }),
        ),
        (
            "two priority tags",
            v6().with(|f| f.tags = vec![(0x88a8, 0), (0x8100, 0)]),
        ),
    ];
    for (what, frame) in to_engine {
        bench.expect(what, &frame, Verdict::Redirect, Reason::Engine);
    }
    let to_kernel = [
        ("UDP", v4().with(|f| f.protocol = 17), Reason::NotTcp),
        ("ICMPv6", v6().with(|f| f.protocol = 58), Reason::NotTcp),
        (
            "another port",
            v4().with(|f| f.dst_port = 81),
            Reason::NotSteered,
        ),
        (
            "our port at the other end",
            v4().with(|f| (f.src_port, f.dst_port) = (80, 40_000)),
            Reason::NotSteered,
        ),
        (
            "another address",
            v4().with(|f| f.dst = Ipv4Addr::new(192, 0, 2, 3).into()),
            Reason::NotSteered,
        ),
        (
            "another address, IPv6",
            v6().with(|f| f.dst = PEER6.into()),
            Reason::NotSteered,
        ),
        (
            "last fragment",
            v4().with(|f| f.fragment = 0x0001),
            Reason::Fragment,
        ),
        (
            "IPv6 fragment",
            v6().with(|f| f.protocol = 44),
            Reason::Fragment,
        ),
        (
            "five extension headers",
            v6().with(|f| f.extensions = vec![options(60); 5]),
            Reason::ExtensionHeader,
        ),
        (
            "a routing header that is not used up",
            v6().with(|f| f.extensions = vec![(43, vec![0, 0, 1, 0, 0, 0, 0])]),
            Reason::ExtensionHeader,
        ),
        (
            "a later fragment, IPv6",
            v6().with(|f| f.extensions = vec![(44, vec![0, 0, 8, 0, 0, 0, 1])]),
            Reason::Fragment,
        ),
        (
            "a fragment for another port",
            v4().with(|f| (f.fragment, f.dst_port) = (0x2000, 81)),
            Reason::Fragment,
        ),
        (
            "broadcast",
            v4().with(|f| f.dst_mac = [0xff; 6]),
            Reason::NotUnicast,
        ),
        (
            "multicast",
            v4().with(|f| f.dst_mac[0] = 1),
            Reason::NotUnicast,
        ),
        (
            "VLAN",
            v4().with(|f| f.tags = vec![(0x8100, 7)]),
            Reason::NotSteered,
        ),
        (
            "three tags",
            v4().with(|f| f.tags = vec![(0x88a8, 0), (0x8100, 0), (0x8100, 0)]),
            Reason::VlanDepth,
        ),
    ];
    for (what, frame, reason) in to_kernel {
        bench.expect(what, &frame, Verdict::Kernel, reason);
    }
}

/// An extension header of eight bytes, all of it padding.
fn options(kind: u8) -> (u8, Vec<u8>) {
    (kind, vec![0; 7])
}

#[test]
fn fragments_for_the_engine_are_refused() {
    if lab::skip_without_root("fragments_for_the_engine_are_refused") {
        return;
    }
    let bench = bench();
    let first = |f: &mut Frame| f.extensions = vec![(44, vec![0, 0, 1, 0, 0, 0, 1])];
    for (what, frame) in [
        ("first fragment", v4().with(|f| f.fragment = 0x2000)),
        ("first fragment, IPv6", v6().with(first)),
        (
            "its ports alone",
            v4().with(|f| {
                f.fragment = 0x2000;
                f.upper = Some(vec![0x9c, 0x40, 0, 80, 0, 0, 0, 0]);
            }),
        ),
    ] {
        bench.expect(what, &frame, Verdict::Drop, Reason::FragmentRefused);
    }
}

/// A segment that was sent from our port.
fn sent(v6: bool) -> Frame {
    let frame = if v6 {
        Frame::new(OURS6, PEER6, 40_000)
    } else {
        Frame::new(OURS, PEER, 40_000)
    };
    frame.with(|f| f.src_port = PORT)
}

#[test]
fn icmp_errors_about_what_the_engine_sent_are_the_engines() {
    if lab::skip_without_root("icmp_errors_about_what_the_engine_sent_are_the_engines") {
        return;
    }
    let bench = bench();
    let router = Ipv4Addr::new(198, 51, 100, 1);
    let router6 = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
    for (what, frame) in [
        ("too big", sent(false).icmp_error(router, 3, 4, 1400)),
        ("unreachable", sent(false).icmp_error(PEER, 3, 1, 0)),
        ("time exceeded", sent(false).icmp_error(router, 11, 0, 0)),
        (
            "about a packet with options",
            sent(false)
                .with(|f| f.ip_options = vec![1; 8])
                .icmp_error(router, 3, 4, 1400),
        ),
        ("too big, IPv6", sent(true).icmp_error(router6, 2, 0, 1400)),
        ("no route, IPv6", sent(true).icmp_error(router6, 1, 0, 0)),
    ] {
        bench.expect(what, &frame, Verdict::Redirect, Reason::EngineError);
        // Cut anywhere, it is the kernel's.
        let frame = frame.build();
        for length in 14..frame.len() {
            assert_eq!(bench.run(&frame[..length]).0, Verdict::Kernel, "{length}");
        }
    }
    let elsewhere = |f: &mut Frame| f.dst = Ipv4Addr::new(192, 0, 2, 3).into();
    for (what, frame) in [
        ("echo", sent(false).icmp_error(router, 8, 0, 0)),
        ("source quench", sent(false).icmp_error(router, 4, 0, 0)),
        ("echo, IPv6", sent(true).icmp_error(router6, 128, 0, 0)),
        (
            "neighbour solicitation",
            sent(true).icmp_error(router6, 135, 0, 0),
        ),
        (
            "about another port",
            sent(false)
                .with(|f| f.src_port = 81)
                .icmp_error(router, 3, 4, 1400),
        ),
        (
            "about what was sent to our port",
            v4().icmp_error(router, 3, 4, 1400),
        ),
        (
            "about UDP",
            sent(false)
                .with(|f| f.protocol = 17)
                .icmp_error(router, 3, 3, 0),
        ),
        (
            "quoting what its receiver did not send",
            sent(false).icmp_error(router, 3, 4, 1400).with(elsewhere),
        ),
    ] {
        bench.expect(what, &frame, Verdict::Kernel, Reason::NotTcp);
    }
}

#[test]
fn headers_that_lie_go_to_the_kernel() {
    if lab::skip_without_root("headers_that_lie_go_to_the_kernel") {
        return;
    }
    let bench = bench();
    let ip = 14;
    let lies: [(&str, Frame, usize, &[u8]); 8] = [
        ("IPv4 of version 6", v4(), ip, &[0x65]),
        ("a header of 16 bytes", v4(), ip, &[0x44]),
        ("a header of 60 bytes in 40", v4(), ip, &[0x4f]),
        ("a total below the header", v4(), ip + 2, &[0, 19]),
        ("a total without the segment", v4(), ip + 2, &[0, 39]),
        ("IPv6 of version 4", v6(), ip, &[0x40]),
        ("no payload (or a jumbogram)", v6(), ip + 4, &[0, 0]),
        ("a payload below the header", v6(), ip + 4, &[0, 19]),
    ];
    for (what, frame, at, bytes) in lies {
        let mut frame = frame.build();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        assert_eq!(
            bench.run(&frame),
            (Verdict::Kernel, Reason::Truncated),
            "{what}"
        );
    }
    let mut arp = vec![0; 42];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(bench.run(&arp), (Verdict::Kernel, Reason::NotIp));
}

#[test]
fn a_frame_cut_anywhere_in_its_headers_goes_to_the_kernel() {
    if lab::skip_without_root("a_frame_cut_anywhere_in_its_headers_goes_to_the_kernel") {
        return;
    }
    let bench = bench();
    let shapes = [
        v4(),
        v6(),
        v4().with(|f| f.ip_options = vec![1; 12]),
        v4().with(|f| f.tags = vec![(0x88a8, 0), (0x8100, 0)]),
        v6().with(|f| f.tags = vec![(0x8100, 0)]),
    ];
    for frame in shapes {
        let frame = frame.build();
        // The kernel gives no program less than an Ethernet header.
        for length in 14..frame.len() {
            assert_eq!(
                bench.run(&frame[..length]),
                (Verdict::Kernel, Reason::Truncated),
                "{length} of {} bytes",
                frame.len()
            );
        }
        assert_eq!(bench.run(&frame), (Verdict::Redirect, Reason::Engine));
    }
}

#[test]
fn a_vlan_is_its_own_endpoint() {
    if lab::skip_without_root("a_vlan_is_its_own_endpoint") {
        return;
    }
    let mut bench = bench();
    let tagged = v4().with(|f| f.tags = vec![(0x8100, 7)]);
    bench.expect("before", &tagged, Verdict::Kernel, Reason::NotSteered);
    let endpoint = Endpoint::new(OURS.into(), PORT).on_vlan(7);
    bench
        .steering
        .add_port(endpoint, Share::All)
        .expect("add_port");
    bench.expect("its VLAN", &tagged, Verdict::Redirect, Reason::Engine);
    let service = v4().with(|f| f.tags = vec![(0x88a8, 0xe007)]);
    bench.expect(
        "with a priority",
        &service,
        Verdict::Redirect,
        Reason::Engine,
    );
    let double = v4().with(|f| f.tags = vec![(0x88a8, 7), (0x8100, 8)]);
    bench.expect("inside it", &double, Verdict::Kernel, Reason::NotSteered);
    let inner = Endpoint {
        vlan: [7, 8],
        ..endpoint
    };
    bench
        .steering
        .add_port(inner, Share::All)
        .expect("add_port");
    bench.expect("both", &double, Verdict::Redirect, Reason::Engine);
}

#[test]
fn ports_come_and_go() {
    if lab::skip_without_root("ports_come_and_go") {
        return;
    }
    let mut bench = bench();
    let endpoint = Endpoint::new(OURS.into(), PORT);
    bench.steering.remove_port(endpoint).expect("remove_port");
    bench.expect("removed", &v4(), Verdict::Kernel, Reason::NotSteered);
    bench.expect("the other", &v6(), Verdict::Redirect, Reason::Engine);
    for error in [
        bench.steering.remove_port(endpoint),
        bench.steering.set_share(endpoint, Share::Mixed),
    ] {
        let error = error.expect_err("it is gone");
        assert_eq!(error.to_string(), "192.0.2.1:80 is not steered");
    }
    bench
        .steering
        .add_port(endpoint, Share::All)
        .expect("add_port");
    bench.expect("again", &v4(), Verdict::Redirect, Reason::Engine);
    assert_eq!(bench.steering.ports().len(), 2);
}

#[test]
fn without_a_receiver_the_kernel_answers() {
    if lab::skip_without_root("without_a_receiver_the_kernel_answers") {
        return;
    }
    let mut bench = bench();
    bench.steering.disconnect_queue(0).expect("disconnect");
    bench.expect("none", &v4(), Verdict::Kernel, Reason::NoReceiver);
    // The kernel would end the connection.
    let later = v4().with(|frame| frame.tcp_flags = ACK);
    bench.expect("later", &later, Verdict::Drop, Reason::UnservedQueue);
    let socket = unbound_socket();
    bench.steering.connect_queue(0, &socket).expect("connect");
    bench.expect("one", &v4(), Verdict::Redirect, Reason::Engine);
    drop(socket);
    bench.expect("closed", &v4(), Verdict::Kernel, Reason::NoReceiver);
    // At the endpoint of a listener what follows may be the kernel's, too; at others it would only be looked up.
    let endpoint = Endpoint::new(IpAddr::V4(OURS), PORT);
    assert_eq!(bench.steering.noted(endpoint), None);
    let listener = bench.steering.set_share(endpoint, Share::Listener);
    listener.expect("steered");
    bench.expect("nobody listens", &v4(), Verdict::Kernel, Reason::Closing);
    assert!(bench.steering.noted(endpoint).is_some());
    let error = bench.steering.connect_queue(MAX_QUEUES, unbound_socket());
    assert!(matches!(error, Err(SteeringError::NoSuchQueue(MAX_QUEUES))));
}

/// In a network of its own: what the kernel has there decides over a mixed port.
#[test]
fn a_mixed_port_leaves_the_kernel_its_connections() {
    if lab::skip_without_root("a_mixed_port_leaves_the_kernel_its_connections") {
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
                mixed_port(address);
            }
        });
        if let Err(panic) = test.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn mixed_port(address: IpAddr) {
    let mut bench = bench();
    let listener = TcpListener::bind((address, 0)).expect("listen");
    let server = listener.local_addr().expect("address");
    let endpoint = Endpoint::new(address, server.port());
    bench
        .steering
        .add_port(endpoint, Share::Mixed)
        .expect("add_port");
    bench.show(&listener);

    // A connection to ourselves: what matters is that the kernel has it.
    let client = TcpStream::connect(server).expect("connect");
    let (accepted, peer) = listener.accept().expect("accept");
    let segment = |peer: SocketAddr, flags| {
        Frame::new(peer.ip(), address, server.port()).with(|frame| {
            frame.src_port = peer.port();
            frame.tcp_flags = flags;
        })
    };
    let stranger = SocketAddr::new(peer.ip(), peer.port() ^ 1);
    let kernels = (Verdict::Kernel, Reason::KernelConnection);
    let engines = (Verdict::Redirect, Reason::Engine);
    let expect = |bench: &Bench, what: &str, frame: Frame, (verdict, reason)| {
        bench.expect(what, &frame, verdict, reason);
    };

    expect(&bench, "established", segment(peer, ACK), kernels);
    // The listening socket alone does not keep a newcomer.
    expect(&bench, "a SYN", segment(stranger, SYN), engines);
    expect(&bench, "no connection", segment(stranger, ACK), engines);

    // The server closes first, and keeps the connection in TIME-WAIT.
    drop(accepted);
    drop(client);
    expect(&bench, "TIME-WAIT", segment(peer, ACK), kernels);
    // A SYN to it is a new one, of which the kernel may know nothing after it: it answers by a cookie.
    assert_eq!(bench.steering.noted(endpoint), None);
    expect(&bench, "again, a SYN", segment(peer, SYN), kernels);
    assert!(bench.steering.noted(endpoint).is_some());

    bench
        .steering
        .set_share(endpoint, Share::Closing)
        .expect("set_share");
    let new = (Verdict::Kernel, Reason::Closing);
    expect(&bench, "closing, a SYN", segment(stranger, SYN), new);
    expect(&bench, "closing, others", segment(stranger, ACK), engines);
    let syn_ack = segment(stranger, SYN | ACK);
    expect(&bench, "closing, SYN-ACK", syn_ack, engines);
    expect(&bench, "closing, the kernel's", segment(peer, ACK), kernels);

    bench
        .steering
        .set_share(endpoint, Share::All)
        .expect("set_share");
    expect(&bench, "it was left a SYN", segment(peer, ACK), kernels);
    let later = now_ns() + Duration::from_secs(10).as_nanos() as u64;
    assert!(bench.steering.forget_left(endpoint, later));
    expect(&bench, "not mixed", segment(peer, ACK), engines);
}

/// Half open: a SYN of a peer that never answers.
#[test]
fn a_mixed_port_leaves_the_kernel_its_half_open_connections() {
    if lab::skip_without_root("a_mixed_port_leaves_the_kernel_its_half_open_connections") {
        return;
    }
    let world = World::new().expect("a private network");
    std::thread::scope(|scope| {
        let test = scope.spawn(|| half_open(&world));
        if let Err(panic) = test.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn half_open(world: &World) {
    world.enter(Side::Server).expect("enter");
    let address = IpAddr::V4(Side::Server.ipv4());
    let listener = TcpListener::bind((address, 0)).expect("listen");
    let port = listener.local_addr().expect("address").port();
    let mut bench = bench();
    bench
        .steering
        .add_port(Endpoint::new(address, port), Share::Mixed)
        .expect("add_port");
    bench.show(&listener);

    // An address of the client's network that nobody answers for.
    let nobody = Ipv4Addr::new(10, 77, 0, 99);
    let syn = Frame::new(nobody, Side::Server.ipv4(), port);
    bench.expect("before", &syn, Verdict::Redirect, Reason::Engine);
    let server_mac = Interface::find(Side::Server.interface())
        .expect("interface")
        .mac;
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            world.enter(Side::Client).expect("enter");
            let interface = Interface::find(Side::Client.interface()).expect("interface");
            let frame = syn.clone().with(|frame| {
                frame.dst_mac = server_mac;
                frame.src_mac = interface.mac;
            });
            netdev::packet::RawSocket::open(&interface)
                .expect("raw socket")
                .send(&frame.build())
                .expect("send");
        });
        sender.join().expect("sender");
    });
    // The veth hands the frame over in a softirq of the sender, which is over by now or soon.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while bench.run(&syn.build()) != (Verdict::Kernel, Reason::KernelConnection) {
        assert!(
            std::time::Instant::now() < deadline,
            "the kernel never took the SYN"
        );
        std::thread::yield_now();
    }
}

/// What stands in for a responder's program: that it is called is counted before it runs.
fn some_program() -> Ebpf {
    let bytes = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/claim.bpf.o"));
    let mut object = Ebpf::load(bytes).expect("an object");
    load_program(&mut object, SOME_PROGRAM).expect("it loads");
    object
}

const SOME_PROGRAM: &str = "claim_replies";

#[test]
fn the_responders_last_endpoint_is_remembered_as_long_as_it_is_there() {
    if lab::skip_without_root("the_responders_last_endpoint_is_remembered_as_long_as_it_is_there") {
        return;
    }
    let mut bench = bench();
    let endpoint = Endpoint::new(OURS.into(), 81);
    let program = some_program();
    let steering = &mut bench.steering;
    let fd = fd_of(&program, SOME_PROGRAM).expect("a program").as_fd();
    steering.call_responder(fd).expect("it is called");
    steering.add_responder_port(endpoint).expect("an endpoint");
    let to_it = Frame::new(PEER, OURS, 81).build();
    let others = [
        v4(),
        v6(),
        Frame::new(PEER, OURS, 82),
        Frame::new(PEER, PEER, 81),
        Frame::new(PEER6, OURS6, 81),
        Frame::new(PEER, OURS, 81).with(|f| f.tags = vec![(0x8100, 5)]),
        Frame::new(PEER, OURS, 81).with(|f| f.tags = vec![(0x8100, 0)]),
        Frame::new(PEER, OURS, 81).with(|f| f.fragment = 0x2000),
        Frame::new(PEER, OURS, 81).with(|f| f.fragment = 1),
        Frame::new(PEER, OURS, 81).with(|f| f.protocol = 17),
        Frame::new(PEER, OURS, 81).with(|f| f.dst_mac[0] |= 1),
        Frame::new(PEER, OURS, 81).with(|f| f.ip_options = vec![1; 4]),
    ];
    let look = |bench: &Bench| others.each_ref().map(|frame| bench.run(&frame.build()));
    let before = look(&bench);
    assert_eq!(before[0], (Verdict::Redirect, Reason::Engine));
    assert_eq!(before[2], (Verdict::Kernel, Reason::NotSteered));
    // From the table, from memory, and when another was found between.
    for _ in 0..2 {
        assert_eq!(bench.run(&to_it).1, Reason::Responder);
        assert_eq!(look(&bench), before);
    }
    assert_eq!(
        bench.run(&to_it[..40]),
        (Verdict::Kernel, Reason::Truncated)
    );

    bench.steering.remove_port(endpoint).expect("it is there");
    let left = (Verdict::Kernel, Reason::NotSteered);
    assert_eq!(bench.run(&to_it), left);
    bench
        .steering
        .add_responder_port(endpoint)
        .expect("an endpoint");
    assert_eq!(bench.run(&to_it).1, Reason::Responder);
    bench
        .steering
        .add_port(endpoint, Share::All)
        .expect("taken");
    assert_eq!(bench.run(&to_it), (Verdict::Redirect, Reason::Engine));
    bench.steering.remove_port(endpoint).expect("it is there");
    bench
        .steering
        .add_responder_port(endpoint)
        .expect("an endpoint");
    assert_eq!(bench.run(&to_it).1, Reason::Responder);
    bench.steering.leave_responder().expect("left");
    let left = (Verdict::Kernel, Reason::NoResponder);
    assert_eq!(bench.run(&to_it), left);
}

/// A client's SYN and ACK, and what becomes of them: the engine's, or the kernel's because somebody is late.
fn a_connection() -> ([Frame; 2], (Verdict, Reason), (Verdict, Reason)) {
    let frames = [SYN, ACK].map(|flags| v4().with(|frame| frame.tcp_flags = flags));
    let engines = (Verdict::Redirect, Reason::Engine);
    (frames, engines, (Verdict::Kernel, Reason::Stale))
}

#[test]
fn new_connections_are_the_kernels_while_the_engine_leaves_frames_waiting() {
    if lab::skip_without_root("new_connections_are_the_kernels_while_the_engine_leaves_frames") {
        return;
    }
    let mut bench = bench();
    let ([syn, ack], engines, stale) = a_connection();
    let wait = |bench: &Bench| {
        while bench.steering.waiting() < STALE {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    // Nobody has said that he comes.
    bench.expect("given", &syn, engines.0, engines.1);
    assert_eq!(bench.steering.waiting(), std::time::Duration::ZERO);
    bench.steering.beat();
    assert_eq!(bench.steering.waiting(), std::time::Duration::ZERO);
    bench.expect("given", &ack, engines.0, engines.1);
    wait(&bench);
    bench.expect("a SYN too many", &syn, stale.0, stale.1);
    bench.expect(
        "of a connection of the engine's",
        &ack,
        engines.0,
        engines.1,
    );
    bench.steering.beat();
    bench.expect("it is back", &syn, engines.0, engines.1);
    // One that takes nothing because nothing comes is no reason.
    bench.steering.beat();
    std::thread::sleep(STALE);
    bench.expect("after silence", &syn, engines.0, engines.1);
}

#[test]
fn new_connections_are_the_kernels_while_a_worker_leaves_what_others_hand_to_it() {
    if lab::skip_without_root("new_connections_are_the_kernels_while_a_worker_leaves_what") {
        return;
    }
    let mut bench = bench();
    let ([syn, ack], engines, stale) = a_connection();
    let other = bench.steering.watch().of(MAX_WORKERS - 1);
    bench.steering.beat();
    other.note_late();
    // Whoever it is that gets the frame may have to hand it on.
    bench.expect("a SYN too many", &syn, stale.0, stale.1);
    bench.expect("what follows", &ack, engines.0, engines.1);
    bench.steering.beat();
    bench.expect("the other is not there", &syn, stale.0, stale.1);
    assert_eq!(other.beat(), STALE);
    bench.expect("it is back", &syn, engines.0, engines.1);
    assert_eq!(other.beat(), std::time::Duration::ZERO);
}
