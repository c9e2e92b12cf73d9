//! Own addresses that come while something listens on all of them: until they are steered, who comes there is the
//! kernel's.

use std::net::{IpAddr, Ipv4Addr};

use crate::world::World;
use engine::network::Steered;

const NEW: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 78));

fn how(world: &World, address: IpAddr) -> Steered {
    let mut steered = world.worker.network().steered.iter();
    let found = steered.find(|(own, _, _)| *own == address);
    found.map(|(_, _, how)| *how).expect("it is steered")
}

/// A VIP that moves here, say, and all its clients at once.
#[test]
fn who_came_to_a_new_address_before_the_engine_stays_the_kernels() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, _) = world.listen(&mut host);
    let first = world.worker.network().addresses[0];
    assert_eq!(how(&world, first), Steered::Engine);
    world.kernel.set_connections(port, 1);
    world.worker.network_mut().gain(NEW);
    world.worker.hear_of_network(world.now);
    assert_eq!(how(&world, NEW), Steered::Mixed);
    world.attend();
    assert_eq!(how(&world, NEW), Steered::Mixed, "the kernel has some");
    world.kernel.set_connections(port, 0);
    world.attend();
    for address in [first, NEW] {
        assert_eq!(how(&world, address), Steered::Engine);
    }
}

#[test]
fn an_answer_from_before_an_address_came_does_not_count() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let kernel = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = kernel.local_addr().expect("bound").port();
    world.kernel.set_connections(port, 1);
    world.show(&mut host, &kernel);
    world.kernel.set_connections(port, 0);
    // It answers that there are none.
    world.desk.attend();
    world.worker.network_mut().gain(NEW);
    world.worker.hear_of_network(world.now);
    world.worker.attend(world.now);
    assert_eq!(how(&world, NEW), Steered::Mixed);
    world.attend();
    assert_eq!(how(&world, NEW), Steered::Engine, "it was asked again");
}

/// Else each segment there would be looked up in the kernel's tables for ever.
#[test]
fn what_the_steering_refuses_is_asked_for_again() {
    let mut world = World::new();
    let mut host = world.attach(None);
    world.worker.network().refuse_once();
    let kernel = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    world.show(&mut host, &kernel);
    let own = world.worker.network().addresses[0];
    world.attend();
    assert_eq!(how(&world, own), Steered::Engine);
}
