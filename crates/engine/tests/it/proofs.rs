//! How many of the kernel's sockets can be shown for a listener.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use crate::world::{Host, World};
use engine::network::Steered;
use queue_pair::control::{Fds, Reply, Request};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};

/// One that shares its port, of the kernel's choice if that is 0.
fn sharing(port: u16) -> TcpListener {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
    let socket = socket.expect("a socket");
    sockopt::set_socket_reuseport(&socket, true).expect("it can share");
    let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    rustix::net::bind(&socket, &local).expect("who is there shares as well");
    rustix::net::listen(&socket, 1).expect("bound");
    socket.into()
}

fn show(world: &mut World, host: &mut Host, kernel: &TcpListener) -> Reply {
    let request = Request::Listen {
        addr: kernel.local_addr().expect("bound"),
        v6only: false,
        backlog: 1,
        pinned: false,
    };
    let shown: OwnedFd = kernel.try_clone().expect("descriptors").into();
    world
        .request(host, &request, [shown].into_iter().collect())
        .0
}

/// Nobody needs an answer where no socket listens any more.
#[test]
fn a_question_that_was_dropped_with_the_last_proof_is_asked_anew() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let kernel = sharing(0);
    let port = kernel.local_addr().expect("bound").port();
    let cookie = netdev::syscalls::socket_cookie(&kernel).expect("a cookie");
    let how = |world: &World| world.worker.network().steered[0].2;
    let listen = |world: &World, cookies: &[u64]| {
        let told = cookies.iter().map(|cookie| (*cookie, 0)).collect();
        *world.kernel.listening.lock().expect("no panic") = Some(told);
    };
    world.kernel.set_connections(port, 1);
    show(&mut world, &mut host, &kernel);
    assert_eq!(how(&world), Steered::Mixed);
    listen(&world, &[1]);
    world.attend();
    assert_eq!(how(&world), Steered::Closing);
    // As by another listen(2) after shutdown(2).
    listen(&world, &[cookie]);
    show(&mut world, &mut host, &kernel);
    assert_eq!(how(&world), Steered::Mixed);
    world.kernel.set_connections(port, 0);
    world.attend();
    assert_eq!(how(&world), Steered::Engine);
}

/// A program that stops listening and keeps its socket has no listener that counts, and the steering knows the
/// socket for as long as others listen there.
#[test]
fn only_so_many_are_shown_for_one() {
    const MOST: usize = 256;
    let mut world = World::new();
    let mut host = world.attach(None);
    let first = sharing(0);
    let port = first.local_addr().expect("bound").port();
    assert!(matches!(
        show(&mut world, &mut host, &first),
        Reply::Listening { .. }
    ));
    let mut kept = vec![first];
    let refused = loop {
        let kernel = sharing(port);
        match show(&mut world, &mut host, &kernel) {
            Reply::Listening { listener } => {
                let request = Request::Unlisten { listener };
                world.request(&mut host, &request, Fds::new());
                kept.push(kernel);
            }
            reply => break reply,
        }
        assert!(kept.len() <= MOST, "it has an end");
    };
    let Reply::Error { errno, .. } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(errno, Errno::NOBUFS.raw_os_error());
    assert_eq!(kept.len(), MOST);
    assert_eq!(world.worker.network().shown.len(), MOST);
    // One of them is known already, and another listener has as many.
    let again = show(&mut world, &mut host, &kept[MOST - 1]);
    assert!(matches!(again, Reply::Listening { .. }), "{again:?}");
    world.listen(&mut host);
}
