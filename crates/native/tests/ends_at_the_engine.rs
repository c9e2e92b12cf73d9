//! How connections of the engine's end, as an engine that does what a test tells it says.

#[path = "../../host/tests/fake_engine/mod.rs"]
mod fake_engine;

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU8;

use fake_engine::{FakeEngine, HANG, Refused};
use native::{AdmissionLimit, AdmissionPolicy};
use native::{Context, Errno, Event, File, Handle, Kind, Memory, Mode, Queue, Room, Shutdown};
use queue_pair::{Completion, ConnRef};

const RESET: i32 = 104;
const LISTENER: u64 = 1;
const CONNECTION: u64 = 2;

/// A queue with a connection that the engine has handed over.
struct Scene {
    engine: FakeEngine,
    queue: Queue,
    listener: Handle,
    handle: Handle,
    conn: ConnRef,
    context: Context,
}

impl Scene {
    fn new() -> Self {
        Self::in_mode(Mode::Engine)
    }

    fn in_mode(mode: Mode) -> Self {
        let engine = FakeEngine::start();
        let context = Context::attach_at(&engine.path, "test", mode).unwrap();
        let mut queue = context.queue().unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = queue.listen(any, 16, LISTENER).unwrap();
        let conn = engine.host(|host| host.hand(1));
        let mut scene = Self {
            engine,
            queue,
            listener,
            handle: listener,
            conn,
            context,
        };
        scene.until(Kind::Accept);
        scene.handle = scene.queue.accept(listener, CONNECTION).unwrap();
        scene
    }

    /// What has happened up to the first event of `kind`, that one last.
    fn until(&mut self, kind: Kind) -> Vec<Event> {
        let (mut all, mut events): (Vec<Event>, _) = (Vec::new(), Vec::new());
        while all.last().is_none_or(|last| last.kind != kind) {
            self.queue.wait(&mut events, 1, Some(HANG)).unwrap();
            assert!(!events.is_empty(), "no {kind:?}: {all:?}");
            all.append(&mut events);
        }
        all
    }

    /// Sends 100 bytes that come back under `cookie`.
    fn send(&mut self, cookie: u64) {
        let sent = self.queue.send_async(self.handle, &[1; 100], false, cookie);
        assert_eq!(sent, Ok(100));
    }

    fn fails(&self, errno: i32) {
        let conn = self.conn;
        self.engine.host(|host| {
            // What was sent is known there.
            host.submissions();
            host.post(Completion::Failed {
                conn,
                errno: errno as u16,
            });
        });
    }

    /// The cookies and errors of the sends that come back, and the error of the end.
    fn end(&mut self) -> (Vec<(u64, i32)>, i32) {
        let events = self.until(Kind::End);
        let sent = events.iter().filter(|event| event.kind == Kind::Sent);
        let sent = sent.map(|event| (event.cookie, event.error)).collect();
        (sent, events.last().unwrap().error)
    }
}

#[test]
fn what_was_acknowledged_before_a_reset_is_told_apart_from_what_was_not() {
    let mut scene = Scene::new();
    scene.send(7);
    scene.send(8);
    let conn = scene.conn;
    scene.engine.host(|host| host.acknowledge(conn, 100));
    scene.fails(RESET);
    assert_eq!(scene.end(), (vec![(7, 0), (8, RESET)], RESET));
}

#[test]
fn a_reset_that_a_send_has_met_after_the_peers_end_is_told_of_what_was_sent_before() {
    let mut scene = Scene::new();
    scene.send(7);
    let conn = scene.conn;
    scene.engine.host(|host| host.peer_closes(conn));
    scene.until(Kind::Receive);
    scene.fails(RESET);
    // As Linux in CLOSE-WAIT.
    let sent = scene.queue.send(scene.handle, b"x", false);
    assert_eq!(sent, Err(Errno::PIPE));
    let pipe = Errno::PIPE.raw_os_error();
    assert_eq!(scene.end(), (vec![(7, pipe)], pipe));
}

#[test]
fn a_reset_that_a_receive_has_met_is_told_of_what_was_sent_before() {
    let mut scene = Scene::new();
    scene.send(7);
    scene.fails(RESET);
    let handle = scene.handle;
    let mut received = || loop {
        match scene.queue.recv(handle, &mut [0; 4]) {
            // It is on its way.
            Err(Errno::AGAIN) => {}
            other => return other,
        }
    };
    assert_eq!(received(), Err(Errno::CONNRESET));
    assert_eq!(received(), Err(Errno::CONNRESET));
    assert_eq!(scene.end(), (vec![(7, RESET)], RESET));
}

