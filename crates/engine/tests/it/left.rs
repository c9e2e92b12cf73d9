//! Listening sockets on their way from one program to the next: who waits in the queue is the next
//! holder's, as long as there is a copy of the kernel's socket.

use std::collections::HashSet;
use std::net::TcpListener;
use std::time::Duration;

use crate::world::{Host, World};
use netdev::syscalls::socket_cookie;
use queue_pair::Submission;
use queue_pair::control::{Fds, Reply, Request};
use tcp::ConnId;

/// A host that listens and accepts nobody, with a client in the queue: also the kernel's socket, of which
/// the engine knows that it listens.
fn waiting() -> (World, Host, TcpListener, ConnId) {
    let mut world = World::new();
    let mut host = world.attach(None);
    let (port, _) = world.listen(&mut host);
    let kernel = host.kernel[0].try_clone().expect("descriptors");
    let cookie = socket_cookie(&kernel).expect("a cookie");
    set_listening(&world, [cookie].into());
    let client = world.peer.connect(world.now, port);
    world.settle();
    (world, host, kernel, client)
}

fn set_listening(world: &World, cookies: HashSet<u64>) {
    let told = cookies.into_iter().map(|cookie| (cookie, 0)).collect();
    *world.kernel.listening.lock().expect("no panic") = Some(told);
}

fn is_reset(world: &World, client: ConnId) -> bool {
    world.peer.conns[&client].update.failed.is_some()
}

fn kill(world: &mut World, host: Host) {
    drop(host);
    world.attend();
}

/// The engine looks at what is rare, again and again for so long.
fn look_on(world: &mut World, span: Duration) {
    let end = world.now + span;
    while world.now < end {
        world.pass(Duration::from_millis(10));
        world.attend();
    }
}

#[test]
fn who_waits_is_the_next_holders() {
    for closes in [false, true] {
        let (mut world, mut host, kernel, client) = waiting();
        if closes {
            let request = Request::Unlisten { listener: 0 };
            let (reply, _) = world.request(&mut host, &request, Fds::new());
            assert_eq!(reply, Reply::Done);
        } else {
            kill(&mut world, host);
        }
        look_on(&mut world, Duration::from_secs(8));
        assert!(!is_reset(&world, client), "a copy is left");
        let mut next = world.attach(None);
        let listener = world.show(&mut next, &kernel);
        next.submit(Submission::Credit {
            listener,
            total: 8,
            waits: true,
        });
        world.settle();
        next.collect_and_accept();
        let [conn] = next.accepted()[..] else {
            panic!("it is offered: {:?}", next.completions);
        };
        next.send(conn, b"hello", 0);
        // Long after it would have been given up.
        look_on(&mut world, Duration::from_secs(8));
        assert_eq!(world.peer.conns[&client].bytes, b"hello");
        assert!(!is_reset(&world, client));
    }
}

#[test]
fn who_waits_is_reset_with_the_last_copy() {
    let (mut world, host, _kernel, client) = waiting();
    kill(&mut world, host);
    look_on(&mut world, Duration::from_secs(3));
    assert!(!is_reset(&world, client));
    set_listening(&world, HashSet::new());
    look_on(&mut world, Duration::from_secs(2));
    assert!(is_reset(&world, client));
}

#[test]
fn nobody_waits_for_ever_for_a_program_that_never_asks() {
    let (mut world, host, _kernel, client) = waiting();
    kill(&mut world, host);
    look_on(&mut world, Duration::from_secs(20));
    assert!(is_reset(&world, client));
}

#[test]
fn where_the_kernel_does_not_tell_nobody_waits() {
    let (mut world, host, _kernel, client) = waiting();
    *world.kernel.listening.lock().expect("no panic") = None;
    kill(&mut world, host);
    assert!(is_reset(&world, client));
}
