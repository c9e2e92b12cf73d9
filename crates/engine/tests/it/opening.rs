//! What a process says and asks about a connection that it is opening.

use std::net::SocketAddr;
use std::time::Duration;

use queue_pair::{Completion, ConnectBlock, Submission};
use rustix::io::Errno;

use crate::world::{ENGINE, Host, PEER, World};

/// By which a process names the connection.
const TOKEN: u64 = 7;
/// The port that it opens it from.
const FROM: u16 = 20_000;

/// A host that has just asked for a connection, which nobody answers.
fn opening() -> (World, Host) {
    let mut world = World::new();
    let host = opened_in(&mut world);
    (world, host)
}

fn opened_in(world: &mut World) -> Host {
    let mut host = world.attach(None);
    connect(&mut host);
    world.worker.turn(world.now);
    host
}

fn connect(host: &mut Host) {
    let block = ConnectBlock {
        local: SocketAddr::new(ENGINE, FROM),
        ..ConnectBlock::new(SocketAddr::new(PEER, 7000))
    };
    host.region
        .send
        .copy_in(0, &block.encode())
        .expect("inside");
    host.submit(Submission::Connect {
        token: TOKEN,
        addr: 0,
    });
}

fn told(host: &mut Host) -> Vec<Completion> {
    host.collect();
    std::mem::take(&mut host.completions)
}

#[test]
fn one_that_is_not_wanted_any_more_is_not_opened() {
    let (mut world, mut host) = opening();
    world.peer.listen(7000);
    host.submit(Submission::Cancel { token: TOKEN });
    world.worker.turn(world.now);
    assert_eq!(world.worker.stack().connection_count(), 0);
    world.pass(Duration::from_secs(3));
    let errno = Errno::CANCELED.raw_os_error() as u16;
    let failed = Completion::OpenFailed {
        token: TOKEN,
        errno,
    };
    assert_eq!(told(&mut host), [failed]);
    // The token, the port and the place are free again.
    connect(&mut host);
    world.settle();
    let [Completion::Opened { token, .. }] = told(&mut host)[..] else {
        panic!("not opened");
    };
    assert_eq!(token, TOKEN);
}

#[test]
fn one_that_is_open_by_then_stays() {
    let (mut world, mut host) = opening();
    world.peer.listen(7000);
    world.settle();
    host.submit(Submission::Cancel { token: TOKEN });
    host.submit(Submission::AskLocal { token: TOKEN });
    world.settle();
    assert!(matches!(told(&mut host)[..], [Completion::Opened { .. }]));
    assert_eq!(world.worker.stack().connection_count(), 1);
    assert_eq!(world.worker.counters().violations, 0);
}

#[test]
fn a_process_is_told_from_where_it_is_opened() {
    let (mut world, mut host) = opening();
    host.submit(Submission::AskLocal { token: TOKEN });
    world.worker.turn(world.now);
    let local = SocketAddr::new(ENGINE, FROM);
    let from = Completion::Local {
        token: TOKEN,
        local,
    };
    assert_eq!(told(&mut host), [from]);
}

#[test]
fn nobody_cancels_or_asks_by_anothers_token() {
    let mut world = World::new();
    let mut other = world.attach(None);
    let mut host = opened_in(&mut world);
    for token in [TOKEN, TOKEN + 1] {
        other.submit(Submission::Cancel { token });
        other.submit(Submission::AskLocal { token });
    }
    host.submit(Submission::Cancel { token: TOKEN + 1 });
    world.worker.turn(world.now);
    assert_eq!(world.worker.stack().connection_count(), 1);
    assert_eq!([told(&mut host), told(&mut other)], [[], []]);
    assert_eq!(world.worker.counters().violations, 0);
}
