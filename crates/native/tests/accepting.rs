//! What a program gets of the engine when it accepts: as many as it allows ahead, with its own settings, and with
//! the first data.

#[path = "../../host/tests/fake_engine/mod.rs"]
mod fake_engine;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use fake_engine::{FakeEngine, HANG};
use native::{Context, Errno, Handle, Kind, Mode, Queue, Setting};
use queue_pair::{ConnRef, OptionKind, Submission};

/// A queue with a listener.
struct Scene {
    engine: FakeEngine,
    queue: Queue,
    listener: Handle,
    context: Context,
}

impl Scene {
    fn new() -> Self {
        let engine = FakeEngine::start();
        let context = Context::attach_at(&engine.path, "test", Mode::Engine).unwrap();
        let mut queue = context.queue().unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = queue.listen(any, 16, 0).unwrap();
        Self {
            engine,
            queue,
            listener,
            context,
        }
    }

    /// Somebody has come, and sent `first`.
    fn come(&mut self, first: &[u8]) -> ConnRef {
        let conn = self.engine.host(|host| {
            let conn = host.hand(1);
            if !first.is_empty() {
                host.deliver(conn, first);
            }
            conn
        });
        let mut events = Vec::new();
        while events
            .iter()
            .all(|event: &native::Event| event.kind != Kind::Accept)
        {
            self.queue.wait(&mut events, 1, Some(HANG)).unwrap();
            assert!(!events.is_empty(), "nobody comes");
        }
        conn
    }
}

/// The listener is in a set from its beginning, which asks for connections before the program has said how many.
#[test]
fn as_many_are_handed_over_ahead_as_the_program_says() {
    for (bound, credit) in [(4, Some(4)), (64, None), (16, None), (1, Some(1))] {
        let mut scene = Scene::new();
        scene.engine.host(|host| host.submissions());
        let bound = Setting::EagerAccept(bound);
        scene.queue.set(scene.listener, bound).unwrap();
        let told = scene.engine.host(|host| host.submissions());
        let given = told.iter().rev().find_map(|one| match one {
            Submission::Credit { total, .. } => Some(*total),
            _ => None,
        });
        assert_eq!(given, credit, "{bound:?}");
    }
}

#[test]
fn the_first_data_comes_with_the_connection_if_it_is_there() {
    let mut scene = Scene::new();
    scene.come(b"first");
    let accepted = scene.queue.accept_with_data(scene.listener, &[], 100, 0);
    let (handle, view) = accepted.unwrap();
    let view = view.expect("the first data");
    let bytes: Vec<u8> = view
        .bytes()
        .unwrap()
        .iter()
        .map(|byte| byte.load(Ordering::Relaxed))
        .collect();
    assert_eq!(bytes, b"first");
    scene.queue.release(view).unwrap();
    assert_eq!(scene.queue.recv(handle, &mut [0; 8]), Err(Errno::AGAIN));
    scene.come(b"");
    let accepted = scene.queue.accept_with_data(scene.listener, &[], 100, 0);
    assert!(accepted.unwrap().1.is_none());
}

#[test]
fn settings_reach_the_connection_that_is_accepted_with_them() {
    let mut scene = Scene::new();
    scene
        .queue
        .set(scene.listener, Setting::KeepCount(3))
        .unwrap();
    let conn = scene.come(b"");
    let settings = [Setting::KeepIdle(7), Setting::NoDelay(true)];
    scene
        .queue
        .accept_with(scene.listener, &settings, 0)
        .unwrap();
    let told = scene.engine.host(|host| host.submissions());
    for (option, value) in [
        (OptionKind::KeepCount, 3),
        (OptionKind::KeepIdle, 7),
        (OptionKind::NoDelay, 1),
    ] {
        let set = Submission::SetOption {
            conn,
            option,
            value,
        };
        assert!(told.contains(&set), "{set:?} not in {told:?}");
    }
}

#[test]
fn posted_buffers_are_told_of_in_the_unit_of_the_listener_or_in_their_own() {
    let mut scene = Scene::new();
    let unit = Setting::ReceiveUnit(10);
    scene.queue.set(scene.listener, unit).unwrap();
    let memory = scene.context.register(200).unwrap();
    for (number, own, unit) in [(0, None, 10), (1, Some(Setting::ReceiveUnit(5)), 5)] {
        let conn = scene.come(b"");
        let settings = own.as_slice();
        let accepted = scene.queue.accept_with(scene.listener, settings, 0);
        let (connection, queue) = (accepted.unwrap(), &mut scene.queue);
        queue
            .post(connection, &memory, 100 * number, 100, 3)
            .unwrap();
        let mut told = |bytes: usize| {
            scene.engine.host(|host| {
                host.submissions();
                host.deliver(conn, &vec![b'x'; bytes]);
            });
            let mut events = Vec::new();
            queue.poll(&mut events, 8).unwrap();
            let placed = events.iter().filter(|event| event.kind == Kind::Placed);
            placed.map(|event| event.bytes).collect::<Vec<_>>()
        };
        assert!(told(unit - 1).is_empty());
        assert_eq!(told(1), [unit as u64]);
    }
}
