//! Listening sockets that are more than one for the engine, or less: two on one port, and one that is named
//! in two ways.

use crate::world::World;
use queue_pair::control::{Fds, Reply, Request};
use queue_pair::{Completion, Submission};

#[test]
fn two_sockets_of_one_process_on_one_port_are_served_apart() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, first) = world.listen(&mut host);
    let again = host.kernel[0].try_clone().expect("descriptors");
    let second = world.show(&mut host, &again);
    for listener in [first, second] {
        host.submit(Submission::Credit {
            listener,
            total: 8,
            waits: false,
        });
    }
    world.settle();
    for _ in 0..4 {
        world.peer.connect(world.now, port);
        world.settle();
    }
    host.collect_and_accept();
    let at = |host: &crate::world::Host, name| {
        let of = |c: &&Completion| matches!(c, Completion::Accepted { listener, .. } if *listener == name);
        host.completions.iter().filter(of).count()
    };
    assert_eq!((at(&host, first), at(&host, second)), (2, 2));
    // One ends; the other goes on, and its credit is no breach.
    let (reply, _) = world.request(
        &mut host,
        &Request::Unlisten { listener: first },
        Fds::new(),
    );
    assert_eq!(reply, Reply::Done);
    host.submit(Submission::Credit {
        listener: second,
        total: 16,
        waits: false,
    });
    world.peer.connect(world.now, port);
    world.settle();
    host.collect();
    assert_eq!(at(&host, second), 3);
    assert_eq!(world.worker.counters().violations, 0);
}

#[test]
fn a_socket_bound_to_a_mapped_address_is_one_of_ipv4() {
    let mut world = World::new();
    let mut host = world.attach(None);
    let kernel = std::net::TcpListener::bind("[::ffff:0.0.0.0]:0").expect("a port");
    let addr = kernel.local_addr().expect("bound");
    let listener = world.show(&mut host, &kernel);
    assert_eq!(world.worker.network().steered.len(), 1);
    host.submit(Submission::Credit {
        listener,
        total: 1,
        waits: false,
    });
    world.peer.connect(world.now, addr.port());
    world.settle();
    host.collect();
    assert_eq!(host.accepted().len(), 1);
}