/// A program that only sends, and takes no events, hears of a reset by the send, whatever kind it is of.
#[test]
fn a_reset_is_told_by_sends_of_any_kind() {
    type Result<T> = std::result::Result<T, Errno>;
    type Send = fn(&mut Scene, &Memory, &File, Option<Room>) -> Result<()>;
    let kinds: [(&str, Send); 6] = [
        ("by copying", |scene, _, _, _| {
            scene.queue.send(scene.handle, &[1; 9], false).map(drop)
        }),
        ("from registered memory", |scene, memory, _, _| {
            let (queue, handle) = (&mut scene.queue, scene.handle);
            let sent = queue.send_registered(handle, memory, 0, 9, false, Some(1));
            sent.map(drop)
        }),
        ("from a registered file", |scene, _, file, _| {
            let (queue, handle) = (&mut scene.queue, scene.handle);
            let sent = queue.send_registered_file(handle, file, 0, 9, false, Some(1));
            sent.map(drop)
        }),
        ("from a file that is known", |scene, _, file, _| {
            let (queue, handle) = (&mut scene.queue, scene.handle);
            let sent = queue.send_known_file(handle, file, 0, 9, false, Some(1));
            sent.map(drop)
        }),
        ("into a room", |scene, _, _, _| {
            scene.queue.room(scene.handle, 9).map(drop)
        }),
        ("of a room", |scene, _, _, room| {
            let committed = scene.queue.commit(room.unwrap(), 9, false, Some(1));
            committed.map_err(|(_, errno)| errno)
        }),
    ];
    for (kind, send) in kinds {
        let mut scene = Scene::new();
        let memory = scene.context.register(9).unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let file = scene.context.register_file(file.as_fd()).unwrap();
        assert!(file.is_offloaded());
        let room = (kind == "of a room").then(|| scene.queue.room(scene.handle, 9).unwrap());
        scene.fails(RESET);
        let sent = send(&mut scene, &memory, &file, room);
        assert_eq!(sent, Err(Errno::CONNRESET), "{kind}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_no_end_of_the_connection() {
    let mut scene = Scene::new();
    let folder = std::fs::File::open("/").unwrap();
    let sent = scene
        .queue
        .send_file(scene.handle, folder.as_fd(), 0, 9, false, None);
    assert_eq!(sent, Err(Errno::ISDIR));
    let conn = scene.conn;
    scene.engine.host(|host| host.deliver(conn, b"data"));
    let events = scene.until(Kind::Receive);
    assert!(events.iter().all(|event| event.kind != Kind::End));
    let mut next = Vec::new();
    scene.queue.poll(&mut next, 8).unwrap();
    assert_eq!(next, []);
    assert_eq!(scene.queue.recv(scene.handle, &mut [0; 8]), Ok(4));
    assert_eq!(scene.queue.send(scene.handle, b"x", false), Ok(1));
}

#[test]
fn who_wants_the_engine_alone_is_given_nothing_of_the_kernels() {
    let mut scene = Scene::new();
    let at = scene.queue.local(scene.listener).unwrap();
    let mut client = TcpStream::connect(at).unwrap();
    client.set_read_timeout(Some(HANG)).unwrap();
    scene.until(Kind::Accept);
    let accepted = scene.queue.accept(scene.listener, 0);
    assert_eq!(accepted, Err(Errno::AGAIN));
    let read = client.read(&mut [0]).map_err(|error| error.raw_os_error());
    assert_eq!(read, Err(Some(RESET)));
}

/// What the engine has handed over leaves no room for what the kernel accepts.
#[test]
fn a_limit_holds_for_the_engines_and_the_kernels_together() {
    let mut scene = Scene::in_mode(Mode::Any);
    let policy = AdmissionPolicy {
        all: AdmissionLimit {
            in_flight: 1,
            ..AdmissionLimit::default()
        },
        ..AdmissionPolicy::default()
    };
    scene.queue.set_admission(scene.listener, policy).unwrap();
    assert!(scene.queue.admitted(scene.listener).unwrap().by_engine);
    let at = scene.queue.local(scene.listener).unwrap();
    scene.engine.host(|host| host.hand(1));
    scene.until(Kind::Accept);
    let first = scene.queue.accept(scene.listener, 0).unwrap();
    assert!(scene.queue.is_offloaded(first).unwrap());
    let mut refused = TcpStream::connect(at).unwrap();
    refused.set_read_timeout(Some(HANG)).unwrap();
    let count = |scene: &mut Scene| scene.queue.admitted(scene.listener).unwrap();
    while count(&mut scene).refused_by_count == 0 {
        scene.until(Kind::Accept);
        let accepted = scene.queue.accept(scene.listener, 0);
        assert_eq!(accepted, Err(Errno::AGAIN));
    }
    let read = refused.read(&mut [0]).map_err(|error| error.raw_os_error());
    assert_eq!(read, Err(Some(RESET)));
    // When it is closed there is.
    scene.queue.close(first).unwrap();
    let _admitted = TcpStream::connect(at).unwrap();
    let second = loop {
        // An event may be left of one that was looked at before.
        scene.until(Kind::Accept);
        match scene.queue.accept(scene.listener, 0) {
            Err(Errno::AGAIN) => {}
            accepted => break accepted.unwrap(),
        }
    };
    assert!(!scene.queue.is_offloaded(second).unwrap());
    assert_eq!(count(&mut scene).refused_by_count, 1);
}

#[test]
fn the_kernel_serves_what_the_engine_does_not_listen_for() {
    for (mode, listens) in [(Mode::Any, true), (Mode::Engine, false)] {
        let engine = FakeEngine::start();
        engine.lock().listening = Some(Refused::With(Errno::OPNOTSUPP));
        let context = Context::attach_at(&engine.path, "test", mode).unwrap();
        let mut queue = context.queue().unwrap();
        let listener = queue.listen("127.0.0.1:0".parse().unwrap(), 16, LISTENER);
        if !listens {
            assert_eq!(listener.err(), Some(Errno::OPNOTSUPP));
            continue;
        }
        let listener = listener.unwrap();
        let info = queue.facts(listener).unwrap();
        assert!(!info.is_offloaded);
        let why = info.why_not.unwrap();
        assert!(why.contains("address"), "{why}");
        let _client = TcpStream::connect(queue.local(listener).unwrap()).unwrap();
        let mut events = Vec::new();
        queue.wait(&mut events, 1, Some(HANG)).unwrap();
        assert_eq!(events.first().map(|event| event.kind), Some(Kind::Accept));
        queue.accept(listener, CONNECTION).unwrap();
    }
}

#[test]
fn a_second_room_and_a_send_beside_one_are_refused() {
    let mut scene = Scene::new();
    let (queue, handle) = (&mut scene.queue, scene.handle);
    let room = queue.room(handle, 10).unwrap();
    assert_eq!(queue.room(handle, 10).err(), Some(Errno::BUSY));
    assert_eq!(queue.send(handle, b"x", false), Err(Errno::BUSY));
    drop(room);
    assert_eq!(queue.send(handle, b"x", false), Ok(1));
    let memory = scene.context.register(10).unwrap();
    let bytes: &[AtomicU8] = memory.bytes().unwrap();
    assert_eq!(bytes.len(), 10);
}

#[test]
fn what_an_engine_does_not_tell_is_not_said_to_be_nothing() {
    let mut scene = Scene::new();
    {
        // It answers nobody while this is locked.
        let _stopped = scene.engine.lock();
        let facts = scene.queue.facts(scene.handle);
        assert_eq!(facts.err(), Some(Errno::TIMEDOUT));
        let admitted = scene.queue.admitted(scene.listener);
        assert_eq!(admitted.err(), Some(Errno::TIMEDOUT));
        // Who asks nobody is answered.
        assert_eq!(scene.queue.is_offloaded(scene.handle), Ok(true));
    }
}

/// On the kernel it comes back empty, too.
#[test]
fn what_is_posted_when_all_has_ended_comes_back_empty() {
    let mut scene = Scene::new();
    let memory = scene.context.register(100).unwrap();
    let conn = scene.conn;
    scene.engine.host(|host| host.peer_closes(conn));
    scene.queue.shutdown(scene.handle, Shutdown::Write).unwrap();
    // Its last word.
    scene
        .engine
        .host(|host| host.post(Completion::Released { conn }));
    scene.until(Kind::End);
    let posted = scene.queue.post(scene.handle, &memory, 0, 100, 5);
    assert_eq!(posted, Ok(()));
    let filled = scene.until(Kind::Filled).pop();
    assert_eq!(
        filled.map(|event| (event.cookie, event.bytes, event.error)),
        Some((5, 0, 0))
    );
}

/// Memory that is not the engine's is filled here: nobody else writes to it.
#[test]
fn what_the_library_fills_comes_back_when_the_program_reads_no_more() {
    for how in [Shutdown::Read, Shutdown::Both] {
        let mut scene = Scene::new();
        let without = Context::attach("nobody", "test", Mode::Kernel).unwrap();
        let memory = without.register(100).unwrap();
        scene.queue.post(scene.handle, &memory, 0, 100, 5).unwrap();
        let conn = scene.conn;
        scene.engine.host(|host| host.deliver(conn, b"some"));
        assert_eq!(scene.until(Kind::Placed).pop().unwrap().bytes, 4);
        scene.queue.shutdown(scene.handle, how).unwrap();
        let filled = scene.until(Kind::Filled).pop().unwrap();
        assert_eq!((filled.cookie, filled.bytes, filled.error), (5, 4, 0));
    }
}
