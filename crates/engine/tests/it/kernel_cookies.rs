//! SYN cookies of the kernel's: who has one is in none of its tables, and its own all the same.

use std::net::TcpListener;
use std::time::Duration;

use crate::world::World;
use engine::network::{COOKIE_LIFE, Steered};

/// How the port is steered after some questions, and answers that the kernel has no connections there.
fn how(world: &mut World) -> Steered {
    for _ in 0..4 {
        world.desk.attend();
        world.worker.attend(world.now);
    }
    let [(_, _, how)] = world.worker.network().steered[..] else {
        panic!("one port: {:?}", world.worker.network().steered);
    };
    how
}

#[test]
fn a_port_stays_mixed_while_clients_may_have_cookies() {
    let mut world = World::new();
    let mut host = world.attach(None);
    // It has sent some, nobody knows when: who answers one now came before there was a listener here.
    *world.kernel.cookies.lock().expect("no panic") = 5;
    let kernel = TcpListener::bind("0.0.0.0:0").expect("a port");
    world.show(&mut host, &kernel);
    assert_eq!(how(&mut world), Steered::Mixed);
    world.worker.network().pass(COOKIE_LIFE);
    assert_eq!(how(&mut world), Steered::Engine);

    // Or it was left a SYN since.
    world.worker.network().leave_some();
    let nearly = COOKIE_LIFE - Duration::from_secs(1);
    world.worker.network().pass(nearly);
    assert_eq!(how(&mut world), Steered::Mixed);
    world.worker.network().pass(COOKIE_LIFE);
    assert_eq!(how(&mut world), Steered::Engine);
}

/// It would be asked for each new listener once a second, for two minutes.
#[test]
fn nobody_looks_for_connections_while_cookies_would_decide_alone() {
    let mut world = World::new();
    let mut host = world.attach(None);
    *world.kernel.cookies.lock().expect("no panic") = 5;
    let kernel = TcpListener::bind("0.0.0.0:0").expect("a port");
    world.show(&mut host, &kernel);
    let looks = |world: &World| *world.kernel.looks.lock().expect("no panic");
    let first = looks(&world);
    let nearly = COOKIE_LIFE - Duration::from_secs(1);
    for time in [Duration::ZERO, nearly] {
        world.worker.network().pass(time);
        assert_eq!(how(&mut world), Steered::Mixed);
        assert_eq!(looks(&world), first);
    }
    world.worker.network().pass(COOKIE_LIFE - nearly);
    assert_eq!(how(&mut world), Steered::Engine);
}
