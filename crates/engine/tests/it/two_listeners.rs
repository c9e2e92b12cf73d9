//! Two listeners at one port, as a server has for IPv4 and IPv6: each asks by itself what the kernel has there.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};

use crate::world::World;
use engine::network::Steered;
use rustix::net::sockopt::set_ipv6_v6only;
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

const OURS6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// How all of them are steered.
fn all(world: &World) -> Vec<Steered> {
    let steered = world.worker.network().steered.iter();
    steered.map(|(_, _, how)| *how).collect()
}

/// By a worker that stood still.
#[test]
fn an_answer_from_before_a_listener_asked_again_is_not_about_it() {
    let mut world = World::new();
    world.worker.network_mut().gain(IpAddr::from(OURS6));
    let mut host = world.attach(None);
    let (port, _) = world.listen(&mut host);
    world.kernel.set_connections(port, 1);
    let other = socket(AddressFamily::INET6, SocketType::STREAM, None).expect("descriptors");
    set_ipv6_v6only(&other, true).expect("new");
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    bind(&other, &address).expect("free");
    listen(&other, 1).expect("bound");
    let other = TcpListener::from(other);
    world.show(&mut host, &other);
    assert_eq!(all(&world), [Steered::Engine, Steered::Mixed]);

    // The first answer waits, and so does the second: the other one has asked since.
    world.kernel.set_connections(port, 0);
    world.desk.attend();
    world.worker.network().leave_some();
    world.worker.network_mut().absences += 1;
    world.worker.turn(world.now);
    assert_eq!(all(&world), [Steered::Mixed; 2]);
    world.desk.attend();
    world.desk.attend();

    // What the kernel has got since then neither of them knows.
    world.kernel.set_connections(port, 1);
    world.worker.network().leave_some();
    world.worker.attend(world.now);
    assert_eq!(all(&world), [Steered::Mixed; 2]);
    world.attend();
    assert_eq!(all(&world), [Steered::Mixed; 2]);
    world.kernel.set_connections(port, 0);
    world.attend();
    assert_eq!(all(&world), [Steered::Engine; 2]);
}
