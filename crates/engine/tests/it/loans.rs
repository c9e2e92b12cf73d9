//! Ports that programs have bound, or named, for connections from there: whose they are, and for how long.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use engine::config::Config;
use netdev::sim::LinkConfig;
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{Completion, ConnRef, ConnectBlock, Submission};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};

use crate::world::{ENGINE, Host, PEER, World};

/// A host lends a port of the kernel's choice, and keeps no copy of the socket.
fn lend(world: &mut World, host: &mut Host) -> SocketAddr {
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let socket = bound(any);
    let local = getsockname(&socket).expect("bound").try_into();
    let local = local.expect("an address");
    show(world, host, local, socket);
    local
}

/// A socket that shares its port with others of this user.
fn bound(local: SocketAddr) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
    let socket = socket.expect("a descriptor");
    sockopt::set_socket_reuseport(&socket, true).expect("an option");
    bind(&socket, &local).expect("a port");
    socket
}

fn show(world: &mut World, host: &mut Host, local: SocketAddr, socket: OwnedFd) {
    let fds: Fds = [socket].into_iter().collect();
    let (reply, _) = world.request(host, &Request::Bound { local }, fds);
    assert_eq!(reply, Reply::Done);
}

/// Whether a socket is bound there.
fn is_held(local: SocketAddr) -> bool {
    TcpListener::bind(local).is_err()
}

fn ask(host: &mut Host, local: SocketAddr, remote: SocketAddr) {
    let block = ConnectBlock {
        local,
        ..ConnectBlock::new(remote)
    };
    host.region
        .send
        .copy_in(0, &block.encode())
        .expect("inside");
    host.submit(Submission::Connect { token: 5, addr: 0 });
}

fn connect(
    world: &mut World,
    host: &mut Host,
    local: SocketAddr,
    remote: SocketAddr,
) -> Completion {
    ask(host, local, remote);
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

/// The answer has come too late for its program, which has let the kernel connect the socket.
#[test]
fn a_port_that_was_lent_and_is_not_asked_for_goes_back() {
    let mut world = World::new();
    let mut host = world.attach(None);
    world.peer.listen(7);
    let local = lend(&mut world, &mut host);
    looks_for(&mut world, 3);
    assert!(is_held(local), "it may only be slow");
    let used = lend(&mut world, &mut host);
    opened(connect(
        &mut world,
        &mut host,
        used,
        SocketAddr::new(PEER, 7),
    ));
    looks_for(&mut world, 3);
    assert!(!is_held(local));
    looks_for(&mut world, 5);
    assert!(is_held(used));
}

/// Some time passes, and the engine runs: it looks each second.
fn looks_for(world: &mut World, seconds: u32) {
    for _ in 0..seconds {
        world.pass(Duration::from_secs(1));
        world.attend();
    }
}

/// Nothing is read meanwhile, so nothing has been missed.
#[test]
fn a_port_that_was_lent_is_there_when_the_engine_goes_on() {
    let mut world = World::new();
    let mut host = world.attach(None);
    world.peer.listen(7);
    let local = lend(&mut world, &mut host);
    // It is looked at first.
    world.now += Duration::from_secs(60);
    world.worker.attend(world.now);
    world.desk.attend();
    assert!(is_held(local));
    ask(&mut host, local, SocketAddr::new(PEER, 7));
    world.settle();
    host.collect();
    opened(*host.completions.last().expect("answered"));
}

#[test]
fn a_port_that_is_lent_again_is_held_once() {
    let mut world = World::new();
    let mut host = world.attach(None);
    world.peer.listen(7);
    let socket = bound(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0));
    let local: SocketAddr = getsockname(&socket)
        .expect("bound")
        .try_into()
        .expect("an address");
    for _ in 0..2 {
        let again = socket.try_clone().expect("a descriptor");
        show(&mut world, &mut host, local, again);
    }
    drop(socket);
    // Given back at once, with nothing left that is kept for a connection which does not come.
    let elsewhere = SocketAddr::new(ENGINE, 7);
    let told = connect(&mut world, &mut host, local, elsewhere);
    assert_eq!(told, failed(Errno::OPNOTSUPP));
    assert!(!is_held(local));
}

