//! Ports that programs have bound, for connections from there: whose they are, and for how long.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{Completion, ConnRef, ConnectBlock, Submission};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};

use crate::world::{ENGINE, Host, PEER, World};

/// A host lends a port of the kernel's choice, and keeps no copy of the socket.
fn lend(world: &mut World, host: &mut Host) -> SocketAddr {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
    let socket: OwnedFd = socket.expect("a descriptor");
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    bind(&socket, &any).expect("a port");
    let local = getsockname(&socket).expect("bound").try_into();
    let local = local.expect("an address");
    let fds: Fds = [socket].into_iter().collect();
    let (reply, _) = world.request(host, &Request::Bound { local }, fds);
    assert_eq!(reply, Reply::Done);
    local
}

/// Whether a socket is bound there.
fn is_held(local: SocketAddr) -> bool {
    TcpListener::bind(local).is_err()
}

fn connect(
    world: &mut World,
    host: &mut Host,
    local: SocketAddr,
    remote: SocketAddr,
) -> Completion {
    let block = ConnectBlock {
        local,
        ..ConnectBlock::new(remote)
    };
    host.region
        .send
        .copy_in(0, &block.encode())
        .expect("inside");
    host.submit(Submission::Connect { token: 5, addr: 0 });
    let told = host.completions.len();
    world.settle();
    host.collect();
    *host.completions.get(told).expect("answered")
}

fn failed(errno: Errno) -> Completion {
    let errno = errno.raw_os_error() as u16;
    Completion::OpenFailed { token: 5, errno }
}

fn opened(completion: Completion) -> ConnRef {
    match completion {
        Completion::Opened { conn, .. } => conn,
        other => panic!("not opened: {other:?}"),
    }
}

#[test]
fn a_port_that_was_lent_for_nothing_goes_back_at_once() {
    let mut world = World::new();
    let mut host = world.attach(None);
    world.peer.listen(7);
    let peer = SocketAddr::new(PEER, 7);
    // Nothing of this machine's is on the engine.
    let elsewhere = SocketAddr::new(ENGINE, 7);
    let local = lend(&mut world, &mut host);
    assert!(is_held(local));
    let told = connect(&mut world, &mut host, local, elsewhere);
    assert_eq!(told, failed(Errno::OPNOTSUPP));
    assert!(!is_held(local));

    let local = lend(&mut world, &mut host);
    opened(connect(&mut world, &mut host, local, peer));
    world.pass(Duration::from_secs(3));
    assert!(is_held(local), "it is used");
}
