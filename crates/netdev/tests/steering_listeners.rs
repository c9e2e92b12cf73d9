//! Endpoints of listeners in the kernel's test run of the steering program: new connections are the engine's where the
//! kernel would give them to a socket that was shown, whatever else listens there by then.

#[path = "steering/bench.rs"]
mod bench;
mod common;

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use bench::Bench;
use common::{ACK, Frame, SYN};
use lab::{Side, World};
use netdev::steering::{Endpoint, Reason, SHARE_ALL, Share, Verdict, now_ns};
use rustix::net::{AddressFamily, SocketType, sockopt};

/// The address of the server's side.
const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// What becomes of the engine's.
const ENGINE: (Verdict, Reason) = (Verdict::Redirect, Reason::Engine);

/// Runs a test in a private network, on the server's side.
fn in_a_network(test: &str, run: impl FnOnce() + Send) {
    if lab::skip_without_root(test) {
        return;
    }
    let world = World::new().expect("a private network");
    std::thread::scope(|scope| {
        let test = scope.spawn(|| {
            world.enter(Side::Server).expect("enter");
            run();
        });
        if let Err(panic) = test.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// A program that steers this port of ours.
fn bench(port: u16, share: Share) -> Bench {
    let mut bench = Bench::of(&[]);
    assert!(bench.steering.tells_sockets_apart(), "the kernel has BTF");
    let endpoint = Endpoint::new(IpAddr::V4(OURS), port);
    bench.steering.add_port(endpoint, share).expect("room");
    bench
}

/// A segment of the client with this port.
fn segment(client: u16, port: u16, flags: u8) -> Vec<u8> {
    let frame = Frame::new(Side::Client.ipv4(), OURS, port);
    frame
        .with(|frame| (frame.src_port, frame.tcp_flags) = (client, flags))
        .build()
}

/// Closes a listener for all who have it: a program that another test begins at this moment has it, too, until that is
/// executed.
fn close(listener: TcpListener) {
    rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).expect("listens");
}

/// All shares in which a listener takes new connections, and where those go that it does not take.
fn shares() -> [(Share, (Verdict, Reason)); 3] {
    let (share, slot) = (SHARE_ALL, 0);
    let kernel = |reason| (Verdict::Kernel, reason);
    [
        (Share::Listener, kernel(Reason::Closing)),
        (Share::Mixed, kernel(Reason::Closing)),
        (Share::Shared { share, slot }, kernel(Reason::Shared)),
    ]
}

/// A listener ends for new clients in the moment in which its program closes the kernel's socket, whoever has heard
/// of that, and the kernel says so to them. What it has accepted goes on.
#[test]
fn new_connections_come_while_a_socket_listens_that_was_shown() {
    let test = "new_connections_come_while_a_socket_listens_that_was_shown";
    in_a_network(test, || {
        for (share, kernel) in shares() {
            for on in ["0.0.0.0:0", "[::]:0"] {
                let listener = TcpListener::bind(on).expect("free");
                let port = listener.local_addr().expect("bound").port();
                let mut bench = bench(port, share);
                let what = format!("{share:?}, {listener:?}");
                bench.show(&listener);
                assert_eq!(bench.run(&segment(1, port, SYN)), ENGINE, "{what}");
                close(listener);
                assert_eq!(bench.run(&segment(2, port, SYN)), kernel, "{what}");
                assert_eq!(bench.run(&segment(1, port, ACK)), ENGINE, "{what}");

                // Another program's has the port now, whether or not anybody knows its cookie.
                let next = TcpListener::bind((OURS, port)).expect("free");
                assert_eq!(bench.run(&segment(3, port, SYN)), kernel, "{what}");
                let _ = netdev::syscalls::socket_cookie(&next).expect("a cookie");
                assert_eq!(bench.run(&segment(4, port, SYN)), kernel, "{what}");
                bench.show(&next);
                assert_eq!(bench.run(&segment(5, port, SYN)), ENGINE, "{what}");
                let cookie = netdev::syscalls::socket_cookie(&next).expect("a cookie");
                bench.steering.hide_socket(cookie).expect("shown");
                assert_eq!(bench.run(&segment(6, port, SYN)), kernel, "{what}");
            }
        }
    });
}

/// Of two programs with sockets at one port, one for an address and one for all, each has its clients.
#[test]
fn who_listens_on_one_address_has_its_clients() {
    in_a_network("who_listens_on_one_address_has_its_clients", || {
        for (share, kernel) in shares() {
            let reusing = |on: Ipv4Addr, port| {
                let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
                let socket: OwnedFd = socket.expect("socket");
                sockopt::set_socket_reuseport(&socket, true).expect("set");
                rustix::net::bind(&socket, &std::net::SocketAddr::from((on, port))).expect("free");
                rustix::net::listen(&socket, 1).expect("listens");
                TcpListener::from(socket)
            };
            let all = reusing(Ipv4Addr::UNSPECIFIED, 0);
            let port = all.local_addr().expect("bound").port();
            let mut bench = bench(port, share);
            bench.show(&all);
            assert_eq!(bench.run(&segment(1, port, SYN)), ENGINE, "{share:?}");
            let one = reusing(OURS, port);
            assert_eq!(bench.run(&segment(2, port, SYN)), kernel, "{share:?}");
            close(one);
            assert_eq!(bench.run(&segment(3, port, SYN)), ENGINE, "{share:?}");

            // And of two at one address the kernel chooses, by the addresses.
            let other = reusing(Ipv4Addr::UNSPECIFIED, port);
            let fates: Vec<_> = (1000..1100)
                .map(|client| bench.run(&segment(client, port, SYN)))
                .collect();
            assert!(fates.contains(&ENGINE) && fates.contains(&kernel));
            bench.show(&other);
            let taken = (2000..2100).all(|client| bench.run(&segment(client, port, SYN)) == ENGINE);
            assert!(taken, "{share:?}");
        }
    });
}

/// What the kernel was left stays its own, however often it is said that it has nothing: it may have been left one
/// since that was found out.
#[test]
fn what_the_kernel_was_left_is_not_forgotten_before_it_is_over() {
    let test = "what_the_kernel_was_left_is_not_forgotten_before_it_is_over";
    in_a_network(test, || {
        let listener = TcpListener::bind("0.0.0.0:0").expect("free");
        let port = listener.local_addr().expect("bound").port();
        let mut bench = bench(port, Share::Listener);
        let endpoint = Endpoint::new(IpAddr::V4(OURS), port);
        let long = Duration::from_secs(10).as_nanos() as u64;

        // An own connection of the kernel's, as if it had come by the interface.
        let client = std::net::TcpStream::connect((OURS, port)).expect("listens");
        let (_accepted, peer) = listener.accept().expect("connected");
        let ack = Frame::new(OURS, OURS, port);
        let ack = ack.with(|frame| (frame.src_port, frame.tcp_flags) = (peer.port(), ACK));
        assert_eq!(bench.run(&ack.build()), ENGINE, "nobody has said so");

        let before = now_ns();
        let kernel = (Verdict::Kernel, Reason::Closing);
        assert_eq!(bench.run(&segment(2, port, SYN)), kernel);
        let kernels = (Verdict::Kernel, Reason::KernelConnection);
        assert_eq!(bench.run(&ack.build()), kernels, "mixed");
        let after = now_ns();
        let soon = after + Duration::from_secs(1).as_nanos() as u64;
        for (as_of, what) in [
            (before, "before it"),
            (after, "it may be on its way"),
            (soon, "or be sent again"),
        ] {
            assert!(!bench.steering.forget_left(endpoint, as_of), "{what}");
            let said = bench.steering.set_share(endpoint, Share::Listener);
            said.expect("steered");
            assert_eq!(bench.run(&ack.build()), kernels, "{what}");
        }
        assert!(bench.steering.forget_left(endpoint, after + long));
        assert_eq!(bench.run(&ack.build()), ENGINE, "it is over");
        assert!(
            bench.steering.forget_left(endpoint, before),
            "nothing since"
        );

        // As what comes while nobody listens there.
        let closing = bench.steering.set_share(endpoint, Share::Closing);
        closing.expect("steered");
        assert_eq!(bench.steering.noted(endpoint), None, "nothing since");
        assert_eq!(bench.run(&segment(3, port, SYN)), kernel);
        let said = bench.steering.set_share(endpoint, Share::Listener);
        said.expect("steered");
        let noted = bench.steering.noted(endpoint).expect("it was left one");
        assert!((after..=now_ns()).contains(&noted));
        assert_eq!(bench.run(&ack.build()), kernels, "mixed");

        // Nor is anything left of one that ends.
        bench.steering.remove_port(endpoint).expect("steered");
        let added = bench.steering.add_port(endpoint, Share::Listener);
        added.expect("room");
        assert_eq!(bench.run(&ack.build()), ENGINE, "a new one");
        drop(client);
    });
}
