//! When a host rings for what it sends.

mod fake_engine;

use fake_engine::FakeEngine;
use host::{Listener, Poller, Session, Socket};
use queue_pair::OptionKind;

struct Scene {
    engine: FakeEngine,
    session: Session,
    _listener: Listener,
    socket: Socket,
}

impl Scene {
    fn new() -> Self {
        let engine = FakeEngine::start();
        let (session, listener) = engine.listening();
        engine.host(|host| host.hand(1));
        let socket = listener.accept_offloaded().unwrap();
        engine.host(|host| {
            host.submissions();
            host.falls_asleep();
        });
        Self {
            engine,
            session,
            _listener: listener,
            socket,
        }
    }

    fn was_rung(&self) -> bool {
        self.engine.host(|host| host.was_rung())
    }
}

#[test]
fn an_engine_that_sleeps_is_rung_for_whatever_is_sent() {
    let scene = Scene::new();
    scene.socket.send(b"head", true).unwrap();
    assert!(scene.was_rung(), "what follows may come late");
}

#[test]
fn where_more_follows_it_is_rung_once() {
    let scene = Scene::new();
    scene.socket.waits_for_room(false);
    scene.socket.send(b"head", true).unwrap();
    assert!(!scene.was_rung());
    scene.socket.send(b"body", false).unwrap();
    assert!(scene.was_rung());
}

#[test]
fn it_is_not_rung_for_what_is_to_be_held_back() {
    let scene = Scene::new();
    scene.socket.set_option(OptionKind::Cork, 1).unwrap();
    assert!(!scene.was_rung());
    scene.socket.send(b"head", false).unwrap();
    assert!(scene.was_rung());
    scene.engine.host(|host| host.falls_asleep());
    scene.socket.set_option(OptionKind::Cork, 0).unwrap();
    assert!(scene.was_rung(), "what is held back leaves");
}

#[test]
fn where_nothing_follows_it_is_rung_before_the_program_waits() {
    let scene = Scene::new();
    scene.socket.waits_for_room(false);
    let mut poller = Poller::new(&scene.session).unwrap();
    scene.socket.send(b"head", true).unwrap();
    assert!(!scene.was_rung());
    poller.arm().unwrap();
    assert!(scene.was_rung());
    poller.disarm();
    // A program that only looks, and never sleeps, rings as well.
    scene.engine.host(|host| host.falls_asleep());
    scene.socket.send(b"more", true).unwrap();
    assert!(!scene.was_rung());
    scene.session.pump();
    assert!(scene.was_rung());
}