#[test]
fn two_sockets_of_one_port_are_two_loans() {
    let mut world = World::new();
    let mut host = world.attach(None);
    world.peer.listen(7);
    world.peer.listen(8);
    let local = lend(&mut world, &mut host);
    show(&mut world, &mut host, local, bound(local));
    for port in [7, 8] {
        let remote = SocketAddr::new(PEER, port);
        opened(connect(&mut world, &mut host, local, remote));
    }
}

/// Two programs of a user, and one of another.
fn users(config: Config) -> Option<(World, [Host; 3])> {
    if !rustix::process::geteuid().is_root() {
        println!("left out: it takes root to be several users");
        return None;
    }
    let mut world = World::with(config, LinkConfig::default());
    let hosts = [1000, 1000, 1001].map(|uid| world.attach_as(uid));
    Some((world, hosts))
}

/// A port that is named.
fn named(port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)
}

#[test]
fn a_port_that_is_named_is_its_users_until_its_connection_is_over() {
    let Some((mut world, [mut first, mut again, mut second])) = users(Config::default()) else {
        return;
    };
    for port in [7, 8, 9] {
        world.peer.listen(port);
    }
    let to = |port| SocketAddr::new(PEER, port);
    let local = named(5432);
    let conn = opened(connect(&mut world, &mut first, local, to(7)));
    // Another program of the user's may use it as well; one of another user's may not.
    let other = opened(connect(&mut world, &mut again, local, to(8)));
    let told = connect(&mut world, &mut second, local, to(9));
    assert_eq!(told, failed(Errno::ADDRINUSE));
    for (host, conn) in [(&mut first, conn), (&mut again, other)] {
        host.close(conn);
    }
    drop((first, again));
    world.attend();
    world.pass(Duration::from_secs(2));
    for peer in world.peer.conns.keys().copied().collect::<Vec<_>>() {
        world.peer.request(world.now, peer, tcp::Request::Close);
    }
    world.pass(Duration::from_secs(2));
    let told = connect(&mut world, &mut second, local, to(9));
    assert_eq!(told, failed(Errno::ADDRINUSE), "TIME-WAIT");
    // Then it is nobody's, and is not used for connections from any port.
    world.now += Duration::from_secs(120);
    world.pass(Duration::from_millis(10));
    world.worker.attend(world.now);
    assert!(world.worker.network().steered.is_empty());
    opened(connect(&mut world, &mut second, local, to(9)));
    assert!(world.worker.network().ports.is_empty());
}

#[test]
fn a_user_has_no_more_named_ports_than_its_share() {
    let mut config = Config::default();
    config.limits.leased_ports = 8;
    let Some((mut world, [mut first, _again, mut second])) = users(config) else {
        return;
    };
    world.peer.listen(7);
    let to = SocketAddr::new(PEER, 7);
    for port in 5000..5004 {
        opened(connect(&mut world, &mut first, named(port), to));
    }
    let told = connect(&mut world, &mut first, named(5004), to);
    assert_eq!(told, failed(Errno::NOBUFS));
    opened(connect(&mut world, &mut second, named(5004), to));
    // What others need a privilege for stays root's.
    let told = connect(&mut world, &mut second, named(80), to);
    assert_eq!(told, failed(Errno::ACCESS));
}

#[test]
fn a_low_port_is_roots_to_connect_from() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: it takes root to be root");
        return;
    }
    let mut world = World::new();
    let mut host = world.attach(None);
    world.peer.listen(7);
    let to = SocketAddr::new(PEER, 7);
    opened(connect(&mut world, &mut host, named(80), to));
}
