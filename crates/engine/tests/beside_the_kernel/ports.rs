//! Local ports of connections that the engine opens: when they run short, programs are told in time.

use std::net::TcpListener;
use std::time::Instant;

use crate::beside::{Engine, LIMIT, on};
use lab::{Side, World};
use queue_pair::{ConnectBlock, Opening};

#[test]
fn programs_are_told_before_there_is_no_port_left_and_when_there_is_one_again() {
    if lab::skip_without_root("programs_are_told_before_there_is_no_port_left") {
        return;
    }
    let world = World::new().expect("namespaces");
    let engine = Engine::start(&world, |config| config.limits.leased_ports = 3);
    let mut host = engine.attach(&world);
    let server = on(&world, Side::Client, || {
        TcpListener::bind((Side::Client.ipv4(), 0)).expect("a port")
    });
    let block = ConnectBlock::new(server.local_addr().expect("bound"));
    let begin = Instant::now();
    for token in 1..=3 {
        assert_eq!(host.region.opening.get(), Opening::Engine);
        host.open(&block, token).expect("it opens");
    }
    // Unless this machine stood still meanwhile, and they have rested by now.
    if begin.elapsed().as_secs() == 0 {
        assert_eq!(host.region.opening.get(), Opening::NoPorts);
    }
    let later = engine.attach(&world);
    while later.region.opening.get() != Opening::Engine {
        assert!(begin.elapsed() < LIMIT, "they have rested");
        std::thread::yield_now();
    }
    assert_eq!(host.region.opening.get(), Opening::Engine);
}

#[test]
fn programs_are_told_that_an_engine_is_being_stopped() {
    if lab::skip_without_root("programs_are_told_that_an_engine_is_being_stopped") {
        return;
    }
    let world = World::new().expect("namespaces");
    let mut engine = Engine::start(&world, |_| ());
    let host = engine.attach(&world);
    assert_eq!(host.region.opening.get(), Opening::Engine);
    engine.signal_stop();
    let begin = Instant::now();
    while host.region.opening.get() != Opening::Stopping {
        assert!(begin.elapsed() < LIMIT, "it is told");
        std::thread::yield_now();
    }
}
